"""RM3 adds the words that Anserini adds: the published figure on CACM, and the rules by which words are
chosen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import ir_measures
import pytest
from ir_measures import AP, P

from answermill.indexing.shards.lucene import jvm
from answermill.indexing.shards.lucene.bm25 import Bm25Index, build, words_of
from answermill.indexing.shards.lucene.feedback import Feedback, candidate_words, expanded

FIRST = [(6.0, {"ice": 3.0, "melt": 1.0}), (2.0, {"melt": 2.0, "river": 2.0})]
RARE = {"ice": 1, "melt": 1, "river": 1}


def test_a_word_weighs_its_share_of_each_passage_times_the_passage_s_score() -> None:
    weights = expanded({"glacier": 2.0, "ice": 2.0}, FIRST, RARE, 100)
    added = {"ice": 6 * 3 / 4, "melt": 6 / 4 + 2 / 2, "river": 2 / 2}
    total = sum(added.values())
    assert weights == pytest.approx(
        {
            "glacier": 0.25,
            "ice": 0.25 + added["ice"] / total / 2,
            "melt": added["melt"] / total / 2,
            "river": added["river"] / total / 2,
        }
    )
    assert sum(weights.values()) == pytest.approx(1) and list(weights) == sorted(weights)


def test_a_word_of_more_than_a_tenth_of_the_passages_is_not_added() -> None:
    for frequency, is_added in ((10, True), (11, False)):
        assert ("ice" in expanded({"glacier": 1.0}, FIRST, RARE | {"ice": frequency}, 100)) == is_added


def test_the_best_words_of_the_best_passages_are_added_and_ties_go_by_the_word() -> None:
    one = expanded({"q": 1.0}, FIRST, RARE, 100, Feedback(passages=1, words=1))
    assert one == {"ice": 0.5, "q": 0.5}
    tied = [(1.0, {"b": 1.0, "c": 1.0, "a": 1.0})]
    assert set(expanded({"q": 1.0}, tied, dict.fromkeys("abc", 1), 100, Feedback(words=2))) == {"q", "a", "b"}


def test_a_question_without_words_to_add_keeps_all_weight() -> None:
    assert expanded({"glacier": 3.0, "ice": 1.0}, [], {}, 100) == {"glacier": 0.75, "ice": 0.25}
    assert expanded({}, [], {}, 100) == {}


@pytest.mark.nightly
def test_feedback_gives_the_published_figure_on_cacm(shared_data: Path, tmp_path: Path) -> None:
    """BM25+RM3 of Anserini's reproduction: MAP 0.3648, P@30 0.2224."""
    jvm.start(jvm.find_java(), "1g")
    folder = shared_data / "retrieval/cacm"
    documents, asked = (
        [
            json.loads(line)
            for line in gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).splitlines()
        ]
        for name in ("docs", "queries")
    )
    build([("", document["text"]) for document in documents], tmp_path / "bm25")
    index = Bm25Index(tmp_path / "bm25")
    texts = [question["text"] for question in asked]
    bags = []
    for question, (rows, scores) in zip(words_of(texts), index.search(texts, 10, None), strict=True):
        words = words_of([documents[row]["text"] for row in rows[:10].tolist()])
        first = list(zip(scores[:10].tolist(), map(candidate_words, words), strict=True))
        frequencies = index.document_frequencies([{word: 1.0 for _, bag in first for word in bag}])
        bags.append(expanded(question, first, frequencies, index.rows))
    run = [
        ir_measures.ScoredDoc(str(question["query_id"]), documents[row]["doc_id"], score)
        for question, (rows, scores) in zip(asked, index.search(bags, 1_000, None), strict=True)
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
    ]
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    figures = ir_measures.calc_aggregate([AP, P @ 30], qrels, run)
    assert (round(figures[AP], 4), round(figures[P @ 30], 4)) == (0.3648, 0.2224)
