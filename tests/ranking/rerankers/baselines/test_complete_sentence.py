from __future__ import annotations

import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.baselines.complete_sentence import CompleteSentence, is_complete
from answermill.schemas.labels import LabelledCandidate


@pytest.mark.parametrize(
    "text",
    [
        "It was so.[citation needed]",
        "It was so in the west.:328–348[7]",
        "One defines what it means for a formula to be true as follows:",
        "It is so.",
        "Is it so?",
        "“It is so!”",
        "It was so (in 1973).",
        "It was so.[12]",
        "He said “so”.",
        "And so on…",
        "海水は塩辛い。",
        "他说：“海水是咸的。”",
        "海が塩辛い（海水）！",
        "समुद्र खारा है।",
        "هل البحر مالح؟",
        "Ծովը աղի է։",
        "ทะเลมีรสเค็มเพราะมีเกลือละลายอยู่ในน้ำ",
    ],
)
def test_what_ends_like_a_sentence_is_one(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "What makes the tides",
        "Home | About | Contact",
        "Ingredients:",
        "Yes.",
        "",
        "Read more..»x",
        "The capital of the province: an overview",
        "海水",
        "はい。",
        "首页 | 关于我们 | 联系方式",
        "समुद्र का खारापन",
    ],
)
def test_headings_menus_and_single_words_are_none(text: str) -> None:
    assert not is_complete(text)


def test_the_question_is_no_answer_to_itself() -> None:
    texts = [
        "Why is the sea salty?",
        "“WHY is the  sea salty” ?",
        "Is it salty?",
        "Why is the sea salty? Rivers.",
    ]
    rows = [LabelledCandidate("q", texts[0], f"c{n}", "d", "Sea", n, text, 0) for n, text in enumerate(texts)]
    [kept] = CompleteSentence().rerank([ranked_list(rows)])
    assert [c.candidate_id for c in kept.candidates] == ["c2", "c3"]
