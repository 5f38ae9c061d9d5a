"""Every file of an input folder is read or counted, and has a name that can be written, whatever its bytes
are."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, REJECTS
from answermill.pipelines.steps.ingest import crawl_files
from answermill.pipelines.steps.ingest.crawl_files import FileList, find_files, units_of, written_name
from answermill.pipelines.steps.ingest.ingest import ingest

TEXT = "The quick brown fox jumps over the lazy dog while the river runs slowly to the wide grey sea number"
NAMES = {
    b"plain.jsonl": "plain.jsonl",
    b"caf\xe9.jsonl": r"caf\xe9.jsonl",
    "café.jsonl".encode(): "café.jsonl",
    b"line\nend.jsonl": r"line\u000aend.jsonl",
    "left\u202eright.jsonl".encode(): r"left\u202eright.jsonl",
    rb"caf\xe9.jsonl": r"caf\\xe9.jsonl",
    b"w[1]*?.jsonl": "w[1]*?.jsonl",
    b"a" * 239 + b".jsonl": "a" * 239 + ".jsonl",
}


def job_of(folder: Path, pattern: str = "crawl"):
    (folder / "job.toml").write_text(f"[ingest]\ninput = [{json.dumps(pattern)}]\nmin_words = 5\n")
    return load(folder / "job.toml")


@pytest.mark.parametrize("pattern", ["crawl", "crawl/*.jsonl"])
def test_a_file_of_any_name_is_read_and_has_a_name_that_can_be_written(tmp_path, pattern):
    (tmp_path / "crawl").mkdir()
    for number, name in enumerate(NAMES):
        (tmp_path / "crawl" / os.fsdecode(name)).write_text(
            json.dumps({"id": str(number), "text": f"{TEXT} {number}."})
        )
    ingest(job_of(tmp_path, pattern), tmp_path / "run")
    documents = DOCUMENTS.open(tmp_path / "run")
    written = {row.doc_id: row.source_file for row in documents.read()}
    assert written == {str(number): f"crawl/{name}" for number, name in enumerate(NAMES.values())}
    assert set(written.values()) <= documents.manifest.inputs.keys()


def test_a_written_name_says_which_bytes_it_stands_for(tmp_path):
    for name, written in NAMES.items():
        assert written_name(Path(os.fsdecode(name)), Path()) == written
        escapes = re.compile(r"\\x(..)|\\u(....)|\\\\")
        back = escapes.sub(
            lambda m: (
                "\\"
                if m[0] == "\\\\"
                else chr(int(m[2], 16))
                if m[2]
                else os.fsdecode(bytes([int(m[1], 16)]))
            ),
            written,
        )
        assert os.fsencode(back) == name


def test_files_outside_the_job_s_folder_have_names_relative_to_it(tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "a.jsonl").write_text("{}")
    job = job_of(tmp_path / "jobs", str(tmp_path / "a.jsonl"))
    assert [file.name for file in find_files(job, job.ingest).files] == ["../a.jsonl"]


def test_what_is_not_read_of_a_folder_is_counted_and_empty_files_are_rejects(tmp_path):
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps({"id": "a", "text": f"{TEXT} 1."}))
    (folder / "psgs.tsv").write_text(f"id\ttext\ttitle\np\t{TEXT} 2.\tT\n")
    (folder / "empty.warc.gz").write_bytes(b"")
    for name in ("a.jsonl.md5", "b.warc.gz.md5", "c.arc", "d.wacz", "labels.tsv", "README"):
        (folder / name).write_text("question_id\tlabel\n")
    job = job_of(tmp_path)
    files, unread, tables = find_files(job, job.ingest)
    assert [file.path.name for file in files] == ["a.jsonl", "empty.warc.gz", "psgs.tsv"]

    assert unread == {".md5": 2, ".arc": 1, ".wacz": 1, ".tsv": 1, "no suffix": 1}
    assert [table.name for table in tables] == ["psgs.tsv"]
    summary = ingest(job, tmp_path / "run")
    assert "3 pages = 2 documents + 1 reject (1 empty_file)" in summary
    assert summary.endswith("are not read: 2 .md5, 1 .arc, 1 .tsv, 1 .wacz, 1 no suffix")
    rejects = REJECTS.open(tmp_path / "run")
    assert [(row.source_file, row.reason) for row in rejects.read()] == [
        ("crawl/empty.warc.gz", "empty_file")
    ]

    assert INGEST.counts_of(rejects.manifest).unread[".md5"] == 2


def test_damaged_parquet_beside_a_good_file_does_not_end_the_step(tmp_path):
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps({"id": "a", "text": f"{TEXT} 1."}))
    (folder / "b.parquet").write_bytes(b"PAR1 and nothing else")
    assert "2 pages = 1 document + 1 reject (1 broken_record)" in ingest(job_of(tmp_path), tmp_path / "run")


def test_a_large_file_of_this_machine_is_several_units(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "A"}\n' * 10)
    (tmp_path / "b.jsonl").write_text('{"id": "b", "text": "B"}\n' * 4)
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["*.jsonl"]\n')
    job = load(tmp_path / "job.toml")
    files = find_files(job, job.ingest).files
    assert units_of(files) == files

    monkeypatch.setattr(crawl_files, "UNIT_BYTES", 100)
    units = units_of(files)
    assert [(unit.number, unit.name, unit.within) for unit in units] == [
        (0, "a.jsonl", (0, 83)),
        (1, "a.jsonl", (83, 166)),
        (2, "a.jsonl", (166, None)),
        (3, "b.jsonl", (0, None)),
    ]
    assert [unit.size for unit in units] == [83, 83, 83, 100]
    assert [unit.is_first for unit in units] == [True, False, False, True]
    assert not FileList.differs(units, tmp_path)
    FileList.write(units, tmp_path)
    assert list(FileList(tmp_path)) == units
    assert not FileList.differs(units, tmp_path) and FileList.differs(units[:2], tmp_path)


@pytest.mark.parametrize("out", ["run", "deep/run", "."])
def test_what_runs_have_written_and_the_jobs_other_files_are_no_pages(tmp_path, out):
    pages = [json.dumps({"id": name, "text": f"{TEXT} {name}."}) + "\n" for name in ("one", "two")]
    (tmp_path / "pages.jsonl").write_text("".join(pages))
    (tmp_path / "questions.jsonl").write_text('{"question_id": "q", "text": "Who jumps over the dog?"}\n')
    (tmp_path / "labels.tsv").write_text("question_id\tsentence\tlabel\nq\tThe fox.\t1\n")
    (tmp_path / "job.toml").write_text(
        '[ingest]\ninput = ["."]\nmin_words = 5\n[retrieve]\nquestions = "questions.jsonl"\n'
        '[propagate]\nlabels = "labels.tsv"\n'
    )
    run = tmp_path / out
    first = ingest(load(tmp_path / "job.toml"), run)
    assert "2 pages = 2 documents" in first
    (run / "answers.jsonl").write_text('{"question_id": "q", "text": "An answer."}\n')
    (run / "_work" / "rerank-0").mkdir(parents=True)
    (run / "_work" / "rerank-0" / "unit-00000.jsonl").write_text("{}\n")
    assert ingest(load(tmp_path / "job.toml"), run).endswith("(complete)")
