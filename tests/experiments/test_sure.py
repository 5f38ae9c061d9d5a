"""Which questions are asked without their page, and what a judgement changes."""

from __future__ import annotations

import numpy as np
import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import to_passages, to_sentences
from answermill.schemas.labels import LabelledCandidate
from experiments.long_lists import judged
from experiments.question_sets.gold import Asked
from experiments.sure import at_bar, right_by_labels, unjudged
from experiments.sure_lists import PlanLists, asked_passages, lacks_page, place_of_best, row_of

ASKED = [Asked(f"set:{n}", "When?", "Tower", (("d1", "In 1889."),)) for n in range(300)]
TEXTS = ("In 1889.", "It opened in 1889.", "It is high.")


def list_of(asked: Asked, best: int = 0):
    """Its sentences, of pages d0, d1 and d2, that of page `best` first."""
    rows = [
        LabelledCandidate(asked.question_id, "When?", f"c{n}", f"d{n}", "Tower", n, text, 0)
        for n, text in sorted(enumerate(TEXTS), key=lambda each: each[0] != best)
    ]
    return judged(asked, to_passages(ranked_list(rows)))


class Rows(PlanLists):
    """Lists without a plan."""

    def __init__(self) -> None:
        self.stages = []


def test_a_third_is_asked_without_its_page() -> None:
    share = np.mean([lacks_page(asked) for asked in ASKED])
    assert share == pytest.approx(1 / 3, abs=0.08)
    assert not any(
        lacks_page(Asked(a.question_id, a.text, a.title, (), without_answer=("d1",))) for a in ASKED
    )


def test_the_passages_of_the_page_leave_the_list() -> None:
    for asked in ASKED[:20]:
        documents = {c.hit.passage.doc_id for c in asked_passages(list_of(asked)).candidates}
        assert documents == ({"d0", "d2"} if lacks_page(asked) else {"d0", "d1", "d2"})


def test_a_right_sentence_of_another_page_counts_when_judged() -> None:
    one = list_of(next(asked for asked in ASKED if lacks_page(asked)))
    row = row_of(one, to_sentences(asked_passages(one)))
    place = place_of_best(row)
    assert place and place[:2] == (one.asked.question_id, "c0") and not row["answerable"]
    assert row["best"][0][3:5] == ["When?", "Tower"] and row["best"][0][6] == TEXTS[0]

    labelled, wrong = (Rows().labelled(row, {place: right}) for right in (True, False))
    assert labelled.is_right and labelled.answerable and not wrong.is_right and not wrong.answerable
    assert unjudged([row], np.array([0.6]), {}) == [row["best"][0]]
    assert not unjudged([row], np.array([0.6]), {place: False}) and not unjudged([row], np.array([0.4]), {})

    kinds = {"no_page": frozenset({one.asked.question_id})}
    result = at_bar([labelled, wrong], right_by_labels([row, row]), kinds, np.array([0.9, 0.8]), 0.85, "x")
    assert (result["wrong_x"], result["wrong_by_labels_x"], result["right_kept_x"]) == (0, 100, 100)
    assert result["declined_no_page_x"] == 100  # the judged one has an answer, so it is none of them
