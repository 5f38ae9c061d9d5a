"""RUN/collected: what `collect` writes there, and how it takes the place of an earlier one without a moment of loss.

The new folder is built in RUN/_work/collect and then takes the name of the earlier one. A reader finds one of the two whole or,
for an instant, none; after a kill in that instant the earlier one is brought back by who asks for it next (`recover_folder`).
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import WrongShape, read_json, replace_folder, sha256, write_text
from answermill.pipelines.config.outputs import AGREEMENT, OPEN_TASKS
from answermill.pipelines.config.outputs import COLLECT as OUTPUTS
from answermill.pipelines.data.annotation_tools import spreadsheet
from answermill.pipelines.errors import OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, PartWriter
from answermill.pipelines.runs.step import WORK, Step
from answermill.pipelines.steps.collect.resolution import ResolutionRules, TaskOutcome, resolve_task
from answermill.pipelines.steps.collect.votes import AnnotatorAgreement, CollectedVotes
from answermill.schemas.annotation import Annotation, Conflict, ResolvedLabel, Task
from answermill.schemas.record import Record

OPEN_IDS = "adjudication.txt"


@dataclass(frozen=True, slots=True)
class _Agreement:
    """What is read again of agreement.json."""

    adjudication_sha256: str


def check_replaceable(run: Path, exports: Sequence[Path]) -> None:
    """Refuse to replace what collect has not written, or what somebody has worked on since.

    Raises JobError: 2 if an export lies in RUN/collected, 73 if the folder is another's or its adjudication.csv was edited.
    """
    target = run / "collected"
    for file in exports:
        if target.resolve() in file.resolve().parents:
            raise JobError(f"{file} is in the folder that collect replaces; move it elsewhere first", USAGE)
    if not target.exists():
        return
    try:
        written = read_json(target / AGREEMENT, _Agreement).adjudication_sha256
    except (OSError, WrongShape) as e:
        raise JobError(f"{target} was not written by collect: no {AGREEMENT} in it; move it away", OUTPUT_EXISTS) from e
    pack = target / OPEN_TASKS
    if pack.is_file() and sha256(pack) != written:
        raise JobError(
            f"{pack} was edited after collect wrote it; move it out of {target} and name it as an export", OUTPUT_EXISTS
        )


def replace(
    run: Path,
    tasks: Folder[Task],
    votes: CollectedVotes,
    rules: ResolutionRules,
    agreement: AnnotatorAgreement,
    settings: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
) -> Counter[str]:
    """Build the new folder and put it in the place of the earlier one; returns what was counted. Needs the run locked."""
    stage, target = run / WORK / "collect", run / "collected"
    shutil.rmtree(stage, ignore_errors=True)
    inputs = {f"export {n}": f"{source['file']} {source['sha256']}" for n, source in enumerate(sources, 1)}
    step = Step(stage, "collect", OUTPUTS, settings, {"tasks": tasks.digest(), **inputs})
    step.begin()
    counts = Counter(tasks=tasks.rows, votes=len(votes.votes), rejects=len(votes.rejects))
    counts.update(votes.counts)
    counts["unanswered"] = sum(source["unanswered"] for source in sources)
    counts.update(f"rejects_{reject.reason}" for _, reject in votes.rejects)
    open_tasks: list[Task] = []
    with ExitStack() as stack:
        writers = {name: stack.enter_context(PartWriter(stage / name, record, 0)) for name, record in OUTPUTS.items()}
        for _, reject in sorted(votes.rejects, key=lambda each: (each[0], each[1].source_offset, each[1].detail)):
            writers["collected/rejects"].write([reject])
        votes_of = votes.by_task()
        for number, task in enumerate(tasks.read()):
            task_votes = votes_of.get(number, {})
            outcome = resolve_task(task, task_votes, rules, agreement.weights)
            _count(counts, task, outcome)
            if outcome.fate == "open":
                open_tasks.append(task)
            for name, row in _rows_of(task, task_votes, outcome):
                writers[name].write([row])
    _check_sums(counts, writers)
    write_text(stage / "collected" / OPEN_IDS, "".join(task.task_id + "\n" for task in open_tasks))
    write_text(stage / "collected" / OPEN_TASKS, _adjudication_pack(open_tasks))
    figures = {"settings": settings, "exports": sources, "counts": dict(sorted(counts.items())), **agreement.to_json()}
    figures["adjudication_sha256"] = sha256(stage / "collected" / OPEN_TASKS)
    write_text(stage / "collected" / AGREEMENT, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    beside = [Part.of(stage, f"collected/{name}") for name in (AGREEMENT, OPEN_IDS)]  # and of the pack agreement.json has it
    written = Outcome.of([Report(0, {name: writer.parts for name, writer in writers.items()})])
    step.finish(written, dict(sorted(counts.items())), beside)
    replace_folder(stage / "collected", target)
    shutil.rmtree(stage)
    if not any((run / WORK).iterdir()):
        (run / WORK).rmdir()
    return counts


def _rows_of(task: Task, votes: Mapping[str, int], outcome: TaskOutcome) -> Iterator[tuple[str, Record]]:
    """The rows about a task, each with its folder."""
    for name, label in votes.items():
        row = Annotation(task.task_id, task.question_id, task.sentence_id, name, label, task.stratum, task.expected)
        yield "collected/annotations", row
    if outcome.disputed:
        disagreeing = tuple(f"{name}={label}" for name, label in votes.items())
        yield "collected/conflicts", Conflict(task.task_id, task.question, task.sentence, disagreeing, outcome.label)
    if outcome.label is not None:
        yield (
            "collected/labels",
            ResolvedLabel(
                question_id=task.question_id,
                question=task.question,
                sentence_id=task.sentence_id,
                doc_id=task.doc_id,
                sentence=task.sentence,
                label=outcome.label,
                votes=outcome.votes,
                positive=outcome.positive,
                stratum=task.stratum,
                probability=task.probability,
            ),
        )


def _count(counts: Counter[str], task: Task, outcome: TaskOutcome) -> None:
    counts[f"tasks_{outcome.fate}"] += 1
    counts["conflicts"] += outcome.disputed
    counts["controls_judged"] += outcome.fate == "control" and outcome.votes > 0
    if outcome.label is not None:
        counts[f"labels_{task.stratum}"] += 1
        counts[f"labels_{task.stratum}_correct"] += outcome.label


def _check_sums(counts: Mapping[str, int], writers: Mapping[str, PartWriter[Record]]) -> None:
    """Annotations in are annotations out and rejects; every task has one fate."""
    rows = {name.removeprefix("collected/"): writer.part.rows for name, writer in writers.items()}
    fates = sum(n for name, n in counts.items() if name.startswith("tasks_"))
    if counts["annotations"] != rows["annotations"] + rows["rejects"] or rows["annotations"] != counts["votes"]:
        raise RuntimeError(f"{counts['annotations']} annotations came in; written are {rows}")
    labelled = counts.get("tasks_labelled", 0)
    if counts["tasks"] != fates or labelled != rows["labels"] or counts["conflicts"] != rows["conflicts"]:
        raise RuntimeError(f"tasks do not add up: {dict(counts)}; written are {rows}")


def _adjudication_pack(tasks: Sequence[Task]) -> str:
    """Tasks as CSV for the adjudicator; without votes and scores, so that they judge and do not follow."""
    return spreadsheet.HEADER + "".join(spreadsheet.item(task, None) for task in tasks)
