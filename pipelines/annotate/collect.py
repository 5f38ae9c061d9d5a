"""Collect: exports of annotation tools in; annotations, labels, conflicts and agreement out (WQA §3.2).

The exports that are given are the state: collect reads them all and replaces RUN/collected by what they say. It builds the new
folder beside the old one and then puts it in its place; a reader finds one of the two whole or, for an instant, none.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from indexing.annotation.agreement import resolve
from pipelines.annotate.exports import Export
from pipelines.annotate.votes import Agreed, Ballots
from pipelines.annotation_tools import spreadsheet
from pipelines.errors import BAD_DATA, OUTPUT_EXISTS, USAGE, JobError
from pipelines.execution.lock import claimed
from pipelines.execution.parquet_folder import Folder, PartWriter
from pipelines.execution.progress import progress
from pipelines.execution.step import WORK, Report, Step
from schemas.annotation import Annotation, Conflict, ResolvedLabel, Task
from schemas.atomic_files import sha256, write_text
from schemas.corpus import Rejected
from schemas.record import Record

OUTPUTS: Mapping[str, type[Record]] = {
    "collected/annotations": Annotation,
    "collected/labels": ResolvedLabel,
    "collected/conflicts": Conflict,
    "collected/rejects": Rejected,
}
AGREEMENT, OPEN_TASKS, OPEN_IDS = "agreement.json", "adjudication.csv", "adjudication.txt"
Way = Literal["majority", "weighted", "adjudicate"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How one label is made of a task's annotations."""

    resolve: Way = "majority"
    min_votes: int = 1
    adjudicator: str | None = None
    """Whose word holds where they have judged, whatever others say; no one else's agreement is measured with theirs."""

    def __post_init__(self) -> None:
        if self.min_votes < 1:
            raise JobError(f"--min-votes {self.min_votes}: give at least 1", USAGE)


@dataclass(slots=True)
class Sorted:
    """What became of one task: its label, or why it has none (open, control, too_few_votes, not_judged)."""

    fate: str
    label: int | None = None
    votes: int = 0
    positive: float = 0.0
    disputed: bool = False


def settle(task: Task, votes: Mapping[str, int], rules: Rules, weights: Mapping[str, float]) -> Sorted:
    """One task's label from its votes (annotator → label), by the rules; weights count for `weighted` alone.

    The adjudicator's word holds. Else fewer than min_votes give no label; a tie, votes without weight, and with `adjudicate`
    any disagreement stay open. Controls are judged, not labelled.
    """
    if task.stratum == "control":
        return Sorted("control", votes=len(votes))
    if not votes:
        return Sorted("not_judged")
    disputed = len(set(votes.values())) > 1
    if rules.adjudicator is not None and (said := votes.get(rules.adjudicator)) is not None:
        return Sorted("labelled", said, 1, float(said), disputed)
    if len(votes) < rules.min_votes:
        return Sorted("too_few_votes", votes=len(votes), disputed=disputed)
    weighted = rules.resolve == "weighted"
    label, positive = resolve([(label, weights[name] if weighted else 1.0) for name, label in votes.items()])
    if label is None or (disputed and rules.resolve == "adjudicate"):
        return Sorted("open", None, len(votes), positive, True)
    return Sorted("labelled", label, len(votes), positive, disputed)


def collect(run: Path, files: Sequence[Path], rules: Rules | None = None, form: str | None = None) -> Iterator[str]:
    """Read the exports, replace RUN/collected, and tell the figures, line by line.

    Raises JobError: 66 where tasks/ or an export is missing, 65 where an export is cut off or no annotation in it can be used,
    73 where RUN/collected holds something else, or an adjudication.csv that somebody has written in, or another process
    is writing into the run.
    """
    rules = rules or Rules()
    tasks = Folder.open(run / "tasks", Task, "annotate")
    _check_target(run / "collected", files)
    exports = [Export(file, form) for file in files]
    ballots = Ballots(tasks, files)
    with progress(
        "collect, bytes of exports", sum(e.file.size for e in exports), lambda: sum(e.file.position for e in exports)
    ):
        used = []
        for n, export in enumerate(exports):
            before = ballots.counts["annotations"]
            for given in export.read():
                ballots.add(n, given)
            used.append(ballots.counts["annotations"] - before)
    if not ballots.votes:
        told = dict(Counter(reject.reason for _, reject in ballots.rejects))
        raise JobError(f"none of {sum(used)} annotations is a label of a task in {tasks.path}: {json.dumps(told)}", BAD_DATA)
    if rules.adjudicator is not None and rules.adjudicator not in ballots.annotators():
        raise JobError(f"--adjudicator {rules.adjudicator}: the annotators are {', '.join(ballots.annotators())}", BAD_DATA)
    agreed = Agreed.of(ballots, rules.adjudicator)
    sources = [
        {"file": str(e.path), "form": e.form, "sha256": sha256(e.path), "records": e.records, "unanswered": e.unanswered}
        | {"annotations": count}
        for e, count in zip(exports, used, strict=True)
    ]
    settings = {"resolve": rules.resolve, "min_votes": rules.min_votes, "adjudicator": rules.adjudicator, "form": form}
    with claimed(run):
        counts = _write(run, tasks, ballots, rules, agreed, settings, sources)
    yield from _lines(run, counts, agreed, len(files))


def _check_target(target: Path, files: Sequence[Path]) -> None:
    """Refuse to replace what collect has not written, or what somebody has worked on since."""
    for file in files:
        if target.resolve() in file.resolve().parents:
            raise JobError(f"{file} is in the folder that collect replaces; move it elsewhere first", USAGE)
    if not target.exists():
        return
    try:
        written = json.loads((target / AGREEMENT).read_text(encoding="utf-8"))["adjudication_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise JobError(f"{target} was not written by collect: no {AGREEMENT} in it; move it away", OUTPUT_EXISTS) from e
    pack = target / OPEN_TASKS
    if pack.is_file() and sha256(pack) != written:
        raise JobError(f"{pack} was written in since; move it out of {target}, and name it as an export", OUTPUT_EXISTS)


def _write(
    run: Path,
    tasks: Folder[Task],
    ballots: Ballots,
    rules: Rules,
    agreed: Agreed,
    settings: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
) -> Counter[str]:
    """Build the folder beside the one that is there, and put it in its place; returns what was counted."""
    stage, target = run / WORK / "collect", run / "collected"
    shutil.rmtree(stage, ignore_errors=True)
    inputs = {f"export {n}": f"{source['file']} {source['sha256']}" for n, source in enumerate(sources, 1)}
    this = Step(stage, "collect", OUTPUTS, settings, {"tasks": tasks.digest(), **inputs})
    this.begin()
    counts = Counter(tasks=tasks.rows, votes=len(ballots.votes), rejects=len(ballots.rejects))
    counts.update(ballots.counts)
    counts["unanswered"] = sum(source["unanswered"] for source in sources)
    counts.update(f"rejects_{reject.reason}" for _, reject in ballots.rejects)
    left_open: list[Task] = []
    with ExitStack() as stack:
        writers = {name: stack.enter_context(PartWriter(stage / name, record, 0)) for name, record in OUTPUTS.items()}
        for _, reject in sorted(ballots.rejects, key=lambda each: (each[0], each[1].source_offset, each[1].detail)):
            writers["collected/rejects"].write([reject])
        votes = ballots.by_task()
        for number, task in enumerate(tasks.read()):
            said = votes.get(number, {})
            settled = settle(task, said, rules, agreed.weights)
            _count(counts, task, settled)
            left_open += [task] if settled.fate == "open" else []
            for name, row in _rows(task, said, settled):
                writers[name].write([row])
    _check(counts, writers)
    this.finish([Report(0, {name: writer.part for name, writer in writers.items()})], dict(sorted(counts.items())))
    write_text(stage / "collected" / OPEN_IDS, "".join(task.task_id + "\n" for task in left_open))
    write_text(stage / "collected" / OPEN_TASKS, _pack(left_open))
    told = {"settings": settings, "exports": sources, "counts": dict(sorted(counts.items())), **agreed.to_json()}
    told["adjudication_sha256"] = sha256(stage / "collected" / OPEN_TASKS)
    write_text(stage / "collected" / AGREEMENT, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    if target.exists():
        target.rename(stage / "replaced")
    (stage / "collected").rename(target)
    shutil.rmtree(stage)
    if not any((run / WORK).iterdir()):
        (run / WORK).rmdir()
    return counts


def _rows(task: Task, said: Mapping[str, int], settled: Sorted) -> Iterator[tuple[str, Record]]:
    """A task's rows, each with its folder."""
    for name, label in said.items():
        row = Annotation(task.task_id, task.question_id, task.sentence_id, name, label, task.stratum, task.expected)
        yield "collected/annotations", row
    if settled.disputed:
        told = tuple(f"{name}={label}" for name, label in said.items())
        yield "collected/conflicts", Conflict(task.task_id, task.question, task.sentence, told, settled.label)
    if settled.label is not None:
        yield (
            "collected/labels",
            ResolvedLabel(
                question_id=task.question_id,
                question=task.question,
                sentence_id=task.sentence_id,
                doc_id=task.doc_id,
                sentence=task.sentence,
                label=settled.label,
                votes=settled.votes,
                positive=settled.positive,
                stratum=task.stratum,
                probability=task.probability,
            ),
        )


def _count(counts: Counter[str], task: Task, settled: Sorted) -> None:
    counts[f"tasks_{settled.fate}"] += 1
    counts["conflicts"] += settled.disputed
    counts["controls_judged"] += settled.fate == "control" and settled.votes > 0
    if settled.label is not None:
        counts[f"labels_{task.stratum}"] += 1
        counts[f"labels_{task.stratum}_correct"] += settled.label


def _check(counts: Mapping[str, int], writers: Mapping[str, PartWriter[Record]]) -> None:
    """Annotations in are annotations out and rejects; every task has one fate."""
    rows = {name.removeprefix("collected/"): writer.part.rows for name, writer in writers.items()}
    fates = sum(n for name, n in counts.items() if name.startswith("tasks_"))
    if counts["annotations"] != rows["annotations"] + rows["rejects"] or rows["annotations"] != counts["votes"]:
        raise RuntimeError(f"{counts['annotations']} annotations came in; written are {rows}")
    if (
        counts["tasks"] != fates
        or counts.get("tasks_labelled", 0) != rows["labels"]
        or counts["conflicts"] != rows["conflicts"]
    ):
        raise RuntimeError(f"tasks do not add up: {dict(counts)}; written are {rows}")


def _pack(tasks: Sequence[Task]) -> str:
    """Tasks as CSV for the adjudicator; without the votes and scores, so that they judge and do not follow."""
    return spreadsheet.HEADER + "".join(spreadsheet.item(task, None) for task in tasks)


def _lines(run: Path, counts: Mapping[str, int], agreed: Agreed, files: int) -> Iterator[str]:
    """What was collected, for people."""

    def by(prefix: str) -> str:
        parts = [(n, name.removeprefix(prefix)) for name, n in counts.items() if name.startswith(prefix) and n]
        return ", ".join(f"{n:,} {name}" for n, name in sorted(parts, key=lambda part: (-part[0], part[1])))

    rejects = f"{counts['rejects']:,} rejects" + (f" ({by('rejects_')})" if counts["rejects"] else "")
    made = f"{counts['annotations']:,} annotations = {counts['votes']:,} used + {rejects}"
    yield f"collect    {files} export{'s'[: files != 1]}: {made}; {counts['unanswered']:,} records unanswered"
    fates = ("labelled", "open", "control", "too_few_votes", "not_judged")
    told = " + ".join(f"{counts.get(f'tasks_{fate}', 0):,} {fate.replace('_', ' ')}" for fate in fates)
    yield f"           {counts['tasks']:,} tasks = {told}; {counts['conflicts']:,} conflicts"
    for stratum in ("top", "random"):
        if labels := counts.get(f"labels_{stratum}", 0):
            correct = counts[f"labels_{stratum}_correct"]
            yield f"           {stratum}: {labels:,} labels, {correct:,} correct ({correct / labels:.1%})"
    if counts["unchecked_text"]:
        yield f"note: {counts['unchecked_text']:,} annotations came without text_hash: nobody knows whether the text changed"
    if counts["unknown_status"]:
        yield (
            f"note: {counts['unknown_status']:,} responses came without a status, so drafts may be among them: "
            "Argilla's records.to_list(flatten=True) has it, to_json does not"
        )
    yield ""
    yield from agreed.lines()
    yield ""
    if left := counts.get("tasks_open", 0):
        yield f"{left:,} open: {run / 'collected' / OPEN_TASKS} is a pack of them; a judged copy comes back with --adjudicator"
    yield f"in {run / 'collected'}: annotations, labels, conflicts, rejects, {AGREEMENT}"
