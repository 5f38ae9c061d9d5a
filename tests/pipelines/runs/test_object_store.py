"""A run in an object store is that on a disk, by any workers, and after any refusal of the store; or nothing
is committed."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import s3fs

from answermill.__main__ import main
from answermill.files import object_store
from answermill.files.atomic_files import sha256, write_text
from answermill.files.remote import Remote, _filesystem
from answermill.files.store import put, remove_tree
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import IO, OUTPUT_EXISTS, JobError
from answermill.pipelines.look.status import status
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests import manifest as manifests
from answermill.pipelines.runs.manifests.manifest import MANIFEST, read_manifest
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.schemas.corpus import Question
from testing.object_store import Fault, ObjectStore
from tests.made_steps import made_step, report
from tests.pipelines.engine.test_worker_pool import STEPS, by_two, in_process, job, may_mount, pool

__all__ = ["in_process", "job"]  # fixtures
JOB = """
[ingest]
input = ["*.jsonl"]
min_words = 1
[index]
shards = 2
encoder = "encoder"
[retrieve]
questions = "questions.jsonl"
depth = 5
block = 3
[[rerank.stages]]
reranker = "overlap"
"""
"""The fixture `job` as a file beside its input."""


@pytest.fixture
def folder(
    s3: ObjectStore, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Remote]:
    """A folder of the store, and a cache, of this test alone; processes that it starts have the same."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    s3.requests.clear()
    folder = s3.folder(re.sub(r"\W", "-", request.node.name))
    yield folder
    remove_tree(folder)


@pytest.fixture
def stored_job(job: Job, folder: Remote, tmp_path: Path) -> Job:
    """The job, with all files that it names in the store."""
    for file in [path for path in job.folder.rglob("*") if path.is_file()]:
        shutil.copy(file, tmp_path / "copy")
        put(tmp_path / "copy", folder / "job" / file.relative_to(job.folder))
    settings = job.model_dump(exclude_none=True)
    settings["ingest"]["input"] = ["*.jsonl"]
    settings["index"]["encoder"] = str(folder / "job" / "encoder")
    settings["retrieve"]["questions"] = str(folder / "job" / "questions.jsonl")
    stored = Job.model_validate(settings)
    stored._folder = folder / "job"
    return stored


def files(run: Path) -> dict[str, str]:
    """The committed files that are the same on every run, with their SHA-256: all but Lucene's, whose ids are
    drawn, and the times of steps."""
    names = {path: path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    drawn = re.compile(r"shards/|_manifest.json|inputs.json|^\.clock.json")
    return {name: sha256(path) for path, name in names.items() if not drawn.search(name)}


def test_a_run_in_a_store_has_the_bytes_of_one_on_a_disk(
    stored_job: Job, in_process: Path, folder: Remote, s3: ObjectStore
) -> None:
    run = folder / "run"
    s3.requests.clear()
    list(run_steps(stored_job, run, STEPS, ()))
    assert files(run) == files(in_process) and len(files(run)) > 8
    puts = Counter(path for method, path in s3.requests if method == "PUT")
    again = {path for path in puts if puts[path] > 1}
    assert again <= {path for path in puts if path.endswith(("limits.json", ".running.json"))}
    assert not s3.count("POST", "uploads"), "each file is put by one request"
    assert len(s3.requests) < 1_000

    rows = {name: (rows, state) for _, name, rows, state in status(run)}
    assert rows == {name: (rows, state) for _, name, rows, state in status(in_process)}
    s3.requests.clear()
    list(run_steps(stored_job, run, STEPS, ()))
    assert not s3.count("PUT") and not s3.count("DELETE"), "what is complete is not touched"


@pytest.mark.nightly
def test_a_run_in_a_store_takes_shards_over_from_another_there(
    stored_job: Job, job: Job, folder: Remote, tmp_path: Path
) -> None:
    steps = ("ingest", "index", "retrieve")
    list(run_steps(stored_job, folder / "former", steps[:2], ()))
    pages = (job.folder / "pages-1.jsonl").read_text().splitlines(keepends=True)
    write_text(folder / "job" / "pages-1.jsonl", "".join(pages[2:]))
    index = stored_job.index.model_copy(update={"since": str(folder / "former")})
    list(run_steps(stored_job.model_copy(update={"index": index}), folder / "updated", steps, ()))
    list(run_steps(stored_job, tmp_path / "anew", steps, ()))

    counts = INDEX.counts_of(SHARDS.open(folder / "updated").manifest)
    assert (counts.taken_over, counts.tombstones) == (17, 2)
    rows = [list(RETRIEVED.open(run).read()) for run in (folder / "updated", tmp_path / "anew")]
    assert rows[0] == rows[1]
    assert list(Verification(folder / "updated").findings()) == []


def of_cells(job: Job) -> Job:
    """The job with an index of cells."""
    settings = job.model_dump(exclude_none=True)
    settings["index"] |= {"vectors": "IVF2,SQ8", "min_recall": 0.9}
    other = Job.model_validate(settings)
    other._folder = job.folder
    return other


def test_shards_of_codes_in_a_store_give_what_they_give_on_a_disk(
    job: Job, stored_job: Job, folder: Remote, tmp_path: Path
) -> None:
    list(run_steps(of_cells(job), tmp_path / "run", STEPS, ()))
    list(run_steps(of_cells(stored_job), folder / "run", STEPS, ()))
    assert files(folder / "run") == files(tmp_path / "run")
    quantizers = [sha256(run / "shards/quantizer.faiss") for run in (tmp_path / "run", folder / "run")]
    assert quantizers[0] == quantizers[1]


def test_what_is_measured_of_scores_in_a_store_is_that_of_scores_on_a_disk(
    in_process: Path, folder: Remote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = SCORED.open(in_process)
    pairs = dict.fromkeys((row.question_id, row.candidate_id) for row in scored.read())
    (tmp_path / "qrels").write_text(
        "".join(f"{q} 0 {c} {n % 2}\n" for n, (q, c) in enumerate(pairs)), encoding="utf-8"
    )
    for file in (*(in_process / "scored").iterdir(), tmp_path / "qrels"):
        shutil.copy(file, tmp_path / "copy")
        put(tmp_path / "copy", folder / file.parent.name / file.name)

    weights = tmp_path / "weights.json"
    tables = []
    for run, its in ((in_process, tmp_path), (folder, folder / tmp_path.name)):
        scores, labels = str(run / "scored"), ["--labels", str(its / "qrels")]
        for words in (
            ["evaluate", scores, *labels, "--protocol", "raw"],
            ["compare", scores, scores, *labels, "--protocol", "raw"],
            ["weights", scores, *labels, "--names", "bm25", "dense", "--out", str(weights), "--folds", "2"],
        ):
            with pytest.raises(SystemExit) as e:
                main(words)
            assert e.value.code == 0, capsys.readouterr().err
            # After the labels' name.
            tables.append(capsys.readouterr().out.replace(scores, "scored").partition("\n")[2])
        tables.append(weights.read_text())

    assert tables[:4] == tables[4:] and all("MAP" in table for table in tables[:2])


@pytest.mark.nightly
def test_a_job_file_and_a_run_can_be_named_by_url_through_the_commands(
    stored_job: Job, in_process: Path, folder: Remote, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(folder / "job" / "job.toml", JOB)
    job, run = f"{folder}/job/job.toml", f"{folder}/run"
    for words in (["run", job, "--out", run, "--no-report"], ["status", run], ["verify", run]):
        with pytest.raises(SystemExit) as e:
            main(words)
        assert not e.value.code, capsys.readouterr().err
    assert f"in {run}: `answermill status {run}` shows" in (said := capsys.readouterr().out)
    assert "complete: all that was begun\n" in said and "rows: all as they were written" in said
    assert files(folder / "run") == files(in_process)


@pytest.mark.nightly
@pytest.mark.skipif(not may_mount(), reason="needs the right to mount file systems")
def test_workers_that_share_no_disk_with_the_command_write_the_same_bytes(
    stored_job: Job, job: Job, in_process: Path, folder: Remote, tmp_path: Path
) -> None:
    hidden = (job.folder, in_process, tmp_path / "temporary")
    island = "".join(f"mount -t tmpfs none {path} && " for path in hidden) + f"TMPDIR={hidden[-1]} "
    with pool(tmp_path, island.replace("TMPDIR", "export TMPDIR").rstrip() + " && ", island=True) as options:
        list(run_steps(by_two(stored_job), folder / "run", STEPS, options))
    assert files(folder / "run") == files(in_process)


@pytest.mark.nightly
@pytest.mark.parametrize(("puts", "answer"), [(2, 0), (9, 403), (16, 403)])
def test_after_the_store_has_died_the_same_command_goes_on(
    stored_job: Job, in_process: Path, folder: Remote, s3: ObjectStore, puts: int, answer: int
) -> None:
    """As a kill at this moment would leave it: whole files, and no manifest that names others. The answer 0
    is none: the store closes the connection, and libraries ask again."""
    run, seen = folder / "run", Counter[str]()

    def dies(method: str, path: str) -> int | None:
        seen[method] += 1
        return answer if seen["PUT"] > puts else None

    with s3.failing(dies), pytest.raises((JobError, OSError)) as e:
        list(run_steps(stored_job, run, STEPS, ()))
    assert getattr(e.value, "code", IO) == IO and "s3://bucket/" in str(e.value)
    for path in run.glob("*/_manifest.json"):
        manifest = read_manifest(path.parent)
        assert manifest is not None and list(manifest.damage(path.parent, checksums=True)) == []

    list(run_steps(stored_job, run, STEPS, ()))
    assert files(run) == files(in_process), "nothing is left over, and nothing is missing"


def refuse(status: int, part: str = "") -> Fault:
    return lambda method, path: status if part in path else None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (refuse(503), "the store did not do it"),
        (refuse(403), "the store refuses the credentials"),
        (
            lambda method, path: 404 if method in ("GET", "HEAD") and "unit-0" in path else None,
            "no such file in the store",
        ),
    ],
    ids=["busy", "refused", "forgets"],
)
def test_what_a_store_refuses_ends_the_step_before_anything_is_committed(
    folder: Remote, s3: ObjectStore, fault: Fault, message: str
) -> None:
    step = questions_step(folder / "run")
    Commit(step).begin()
    do(step, 0)
    with s3.failing(fault), pytest.raises(OSError, match=message):
        finish(step)
    assert read_manifest(folder / "run" / "questions") is None
    finish(step)
    assert Commit(step).is_complete()


def test_a_store_that_takes_a_file_and_never_answers_is_an_error(
    folder: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("a line")
    monkeypatch.setattr(object_store, "PATIENCE_S", 1)
    with (
        # The system takes connections, and nobody reads them.
        socket.create_server(("127.0.0.1", 0)) as silent,
        monkeypatch.context() as patch,
        no_store_is_known(),
    ):
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(OSError, match=r"s3://bucket/.*/file: the store did not do it \(FSTimeoutError"):
            put(tmp_path / "file", folder / "file")
    assert not (folder / "file").exists(), "the store of the other tests is asked again, whatever came"


@contextmanager
def no_store_is_known() -> Iterator[None]:
    """The block begins, and ends, as a process that has asked no store yet."""
    for clear in (_filesystem.cache_clear, s3fs.S3FileSystem.clear_instance_cache):
        clear()
    try:
        yield
    finally:
        for clear in (_filesystem.cache_clear, s3fs.S3FileSystem.clear_instance_cache):
            clear()


def test_a_bucket_that_is_not_there_is_refused_before_any_work(job: Job, s3: ObjectStore) -> None:
    with pytest.raises(
        FileNotFoundError, match="s3://nobody/run: no such file in the store, or no such bucket"
    ):
        list(run_steps(job, Remote("s3://nobody/run"), STEPS, ()))


def test_of_two_jobs_in_one_folder_the_second_to_end_is_refused_and_the_first_stays_whole(
    folder: Remote,
) -> None:
    first, second = (questions_step(folder / "run", depth=depth) for depth in (10, 20))
    for step in (first, second):
        Commit(step).begin()
        do(step, 0, f"of {step.settings['depth']}")

    finish(first)
    for late in (
        lambda: finish(second),
        lambda: Commit(second).reported(1),
        Commit(second).begin,
        Commit(second).is_complete,
    ):
        with pytest.raises(JobError) as e:
            late()
        assert e.value.code == OUTPUT_EXISTS, str(e.value)

    assert [row.text for row in QUESTIONS.open(folder / "run").read()] == ["of 10"]


def test_a_command_that_begins_while_another_works_takes_nothing_from_it(folder: Remote) -> None:
    first, same = questions_step(folder / "run"), questions_step(folder / "run")
    Commit(first).begin()
    with PartWriter(first.run / "questions", Question, 0) as unreported:
        unreported.write([Question("0", "of a unit that has not reported yet")])
    Commit(same).begin()
    first.reports.write(report(0, {"questions": unreported.parts}))
    finish(first)
    assert Commit(first).is_complete()


def test_what_the_sweep_after_the_commit_leaves_is_all_that_the_manifest_names(
    folder: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "IN_JSON", 0)  # so its tables are files beside it
    step = questions_step(folder / "run")
    Commit(step).begin()
    with PartWriter(step.run / "questions", Question, 1) as lost:
        lost.write([Question("1", "of an attempt that was killed")])
    do(step, 0)
    finish(step)
    assert Commit(step).is_complete() and len(list(QUESTIONS.open(folder / "run").read())) == 1
    left = {path.name for path in (folder / "run" / "questions").iterdir()}

    manifest = read_manifest(folder / "run" / "questions")
    assert manifest is not None and len(manifest.tables) == 4
    tables = {table.file for table in manifest.tables.values()}
    assert left == {MANIFEST, *tables, *(part.file for part in manifest.parts)}


def questions_step(run: Path, **settings: int) -> Step:
    return made_step(run, "retrieve", {"questions": Question}, settings, {}, units_stand_alone=True)


def do(step: Step, unit: int, text: str = "?") -> None:
    with PartWriter(step.run / "questions", Question, unit) as writer:
        writer.write([Question(f"{unit}", text)])
    step.reports.write(report(unit, {"questions": writer.parts}, rows=1))


def finish(step: Step) -> None:
    outcome = Commit(step).reported(1)
    Commit(step).finish(outcome)
