"""Cost of a step's items, and of its start, on a machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.pipelines.config.growth import WholeStep
from answermill.pipelines.errors import BAD_DATA, JobError, no_file
from answermill.pipelines.look.estimate.sample_runs import Sample
from answermill.pipelines.specs.registry import AnyStep
from answermill.pipelines.specs.run import Run


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a machine, in processor seconds of one core."""

    machine: str
    item: dict[str, float]
    """Part of a step's time, such as 'index' or 'rerank cascade' → seconds an item: a passage, a candidate,
    …"""
    startup: dict[str, float]
    """Step → seconds to start it in a worker."""

    @classmethod
    def of(cls, sample: Sample, steps: Iterable[WholeStep]) -> Rates:
        """The rates of the machine on which a sample ran."""
        item, startup = dict[str, float](), dict[str, float]()
        for step, (spec, larger) in zip(steps, sample.steps(), strict=True):
            less, more = (
                (items(sampled.run, spec), sampled.seconds[spec.name]) for sampled in (sample.small, larger)
            )
            item_seconds, _ = line(less, more)
            startup[spec.name] = max(0.0, sample.first.seconds[spec.name] - item_seconds * less[0])

            # Parts are timed by the clock, which other work slows for all of them alike: so each part has its
            # share of the processor seconds.
            clock_seconds = max(sum(cost.seconds for cost in step.costs.values()), 1e-6)
            ratio = item_seconds * more[0] / clock_seconds
            for part, cost in step.costs.items():
                item[_key(spec, part)] = ratio * cost.seconds / max(1, cost.items)
        return cls(f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores", item, startup)

    def seconds(self, step: WholeStep) -> dict[str, float]:
        """Part of a step's time → seconds that it takes in the whole job, without those to start it."""
        return {
            name: self.item[_key(step.spec, name)] * cost.whole_items for name, cost in step.costs.items()
        }

    def save(self, file: Path) -> None:
        """Write the rates as JSON."""
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Rates:
        """Read what `save` wrote. Raises JobError: 66 if there is no such file, 65 if it is another file."""
        advice = "`answermill plan JOB.toml --save-rates FILE` writes"
        try:
            return read_json(file, cls)
        except (FileNotFoundError, IsADirectoryError):
            raise no_file(file, "--rates", f"{advice} it") from None
        except WrongShape as e:
            raise JobError(f"--rates: {e}; {advice} such a file", BAD_DATA) from e


def _key(spec: AnyStep, part: str) -> str:
    return f"{spec.name} {part}".strip()


def items(run: Run, spec: AnyStep) -> int:
    """Number that a step's time is proportional to: layers × tokens if it counts them, since these differ
    between questions; else its items, or the rows that it reads."""
    counts = run.counts(spec)
    tokens: int = getattr(counts, "layer_tokens", 0)
    return tokens or (
        getattr(counts, spec.item) if spec.item else sum(run.manifests[name].rows for name in spec.reads[:1])
    )


def line(less: tuple[float, float], more: tuple[float, float]) -> tuple[float, float]:
    """(slope, amount at no items) of the line through two points (items, amount).

    Points of less than twice as many items, or of fewer, as when a small part of the input has the longest
    pages, cannot tell the two apart, nor can a second one without a greater amount: all is then spread over
    the items, which is too much, but not nothing.

    >>> line((2, 7.0), (10, 11.0))
    (0.5, 6.0)
    >>> line((2, 7.0), (10, 7.0))
    (0.7, 5.6)
    >>> line((4, 8.0), (2, 4.0))
    (2.0, 0.0)
    >>> line((1, 0.0), (3, 9.0))  # nothing is less than nothing
    (3.0, 0.0)
    """
    (few, little), (many, much) = less, more
    if many < 2 * few:
        return (little + much) / max(1, few + many), 0.0
    most = much / max(1, many)
    slope = min(max(0.0, much - little) / max(1, many - few) or most, most)
    return slope, max(0.0, little - slope * few)
