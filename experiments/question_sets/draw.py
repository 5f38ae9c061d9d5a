"""L-train, L-dev, on which everything is chosen, and L-test, on which nothing ever is: who is asked, drawn by
hash.

L-test: WikiQA dev and test whole, SQuAD v2.0 dev over its 35 articles, SelQA test, QED dev (real queries).
L-dev: WikiQA train, whole articles of SQuAD v1.1 train, of SQuADShifts and of the articles that only SQuAD
v1.1 dev has, SelQA dev, QED train. A question of L-dev is left out if any question that L-test could have
drawn is about the same document, about a document of the same title in another set, or in the same words.
L-train: SQuAD v1.1 train and QED train, whose licences allow to ship what learns from them. Its questions are
apart from those of L-test and from those of L-dev in the same way, and their answers are no sentence that is
an answer in a test set. L-more: others of SQuAD v1.1 train, apart in the same way, for a model that has
learnt from L-train.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pyarrow.csv as csv

from experiments.question_sets import sources
from experiments.question_sets.gold import Asked, canonical, drawn

TEST = {"squad": 300, "selqa": 200, "qed": 150}
DEV = {"wikiqa": 220, "squad-train": 80, "squadshifts": 50, "squad-v1": 50, "selqa": 120, "qed": 90}
TRAIN = {"squad": 9_000, "qed": 3_000}
"""Questions of L-train at the most; of QED there are fewer."""
MORE = {"squad": 14_000}
"""Questions of L-more at the most."""
ARTICLES = {"squad-train": 20, "squadshifts": 5, "squad-v1": 4}
"""Articles that L-dev takes its questions from, so that training may have all the others."""


@cache
def questions(data: Path, name: str) -> list[Asked]:
    """'train', 'more', 'dev' or 'test', by question id."""
    return {"train": train_set, "more": more_set, "dev": dev_set, "test": test_set}[name](data)


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
        [each for name, members in pool.items() for each in some(members, TEST.get(name, len(members)))]
    )


def dev_set(data: Path) -> list[Asked]:
    is_apart = apart_from([each for members in test_pool(data).values() for each in members])
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
        apart = [each for each in members if is_apart(each) and each.question_id not in leaks]
        if name in ARTICLES:
            articles = drawn({each.title for each in apart}, ARTICLES[name])
            apart = [each for each in apart if each.title in articles]
        chosen += some(apart, DEV[name])

    return by_id(chosen)


def train_set(data: Path) -> list[Asked]:
    return by_id([each for name, members in train_pool(data).items() for each in some(members, TRAIN[name])])


def more_set(data: Path) -> list[Asked]:
    pool, former = train_pool(data), {each.question_id for each in train_set(data)}
    others = {name: [each for each in pool[name] if each.question_id not in former] for name in MORE}
    return by_id([each for name, members in others.items() for each in some(members, MORE[name])])


def train_pool(data: Path) -> dict[str, list[Asked]]:
    """All questions that may be learnt from."""
    is_apart = apart_from(
        [*(each for members in test_pool(data).values() for each in members), *dev_set(data)]
    )
    leaks, answers = leaked(data), test_answers(data)
    pool = {"squad": sources.squad_train(data), "qed": sources.qed(data, "train")}
    for name, members in pool.items():
        apart = [each for each in members if is_apart(each) and each.question_id not in leaks]
        pool[name] = [
            each for each in apart if not any(canonical(right) in answers for _, right in each.gold)
        ]
    return pool


@cache
def test_answers(data: Path) -> frozenset[str]:
    """The answer sentences of all test questions, as texts are compared: what no training may see as a
    candidate."""
    return frozenset(
        canonical(right) for members in test_pool(data).values() for each in members for _, right in each.gold
    )


def some(members: Sequence[Asked], number: int) -> list[Asked]:
    ids = set(drawn((each.question_id for each in members), number))
    return [each for each in members if each.question_id in ids]


def by_id(members: Sequence[Asked]) -> list[Asked]:
    return sorted(members, key=lambda each: each.question_id)


def apart_from(test: Sequence[Asked]) -> Callable[[Asked], bool]:
    """Whether a question shares nothing with these: see above."""
    documents = {doc_id for each in test for doc_id in each.documents}
    texts = {canonical(each.text) for each in test}
    titles = {(kind(doc_id), canonical(each.title)) for each in test for doc_id in each.documents}
    kinds = {kind(doc_id) for doc_id in documents}

    def is_apart(each: Asked) -> bool:
        if each.documents & documents or canonical(each.text) in texts:
            return False
        others = kinds - {kind(doc_id) for doc_id in each.documents}
        return not any((other, canonical(each.title)) in titles for other in others)

    return is_apart


def kind(doc_id: str) -> str:
    return doc_id.partition(":")[0]


def leaked(data: Path) -> set[str]:
    """Ids of the questions of SQuAD train and QED that stand in an evaluation set as well, whichever it
    is."""
    rows = csv.read_csv(
        data / "qa-train/leakage.tsv", parse_options=csv.ParseOptions(delimiter="\t", quote_char=False)
    ).to_pylist()
    prefix = {"squad-train": "squad", "nq-qed": "qed"}
    of_file = [(row["file"].partition("/")[0], row["question_id"]) for row in rows]
    return {f"{prefix[folder]}:{key}" for folder, key in of_file if folder in prefix}
