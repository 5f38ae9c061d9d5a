"""Ingest: crawled files in; documents, passages and rejects out.

Each input file is one unit of work, or several if it is large. A unit's pages are parsed into a part in the
work folder; the keys of all documents (16 bytes each) are grouped to find exact duplicates; then each unit
drops its duplicates and cuts the other documents into passages. If the job asks for it, near duplicates and
boilerplate are found in the same way, one after the other (repeated/). Page text moves through local files,
never through a shuffle. If the job keeps only some domains (`domains`), they are chosen first
(domain_filter.py), and parsing refuses the pages of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from answermill.files.atomic_files import sha256, write_text
from answermill.files.store import remove_tree, store_of
from answermill.pipelines.config.ingest_section import OUR_EXTRACTORS
from answermill.pipelines.config.job_file import Ingest, Job
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.engine.protocol import Engine, Units
from answermill.pipelines.engine.runner import naming_what_is_missing, open_engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, SETTINGS, UNAVAILABLE, JobError, counted
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.counts import counts_by_reason
from answermill.pipelines.runs.manifests.failures import Limits
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import Folder, read_rows
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meters, add_up
from answermill.pipelines.runs.watch.progress import print_line, progress
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, INPUTS, REJECTS, IngestCounts
from answermill.pipelines.steps.ingest import blocked, domain_filter, vanished
from answermill.pipelines.steps.ingest.crawl_files import (
    FileList,
    InputFile,
    InputFiles,
    find_files,
    units_of,
)
from answermill.pipelines.steps.ingest.fetch_plan import foresee
from answermill.pipelines.steps.ingest.fetched_records import RecordUnit
from answermill.pipelines.steps.ingest.input_digests import changed, confirm, write_dates
from answermill.pipelines.steps.ingest.parse_and_cut import (
    IngestStep,
    cut_file,
    document_rules,
    extractor_of,
    parse_file,
    parsed_files,
    reject_file,
    splitter,
    unparsed,
)
from answermill.pipelines.steps.ingest.repeated import boilerplate, near_duplicates
from answermill.pipelines.steps.ingest.repeated.verdicts import (
    FileKeys,
    FileVerdict,
    KeyBucket,
    document_keys,
    find_duplicates,
)
from answermill.pipelines.steps.ingest.wanted_records import RECORDS, choose, index_files, version, wanted
from answermill.schemas import plug_ins
from answermill.schemas.corpus import Document, Rejected


def step_of(job: Job, run: Path) -> IngestStep:
    """The ingest step of a run. Raises as `check`."""
    step, _ = check(job, run)
    return step


def check(job: Job, run: Path) -> tuple[IngestStep, InputFiles]:
    """The ingest step of a run and its input: folders are listed once, and files of this machine opened once.

    Raises JobError if the job has no [ingest] or its input is missing."""
    if job.ingest is None:
        raise JobError("the job has no [ingest] section; add one with `input`", SETTINGS)
    if job.ingest.extractor == "trafilatura" and find_spec("trafilatura") is None:
        raise JobError(
            "ingest.extractor = 'trafilatura' needs Trafilatura: pip install 'answermill[trafilatura]'",
            UNAVAILABLE,
        )

    inputs, input_files = {}, find_files(job, job.ingest)
    if job.ingest.extractor not in OUR_EXTRACTORS:
        inputs["code of the extractor"] = plug_ins.digest(plug_ins.EXTRACTORS, job.ingest.extractor)
    for file in input_files.files:
        if store_of(file.path).is_local and file.path not in input_files.tables:
            file.pages(file.path, Counter())  # in a store, the worker that reads the file does so
        inputs[file.name] = f"{file.size} bytes"  # the SHA-256 is in the manifest (input_digests.py)

    inputs.update(
        {f"crawl_index: {name}": version(path) for name, path in index_files(job, job.ingest).items()}
    )
    if (domain_list := domain_filter.list_file(job, job.ingest)) is not None:
        domain_filter.read_list(domain_list, job.ingest.domains)
        inputs["domain_list"] = sha256(domain_list)

    if (block_list := blocked.list_file(job, job.ingest)) is not None:
        inputs["block_list"] = sha256(block_list)
    if (earlier := near_duplicates.earlier_run(job, job.ingest, run)) is not None:
        inputs["since"] = earlier.digest()
    # The names and digests of the inputs stand for these settings.
    elsewhere = {
        "input",
        "paths_root",
        "paths_range",
        "crawl_index",
        "domain_list",
        "block_list",
        "max_reject_share",
        "since",
    }
    settings = job.ingest.model_dump(exclude=elsewhere)
    if job.ingest.crawl_index is not None:
        settings["crawl_index"] = job.ingest.crawl_index.model_dump(exclude={"files"})
        settings["paths_root"] = job.ingest.paths_root

    return Step(run, INGEST, settings, inputs), input_files


def ingest(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; return its summary line."""
    return ingest_checked(job, run, beam_options, check(job, run))


def ingest_checked(
    job: Job, run: Path, beam_options: Sequence[str], checked: tuple[IngestStep, InputFiles]
) -> str:
    """Run the step, unless it is complete, from the result of `check`; return its summary line."""
    step, (files, unread, _) = checked
    commit = Commit(step)
    settings = job.ingest
    assert settings is not None  # else it was refused
    if commit.is_complete():
        confirm(files, DOCUMENTS.open(run).manifest.digests, run)
        return summary(run) + " (complete)"

    units = units_of(files)
    if other := changed(files, _digests(step, units), step.work):
        print_line(
            f"ingest begins again: {len(other)} of its input files changed since it was stopped, {other[0]} "
            "first"
        )
        remove_tree(step.work)
    elif FileList.differs(units, step.work):
        print_line("ingest begins again: this version cuts its input into other units of work")
        remove_tree(step.work)

    commit.begin(job.workers)
    inputs: list[InputFile | RecordUnit] = [*units, *choose(job, settings, step.work / RECORDS, len(units))]
    # Units may have been cut without a file that failed, and its pages may be the first of duplicates.
    if parsed_files(step.work).count() < len(inputs):
        step.reports.forget(step.reports.numbers())

    if not (step.work / INPUTS.path).is_file():
        write_dates(step.work, files)
    FileList.write(inputs, step.work)
    blocked.write(job, settings, step.work)
    domains = domain_filter.choose(job, settings, len(inputs), step.work, beam_options)
    earlier = near_duplicates.earlier_run(job, settings, run)
    sizes = [file.size for file in inputs]

    # Parse, then cut.
    passes = [Meters(folder, sizes) for folder in (parsed_files(step.work).folder, step.work)]
    if step.reports.count() < len(inputs):
        with (
            progress("ingest", 2 * sum(sizes), lambda: add_up(passes), what="bytes", units=2 * len(inputs)),
            naming_what_is_missing(step, len(inputs)),
            open_engine(beam_options, job.workers.processes, len(inputs), step.work, step.name) as engine,
        ):
            define(engine, len(inputs), settings, step, earlier)

    outcome = commit.reported(
        len(inputs), lambda failure: reject_file(inputs[failure.unit], failure.reason, step)
    )
    counts = outcome.counts
    first = None if counts.documents else _first_reject(step, outcome)
    check_counts(counts, settings, len(inputs), wanted(step.work / RECORDS), first)
    counts = replace(counts, unread=dict(unread))
    beside = [domain_filter.publish(run, step.work)] if domains is not None else []

    if (
        earlier is not None
        and (table := vanished.publish(job, step, earlier, len(inputs), beam_options)) is not None
    ):
        beside.append(table)
        counts = replace(counts, vanished=table.rows)

    write_text(run / INPUTS.path, (step.work / INPUTS.path).read_text(encoding="utf-8"))
    outcome.counts = counts
    commit.finish(outcome, beside)
    return summary(run)


def join(job: Job, run: Path, block: str, engine: Engine) -> None:
    """Do a machine's share of a pass over the files."""
    step, settings = step_of(job, run), job.ingest
    assert settings is not None  # else `step_of` has refused it
    files, earlier = len(FileList(step.work)), near_duplicates.earlier_run(job, settings, run)
    if block == domain_filter.BLOCK:
        domain_filter.define(engine, files, settings.domains, step.work)
    elif block == vanished.BLOCK and earlier is not None:
        vanished.define(engine, files, step, earlier)
    else:
        define(engine, files, settings, step, earlier)


def _digests(step: IngestStep, units: Sequence[InputFile]) -> dict[str, str]:
    """The digests of the files that a stopped run has read; '' for a file of which only the domains are
    counted, or later units are parsed."""
    parsed = parsed_files(step.work)
    digests = {name: d for report in parsed.each() for name, d in report.digests.items()}
    read = {*parsed.numbers(), *domain_filter.reports(step.work).numbers()}
    return {unit.name: "" for unit in units if unit.number in read} | digests


def define(
    engine: Engine, files: int, settings: Ingest, step: IngestStep, earlier: Folder[Document] | None = None
) -> None:
    """Parse the files that are not parsed yet, find duplicates over all, cut the pending ones into
    passages."""
    # (bucket, FileKeys)
    keys = engine.each("Parse pages", Units.first(files), ParsePages(settings, step.work))
    duplicates = engine.group("Find duplicates", [keys], find_duplicates)  # (unit, Duplicates)
    gone = [duplicates]
    if settings.near_duplicates:
        similarity = settings.near_duplicates
        gone.append(near_duplicates.near(engine, duplicates, files, step, earlier, similarity=similarity))
    paragraphs = (
        [boilerplate.boilerplate(engine, gone, files, settings, step)] if settings.boilerplate else []
    )
    pending = Units.first(files, but=step.reports)
    engine.group("Cut passages", [*gone, *paragraphs], CutPassages(settings, step), every=pending)


class ParsePages(UnitWork):
    """An input file → a part of documents and one of rejects in the work folder; emits the documents' keys in
    buckets."""

    skips_reported = False
    may_be_missing = True

    def __init__(self, settings: Ingest, work: Path) -> None:
        super().__init__("ingest", work)
        self._settings, self._work = settings, work

    def load(self) -> None:
        self._files = FileList(self._work)
        self._rules = document_rules(self._settings, domain_filter.kept(self._work), blocked.read(self._work))
        self._extractor = extractor_of(self._settings)

    def teardown(self) -> None:
        self._extractor.close()

    def work(self, unit: int) -> Iterator[tuple[KeyBucket, FileKeys]]:
        report = parsed_files(self._work).read_one(unit) or parse_file(
            self._files[unit], self._rules, self._extractor, self._work
        )
        yield from document_keys(report, self._work)


class CutPassages(UnitWork):
    """A unit, its duplicates and its boilerplate → its parts of documents, passages and rejects; and its
    report."""

    def __init__(self, settings: Ingest, step: IngestStep) -> None:
        super().__init__(step.name, step.work, IngestCounts)
        self._settings, self._step = settings, step

    def load(self) -> None:
        self._files, self._splitter = FileList(self._step.work), splitter(self._settings)

    def work(self, unit: int, members: Iterable[FileVerdict]) -> None:
        failed = unparsed(self._step)
        if failed and (unit in failed or len(failed) > Limits.read(self._step.work).max_failed_units):
            # Without these files, other documents are duplicates: nothing is cut until they are parsed, or
            # may be missing.
            return
        cut_file(self._files[unit], list(members), self._splitter, self._settings.min_words, self._step)


def _first_reject(step: Step[IngestCounts], outcome: Outcome[IngestCounts]) -> Rejected | None:
    parts = outcome.parts(REJECTS.name)[:1]
    return next(
        (row for part in parts for row in read_rows(step.run / REJECTS.name, part, Rejected, 0, 1)), None
    )


def check_counts(
    counts: IngestCounts, settings: Ingest, files: int, records: int = 0, first: Rejected | None = None
) -> None:
    """Pages in = documents out + rejects, and `records` wanted = records read + failures, always. `first`:
    the first of the rejects, for display.

    Raises JobError (65) if no document is left, or too much was refused."""
    counts.check_sums()
    if records != counts.records:
        raise RuntimeError(f"{records} records were wanted, {counts.records} asked for")

    if not counts.documents:
        place = f"in {counted(files, 'file')}"
        if not counts.pages:
            raise JobError(f"there is no page {place}", BAD_DATA)
        example = f"; the first, in {first.source_file}: {first.reason}, {first.detail}" if first else ""
        raise JobError(
            f"no document is left of {counted(counts.pages, 'page')} {place}: {_reasons(counts)}{example}",
            BAD_DATA,
        )

    share = counts.rejects / counts.pages
    if share > settings.max_reject_share:
        raise JobError(
            f"{share:.1%} of the pages were refused, more than ingest.max_reject_share = "
            f"{settings.max_reject_share:.1%}: "
            f"{_reasons(counts)}",
            BAD_DATA,
        )


def summary(run: Path) -> str:
    """One line for people, from the manifests."""
    counts = INGEST.counts_of(DOCUMENTS.open(run).manifest)
    clauses = [
        f"{counted(counts.pages, 'page')} = {counted(counts.documents, 'document')} + "
        f"{counted(counts.rejects, 'reject')} ({_reasons(counts)})",
        f"{counted(counts.passages, 'passage')}, {counted(counts.sentences, 'sentence')}",
    ]
    if counts.boilerplate_paragraphs:
        clauses.append(f"{counts.boilerplate_paragraphs:,} paragraphs of boilerplate left out")
    if counts.vanished:
        clauses.append(f"{counted(counts.vanished, 'document')} of the earlier run vanished")

    if counts.records:
        fates = f"{counts.records_read:,} read + {counts.records_failed:,} failed"
        clauses.append(f"{counts.records:,} records wanted = {fates}")

    if counts.unread:
        clauses.append(f"files in the input folders that are not read: {counts_by_reason(counts.unread)}")
    return f"ingest     {'; '.join(clauses)}"


def _reasons(counts: IngestCounts) -> str:
    return counts_by_reason(counts.rejected) or "none refused"


STEP = StepCode(ingest, check, step_of, run_checked=ingest_checked, foresee=foresee, join=join)
