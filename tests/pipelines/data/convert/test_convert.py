"""Data sets to statistics and Parquet."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from answermill.pipelines.data.convert.convert import convert
from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, USAGE, JobError

TSV = "question_id\tquestion\tsentence\tlabel\nq{0}\tWho?\tHe.\t1\nq{0}\tWho?\tShe came.\t0\n"


@pytest.fixture
def files(tmp_path):
    for n in (1, 2):
        (tmp_path / f"{n}.tsv").write_text(TSV.format(n))
    return [tmp_path / "1.tsv", tmp_path / "2.tsv"]


def test_several_files_become_one_parquet_that_reads_as_the_same_rows(files, tmp_path):
    said = list(convert(files, None, {}, tmp_path / "out" / "set.parquet"))
    rows = [row for file in files for row in read_dataset(file)]
    assert list(read_dataset(tmp_path / "out" / "set.parquet")) == rows and len(rows) == 4
    assert said[-1] == f"written: {tmp_path / 'out' / 'set.parquet'}"
    assert [line.split()[1:4] for line in said if line.startswith("all ")] == [["2", "4", "2"]]


def test_the_papers_row_stands_beside_ours(shared_data):
    said = list(
        convert([shared_data / "wikiqa" / "wikiqa-test.parquet"], None, {}, None, published="wikiqa/test")
    )
    ours = next(line.split() for line in said if line.startswith("all "))
    theirs = next(line.split() for line in said if line.startswith("Cosinet T2"))
    assert ours[1:3] == theirs[3:5] == ["633", "6,165"] and ours[4:6] == theirs[6:8] == ["38.39", "9.74"]


def test_an_output_that_is_there_stays_and_a_failed_one_leaves_nothing(files, tmp_path):
    out = tmp_path / "set.parquet"
    out.write_text("precious")
    with pytest.raises(JobError, match="exists already") as e:
        list(convert(files, None, {}, out))
    assert e.value.code == OUTPUT_EXISTS and out.read_text() == "precious"
    with pytest.raises(JobError, match=r"2.tsv: question q1 is in .*1.tsv already") as e:
        files[1].write_text(TSV.format(1))
        list(convert(files, None, {}, tmp_path / "new" / "set.parquet"))
    assert e.value.code == BAD_DATA and list((tmp_path / "new").iterdir()) == []


def test_an_option_of_another_form_and_an_unknown_row_are_refused(files):
    with pytest.raises(JobError, match="--splitter: tsv has no such option; its options: none") as e:
        list(convert(files, None, {"splitter": "rules"}, None))
    assert e.value.code == USAGE
    with pytest.raises(JobError, match=r"no paper's row; known: .*wikiqa/test"):
        list(convert(files, None, {}, None, published="wikiqa/best"))


def test_the_parquet_is_what_evaluate_takes_for_labels(files, tmp_path):
    from answermill.pipelines.learn.evaluate.evaluate import evaluate

    list(convert(files, None, {}, tmp_path / "set.parquet"))
    assert evaluate("RR", tmp_path / "set.parquet").means["P@1"][0] == 1
    assert pq.read_schema(tmp_path / "set.parquet").metadata[b"record"] == b"LabelledCandidate"
