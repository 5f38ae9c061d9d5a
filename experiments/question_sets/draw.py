"""Questions of L-train, of L-dev, on which everything is chosen, and of L-test, on which nothing ever is,
drawn by hash.

L-test: WikiQA dev and test whole, SQuAD v2.0 dev over its 35 articles, SelQA test, QED dev (real queries).
L-dev: WikiQA train, whole articles of SQuAD v1.1 train, of SQuADShifts and of the articles that only SQuAD
v1.1 dev has, SelQA dev, QED train. A question of L-dev is left out if any question that L-test could have
drawn is about the same document, about a document of the same title in another set, or in the same words.
L-train: SQuAD v1.1 train and QED train, whose licences allow to ship what learns from them. Its questions are
apart from those of L-test and from those of L-dev in the same way, and their answers are no sentence that is
an answer in a test set. L-more: others of SQuAD v1.1 train, apart in the same way, for a model that has
learnt from L-train.

L-dev's and L-test's questions without an answer are sets of their own: real queries whose page does not
answer them, of WikiQA train and of WikiQA dev and test; and for L-test those that annotators wrote so that a
paragraph seems to answer them, of SQuAD v2.0 dev. They are apart in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pyarrow.csv as csv

from experiments.question_sets import sources
from experiments.question_sets.gold import Asked, canonical, drawn

TEST = {"squad": 300, "selqa": 200, "qed": 150}
DEV = {"wikiqa": 220, "squad-train": 80, "squadshifts": 50, "squad-v1": 50, "selqa": 120, "qed": 90}
DEV_WITHOUT_ANSWER = {"wikiqa": 200}
TEST_WITHOUT_ANSWER = {"wikiqa": 150, "squad": 200}
TRAIN = {"squad": 9_000, "qed": 3_000}
"""Most questions of L-train; QED has fewer."""
MORE = {"squad": 14_000}
"""Most questions of L-more."""
ARTICLES = {"squad-train": 20, "squadshifts": 5, "squad-v1": 4}
"""Articles that L-dev takes its questions from, so that training may have all the others."""


@cache
def questions(data: Path, name: str) -> list[Asked]:
    """Questions of one of SETS, by question id."""
    return SETS[name](data)


def test_pool(data: Path) -> dict[str, list[Asked]]:
    """All questions that L-test may draw."""
    return {
        "wikiqa": sources.wikiqa(data, "dev") + sources.wikiqa(data, "test"),
        "squad": sources.squad(data, "test"),
        "selqa": sources.selqa(data, "test"),
        "qed": sources.qed(data, "dev"),
    }


def test_set(data: Path) -> list[Asked]:
    pool = test_pool(data)
    return by_id(
        [
            question
            for name, members in pool.items()
            for question in some(members, TEST.get(name, len(members)))
        ]
    )


def test_without_answer_pool(data: Path) -> dict[str, list[Asked]]:
    """All questions that L-test's set without an answer may draw."""
    return {
        "wikiqa": sources.wikiqa_without_answer(data, "dev") + sources.wikiqa_without_answer(data, "test"),
        "squad": sources.squad_without_answer(data),
    }


def test_without_answer_set(data: Path) -> list[Asked]:
    pool = test_without_answer_pool(data)
    return by_id([q for name, members in pool.items() for q in some(members, TEST_WITHOUT_ANSWER[name])])


def dev_without_answer_set(data: Path) -> list[Asked]:
    pools = test_pool(data), test_without_answer_pool(data)
    is_apart = apart_from([question for pool in pools for members in pool.values() for question in members])
    apart = [question for question in sources.wikiqa_without_answer(data, "train") if is_apart(question)]
    return by_id(some(apart, DEV_WITHOUT_ANSWER["wikiqa"]))


def dev_set(data: Path) -> list[Asked]:
    is_apart = apart_from([question for members in test_pool(data).values() for question in members])
    leaks = leaked(data)
    pool = {
        "wikiqa": sources.wikiqa(data, "train"),
        "squad-train": sources.squad_train(data),
        "squadshifts": sources.squad(data, "train"),
        "squad-v1": sources.squad(data, "dev"),
        "selqa": sources.selqa(data, "dev"),
        "qed": sources.qed(data, "train"),
    }

    chosen = []
    for name, members in pool.items():
        apart = [question for question in members if is_apart(question) and question.question_id not in leaks]
        if name in ARTICLES:
            articles = drawn({question.title for question in apart}, ARTICLES[name])
            apart = [question for question in apart if question.title in articles]
        chosen += some(apart, DEV[name])

    return by_id(chosen)


def train_set(data: Path) -> list[Asked]:
    return by_id(
        [question for name, members in train_pool(data).items() for question in some(members, TRAIN[name])]
    )


def more_set(data: Path) -> list[Asked]:
    pool, former = train_pool(data), {question.question_id for question in train_set(data)}
    others = {
        name: [question for question in pool[name] if question.question_id not in former] for name in MORE
    }
    return by_id([question for name, members in others.items() for question in some(members, MORE[name])])


def train_pool(data: Path) -> dict[str, list[Asked]]:
    """Questions that may be learnt from."""
    is_apart = apart_from(
        [*(question for members in test_pool(data).values() for question in members), *dev_set(data)]
    )
    leaks, answers = leaked(data), test_answers(data)
    pool = {"squad": sources.squad_train(data), "qed": sources.qed(data, "train")}
    for name, members in pool.items():
        apart = [question for question in members if is_apart(question) and question.question_id not in leaks]
        pool[name] = [
            question
            for question in apart
            if not any(canonical(right) in answers for _, right in question.gold)
        ]
    return pool


@cache
def test_answers(data: Path) -> frozenset[str]:
    """Answer sentences of all test questions, in their `canonical` form: no training may see them as
    candidates."""
    return frozenset(
        canonical(right)
        for members in test_pool(data).values()
        for question in members
        for _, right in question.gold
    )


def some(members: Sequence[Asked], number: int) -> list[Asked]:
    ids = set(drawn((question.question_id for question in members), number))
    return [question for question in members if question.question_id in ids]


def by_id(members: Sequence[Asked]) -> list[Asked]:
    return sorted(members, key=lambda question: question.question_id)


def apart_from(test: Sequence[Asked]) -> Callable[[Asked], bool]:
    """Test that a question shares nothing with these; see above."""
    documents = {doc_id for question in test for doc_id in question.documents}
    texts = {canonical(question.text) for question in test}
    titles = {(kind(doc_id), canonical(question.title)) for question in test for doc_id in question.documents}
    kinds = {kind(doc_id) for doc_id in documents}

    def is_apart(question: Asked) -> bool:
        if question.documents & documents or canonical(question.text) in texts:
            return False
        others = kinds - {kind(doc_id) for doc_id in question.documents}
        return not any((other, canonical(question.title)) in titles for other in others)

    return is_apart


def kind(doc_id: str) -> str:
    return doc_id.partition(":")[0]


def leaked(data: Path) -> set[str]:
    """Ids of the questions of SQuAD train and QED that are in any evaluation set as well."""
    rows = csv.read_csv(
        data / "qa-train/leakage.tsv", parse_options=csv.ParseOptions(delimiter="\t", quote_char=False)
    ).to_pylist()
    prefix = {"squad-train": "squad", "nq-qed": "qed"}
    places = [(row["file"].partition("/")[0], row["question_id"]) for row in rows]
    return {f"{prefix[folder]}:{key}" for folder, key in places if folder in prefix}


SETS: Mapping[str, Callable[[Path], list[Asked]]] = {
    "train": train_set,
    "more": more_set,
    "dev": dev_set,
    "dev-without-answer": dev_without_answer_set,
    "test": test_set,
    "test-without-answer": test_without_answer_set,
}
