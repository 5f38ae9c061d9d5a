from __future__ import annotations

import json
import resource
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest, read_manifest
from answermill.pipelines.runs.parquet_folder import (
    Folder,
    PartWriter,
    read_part,
    read_rows,
    sweep,
    whole_file,
)
from answermill.pipelines.runs.spec import Maker
from answermill.pipelines.specs import retrieve
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.schemas.corpus import Passage, Question, Sentence

QUESTIONS = [Question(f"q{n}", f"Which number is {n}?") for n in range(5_000)]


def write(folder, rows, unit=0):
    with PartWriter(folder, Question, unit) as writer:
        for row in rows:
            writer.write([row])
    return writer.part


def commit(folder, *parts, fingerprint="f", record=Question):
    rows = sum(part.rows for part in parts)
    Manifest(
        Maker("step"), record.__name__, record.fingerprint(), fingerprint, {}, {}, "1", rows, {}, parts
    ).write(folder)


def test_what_was_written_is_read_in_its_order(tmp_path):
    commit(tmp_path, write(tmp_path, QUESTIONS[:3_000], 0), write(tmp_path, QUESTIONS[3_000:], 1))
    folder = Folder.open(tmp_path, retrieve.QUESTIONS)
    assert folder.rows == 5_000
    assert list(folder.read()) == QUESTIONS


def test_a_part_is_written_in_row_groups_so_that_memory_does_not_grow_with_it(tmp_path):
    part = write(tmp_path, QUESTIONS)
    assert pq.ParquetFile(tmp_path / part.file).num_row_groups == 3


def test_the_same_rows_give_the_same_bytes_and_name(tmp_path):
    assert write(tmp_path / "a", QUESTIONS) == write(tmp_path / "b", QUESTIONS)


def test_a_part_without_rows_is_a_part(tmp_path):
    commit(tmp_path, write(tmp_path, []))
    assert list(Folder.open(tmp_path, retrieve.QUESTIONS).read()) == []


@pytest.mark.parametrize(("size", "rows"), [(2, 1), (3_000, 5_000), (3_000, 100)])
def test_a_part_that_the_disk_has_no_room_for_leaves_no_file_and_none_open(tmp_path, size, rows):
    """It fails with its first bytes, with its first group of rows, and at its end."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with (
            pytest.raises(OSError, match="File too large") as error,
            PartWriter(tmp_path, Question, 0) as writer,
        ):
            writer.write([Question(sha256(str(n).encode()).hexdigest(), "Which?") for n in range(rows)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(tmp_path.iterdir()) == []
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [link.readlink() for link in links if tmp_path in link.readlink().parents] == [], error.value


def test_an_interrupted_part_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), PartWriter(tmp_path, Question, 0) as writer:
        writer.write(QUESTIONS)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_its_manifest_does_not_exist(tmp_path):
    write(tmp_path, QUESTIONS)
    with pytest.raises(
        JobError, match=rf"not complete; run `answermill retrieve JOB.toml --out {tmp_path.parent}` first"
    ) as e:
        Folder.open(tmp_path, retrieve.QUESTIONS)
    assert e.value.code == INPUT_MISSING


def test_one_flipped_bit_is_noticed(tmp_path):
    part = write(tmp_path, QUESTIONS)
    path = tmp_path / part.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(JobError, match="was changed since it was written") as e:
        list(read_part(tmp_path, part, Question))
    assert e.value.code == BAD_DATA


def test_a_part_that_changes_after_it_was_read_is_compared_again(tmp_path):
    part = write(tmp_path, QUESTIONS)
    assert (
        list(read_part(tmp_path, part, Question))
        == list(read_rows(tmp_path, part, Question, 0, 5_000))
        == QUESTIONS
    )
    content = bytearray((tmp_path / part.file).read_bytes())
    content[100] ^= 1
    (tmp_path / part.file).write_bytes(content)
    for read in (read_part(tmp_path, part, Question), read_rows(tmp_path, part, Question, 0, 1)):
        with pytest.raises(JobError, match="was changed since it was written"):
            next(read)


def test_a_missing_part_is_noticed(tmp_path):
    part = write(tmp_path, QUESTIONS)
    (tmp_path / part.file).unlink()
    with pytest.raises(JobError, match="parquet is missing; the command that wrote it makes it again"):
        list(read_part(tmp_path, part, Question))


def test_a_folder_of_other_records_is_refused(tmp_path):
    commit(tmp_path, write(tmp_path, QUESTIONS))
    with pytest.raises(JobError, match=r"rows of Question, not of Document; give the folder documents of"):
        Folder.open(tmp_path, DOCUMENTS)


def test_the_first_of_two_different_commits_stays_and_the_second_is_told(tmp_path):
    commit(tmp_path, fingerprint="first")
    with pytest.raises(JobError, match="another job has just written this folder") as e:
        commit(tmp_path, fingerprint="second")
    assert e.value.code == OUTPUT_EXISTS
    assert read_manifest(tmp_path).fingerprint == "first"


def test_the_same_commit_twice_leaves_the_first(tmp_path):
    commit(tmp_path)
    first = read_manifest(tmp_path)
    commit(tmp_path)
    assert read_manifest(tmp_path) == first is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not a manifest"), (json.dumps({"format": 99}), "format 99, this version reads 5")],
)
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path, text, says):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(JobError, match=says):
        read_manifest(tmp_path)


def test_sweeping_removes_leftovers_and_keeps_what_is_named(tmp_path):
    part = write(tmp_path, QUESTIONS)
    other = write(tmp_path, QUESTIONS[:5], unit=1)
    (tmp_path / ".part-00002.abc.tmp").touch()
    (tmp_path / "notes.txt").touch()
    sweep(tmp_path, [part.file])
    assert {path.name for path in tmp_path.iterdir()} == {part.file, "notes.txt"}
    assert other.file not in {path.name for path in tmp_path.iterdir()}


def test_rows_are_found_by_a_column(tmp_path):
    commit(tmp_path, write(tmp_path, QUESTIONS[:3_000], 0), write(tmp_path, QUESTIONS[3_000:], 1))
    rows = Folder.open(tmp_path, retrieve.QUESTIONS).where("question_id", {"q4000", "q7", "absent"})
    assert list(rows) == [QUESTIONS[7], QUESTIONS[4000]]
    assert list(Folder.open(tmp_path, retrieve.QUESTIONS).where("question_id", ())) == []


def test_a_whole_file_is_there_when_it_is_complete_and_not_before(tmp_path):
    file = tmp_path / "new" / "questions.parquet"
    with pytest.raises(KeyboardInterrupt), whole_file(file, Question) as write_rows:
        write_rows(QUESTIONS)
        raise KeyboardInterrupt
    assert list(file.parent.iterdir()) == []
    with whole_file(file, Question) as write_rows:
        write_rows(QUESTIONS[:3])
        write_rows(QUESTIONS[3:])
        assert not file.exists()
    assert Question.rows(pq.read_table(file)) == QUESTIONS and pq.ParquetFile(file).num_row_groups == 3


def test_a_file_has_no_dictionary_of_values_that_are_all_different(tmp_path):
    sentences = (Sentence("d@0", 0, 4, "Yes."), Sentence("d@5", 5, 8, "No."))
    passages = [Passage(f"d#{n}", "d", "", "Title", 0, 8, "Yes. No.", sentences) for n in range(9)]
    with PartWriter(tmp_path, Passage, 0) as writer:
        writer.write(passages)
    with pq.ParquetFile(tmp_path / writer.part.file) as file:
        columns = [file.metadata.row_group(0).column(n) for n in range(file.metadata.num_columns)]
    without = {column.path_in_schema for column in columns if "RLE_DICTIONARY" not in column.encodings}
    inner = {f"sentences.list.element.{name}" for name in ("sentence_id", "text")}
    assert without == {"passage_id", "text", *inner}
    assert list(read_part(tmp_path, writer.part, Passage)) == passages
