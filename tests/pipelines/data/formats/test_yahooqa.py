from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter

import pytest

from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError

DEV = {
    'how do you "tie" it ?': [["you knot it", 1], ["no", 0]],
    "why is it so ?": [["it is", 0], ["never", 0]],
}
ALL = {"train": {"who ?": [["she", 1]]}, "dev": DEV}


@pytest.fixture
def written(tmp_path):
    def write(content, name="yahooqa.json"):
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path / name

    return write


def rows(path, **options):
    return [
        (c.question_id, c.question, c.candidate_id, c.text, c.label) for c in read_dataset(path, **options)
    ]


def test_a_split_is_read_alone_or_out_of_all_and_recognised(written):
    expected = [
        ("yahooqa-00000", 'how do you "tie" it ?', "0", "you knot it", 1),
        ("yahooqa-00000", 'how do you "tie" it ?', "1", "no", 0),
        ("yahooqa-00001", "why is it so ?", "0", "it is", 0),
        ("yahooqa-00001", "why is it so ?", "1", "never", 0),
    ]
    counted: Counter[str] = Counter()
    path = written(DEV)
    assert recognise(path) == "yahooqa"

    assert rows(path, counted=counted) == expected and counted == {"questions without a right answer": 1}
    assert recognise(written(ALL)) == "yahooqa"
    assert rows(path, split="dev") == expected
    assert len(rows(path, split="train")) == 1


@pytest.mark.parametrize(
    ("content", "options", "code", "says"),
    [
        (ALL, {}, USAGE, "give split, one of train, dev"),
        (ALL, {"split": "test"}, USAGE, "one of train, dev, not 'test'"),
        (DEV, {"split": "dev"}, USAGE, "split 'dev' is given, but the file has one alone"),
        ({"why ?": [["so", 2]]}, {}, BAD_DATA, r"question 0: not \[answer, 0 or 1\]"),
        ({"why ?": [["so"]]}, {}, BAD_DATA, r"question 0: not \[answer, 0 or 1\]"),
        ({"why ?": []}, {}, BAD_DATA, "question 0: no list of"),
        ({}, {}, BAD_DATA, "no candidate in it"),
        ([1], {}, BAD_DATA, "not a JSON object"),
        ('{"why ?": [["so", 1]', {}, BAD_DATA, "not JSON"),
    ],
)
def test_what_is_wrong_is_said(written, content, options, code, says):
    with pytest.raises(JobError, match=says) as raised:
        rows(written(content), form="yahooqa", **options)
    assert raised.value.code == code


def test_a_pickle_is_refused_unopened_and_a_file_cut_short_too(tmp_path):
    class Opened:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    (tmp_path / "env.pkl").write_bytes(pickle.dumps(Opened()))
    with pytest.raises(JobError, match="a pickle, which runs code when it is opened"):
        rows(tmp_path / "env.pkl", form="yahooqa")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(json.dumps(DEV).encode())[:-12])
    with pytest.raises(JobError, match="broken gzip"):
        rows(tmp_path / "cut.json.gz", form="yahooqa")
