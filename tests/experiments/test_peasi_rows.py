"""PEASI beside AS2: what the paper's variants are trained as, what is read, how answers are ranked, which
examples are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from answermill.pipelines.config.training_file import TrainJob
from answermill.ranking.entry import SHIPPED
from answermill.schemas.corpus import Passage, Sentence
from answermill.schemas.labels import LabelledPassage
from experiments import peasi_trainings, trainings
from experiments.peasi_data import labelled
from experiments.peasi_quality import accuracy, examples
from experiments.peasi_rows import Reader, Rows, best_sentence, compared, product
from testing.smoke_data import small_checkpoint


def passages(question: str, *right: int) -> list[LabelledPassage]:
    """Three passages of three sentences; those at the places in `right` are answers."""
    rows = []
    for n in range(3):
        sentences = tuple(
            Sentence(f"{question}{n}{i}", i, i + 1, f"The {question} answer {n} {i}.") for i in range(3)
        )
        text = " ".join(s.text for s in sentences)
        shown = Passage(f"{question}{n}", f"doc{n}", "", "Title", 0, 9, text, sentences)
        gold = {f"{question}{place // 3}{place % 3}" for place in right}
        rows.append(labelled(question, f"The {question}?", shown, gold, "retrieved"))
    return rows


LISTS = [passages("a", 4), passages("b", 0, 8)]


def job(name: str, folder: Path, body: peasi_trainings.Body = "small") -> TrainJob:
    return trainings.training(folder, name, folder, "shipped", "train", body=body)


def test_the_papers_variants_have_a_linear_pr_on_the_first_token_and_five_slots(tmp_path: Path) -> None:
    for name in ("pr", "easi", "mtl0", "mtl1"):
        section = job(name, tmp_path).peasi
        assert section is not None and section.variant == name
        assert section.encoder == str(SHIPPED / "cascade")
        assert (section.pooling, section.context) == (
            ("first", ["passage"]) if name != "easi" else (None,) * 2
        )
        assert name == "pr" or (section.extractor, section.slots) == ("slots", 5)


@pytest.mark.parametrize(("body", "ending"), [("small", ""), ("base", "-base")])
def test_pr_and_easi_are_joined_in_a_second_stage(
    tmp_path: Path, body: peasi_trainings.Body, ending: str
) -> None:
    section = job("mtl1_pairs", tmp_path, body).peasi
    assert section is not None and section.variant == "joint"
    assert (section.encoder, section.easi) == (str(tmp_path / f"pr{ending}"), str(tmp_path / f"easi{ending}"))
    names = list(peasi_trainings.FILES)
    assert names.index("mtl1_pairs") > max(names.index("pr"), names.index("easi"))


def test_all_others_begin_with_the_cascade_that_ships_of_their_body(tmp_path: Path) -> None:
    (tmp_path / "cascade").mkdir()  # trained there: the small body begins with it
    assert job("mtl0", tmp_path).peasi.encoder == str(tmp_path / "cascade")
    assert job("mtl0", tmp_path, "base").peasi.encoder == str(SHIPPED / "cascade_base")


def test_each_passage_is_read_once_and_a_stopped_run_goes_on(tmp_path: Path, monkeypatch) -> None:
    checkpoint = Path(small_checkpoint("peasi"))
    first = Reader(checkpoint, tmp_path)
    logits, extracted = first.passages(LISTS[:1]), first.sentences(LISTS[:1])
    asked: list[int] = []

    again = Reader(checkpoint, tmp_path)
    for part in ("passages", "sentences"):
        read = getattr(again._reader, part)
        monkeypatch.setattr(
            again._reader, part, lambda inputs, read=read: asked.append(len(inputs)) or read(inputs)
        )
    assert again.passages(LISTS)[0] == logits[0] and again.sentences(LISTS)[0] == extracted[0]
    assert max(asked) == len(LISTS[1])
    assert {key for known in again.passages(LISTS) for key in known} == {
        row.passage_id for rows in LISTS for row in rows
    }


class Easi:
    """Extractor of a fixed sentence of each passage."""

    answers = Reader.answers

    def sentences(self, lists):
        return [
            {row.passage_id: (row.sentences[1].sentence_id, -0.5) for row in rows if row.passage_id != "b2"}
            for rows in lists
        ]


def test_the_answer_is_the_sentence_of_the_best_passage_or_none() -> None:
    scores = [{"a0": 1.0, "a1": 2.0, "a2": 0.0}, {"b0": 0.0, "b1": 1.0, "b2": 2.0}]
    assert Easi().answers(LISTS, scores) == ["a11", ""]


def test_accuracy_is_over_passages_with_an_answer() -> None:
    assert accuracy(LISTS, Easi()) == pytest.approx(100 / 3)


def test_rows_are_named_by_model_and_count_questions_with_an_answer() -> None:
    rows = Rows("set", [*LISTS, passages("c")])
    rows.first("slot", ["a11", "b01", ""])
    rows.first("mtl1", ["a11", "b22", ""])
    rows.over("answer", "mtl1", "slot")
    assert rows.keys["slot_set_answer_p1"] == 50
    assert rows.keys["mtl1_set_answer_over_slot"] == 50
    assert rows.keys["mtl1_set_answer_over_slot_shows"] == "no difference"
    assert rows.kept.tolist() == [True, True, False]


def test_what_a_comparison_shows_is_said_by_its_interval() -> None:
    never, always = np.zeros(20), np.ones(20)
    pairs = ((never, always), (always, never), (always, always))
    assert [compared("x", a, b)["x_shows"] for a, b in pairs] == ["ahead", "behind", "no difference"]


def test_as2_ranks_a_passage_by_its_best_sentence() -> None:
    scores = {s.sentence_id: float(n) for n, s in enumerate(s for row in LISTS[0] for s in row.sentences)}
    assert best_sentence(LISTS[:1], [scores]) == [{"a0": 2.0, "a1": 5.0, "a2": 8.0}]


def test_the_examples_are_the_first_by_hash_where_one_is_right_alone() -> None:
    lists = [passages(name, 4) for name in "defg"]
    right = [{f"{name}11": 1.0, f"{name}00": 0.0} for name in "defg"]
    wrong = [{f"{name}11": 0.0, f"{name}00": 1.0} for name in "defg"]
    keys = examples(lists, [*wrong[:3], right[3]], [f"{name}11" for name in "defg"])
    assert keys["better_questions"] == 3 and keys["worse_questions"] == 0
    assert "worse_question" not in keys
    name = str(keys["better_question"])[4]
    assert name in "def" and keys == examples(
        lists[::-1], [right[3], *wrong[2::-1]], [f"{n}11" for n in "gfed"]
    )
    assert (
        keys["better_peasi"] == f"The {name} answer 1 1." and keys["better_as2"] == f"The {name} answer 0 0."
    )
    assert str(keys["better_as2_passage"]).startswith(f"The {name} answer 0 0.")


def test_the_product_by_hand() -> None:
    known = {"p": 2.0, "q": 1.0, "r": 0.5, "s": 3.0}
    sentences = {"p": ("x", -0.1), "q": ("y", -3.0), "r": ("x", -0.01)}  # from s none is extracted
    scores = product(known, sentences)
    assert scores == pytest.approx({"x": -0.1 - 0.126928, "y": -3.0 - 0.313262}, abs=1e-5)
    log_total = np.logaddexp.reduce(list(known.values()))
    listwise = product(known, sentences, listwise=True)
    assert listwise["y"] == pytest.approx(-3.0 + 1.0 - log_total)
