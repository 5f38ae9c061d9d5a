"""Collect: exports of annotation tools in; annotations, labels, conflicts and agreement out (WQA §3.2).

Nothing but the named exports counts: collect reads every one and replaces RUN/collected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from answermill.files.atomic_files import recover_folder, sha256
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, counted
from answermill.pipelines.runs.counts import counts_by_reason
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.collect import AGREEMENT, COLLECTED, OPEN_IDS, OPEN_TASKS, CollectCounts
from answermill.pipelines.steps.collect.asked_tasks import AskedTasks, dealt_tasks
from answermill.pipelines.steps.collect.collected_folder import check_replaceable, replace
from answermill.pipelines.steps.collect.exports import Export
from answermill.pipelines.steps.collect.people import People, UserNumbers, name_key
from answermill.pipelines.steps.collect.resolution import ResolutionRules
from answermill.pipelines.steps.collect.votes import AnnotatorAgreement, CollectedVotes


def collect(
    run: Path,
    files: Sequence[Path],
    rules: ResolutionRules | None = None,
    form: str | None = None,
    numbers: UserNumbers | None = None,
    *,
    columns: Columns = AS_NAMED,
    persons: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Read the exports and replace RUN/collected; yield lines of figures for people. `numbers`: what is known
    of users who are numbers. `columns`: the user's names of the columns of CSV. `persons`: annotator as an
    export names them → the person's name.

    Raises JobError: 66 if tasks/ or an export is missing, 65 if an export is cut off, none of its annotations
    can be used, two without annotators have one name, one of `columns` is in no CSV, or one number must be
    two people, 2 if there is no export, or one of `persons` is in none, 73 if RUN/collected is not collect's
    own, if its adjudication.csv was edited, or if another process writes into the run.
    """
    if not files:
        raise JobError("give at least one export", USAGE)
    rules = rules or ResolutionRules()
    tasks = AskedTasks.of(run)
    recover_folder(run / COLLECTED)
    check_replaceable(run, files)
    exports = [Export(file, form, columns) for file in files]
    _check_columns(exports, columns)
    votes = CollectedVotes(tasks, files, People(files, numbers, persons, dealt_tasks(run)))
    size = sum(export.file.size for export in exports)
    with progress("collect", size, lambda: sum(export.file.position for export in exports), what="bytes"):
        annotations = [_read(export, n, votes) for n, export in enumerate(exports)]
    _check_names([e for n, e in enumerate(exports) if e.unnamed or n in votes.people.named_by_file])

    if not votes.votes:
        if not sum(annotations):
            records = counted(sum(export.records for export in exports), "record")
            names = ", ".join(map(str, files))
            raise JobError(
                f"{names}: no label is filled in, in {records}; judge them, then collect", BAD_DATA
            )
        first = votes.rejects[0][1]
        raise JobError(
            f"none of {sum(annotations)} annotations is a label of a task in {tasks.path}: "
            f"{counts_by_reason(votes.counts.rejected)}; the first, {first.source_file}, record "
            f"{first.source_offset}, {first.reason} {first.detail}",
            BAD_DATA,
        )

    votes.people.check_persons(votes.annotators())
    if rules.adjudicator is not None:
        rules = dataclasses.replace(rules, adjudicator=votes.people.spelt(rules.adjudicator))
        if rules.adjudicator not in votes.annotators():
            names = ", ".join(votes.annotators())
            raise JobError(f"--adjudicator {rules.adjudicator}: the annotators are {names}", BAD_DATA)

    agreement = AnnotatorAgreement.among(votes, rules.adjudicator)
    sources = [
        {
            "file": str(e.path),
            "form": e.form,
            "sha256": sha256(e.path),
            "records": e.records,
            "unanswered": e.unanswered,
        }
        | {"annotations": count}
        for e, count in zip(exports, annotations, strict=True)
    ]

    settings: dict[str, object] = {
        "resolve": rules.method,
        "min_votes": rules.min_votes,
        "adjudicator": rules.adjudicator,
        "form": form,
        "user_numbers": numbers,
    }
    settings |= {"columns": dict(columns.named)} if columns.named else {}
    settings |= {"people": dict(persons)} if persons else {}
    with claimed(run):
        counts = replace(
            run, tasks, votes, rules=rules, agreement=agreement, settings=settings, sources=sources
        )

    yield from _summary(run, counts, votes, agreement, len(files))


def _check_columns(exports: Sequence[Export], columns: Columns) -> None:
    """Raises JobError (65) if one that the user has named is in no CSV."""
    tables = [export for export in exports if export.file.columns]
    for name, column in columns.named.items():
        if not any(column.casefold() in export.file.columns for export in tables):
            has = "; ".join(f"{export.path} has {', '.join(export.file.columns)}" for export in tables[:3])
            problem = f"{columns.key} {name}={column}: no CSV among the exports has that column"
            raise JobError(f"{problem}; {has or 'none is CSV'}", BAD_DATA)


def _check_names(unnamed: Sequence[Export]) -> None:
    """Raises JobError (65) if two of these exports, whose names stand for annotators, have one name in
    different folders."""
    first: dict[str, Export] = {}
    for export in unnamed:
        other = first.setdefault(name_key(export.path.name), export)
        if other.path.absolute() != export.path.absolute():
            raise JobError(
                f"{other.path} and {export.path} name no annotator, or a number, and both would stand for "
                f"one, {export.stem!r}; call each by its annotator, as anna.csv, or fill in the annotators",
                BAD_DATA,
            )


def _read(export: Export, number: int, votes: CollectedVotes) -> int:
    """Add the annotations of export `number`; return their number."""
    before = votes.counts.annotations
    for label in export.read():
        votes.add(number, label)
    return votes.counts.annotations - before


def _summary(
    run: Path, counts: CollectCounts, votes: CollectedVotes, agreement: AnnotatorAgreement, files: int
) -> Iterator[str]:
    """Lines for people on what was collected."""
    refused = f" ({counts_by_reason(counts.rejected)})" if counts.rejects else ""
    annotations = (
        f"{counted(counts.annotations, 'annotation')} = {counts.votes:,} used + "
        f"{counted(counts.rejects, 'reject')}{refused}"
    )
    unanswered = counted(counts.unanswered, "record")
    yield f"collect    {counted(files, 'export')}: {annotations}; {unanswered} unanswered"
    fates = ("labelled", "open", "control", "too_few_votes", "not_judged")
    tasks = " + ".join(f"{counts.fates.get(fate, 0):,} {fate.replace('_', ' ')}" for fate in fates)
    yield f"           {counted(counts.tasks, 'task')} = {tasks}; {counted(counts.conflicts, 'conflict')}"

    for stratum in ("top", "random"):
        if (judged := counts.strata.get(stratum)) is not None:
            share = judged.correct / judged.labels
            labels = counted(judged.labels, "label")
            yield f"           {stratum}: {labels}, {judged.correct:,} correct ({share:.1%})"

    if counts.unchecked_text:
        yield (
            f"note: {counts.unchecked_text:,} annotations came without text_hash: nobody knows whether the "
            "text changed"
        )
    if counts.unknown_status:
        yield (
            f"note: {counts.unknown_status:,} responses came without a status, so drafts may be among them: "
            "Argilla's records.to_list(flatten=True) has it, to_json does not"
        )

    if counts.unknown_annotators:
        yield (
            f"note: {counts.unknown_annotators:,} votes are of users whom their tool no longer names: those "
            "of one task are kept apart, as unknown-1, unknown-2 and so on, and no such name is one person"
        )
    if numbers := votes.people.in_several_files():
        yield (
            f"note: user{'s'[: len(numbers) != 1]} {', '.join(numbers)} in several exports: taken for the "
            "same people; if the exports are of several servers, type --user-numbers per-file"
        )
    if names := votes.people.spelt_otherwise():
        yield f"note: {', '.join(names)}: taken for one person, since names differ by letter case alone"
    dealt, judges = dealt_tasks(run).keys(), agreement.annotators.keys()
    if (strangers := sorted(judges - dealt)) and (waiting := sorted(dealt - set(votes.annotators()))):
        yield (
            f"note: {', '.join(strangers)} judged tasks that were dealt to others, and {', '.join(waiting)} "
            "judged none: if they are the same people, say who is who, as "
            f"--people {strangers[0]}={waiting[0]}"
        )

    yield ""
    yield from agreement.lines()
    yield ""
    if open_tasks := counts.fates.get("open", 0):
        pack = run / COLLECTED / OPEN_TASKS
        yield f"{open_tasks:,} open: {pack} is a pack of them; a judged copy comes back with --adjudicator"

    files_written = f"{AGREEMENT}, {OPEN_TASKS}, {OPEN_IDS}"
    yield f"in {run / COLLECTED}: annotations, labels, conflicts, rejects, {files_written}"
    yield f"`answermill report {run}` writes annotation.html: progress, and the conflicts with their texts"
