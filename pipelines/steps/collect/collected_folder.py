"""RUN/collected: the output of `collect`, which replaces an earlier one without a moment of loss.

The new folder is built in RUN/_work/collect and then takes the name of the earlier one. A reader finds one of
the two whole or, for an instant, none; after a kill in that instant the next reader restores the earlier one
(`recover_folder`).
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import WrongShape, replace_folder, sha256, write_text
from answermill.files.store import remove_if_empty
from answermill.pipelines.data.annotation_tools import spreadsheet
from answermill.pipelines.errors import OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import WORK, Step
from answermill.pipelines.specs.collect import (
    AGREEMENT,
    ANNOTATIONS,
    COLLECT,
    COLLECT_REJECTS,
    COLLECTED,
    CONFLICTS,
    LABELS,
    OPEN_IDS,
    OPEN_TASKS,
    OPEN_TASKS_FILE,
    CollectCounts,
    LabelCounts,
)
from answermill.pipelines.steps.collect.asked_tasks import AskedTasks
from answermill.pipelines.steps.collect.resolution import ResolutionRules, TaskOutcome, resolve_task
from answermill.pipelines.steps.collect.votes import AnnotatorAgreement, CollectedVotes
from answermill.schemas.annotation import Annotation, Conflict, ResolvedLabel, Task
from answermill.schemas.record import Record


def check_replaceable(run: Path, exports: Sequence[Path]) -> None:
    """Refuse to replace a folder that collect has not written, or that somebody has worked on since.

    Raises JobError: 2 if an export is in RUN/collected, 73 if collect did not write the folder, or if its
    adjudication.csv was edited.
    """
    target = run / COLLECTED
    for file in exports:
        if target.resolve() in file.resolve().parents:
            raise JobError(f"{file} is in the folder that collect replaces; move it elsewhere first", USAGE)

    if not target.exists():
        return

    try:
        digest = OPEN_TASKS_FILE.written_digest(run)
    except (OSError, WrongShape) as e:
        raise JobError(
            f"{target} was not written by collect: no {AGREEMENT} in it; move it away", OUTPUT_EXISTS
        ) from e

    pack = target / OPEN_TASKS
    if pack.is_file() and sha256(pack) != digest:
        raise JobError(
            f"{pack} was edited after collect wrote it; move it out of {target} and name it as an export",
            OUTPUT_EXISTS,
        )


def replace(
    run: Path,
    tasks: AskedTasks,
    votes: CollectedVotes,
    *,
    rules: ResolutionRules,
    agreement: AnnotatorAgreement,
    settings: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
) -> CollectCounts:
    """Build the new folder and put it in the place of the earlier one; return its counts. Needs the run's
    lock."""
    stage, target = run / WORK / COLLECT.name, run / COLLECTED
    shutil.rmtree(stage, ignore_errors=True)
    inputs = {f"export {n}": f"{source['file']} {source['sha256']}" for n, source in enumerate(sources, 1)}
    step = Step(stage, COLLECT, settings, {**tasks.digests(), **inputs})
    commit = Commit(step)
    commit.begin()

    fates, labels, correct = Counter[str](), Counter[str](), Counter[str]()
    conflicts = controls_judged = 0
    open_tasks: list[Task] = []

    with ExitStack() as stack:
        writers = {folder.name: stack.enter_context(folder.writer(stage, 0)) for folder in COLLECT}
        for _, reject in sorted(
            votes.rejects, key=lambda item: (item[0], item[1].source_offset, item[1].detail)
        ):
            writers[COLLECT_REJECTS.name].write([reject])

        votes_by_task = votes.by_task()
        for number, task in enumerate(tasks.read()):
            task_votes = votes_by_task.get(number, {})
            outcome = resolve_task(task, task_votes, rules, agreement.weights)
            fates[outcome.fate] += 1
            conflicts += outcome.disputed
            controls_judged += outcome.fate == "control" and outcome.votes > 0
            if outcome.label is not None:
                labels[task.stratum] += 1
                correct[task.stratum] += outcome.label
            if outcome.fate == "open":
                open_tasks.append(task)
            for name, row in _rows_of(task, task_votes, outcome):
                writers[name].write([row])

    counts = votes.counts + CollectCounts(
        tasks=tasks.rows,
        unanswered=sum(source["unanswered"] for source in sources),
        conflicts=conflicts,
        controls_judged=controls_judged,
        fates=dict(fates),
        strata={stratum: LabelCounts(n, correct[stratum]) for stratum, n in labels.items()},
    )
    for folder in COLLECT:
        if writers[folder.name].part.rows != getattr(counts, folder.rows):
            raise RuntimeError(
                f"{folder.name} has {writers[folder.name].part.rows} rows; counted are {counts}"
            )

    write_text(stage / COLLECTED / OPEN_IDS, "".join(task.task_id + "\n" for task in open_tasks))
    write_text(stage / COLLECTED / OPEN_TASKS, _adjudication_pack(open_tasks))
    figures = {"settings": settings, "exports": sources, "counts": counts.to_json(), **agreement.to_json()}
    figures[OPEN_TASKS_FILE.digest_key] = sha256(stage / COLLECTED / OPEN_TASKS)
    write_text(stage / COLLECTED / AGREEMENT, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")

    # agreement.json has the pack's digest.
    beside = [Part.of(stage, f"{COLLECTED}/{name}") for name in (AGREEMENT, OPEN_IDS)]
    parts = {name: writer.parts for name, writer in writers.items()}
    commit.finish(Outcome.of(CollectCounts(), [Report(0, parts, counts)]), beside)
    replace_folder(stage / COLLECTED, target)
    shutil.rmtree(stage)
    remove_if_empty(run / WORK)

    return counts


def _rows_of(task: Task, votes: Mapping[str, int], outcome: TaskOutcome) -> Iterator[tuple[str, Record]]:
    """The rows about a task, each with its folder."""
    for name, label in votes.items():
        row = Annotation(
            task.task_id, task.question_id, task.sentence_id, name, label, task.stratum, task.expected
        )
        yield ANNOTATIONS.name, row

    if outcome.disputed:
        disagreeing = tuple(f"{name}={label}" for name, label in votes.items())
        yield CONFLICTS.name, Conflict(task.task_id, task.question, task.sentence, disagreeing, outcome.label)

    if outcome.label is not None:
        yield (
            LABELS.name,
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


def _adjudication_pack(tasks: Sequence[Task]) -> str:
    """Tasks as CSV for the adjudicator; without votes and scores, so that they judge and do not follow."""
    return spreadsheet.HEADER + "".join(spreadsheet.item(task, None) for task in tasks)
