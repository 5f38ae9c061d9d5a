"""Cost of a step's items, and of its beginning, on a machine."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

from answermill.files.atomic_files import WrongShape, read_json, write_text
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.look.estimate.sample_runs import Sample, items
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE


@dataclass(frozen=True, slots=True)
class Rates:
    """Processor seconds of one core."""

    machine: str
    item: dict[str, float]
    """Step → of a page, passage, question, …"""
    startup: dict[str, float]
    """Step → to begin it in a worker."""
    candidate: dict[str, float]
    """Stage → of a candidate that comes into it."""
    question_shard: float
    """Of a question, for each shard more."""

    @classmethod
    def of(cls, sample: Sample) -> Rates:
        """The rates of the machine on which a sample ran."""
        item, startup = dict[str, float](), dict[str, float]()
        for spec, larger in sample.steps():
            less, more = ((items(part.run, spec), part.seconds[spec.name]) for part in (sample.small, larger))
            item[spec.name], _ = line(less, more)
            startup[spec.name] = max(0.0, sample.first.seconds[spec.name] - item[spec.name] * less[0])

        # A stage has the share of the step's seconds that it has of the clock's, which other work makes longer for all of them.
        run = sample.large.run
        rerank, retrieve = run.counts(RERANK), run.counts(RETRIEVE)
        of_second = item.get(RERANK.name, 0.0) * items(run, RERANK) / max(rerank.seconds, 1e-6) if rerank.candidates else 0.0
        candidate = {name: of_second * stage.seconds / max(1, stage.incoming) for name, stage in rerank.stages.items()}

        # BM25 searches each shard for a question; its vector is computed once.
        bm25 = retrieve.bm25_ms / 1000 / max(retrieve.seconds, 1e-3)
        machine = f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"
        return cls(machine, item, startup, candidate, bm25 * item.get(RETRIEVE.name, 0.0))

    def names(self) -> set[str]:
        """The steps, and the stages of rerank."""
        return {*self.item, *(f"stage {name}" for name in self.candidate)}

    def save(self, file: Path) -> None:
        """Write them."""
        write_text(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Rates:
        """Raises JobError: 66 if there is no such file, 65 if it is not one that `save` wrote."""
        advice = "`answermill plan JOB.toml --save-rates FILE` writes"
        try:
            return read_json(file, cls)
        except FileNotFoundError:
            raise JobError(f"--rates {file}: no such file; {advice} it", INPUT_MISSING) from None
        except WrongShape as e:
            raise JobError(f"--rates: {e}; {advice} such a file", BAD_DATA) from e


def line(less: tuple[float, float], more: tuple[float, float]) -> tuple[float, float]:
    """(what an item adds, what there is without one), by two points (items, amount).

    Where the larger amount is no greater, as can be below a second, all of it is its items': too much, but not nothing.

    >>> line((2, 7.0), (10, 11.0))
    (0.5, 6.0)
    >>> line((2, 7.0), (10, 7.0))
    (0.7, 5.6)
    >>> line((2, 7.0), (2, 7.0))
    (0.0, 7.0)
    """
    (few, little), (many, much) = less, more
    if many <= few:
        return 0.0, much
    each = max(0.0, much - little) / (many - few) or much / many
    return each, max(0.0, little - each * few)
