"""An input file is known by its size and content: a copy with other dates is the same, a changed byte is
another."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from answermill.files.atomic_files import sha256
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.step import WORK
from answermill.pipelines.specs.ingest import DOCUMENTS, INPUTS
from answermill.pipelines.steps.ingest import ingest, input_digests
from answermill.pipelines.steps.ingest.crawl_files import InputFile
from answermill.pipelines.steps.ingest.input_digests import changed, confirm, write_dates

TEXT = "The quick brown fox jumps over the lazy dog while the river runs slowly to the wide grey sea number"


def touch(path):
    """Give a file another date."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


@pytest.fixture
def files(tmp_path):
    inputs = []
    for number, name in enumerate(("a", "b")):
        (tmp_path / name).write_text(name * 9)
        inputs.append(InputFile(number, tmp_path / name, name))
    write_dates(tmp_path, inputs)
    return inputs


def test_a_file_of_the_same_date_is_not_read_and_one_of_another_is(files, tmp_path, monkeypatch):
    digests, read = {file.name: sha256(file.path) for file in files}, []
    monkeypatch.setattr(input_digests, "sha256", lambda path: read.append(path.name) or sha256(path))
    confirm(files, digests, tmp_path)
    assert read == []
    touch(tmp_path / "b")
    confirm(files, digests, tmp_path)
    confirm(files, digests, tmp_path)
    assert read == ["b"]
    (tmp_path / INPUTS.path).unlink()

    confirm(files, digests, tmp_path)
    assert sorted(read) == ["a", "b", "b"]
    (tmp_path / INPUTS.path).write_text("[]")
    assert changed(files, {}, tmp_path) == changed(files, digests, tmp_path) == []


def test_a_changed_byte_is_refused_and_says_so(files, tmp_path):
    digests = {file.name: sha256(file.path) for file in files}
    (tmp_path / "b").write_text("bbbbbbbbc")
    touch(tmp_path / "b")
    assert changed(files, digests, tmp_path) == ["b"]
    for _ in range(2):
        with pytest.raises(
            JobError, match=r"input b has the same size, but another content \(SHA-256\)"
        ) as e:
            confirm(files, digests, tmp_path)
        assert e.value.code == OUTPUT_EXISTS


def job_of(folder, texts=("one", "two")):
    """A job over two files."""
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        row = {"id": f"d{number}", "text": f"{TEXT} {text}."}
        (folder / f"{number}.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "job.toml").write_text('[ingest]\ninput = ["*.jsonl"]\nmin_words = 5\n')
    return load(folder / "job.toml")


def test_a_copied_run_is_complete_and_one_with_a_changed_byte_is_refused(tmp_path):
    job = job_of(tmp_path / "there")
    ingest.ingest(job, tmp_path / "there/run")
    assert not (tmp_path / "there/run" / WORK).exists()
    shutil.copytree(tmp_path / "there", tmp_path / "here", copy_function=shutil.copyfile)
    touch(tmp_path / "here/0.jsonl")
    copied = load(tmp_path / "here/job.toml")
    assert ingest.ingest(copied, tmp_path / "here/run").endswith("(complete)")
    page = tmp_path / "here/1.jsonl"
    page.write_text(page.read_text().replace("two", "six"))

    touch(page)
    with pytest.raises(JobError, match=r"input 1.jsonl has the same size, but another content") as e:
        ingest.ingest(copied, tmp_path / "here/run")
    assert e.value.code == OUTPUT_EXISTS


def test_a_stopped_run_goes_on_with_the_same_files_and_begins_again_with_others(
    tmp_path, monkeypatch, capsys
):
    job, run = job_of(tmp_path), tmp_path / "run"
    parse_file, parsed = ingest.parse_file, []

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, "cut_file", stopped)
    with pytest.raises(BaseException):  # noqa: B017  # Beam wraps what a worker raises
        ingest.ingest(job, run)
    touch(tmp_path / "0.jsonl")
    monkeypatch.setattr(
        ingest, "parse_file", lambda file, *others: parsed.append(file.name) or parse_file(file, *others)
    )
    with pytest.raises(BaseException):  # noqa: B017
        ingest.ingest(job, run)

    assert parsed == []
    page = tmp_path / "1.jsonl"
    page.write_text(page.read_text().replace("two", "six"))
    touch(page)
    monkeypatch.undo()
    ingest.ingest(job, run)
    assert (
        "ingest begins again: 1 of its input files changed since it was stopped, 1.jsonl first"
        in capsys.readouterr().err
    )

    texts = [row.text for row in DOCUMENTS.open(run).read()]
    assert texts == [f"{TEXT} one.", f"{TEXT} six."]
