"""What the manifests of a run say: its steps, the funnel, what was refused, what the work took, and the slowest units."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from answermill.files.remote import listed
from answermill.pipelines.config.step_registry import folders
from answermill.pipelines.errors import INPUT_MISSING, JobError, counted
from answermill.pipelines.look.report.figures import Amount, Missing, Rejects, StepFigures, UnitFigures, Work
from answermill.pipelines.look.verify.sums import missing as folders_missing
from answermill.pipelines.runs.manifests.failures import FAILED_UNITS
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.runs.step import state_of, work_folders
from answermill.schemas.corpus import Rejected

MAIN_STEPS = ("ingest", "index", "retrieve", "rerank")
"""Those that a report misses even if nothing of them was begun."""
_INPUTS = 10
_SLOWEST = 10
_WORK = {
    "ingest": {"parse_ms": ("pages parsed", "pages"), "cut_ms": ("documents cut", "documents")},
    "index": {
        "bm25_ms": ("BM25", "passages"),
        "dense_ms": ("dense vectors", "passages"),
        "answers_ms": ("codes of sentences", "answers"),
    },
    "retrieve": {
        "bm25_ms": ("BM25", "questions"),
        "dense_ms": ("dense vectors", "questions"),
        "lists_ms": ("lists and passages", "questions"),
    },
}
"""Step → name of one of its counts → what took so long, and the count of what it was done to."""


@dataclass(frozen=True)
class RunManifests:
    """The complete folders of a run, by step, and the state of the other steps."""

    run: Path
    steps: Mapping[str, Mapping[str, Manifest]]
    missing: tuple[Missing, ...]

    @classmethod
    def read(cls, run: Path) -> RunManifests:
        """Raises JobError: 66 if there is no such folder, or no run in it; 65 if another version wrote it, or it is damaged."""
        check_run(run)
        with listed(run):
            written = {
                name: folder.manifest
                for step, outputs in folders().items()
                for name, record in outputs.items()
                if (folder := Folder.find(run / name, record, step)) is not None
            }
            begun = {step for step in folders() if work_folders(run, step)}
            if not written and not begun:
                raise JobError(f"no run in {run}; `answermill run JOB.toml --out {run}` makes one", INPUT_MISSING)
            lacking = dict(_lacking(written))
            steps = {
                step: complete
                for step, outputs in folders().items()
                if (complete := {n: written[n] for n in outputs if n in written and written[n].step not in lacking})
            }
            missing = [
                Missing(step, lacking.get(step) or state_of(run, step))
                for step in dict.fromkeys([*folders(), *lacking])
                if step in lacking or (step not in steps and (step in begun or step in MAIN_STEPS))
            ]
        return cls(run, steps, tuple(missing))

    def of(self, folder: str) -> Manifest | None:
        """The manifest of a folder; None if it is not complete."""
        return next((manifests[folder] for manifests in self.steps.values() if folder in manifests), None)

    def counts(self, step: str) -> Counter[str]:
        """What the units of a step have counted; nothing if it is not complete."""
        return Counter(next((manifest.counts for manifest in self.steps.get(step, {}).values()), {}))


def _lacking(written: Mapping[str, Manifest]) -> Iterator[tuple[str, str]]:
    """The steps of which some folders are committed and others not, each with a clause that names these."""
    for step in dict.fromkeys(manifest.step for manifest in written.values()):
        absent = folders_missing(step, {name: manifest for name, manifest in written.items() if manifest.step == step})
        if absent:
            yield step, f"has not committed {', '.join(absent)}"


def step_figures(manifests: RunManifests) -> Iterator[StepFigures]:
    """Each complete step."""
    for step, written in manifests.steps.items():
        first = next(iter(written.values()))
        yield StepFigures(
            step=step,
            rows={name: manifest.rows for name, manifest in written.items()},
            bytes=sum(part.bytes for manifest in written.values() for part in manifest.parts),
            version=first.version,
            revision=first.revision,
            fingerprint=first.fingerprint,
            settings=dict(first.settings),
            inputs={name: first.inputs[name] for name in heapq.nsmallest(_INPUTS, first.inputs)},
            more_inputs=max(0, len(first.inputs) - _INPUTS),
            environment=dict(first.environment),
        )


def corpus(manifests: RunManifests) -> Iterator[Amount]:
    """From pages to passages."""
    counts = manifests.counts("ingest")
    if counts["pages"]:
        yield Amount("pages", counts["pages"], f"{counted(counts['rejects'], 'page')} refused")
    for name in ("documents", "passages"):
        if (manifest := manifests.of(name)) is not None:
            of_all = counted(counts["sentences"], "sentence") if name == "passages" and counts["sentences"] else ""
            yield Amount(name, manifest.rows, of_all)


def candidates(manifests: RunManifests, dropped: Mapping[str, int]) -> Iterator[Amount]:
    """From retrieved passages to kept candidates; `dropped`: stage, in the plan's order → the rows that name it."""
    retrieved, counts = manifests.of("retrieved"), manifests.counts("rerank")
    if retrieved is not None:
        asked = manifests.of("questions")
        yield Amount("retrieved passages", retrieved.rows, f"for {counted(asked.rows, 'question')}" if asked else "")
    if not counts:
        return
    yield Amount("candidates", counts["candidates"], "sentences or passages")
    left = counts["candidates"] - counts["grouped"]
    for stage, lost in dropped.items():
        left -= lost
        yield Amount(f"after {stage}", counts.get(f"{stage}_out", left), f"{lost:,} dropped" if lost else "none dropped")
    yield Amount("kept", counts["kept"], f"for {counted(counts['questions'], 'question')}")


def rejects(manifests: RunManifests) -> Iterator[Rejects]:
    """What each step refused. Reasons are counted from the folder where the manifest has no counts of them."""
    for step, written in manifests.steps.items():
        for name, manifest in written.items():
            if manifest.record != Rejected.__name__ or not manifest.rows:
                continue
            counts = manifests.counts(step)
            reasons = Counter({key.removeprefix("rejected."): n for key, n in counts.items() if key.startswith("rejected.")})
            if reasons.total() != manifest.rows:
                reasons = _reasons(manifests.run / name, manifest)
            yield Rejects(name, manifest.rows, dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))))


def _reasons(folder: Path, manifest: Manifest) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for part in manifest.parts:
        for batch in read_batches(folder, part, ["reason"], rows=65_536):
            for pair in batch.column("reason").value_counts().to_pylist():
                reasons[pair["values"]] += pair["counts"]
    return reasons


def failed_units(manifests: RunManifests) -> dict[str, int]:
    return {step: n for step in manifests.steps if (n := manifests.counts(step)[FAILED_UNITS])}


def step_work(manifests: RunManifests, price_per_hour: float | None) -> Iterator[Work]:
    """What ingest, index and retrieve took; the plan's stages are figures of their own."""
    for step, known in _WORK.items():
        counts = manifests.counts(step)
        for name, count in counts.items():
            if name.endswith("_ms") and count:
                seconds = count / 1000
                what, item = known.get(name, (name.removesuffix("_ms").replace("_", " "), name.removesuffix("_ms")))
                yield Work(f"{step}: {what}", counts[item], item.replace("_", " "), seconds, dollars(seconds, price_per_hour))


def dollars(seconds: float | None, price_per_hour: float | None) -> float | None:
    """What the seconds of a worker cost; None if one of the two is not known."""
    return None if seconds is None or price_per_hour is None else seconds / 3600 * price_per_hour


def stage_seconds(counts: Mapping[str, int], stage: str) -> float | None:
    """What a stage took, added up over the workers; None if it was not counted."""
    if (microseconds := counts.get(f"{stage}_microseconds")) is not None:
        return microseconds / 1e6
    milliseconds = counts.get(f"{stage}_milliseconds")
    return None if milliseconds is None else milliseconds / 1e3


def slowest_units(manifests: RunManifests, stages: tuple[str, ...]) -> tuple[UnitFigures, ...]:
    """The units of ingest, index and rerank that took longest, by the time that their parts of the work were measured to take;
    a block of retrieve has a share of what shards took for many blocks, which says nothing of its own."""
    units = []
    for step, folder, item in (
        ("ingest", "passages", "pages"),
        ("index", "shards", "passages"),
        ("rerank", "scored", "questions"),
    ):
        manifest = manifests.of(folder)
        took = {
            int(unit): (_seconds(counts, stages), counts.get(item, 0))
            for unit, counts in (manifest.units.items() if manifest is not None else ())
        }
        mean = sum(seconds for seconds, _ in took.values()) / max(1, len(took))
        slow = heapq.nsmallest(_SLOWEST, took, key=lambda unit: (-took[unit][0], unit))
        units += [
            UnitFigures(step, unit, took[unit][0], took[unit][0] / mean, took[unit][1], item) for unit in slow if took[unit][0]
        ]
    return tuple(units)


def _seconds(counts: Mapping[str, int], stages: tuple[str, ...]) -> float:
    before = sum(count for name, count in counts.items() if name.endswith("_ms")) / 1000
    return before + sum(stage_seconds(counts, stage) or 0.0 for stage in stages)
