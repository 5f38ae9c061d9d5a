"""A unit that fails by an error nobody expected: tried again, then among the rejects or named, whatever runs
it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import apache_beam as beam
import pytest

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.engine import beam_engine
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.unit_work import UnitWork
from answermill.pipelines.errors import BAD_DATA, IO, JobError
from answermill.pipelines.look.status import status
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.failures import Failures, Limits
from answermill.pipelines.runs.manifests.manifest import Manifest, read_manifest
from answermill.pipelines.runs.manifests.reports import units_done
from answermill.pipelines.runs.step import MARK
from answermill.pipelines.specs.ingest import DOCUMENTS, REJECTS
from answermill.pipelines.specs.rerank import RERANK, SCORED_REJECTS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.ingest import ingest
from answermill.pipelines.steps.rerank import rerank
from testing.engines import digests, job_service
from tests.failing import FailingCut, FailingParse, FailingStages, fail
from tests.made_steps import report

ENGINES = (
    "this process",
    *(
        pytest.param(engine, marks=pytest.mark.nightly)
        for engine in ("two processes", "Beam in this process", "a job service")
    ),
)


@contextmanager
def engine(name: str, job: Job) -> Iterator[tuple[Job, Sequence[str]]]:
    """The job and Beam's options for an engine."""
    workers = job.workers.model_copy(update={"processes": 2 if name == "two processes" else 1})
    here = ("--runner=DirectRunner",) if name == "Beam in this process" else ()
    with job_service() if name == "a job service" else nullcontext(here) as options:
        yield job.model_copy(update={"workers": workers}), options


def with_limits(job: Job, tries: int = 2, max_failed_units: int = 0) -> Job:
    limits = {"tries": tries, "max_failed_units": max_failed_units}
    return job.model_copy(update={"workers": job.workers.model_copy(update=limits)})


def run_step(job: Job, run: Path, step: str, beam_options: Sequence[str] = ()) -> str:
    (line,) = run_steps(job, run, [step], beam_options)
    return line


def manifest_of(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    assert manifest is not None
    return manifest


# One unit of a worker.


class Tried(UnitWork):
    """Fails by the errors that it is sent, one after the other, then emits the number of tries."""

    def work(self, unit: int, errors: list[Exception]) -> Iterator[int]:
        self.tries = getattr(self, "tries", 0) + 1
        if self.tries <= len(errors):
            raise errors[self.tries - 1]
        yield self.tries


class Emits(Tried):
    skips_reported = False


class MayBeMissing(Emits):
    may_be_missing = True


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The work folder of a step whose units are tried three times."""
    (tmp_path / MARK).touch()
    Limits(3).write(tmp_path)
    return tmp_path


def test_a_unit_that_fails_unexpectedly_is_tried_again_in_its_worker(begun: Path) -> None:
    assert Emits("rerank", begun).process((7, [OSError("gone"), KeyError("colour")])) == [3]
    assert Failures(begun).read() == {}


def test_a_unit_is_tried_as_often_as_the_limit_says_then_it_is_a_failure_with_its_traceback(
    begun: Path,
) -> None:
    function = Tried("rerank", begun)
    assert function.process((7, [KeyError(f"colour\n{n}") for n in range(5)])) == []
    assert function.tries == 3
    assert {unit: failure.reason for unit, failure in Failures(begun).read().items()} == {
        7: r"KeyError: 'colour\n2'"
    }
    assert "in work\n" in (begun / "failed/unit-00007.txt").read_text()


@pytest.mark.parametrize(
    "error",
    [
        JobError("damaged", BAD_DATA),
        OSError(28, "No space left on device"),
        RuntimeError("Java: Read-only file system"),
    ],
)
def test_what_a_user_can_mend_is_not_tried_again(begun: Path, error: Exception) -> None:
    function = Tried("rerank", begun)
    with pytest.raises(
        (JobError, RuntimeError), match=str(error.args[-1] if isinstance(error, OSError) else error.args[0])
    ):
        function.process((7, [error]))
    assert function.tries == 1 and Failures(begun).read() == {}


def test_what_later_stages_wait_for_ends_the_pipeline_unless_it_may_be_missing(begun: Path) -> None:
    errors = [KeyError("colour")] * 3
    with pytest.raises(JobError, match=r"^retrieve, unit 7: KeyError: 'colour'; the traceback is in ") as e:
        Emits("retrieve", begun).process((7, errors))
    assert e.value.code == IO
    assert MayBeMissing("retrieve", begun).process((7, errors)) == []


# A block of questions of rerank.


@pytest.fixture(scope="module")
def reranked(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """The small job in blocks of five questions, and a run of it up to answers."""
    job = load(
        small_run.parent / "job.toml", ["retrieve.block=5", "rerank.stages=[{reranker='overlap', keep=5}]"]
    )
    run = tmp_path_factory.mktemp("reranked")
    for folder in ("documents", "passages", "rejects", "shards"):
        shutil.copytree(small_run / folder, run / folder)
    list(run_steps(job, run, ["retrieve", "rerank"], ()))
    return job, run


@pytest.fixture
def retrieved(
    reranked: tuple[Job, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Job, Path]:
    """The job, and a copy of the run before rerank, whose units can be asked to fail."""
    monkeypatch.setattr(rerank, "RunStages", FailingStages)
    run = tmp_path / "run"
    shutil.copytree(reranked[1], run, ignore=shutil.ignore_patterns("scored", "scored_rejects", "answers*"))
    return reranked[0], run


def test_a_unit_that_succeeds_at_last_leaves_no_trace(
    reranked: tuple[Job, Path], retrieved: tuple[Job, Path]
) -> None:
    job, run = retrieved
    fail(run, 1, times=1)
    assert "failed" not in run_step(with_limits(job), run, "rerank")
    assert digests(run) == digests(reranked[1])
    assert not (run / "scored_rejects").exists()


@pytest.mark.parametrize("name", ENGINES[:2])
def test_too_many_failed_units_are_named_when_the_others_are_done_and_tried_again(
    reranked: tuple[Job, Path], retrieved: tuple[Job, Path], name: str
) -> None:
    job, run = retrieved
    causes = [fail(run, unit) for unit in (0, 2)]

    with (
        engine(name, with_limits(job, max_failed_units=1)) as (limited, options),
        pytest.raises(
            JobError,
            match=r"^units 0, 2 of rerank failed, 1 of 3 are done: unit 0: KeyError: 'colour of unit 0'; ",
        ) as e,
    ):
        run_step(limited, run, "rerank", options)

    assert e.value.code == IO
    assert "; unit 2: KeyError: 'colour of unit 2'. The tracebacks" in str(e.value)
    assert "workers.max_failed_units = 2 lets it end without them" in str(e.value)
    assert {state for step, _, _, state in status(run) if step == "rerank"} == {
        "begun, 1 units done, 2 units failed"
    }
    (work,) = (run / "_work").iterdir()
    done = (work / "unit-00001.json").stat().st_mtime_ns
    causes[0].unlink()

    with pytest.raises(JobError, match=r"^unit 2 of rerank failed, 2 of 3 are done"):
        run_step(job, run, "rerank")
    assert (work / "unit-00001.json").stat().st_mtime_ns == done
    causes[1].unlink()
    run_step(job, run, "rerank")
    assert digests(run) == digests(reranked[1])


@pytest.mark.parametrize("name", ENGINES)
def test_a_failed_block_is_rejects_and_the_rest_as_ever(
    reranked: tuple[Job, Path], retrieved: tuple[Job, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = retrieved
    fail(run, 1)
    roots: list[beam.Pipeline] = []
    new_pipeline = beam_engine.new_pipeline
    monkeypatch.setattr(
        beam_engine, "new_pipeline", lambda *arguments: roots.append(new_pipeline(*arguments)) or roots[-1]
    )

    with engine(name, with_limits(job, max_failed_units=1)) as (job, options):
        line = run_step(job, run, "rerank", options)
        ran = [root for root in roots if hasattr(root, "result")]  # others were made to check the options
        metrics = ran[0].result.metrics().query()["counters"] if ran else ()
        counters = {each.key.metric.name: each.result or 0 for each in metrics}

    rejects = list(SCORED_REJECTS.open(run).read())
    assert {(reject.reason, reject.detail.partition(": ")[2]) for reject in rejects} == {
        ("unit_failed", "KeyError: 'colour of unit 1'")
    }
    hits = list(RETRIEVED.open(run).read())
    for reject in rejects:
        mine = [hit for hit in hits if hit.question_id == reject.source_record]
        assert reject.detail.startswith(f"{len(mine)} passages: ")

    counts = RERANK.counts_of(manifest_of(run / "scored"))
    assert counts.rejects == len(rejects) == 5 and f"+ {len(rejects)} rejects (unit_failed)" in line
    assert counts.passages + counts.rejected_passages == len(hits)

    if ran:
        of_units = {
            name: n for name, n in counts.flat() if "reject" not in name and name not in counts.peaks()
        }
        assert +Counter(counters) == Counter(of_units)
        assert counters["failed_units"] == 1

    assert counts.failed_units == 1
    written, whole = manifest_of(run / "scored").parts, manifest_of(reranked[1] / "scored").parts
    assert (written[0], written[2]) == (whole[0], whole[2]) and written[1].rows == 0
    answers = [json.loads(answer) for answer in (run / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 15
    assert {a["question_id"] for a in answers if a["answer"] is None} >= {
        reject.source_record for reject in rejects
    }
    assert {state for step, _, _, state in status(run) if step == "rerank"} >= {
        "complete, 3 parts, 1 unit failed"
    }

    assert Commit(rerank.step_of(job, run)).is_complete()
    shutil.rmtree(run / "scored_rejects")
    assert not Commit(rerank.step_of(job, run)).is_complete()


def test_a_failed_unit_is_tried_again_also_when_its_rejects_are_reported(
    reranked: tuple[Job, Path], retrieved: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was killed between the rejects and the manifests."""
    job, run = retrieved
    cause = fail(run, 1)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(rerank, "write_jsonl", killed)
        run_step(with_limits(job, max_failed_units=1), run, "rerank")
    cause.unlink()
    run_step(job, run, "rerank")
    assert digests(run) == digests(reranked[1])


# A file of ingest.


@pytest.fixture
def crawl(tmp_path: Path) -> Job:
    """Three files of ten pages; the second repeats the last five of the first."""
    for file in range(3):
        first = (0, 5, 20)[file]
        pages = [
            {"id": f"d{file}-{n}", "text": f"The comet {n} was seen from the river by day {n}."}
            for n in range(first, first + 10)
        ]
        (tmp_path / f"pages-{file}.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["*.jsonl"]\nmin_words = 1\n')
    return load(tmp_path / "job.toml")


def parts(run: Path) -> dict[str, list[str]]:
    return {
        name: [part.sha256 for part in manifest_of(run / name).parts]
        for name in ("documents", "passages", "rejects")
    }


def reasons(run: Path) -> Counter[str]:
    return Counter(reject.reason for reject in REJECTS.open(run).read())


@pytest.mark.parametrize("name", ENGINES)
def test_a_file_that_cannot_be_parsed_is_one_reject_and_its_pages_are_no_duplicates(
    crawl: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ingest, "ParsePages", FailingParse)
    run = tmp_path / "run"
    fail(run, 0, stage="parse")
    with engine(name, with_limits(crawl, max_failed_units=1)) as (job, options):
        assert "21 pages = 20 documents + 1 reject (1 unit_failed)" in run_step(job, run, "ingest", options)
    (reject,) = REJECTS.open(run).read()
    assert (reject.source_file, reject.detail) == ("pages-0.jsonl", "KeyError: 'colour of unit 0'")
    assert manifest_of(run / "documents").counts["failed_units"] == 1
    assert run_step(crawl, run, "ingest").endswith("(complete)")


def test_files_beyond_the_budget_stop_the_cut_and_are_parsed_alone_by_the_next_run(
    crawl: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step(crawl, tmp_path / "whole", "ingest")
    monkeypatch.setattr(ingest, "ParsePages", FailingParse)
    run = tmp_path / "run"
    cause = fail(run, 0, stage="parse")
    with pytest.raises(JobError, match=r"^unit 0 of ingest failed, 0 of 3 are done: unit 0: KeyError") as e:
        run_step(with_limits(crawl), run, "ingest")
    assert e.value.code == IO
    (work,) = (run / "_work").iterdir()
    assert units_done(work / "parsed") == {1, 2}
    cause.unlink()
    run_step(crawl, run, "ingest")
    assert parts(run) == parts(tmp_path / "whole")


def test_a_file_that_failed_when_others_were_cut_without_it_has_them_cut_again(
    crawl: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the pages that its own come before would stay."""
    run_step(crawl, tmp_path / "whole", "ingest")
    monkeypatch.setattr(ingest, "ParsePages", FailingParse)
    monkeypatch.setattr(ingest, "CutPassages", FailingCut)
    run = tmp_path / "run"
    causes = [fail(run, 0, stage="parse"), fail(run, 2, stage="cut")]
    with pytest.raises(JobError, match=r"^units 0, 2 of ingest failed, 1 of 3 are done"):
        run_step(with_limits(crawl, max_failed_units=1), run, "ingest")
    for cause in causes:
        cause.unlink()
    run_step(crawl, run, "ingest")
    assert parts(run) == parts(tmp_path / "whole")


def test_the_pages_of_a_file_that_cannot_be_cut_are_rejects_each(
    crawl: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CutPassages", FailingCut)
    run = tmp_path / "run"
    fail(run, 2, stage="cut")
    assert "30 pages = 15 documents + 15 rejects" in run_step(
        with_limits(crawl, max_failed_units=1), run, "ingest"
    )
    assert reasons(run) == {"duplicate": 5, "unit_failed": 10}
    assert len(list(DOCUMENTS.open(run).read())) == 15


def test_a_file_that_vanishes_is_named(crawl: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    define = ingest.define

    def without_the_second(engine: Engine, *arguments: object) -> None:
        (tmp_path / "pages-1.jsonl").unlink()
        define(engine, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ingest, "define", without_the_second)
    with pytest.raises(JobError, match=r"unit 1: FileNotFoundError: .*pages-1\.jsonl") as e:
        run_step(with_limits(crawl), tmp_path / "run", "ingest")
    assert e.value.code == IO


def test_a_report_outweighs_a_failure_of_another_attempt(tmp_path: Path, retrieved: tuple[Job, Path]) -> None:
    job, run = retrieved
    step = rerank.step_of(job, run)
    Commit(step).begin()
    Failures(step.work).write(0, KeyError("colour"))
    step.reports.write(report(0))
    assert list(Commit(step).reported(1).units) == ["0"]
