"""What a user sees of an error that comes as text, or from a worker process: its message and exit code, and
no traceback."""

from __future__ import annotations

import shutil
import traceback

import pytest

from answermill.pipelines.engine.beam_errors import error_in, restored_errors
from answermill.pipelines.engine.protocol import Units
from answermill.pipelines.engine.runner import open_engine
from answermill.pipelines.errors import BAD_DATA, IO, UNAVAILABLE, JobError
from answermill.pipelines.revision import revision
from testing.command import call
from tests.made_steps import NoUnits


def as_beam_gives_it(error: Exception) -> str:
    """The traceback of an error and of the one that Beam makes of it, which says where in the pipeline it was
    raised."""
    try:
        try:
            raise error
        except type(error) as e:
            raise type(e)(f"{e} [while running 'Work']", *e.args[1:]) from None
    except type(error) as again:
        lines = "".join(traceback.format_exception(error)), "".join(traceback.format_exception(again))
        return (
            "bundle_5 failed: "
            + "\nDuring handling of the above exception, another exception occurred:\n".join(lines)
        )


def test_a_job_error_keeps_its_message_of_several_lines_and_its_code():
    error = error_in(as_beam_gives_it(JobError("part 3 was changed\nsince it was written", BAD_DATA)))
    assert isinstance(error, JobError)
    assert (str(error), error.code) == ("part 3 was changed\nsince it was written", BAD_DATA)


def test_a_defect_of_the_program_stays_as_beam_gives_it():
    text = as_beam_gives_it(ValueError("answermill.indexing.shards.shard: none of ours"))
    with pytest.raises(RuntimeError, match="none of ours") as e, restored_errors():
        raise RuntimeError(text)
    assert type(e.value) is RuntimeError


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'answermill'"),
        ModuleNotFoundError("No module named 'answermill.pipelines.steps.search'"),
        AttributeError(
            "Can't get attribute 'Search' on <module 'answermill.pipelines.steps.shard_search' from 'x.py'>"
        ),
    ],
)
def test_a_worker_that_lacks_the_package_or_a_part_of_it_is_one_line_and_69(error):
    cause = error_in(as_beam_gives_it(error))
    assert isinstance(cause, JobError) and cause.code == UNAVAILABLE
    assert (
        str(cause) == f"a worker has no answermill, or another than revision {revision()} of the command: "
        f"{type(error).__name__}: {error}"
    )
    assert error_in(as_beam_gives_it(ModuleNotFoundError("No module named 'another'"))) is None


def test_an_engine_that_lost_its_worker_is_one_line_and_74():
    lost = "io.grpc.StatusRuntimeException: CANCELLED: client cancelled"
    with (
        pytest.raises(JobError, match=r"the engine ended the job as FAILED: io\.grpc") as e,
        restored_errors(),
    ):
        raise RuntimeError(
            f"Pipeline BeamApp-1 failed in state FAILED: {lost}\n\tat io.grpc.Status.asRuntimeException"
        )
    assert e.value.code == IO
    assert "\n" not in str(e.value)


def test_a_prism_that_cannot_be_fetched_is_one_line_and_69():
    cause = error_in("Unable to fetch remote prism binary at https://a.example/p.zip: <urlopen error gone>")
    assert isinstance(cause, JobError) and cause.code == UNAVAILABLE
    assert str(cause) == (
        "Beam's prism https://a.example/p.zip cannot be fetched: <urlopen error gone>; download it elsewhere "
        "and name it with --prism_location"
    )


def test_a_job_server_that_is_not_there_is_74(tmp_path):
    job_server = [
        "--runner=PortableRunner",
        "--job_endpoint=localhost:1",
        "--environment_type=LOOPBACK",
        "--job_server_timeout=1",
    ]
    with (
        pytest.raises(JobError, match="no job server answers") as e,
        open_engine(job_server, 1, 1, tmp_path) as engine,
    ):
        engine.each("Work", Units.first(1), NoUnits("rerank", tmp_path))
    assert e.value.code == IO


def test_a_defect_that_was_raised_while_a_job_error_was_handled_is_a_defect():
    try:
        try:
            raise JobError("give a table", BAD_DATA)
        except JobError:
            raise KeyError("colour")  # noqa: B904
    except KeyError as defect:
        text = as_beam_gives_it(defect)
    assert "give a table\nexit code 65" in text and error_in(text) is None


def test_an_error_of_this_process_is_not_touched():
    with pytest.raises(FileNotFoundError), restored_errors():
        raise FileNotFoundError(2, "No such file or directory", "absent.tsv")


@pytest.fixture
def run(small_run, tmp_path):
    """A copy of the small run without what `retrieve` and later steps wrote."""
    shutil.copytree(small_run.parent, tmp_path / "small")
    for name in ("questions", "questions_rejects", "retrieved", "scored", "labels"):
        shutil.rmtree(tmp_path / "small" / "run" / name)
    return tmp_path / "small" / "run"


def test_a_damaged_shard_in_a_worker_process_exits_with_65(run, capfd):
    for vectors in (run / "shards").glob("*/dense.faiss"):
        content = bytearray(vectors.read_bytes())
        content[len(content) // 2] ^= 1
        vectors.write_bytes(content)
    settings = ("workers.processes=2", "retrieve.block=5")
    assert call("retrieve", run.parent / "job.toml", "--out", run, "--set", *settings) == 65
    err = capfd.readouterr().err
    assert "dense.faiss was changed since it was written (SHA-256)" in err
    assert "Traceback" not in err and "apache_beam" not in err


@pytest.mark.nightly
def test_a_changed_part_in_a_worker_process_exits_with_65(run, capfd):
    (part,) = (run / "passages").glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    shutil.rmtree(run / "shards")
    settings = ("workers.processes=2", "index.shards=2")
    assert call("index", run.parent / "job.toml", "--out", run, "--set", *settings) == 65
    err = capfd.readouterr().err
    assert "was changed since it was written (SHA-256)" in err
    assert "Traceback" not in err and "apache_beam" not in err
