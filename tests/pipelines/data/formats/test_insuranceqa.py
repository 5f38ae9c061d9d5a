from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError

VOCABULARY = "idx_1\twhat\nidx_2\tbe\nidx_3\tinsurance\nidx_4\tcar\n"
ANSWERS = "1\tidx_3 idx_2 idx_4\n2\tidx_4\n3\tidx_2\n"


@pytest.fixture
def original(tmp_path):
    (tmp_path / "vocabulary").write_text(VOCABULARY)
    (tmp_path / "answers.label.token_idx").write_text(ANSWERS)
    (tmp_path / "question.dev.label.token_idx.pool").write_text(
        "3 1\tidx_1 idx_2\t3 1 2\n2\tidx_4\t2 3 1 3\n"
    )
    (tmp_path / "question.train.token_idx.label").write_text("idx_1 idx_2\t3 1\nidx_4\t2\n")
    return tmp_path


def test_the_candidates_of_an_original_file_are_its_pool_in_order_without_repeats(original):
    counted: Counter[str] = Counter()
    rows = list(read_dataset(original / "question.dev.label.token_idx.pool", counted=counted))
    assert [(c.question_id, c.question, c.candidate_id, c.text, c.label) for c in rows] == [
        ("insuranceqa-00000", "what be", "3", "be", 1),
        ("insuranceqa-00000", "what be", "1", "insurance be car", 1),
        ("insuranceqa-00000", "what be", "2", "car", 0),
        ("insuranceqa-00001", "car", "2", "car", 1),
        ("insuranceqa-00001", "car", "3", "be", 0),
        ("insuranceqa-00001", "car", "1", "insurance be car", 0),
    ]

    assert counted == {
        "answers twice in a pool": 1,
        "right answers outside the pool": 0,
        "pools without a right answer": 0,
    }


def test_train_has_the_right_answers_alone(original):
    rows = list(read_dataset(original / "question.train.token_idx.label"))
    assert [(c.question, c.candidate_id, c.label) for c in rows] == [
        ("what be", "3", 1),
        ("what be", "1", 1),
        ("car", "2", 1),
    ]


def test_answers_and_vocabulary_may_lie_elsewhere_and_packed(original, tmp_path):
    for name, text in (("v.gz", VOCABULARY), ("a.gz", ANSWERS)):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        (tmp_path / {"v.gz": "vocabulary", "a.gz": "answers.label.token_idx"}[name]).unlink()
    path = original / "question.train.token_idx.label"
    assert len(list(read_dataset(path, answers=tmp_path / "a.gz", vocabulary=tmp_path / "v.gz"))) == 3
    with pytest.raises(
        JobError, match=r"vocabulary: no such file, plain or .gz; question.train.token_idx.label needs it"
    ) as e:
        list(read_dataset(path))
    assert e.value.code == INPUT_MISSING


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("question.train.token_idx.label", "idx_1\t9\n", ":1: answer '9' is not among the 3 answers"),
        (
            "question.train.token_idx.label",
            "idx_1\t1\nidx_9\t1\n",
            ":2: token 'idx_9' is not in the vocabulary",
        ),
        (
            "question.train.token_idx.label",
            "idx_1\t1\nwhat is it\t1\n",
            ":2: neither `tokens, ids` nor `ids, tokens, pool`",
        ),
        (
            "answers.label.token_idx",
            "1\tidx_1\n1\tidx_2\n",
            "answers.label.token_idx:2: answer '1' comes twice",
        ),
        ("answers.label.token_idx", "1 idx_1\n", "answers.label.token_idx:1: not `id, tokens`"),
        ("vocabulary", "what\n", "vocabulary:1: not `idx_N, word`"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(original, name, text, says):
    (original / name).write_text(text)
    with pytest.raises(JobError, match=says) as raised:
        list(read_dataset(original / "question.train.token_idx.label", "insuranceqa"))
    assert raised.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("split", "questions", "pairs"),
    [
        ("train", 2_533, None),
        *(pytest.param(split, 1_000, 500_000, marks=pytest.mark.nightly) for split in ("dev", "test")),
    ],
)
def test_the_partial_set_has_its_counts(shared_data, split, questions, pairs):
    rows = read_dataset(shared_data / f"insuranceqa-v1-partial/{split}.jsonl.gz")
    sums = [
        (len(labels), sum(labels))
        for labels in ([c.label for c in g] for _, g in groupby(rows, lambda c: c.question_id))
    ]
    assert len(sums) == questions
    assert all(positives for _, positives in sums)
    assert pairs is None or sum(candidates for candidates, _ in sums) == pairs


@pytest.mark.parametrize("key", ["positive_ids", "labelled_negative_ids"])
@pytest.mark.parametrize("ids", [[1], [["1"]], ["1", None]])
def test_ids_in_json_lines_are_texts(tmp_path: Path, key: str, ids: list[object]) -> None:
    """A number beside texts would make each of its answers a wrong one."""
    answers = '{"answer_id": "1", "text": "Yes."}\n{"answer_id": "2", "text": "No."}\n'
    (tmp_path / "answers.jsonl").write_text(answers)
    row = {"question_id": "q", "question": "Is it?", "positive_ids": ["1"], "labelled_negative_ids": ["2"]}
    (tmp_path / "test.jsonl").write_text(json.dumps(row | {key: ids}) + "\n")
    with pytest.raises(JobError, match=rf"test.jsonl:1: {key} has an id that is no text"):
        list(read_dataset(tmp_path / "test.jsonl", "insuranceqa"))
