"""Recall of a first stage: share of the gold sentences among the best 5, 10, 20, 50 % of the candidates.

Rankers: the shipped Cosinet, word overlap, BM25, the dense encoder's similarity, and `fused`: Cosinet's ranks
and BM25's, by reciprocal rank fusion (1 / (60 + rank)). Lists: SQuAD-sent and WikiQA test, each a paragraph
or summary; and `long_lists`, L-test or with --set dev L-dev: the sentences of the 100 passages that BM25
finds for a question, several hundred. There BM25's order is the passages' and is the original order. A share
is rounded up to whole candidates: of 5 sentences 5 % are one. Keys without a set's name are of the long
lists. Similarity is measured on some questions, drawn by hash, `squad_similarity_questions` of them.

`lost_at_25_of_200_…` and `lost_at_25_of_425_…`: of the questions with an answer among the sentences of the
first 50, and 100, passages of BM25, the percentage with none among the first 25 of a ranker. `cosinet_bm25`
adds up Cosinet's scores and BM25's scores of the passages, each standardised in the list (a stage `blend`
with weights of 1). `plan` is the sample's default plan up to the first stage that drops: Cosinet with BM25,
the dense index and the rank, by weights fitted on L-dev; keys without a ranker are its own. The lists have
`candidates_of_200` and `candidates_of_425` sentences in the mean; `…_of_all` are the figures of whole lists,
of both indexes, as the job serves them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.models import dense_encoder
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage, run_stages, to_sentences
from answermill.ranking.reranker import Reranker, order_by
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.ranking.rerankers.blend.blend import Blend
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.word_vectors.words import Words
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import Candidate, Hit, RankedList
from experiments.corpus import wiki
from experiments.long_lists import SETS as SETS_OF_LISTS
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import ends
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder
from experiments.retrieval import is_right, questions
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_checkpoint, small_encoder, small_plan

MEASURED_MODELS = ("cosinet",)
DECIDED = (
    "Nothing ships by it. Its advice for a plan: limit the depth of retrieval first, and let Cosinet, "
    "blended with what retrieval knows, choose among the sentences that are left."
)
SHARES = (0.05, 0.1, 0.2, 0.5)
DEPTH, JOB_QUESTIONS, SLOW_QUESTIONS = 100, 250, 150
KEPT, ENCODER = 25, DEFAULT
LENGTHS = {"200": 50, "425": 100, "all": None}
"""Rough number of sentences in a list → passages of BM25; None: all retrieved ones, in the order of
retrieval."""
SETS = {"squad": "squad/squad-sent-test.parquet", "wikiqa": "wikiqa/wikiqa-test.parquet"}
COSINET: str | None = None  # the one that ships
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
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
            order_by(ranked, [self._score(ranked.question.text, c.text) for c in ranked.candidates], "bm25")
            for ranked in lists
        ]

    def _score(self, question: str, text: str) -> float:
        tokens = self._words.tokens(text)
        counts, total = Counter(tokens), 0.0
        for word in set(self._words.tokens(question)):
            idf = math.log(1 + (self._count - self._holding[word] + 0.5) / (self._holding[word] + 0.5))
            tf = counts[word]
            total += idf * tf / (tf + 0.9 * (0.6 + 0.4 * len(tokens) / self._mean))
        return total


class OriginalOrder:
    """The original order: on the job, BM25's order of the passages."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return list(lists)


class Fused:
    """Two rankers' orders, by reciprocal rank fusion; ties keep the original order."""

    def __init__(self, *rankers: Reranker | Bm25Order | OriginalOrder) -> None:
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


def recalls(rerank: Callable[[list[RankedList]], list[RankedList]], lists: Lists) -> dict[float, float]:
    """Share of candidates → mean over questions of the share of gold sentences that are kept."""
    kept = dict.fromkeys(SHARES, 0.0)
    for ranked, gold in lists:
        (after,) = rerank([ranked])
        for share in SHARES:
            best = after.candidates[: math.ceil(share * len(ranked.candidates))]
            kept[share] += sum(c.candidate_id in gold for c in best) / len(gold)
    return {share: total / len(lists) for share, total in kept.items()}


def labelled(path: Path) -> Lists:
    """Lists of the answerable questions of a data set."""
    lists = []
    for rows in by_question(read_dataset(path)):
        if gold := {row.candidate_id for row in rows if row.label}:
            lists.append((ranked_list(rows), gold))
    return lists


def by_bm25(question: LongList, depth: int | None) -> tuple[RankedList, set[str]]:
    """Sentences of the first `depth` passages that BM25 found, in its order, and the answers among them.

    The whole list, in the order of retrieval, if `depth` is None.
    """
    if depth is None:
        return question.ranked, set(question.gold)
    hits = sorted(
        (c.hit for c in question.passages.candidates if c.hit.bm25_rank), key=lambda hit: hit.bm25_rank or 0
    )[:depth]
    passages = tuple(Candidate(replace(hit, rank=n), None, n - 1) for n, hit in enumerate(hits, 1))
    ranked = to_sentences(RankedList(question.ranked.question, passages))
    return ranked, {c.candidate_id for c in ranked.candidates} & question.gold


def cosinet_and_bm25(keep: int | None = None) -> list[Stage]:
    """Plan of the two rankers' sum, without fitted weights."""
    cosinet = load_reranker("cosinet", model=find_model)
    return [Stage("cosinet", cosinet), Stage("blend", Blend({"cosinet": 1.0, "bm25": 1.0}), keep)]


def first_of_plan(job_file: Path) -> list[Stage]:
    """Stages of a plan up to the first that drops, which drops nothing here."""
    stages: list[Stage] = []
    for stage in load_plan(load(job_file)):
        stages.append(replace(stage, keep=None))
        if stage.keep is not None:
            return stages
    raise ValueError(f"no stage of {job_file} keeps a number of candidates")


def lost(lists: Sequence[LongList], name: str, depth: int | None) -> dict[str, float]:
    """Figures `lost_at_25_of_<name>` of each ranker, over lists of `depth` passages."""
    cut = [(ranked, gold) for ranked, gold in (by_bm25(question, depth) for question in lists) if gold]
    result: dict[str, float] = {f"questions_of_{name}": len(cut)}
    result[f"candidates_of_{name}"] = sum(len(ranked.candidates) for ranked, _ in cut) / len(cut)
    both = cosinet_and_bm25()
    rankers = {"bm25": [], "cosinet": both[:1], "cosinet_bm25": both, "plan": first_of_plan(SAMPLE)}

    for ranker, stages in rankers.items():
        missed = []
        for ranked, gold in cut:
            after = run_stages([ranked], stages, "sentence")[0].kept
            missed.append(gold.isdisjoint(c.candidate_id for c in after.candidates[:KEPT]))
        lost = compare(np.zeros(len(cut)), np.array(missed, np.float64))
        key = f"lost_at_{KEPT}_of_{name}_{ranker}"
        result |= {key: 100 * lost.b, **ends(key, lost)}
        say(f"{key} {100 * lost.b:.2f} ({100 * lost.low:.2f} to {100 * lost.high:.2f})")

    return result | {f"lost_at_{KEPT}_of_{name}": result[f"lost_at_{KEPT}_of_{name}_plan"]}


def job(data: Path, folder: Path, depth: int = DEPTH, most: int = JOB_QUESTIONS, prefix: str = "") -> Lists:
    """Lists of the sentences of the first `depth` passages of corpus-wiki that BM25 finds, for about `most`
    questions whose ids begin with `prefix` and that have a gold sentence among the candidates."""
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
        ranked = to_sentences(
            RankedList(Question(key, texts[key]), tuple(Candidate(hit, None, hit.rank - 1) for hit in hits))
        )
        if right := {
            c.candidate_id for c in ranked.candidates if is_right(c.hit.passage.doc_id, c.text, gold[key])
        }:
            lists.append((ranked, right))

    return lists


def measured(data: Path, work: Path, name: str) -> dict[str, float | int | str]:
    """All figures, of the long lists of a set and of SETS."""
    long = read_lists(data, work, name)
    result: dict[str, float | int | str] = {"set": name, "kept": KEPT}
    for length, depth in LENGTHS.items():
        result |= lost(long, length, depth)
    cosinet, overlap = load_reranker("cosinet", COSINET, model=find_model), Overlap()
    similarity = Similarity(RememberedEncoder(dense_encoder(ENCODER), work))
    sets = {name: labelled(data / path) for name, path in SETS.items()}
    sets["long"] = [(ranked, gold) for ranked, gold in (by_bm25(item, DEPTH) for item in long) if gold]

    for name, lists in sets.items():
        prefix = "" if name == "long" else f"{name}_"
        result[f"{prefix}questions"] = len(lists)
        result[f"{prefix}candidates"] = sum(len(ranked.candidates) for ranked, _ in lists) / len(lists)
        order = OriginalOrder() if name == "long" else Bm25Order([ranked for ranked, _ in lists])
        some = set(drawn((ranked.question.question_id for ranked, _ in lists), SLOW_QUESTIONS))
        rankers: Mapping[str, tuple[Reranker | Bm25Order | OriginalOrder | Fused, Lists]] = {
            "cosinet": (cosinet, lists),
            "overlap": (overlap, lists),
            "bm25": (order, lists),
            "fused": (Fused(cosinet, order), lists),
            "similarity": (similarity, [pair for pair in lists if pair[0].question.question_id in some]),
        }

        result[f"{prefix}similarity_questions"] = len(some)
        for ranker, (reranker, own_lists) in rankers.items():
            shares = recalls(reranker.rerank, own_lists)
            say(
                f"{name:<7}{ranker:<11}"
                + "".join(f"{share:>5.0%} {value:.4f}" for share, value in shares.items())
            )
            result |= {
                f"{prefix}recall_at_{share:.0%}_{ranker}".replace("%", "pct"): value
                for share, value in shares.items()
            }

    return result


def main() -> None:
    paths = {"work": "folder that keeps lists and vectors; out/long_lists"}
    options = arguments("first_stage", __doc__ or "", paths=paths, choices={"set": SETS_OF_LISTS})
    if options.smoke:
        shrink(
            globals(), DEPTH=3, SLOW_QUESTIONS=2, ENCODER=small_encoder(), COSINET=small_checkpoint("cosinet")
        )
        shrink(globals(), SAMPLE=small_plan(fitted=True))
        small_lists()
    torch.set_num_threads(1)
    with work_folder(options, "long_lists") as work:
        result = measured(options.data.resolve(), work, options.set)
    finish("first_stage", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
