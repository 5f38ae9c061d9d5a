"""What a first stage may drop: how many gold sentences are among the best 5, 10, 20, 50 % of the candidates.

Rankers: the shipped Cosinet, word overlap, BM25, the dense encoder's similarity, and `fused`: Cosinet's ranks and BM25's, by
reciprocal rank fusion (1 / (60 + rank)). Lists: SQuAD-sent and WikiQA test, each a
paragraph or summary; and the job on `corpus-wiki`: the sentences of the 100 passages that BM25 finds for a question of
WikiQA or SQuAD, several hundred a question. There BM25's order is the passages' and is the original order. A share is rounded
up to whole candidates: of 5 sentences 5 % are one. Keys without a set's name are of the job. Similarity is measured on
SQuAD-sent's first questions alone, `squad_similarity_questions` of them.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.corpus import wiki
from benchmarks.harness import arguments, finish, say, shrink
from benchmarks.retrieval import is_right, questions
from indexing.shards.dense import find_model
from pipelines.datasets import by_question, read_dataset
from pipelines.steps.models import dense_encoder
from ranking.baselines.overlap import Overlap
from ranking.baselines.similarity import Similarity
from ranking.lists import ranked_list
from ranking.plan import to_sentences
from ranking.registry import load_reranker
from ranking.reranker import Reranker, SentenceEncoder, order_by
from ranking.word_vectors.words import Words
from schemas.corpus import Question
from schemas.ranked import Candidate, Hit, RankedList

SHARES = (0.05, 0.1, 0.2, 0.5)
DEPTH, JOB_QUESTIONS, SLOW_QUESTIONS = 100, 250, 400
SETS = {"squad": "squad/squad-sent-test.parquet", "wikiqa": "wikiqa/wikiqa-test.parquet"}
Lists = Sequence[tuple[RankedList, set[str]]]  # with the ids of the gold sentences


class Bm25Order:
    """Sentences by BM25 (k1 0.9, b 0.4) over the set's own sentences; ties keep the original order."""

    def __init__(self, lists: Sequence[RankedList]) -> None:
        self._words = Words()
        texts = {c.text: self._words.tokens(c.text) for ranked in lists for c in ranked.candidates}
        self._count = len(texts)
        self._holding = Counter(word for tokens in texts.values() for word in set(tokens))
        self._mean = sum(map(len, texts.values())) / len(texts)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            order_by(ranked, [self._score(ranked.question.text, c.text) for c in ranked.candidates], "bm25") for ranked in lists
        ]

    def _score(self, question: str, text: str) -> float:
        tokens = self._words.tokens(text)
        counts, total = Counter(tokens), 0.0
        for word in set(self._words.tokens(question)):
            idf = math.log(1 + (self._count - self._holding[word] + 0.5) / (self._holding[word] + 0.5))
            tf = counts[word]
            total += idf * tf / (tf + 0.9 * (0.6 + 0.4 * len(tokens) / self._mean))
        return total


class AsItCame:
    """The original order: on the job, BM25's order of the passages."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return list(lists)


class Fused:
    """Two rankers' orders, by reciprocal rank fusion; ties keep the original order."""

    def __init__(self, *rankers: Reranker | Bm25Order | AsItCame) -> None:
        self._rankers = rankers

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        orders = [ranker.rerank(lists) for ranker in self._rankers]
        fused = []
        for ranked, *others in zip(lists, *orders, strict=True):
            score: dict[str, float] = defaultdict(float)
            for order in others:
                for rank, candidate in enumerate(order.candidates, 1):
                    score[candidate.candidate_id] += 1 / (60 + rank)
            fused.append(order_by(ranked, [score[c.candidate_id] for c in ranked.candidates], "fused"))
        return fused


class EncodedOnce:
    """The dense encoder, which sees each different sentence once."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encode_questions = encoder.encode_questions
        self._encode = encoder.encode_sentences
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        self._known.update(zip(new, self._encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def recalls(rerank: Callable[[list[RankedList]], list[RankedList]], lists: Lists) -> dict[float, float]:
    """Share → mean over questions of the share of gold sentences that are kept."""
    kept = dict.fromkeys(SHARES, 0.0)
    for ranked, gold in lists:
        (after,) = rerank([ranked])
        for share in SHARES:
            best = after.candidates[: math.ceil(share * len(ranked.candidates))]
            kept[share] += sum(c.candidate_id in gold for c in best) / len(gold)
    return {share: total / len(lists) for share, total in kept.items()}


def labelled(path: Path) -> Lists:
    """The answerable questions of a data set."""
    lists = []
    for rows in by_question(read_dataset(path)):
        if gold := {row.candidate_id for row in rows if row.label}:
            lists.append((ranked_list(rows), gold))
    return lists


def job(data: Path, folder: Path, depth: int = DEPTH, most: int = JOB_QUESTIONS, prefix: str = "") -> Lists:
    """The first `depth` passages of corpus-wiki that BM25 finds, as sentences; about `most` questions, of those whose ids
    begin with `prefix`, and with a gold sentence among the candidates."""
    texts, gold = questions(data)
    texts = {key: text for key, text in texts.items() if key.startswith(prefix)}
    corpus = wiki(data, folder)
    ids = sorted(texts)[:: max(1, len(texts) // most)]
    results = corpus.bm25.search([texts[key] for key in ids], depth, None)
    lists = []
    for key, (rows, scores) in zip(ids, results, strict=True):
        hits = [
            Hit(key, texts[key], rank, 1 / rank, float(score), rank, None, None, corpus.passages[row])
            for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
        ]
        ranked = to_sentences(RankedList(Question(key, texts[key]), tuple(Candidate(hit, None, hit.rank - 1) for hit in hits)))
        if right := {c.candidate_id for c in ranked.candidates if is_right(c.hit.passage.doc_id, c.text, gold[key])}:
            lists.append((ranked, right))
    return lists


def main() -> None:
    options = arguments("first_stage", __doc__ or "")
    if options.smoke:
        shrink(globals(), DEPTH=3, JOB_QUESTIONS=2, SLOW_QUESTIONS=2)
    torch.set_num_threads(1)
    encoder = EncodedOnce(dense_encoder())
    cosinet, overlap, similarity = load_reranker("cosinet", model=find_model), Overlap(), Similarity(encoder)
    result: dict[str, float | int | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        sets = {name: labelled(options.data / path) for name, path in SETS.items()} | {
            "job": job(options.data.resolve(), Path(folder), DEPTH, JOB_QUESTIONS)
        }
    for name, lists in sets.items():
        prefix = "" if name == "job" else f"{name}_"
        result[f"{prefix}questions"] = len(lists)
        result[f"{prefix}candidates"] = sum(len(ranked.candidates) for ranked, _ in lists) / len(lists)
        order = AsItCame() if name == "job" else Bm25Order([ranked for ranked, _ in lists])
        rankers: Mapping[str, tuple[Reranker | Bm25Order | AsItCame | Fused, Lists]] = {
            "cosinet": (cosinet, lists),
            "overlap": (overlap, lists),
            "bm25": (order, lists),
            "fused": (Fused(cosinet, order), lists),
            "similarity": (similarity, lists[:SLOW_QUESTIONS]),
        }
        result[f"{prefix}similarity_questions"] = min(SLOW_QUESTIONS, len(lists))
        for ranker, (reranker, mine) in rankers.items():
            shares = recalls(reranker.rerank, mine)
            say(f"{name:<7}{ranker:<11}" + "".join(f"{share:>5.0%} {value:.4f}" for share, value in shares.items()))
            result |= {f"{prefix}recall_at_{share:.0%}_{ranker}".replace("%", "pct"): value for share, value in shares.items()}
    finish("first_stage", result, options.save)


if __name__ == "__main__":
    main()
