"""The whole chain on `corpus-wiki`: what each stage makes of the answer, and at which stage it is lost.

Questions of WikiQA and SQuAD whose answer is among the sentences of the DEPTH passages that BM25 finds; the sample job's stages
with the shipped checkpoints. `answer_p1_after_…` and `answer_mrr_after_…`: the order in which a stage leaves its
list, in percent; after `peasi.pr`, which ranks passages, of passages that hold an answer, so that number does not
compare with the others. `gold_lost_at_…`: questions in percent whose last answer sentence left there. `without_…`: the
chain's answers with that stage left out, `without_peasi` with both of PEASI's. `questions_per_s`: of the stages alone, one
thread.

With --hashing, a checkpoint of HAS stands in the cascade's place and leaves as many candidates: `p1_after_hashing`, and
`p1_with_hashing` at the chain's end; `…_questions_per_s` of each of the two alone, medians of interleaved rounds, answers read
from their bits as a store gives them; what making these took is `answers_encoded_per_s`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.first_stage import job
from benchmarks.harness import arguments, finish, say, seconds, shrink
from benchmarks.smoke_data import small_checkpoint
from indexing.shards.answer_codes import StoredAnswer
from indexing.shards.dense import find_model
from pipelines.config.job_file import load
from pipelines.steps.job_plan import load_plan
from ranking.hashing.hashing import AnswerCoder, Hashing
from ranking.hashing.hashing_model import load as load_hashing
from ranking.plan import Outcome, Stage, run_stages, to_passages
from schemas.ranked import Candidate, RankedList, Unit

DEPTH, QUESTIONS = 100, 100
SETTINGS: Sequence[str] = ()  # that differ from the sample job's
PEASI = ("peasi.pr", "peasi.easi")
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/sample/job.toml"


def rank_after(stage: str, outcome: Outcome, gold: set[str]) -> int | None:
    """The best rank that an answer, or a passage that holds one, has in what a stage left; None if none has."""
    everyone: Sequence[Candidate] = (*outcome.kept.candidates, *(departure.candidate for departure in outcome.departed))
    ranks = [
        score.rank
        for c in everyone
        for score in c.stages
        if score.stage == stage and (c.candidate_id in gold or (stage == "peasi.pr" and holds(c, gold)))
    ]
    return min(ranks, default=None)


def holds(candidate: Candidate, gold: set[str]) -> bool:
    return any(sentence.sentence_id in gold for sentence in candidate.sentences)


def is_there(outcome: Outcome, gold: set[str]) -> bool:
    """Whether an answer, or a passage that holds one, is among what a plan leaves."""
    return any(c.candidate_id in gold or (c.sentence is None and holds(c, gold)) for c in outcome.kept.candidates)


def measured(outcomes: Sequence[Outcome], golds: Sequence[set[str]], stage: str) -> tuple[float, float]:
    """P@1 and MRR in percent."""
    ranks = [rank_after(stage, outcome, gold) for outcome, gold in zip(outcomes, golds, strict=True)]
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
    return 100 * first, 100 * reciprocal


def stage_by_stage(plan: Sequence[Stage], lists: Sequence[RankedList]) -> Iterator[tuple[Stage, list[Outcome]]]:
    """Each stage, and what became of the lists that the one before left."""
    unit: Unit = "passage"
    for stage in plan:
        outcomes = run_stages(lists, [stage], unit)
        yield stage, outcomes
        lists, unit = [outcome.kept for outcome in outcomes], stage.reranker.writes


@dataclass(frozen=True)
class Held:
    """Answers in memory, as a store holds them."""

    answers: dict[str, StoredAnswer]

    def find(self, texts: Sequence[str]) -> list[StoredAnswer | None]:
        return [self.answers.get(text) for text in texts]


def with_hashing(
    plan: Sequence[Stage], lists: Sequence[RankedList], golds: Sequence[set[str]], checkpoint: Path, rounds: int
) -> Iterator[tuple[str, float]]:
    """HAS in the cascade's place."""
    place = next(n for n, stage in enumerate(plan) if stage.name == "cascade")
    before = [outcome.kept for outcome in run_stages(lists, plan[:place])]
    model, tokeniser = load_hashing(checkpoint, find_model)
    texts = list({c.text: None for ranked in before for c in ranked.candidates})
    began = time.perf_counter()
    coded = AnswerCoder(model, tokeniser).encode(texts)
    yield "answers_encoded_per_s", len(texts) / (time.perf_counter() - began)
    bits = np.split(coded.bits, np.cumsum(coded.lengths)[:-1])
    held = Held({text: StoredAnswer(*answer) for text, *answer in zip(texts, bits, coded.cut.tolist(), strict=True)})
    left = max(len(outcome.kept.candidates) for outcome in run_stages(before, [plan[place]], "sentence"))
    stages = {"cascade": plan[place], "hashing": Stage("hashing", Hashing(model, tokeniser, held), left)}
    times: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(rounds):
        for name, stage in stages.items():
            with seconds(times[name]):
                run_stages(before, [stage], "sentence")
    for name, taken in times.items():
        yield f"{name}_questions_per_s", len(lists) / statistics.median(taken)
    replaced = [*plan[:place], stages["hashing"], *plan[place + 1 :]]
    outcomes = run_stages(lists, replaced)
    for suffix, stage in (("after", "hashing"), ("with", plan[-1].name)):
        p1, mrr = measured(outcomes, golds, stage)
        yield f"p1_{suffix}_hashing", p1
        yield f"mrr_{suffix}_hashing", mrr


def main() -> None:
    options = arguments("chain", __doc__ or "", paths={"hashing": "checkpoint of HAS, as hashing_quality trains it"})
    if options.smoke:
        peasi = small_checkpoint("peasi")
        models = {"cascade": small_checkpoint("cascade"), "peasi.pr": peasi, "peasi.easi": peasi}
        places = {stage.reranker: n for n, stage in enumerate(load(SAMPLE).rerank.stages)}  # type: ignore[union-attr]
        settings = [f"rerank.stages.{places[name]}.checkpoint={folder}" for name, folder in models.items()]
        shrink(globals(), DEPTH=3, QUESTIONS=2, SETTINGS=settings)
    torch.set_num_threads(1)
    plan = load_plan(load(SAMPLE, SETTINGS))
    with tempfile.TemporaryDirectory() as folder:
        retrieved = job(options.data.resolve(), Path(folder), DEPTH, QUESTIONS)
    lists, golds = [to_passages(ranked) for ranked, _ in retrieved], [gold for _, gold in retrieved]
    began = time.perf_counter()
    passed = list(stage_by_stage(plan, lists))
    taken = time.perf_counter() - began
    result: dict[str, float | int | str] = {"questions": len(lists), "questions_per_s": len(lists) / taken}
    alive = len(lists)
    for stage, outcomes in passed:
        p1, mrr = measured(outcomes, golds, stage.name)
        still = sum(is_there(outcome, gold) for outcome, gold in zip(outcomes, golds, strict=True))
        name = stage.name.replace(".", "_")
        result |= {f"answer_p1_after_{name}": p1, f"answer_mrr_after_{name}": mrr}
        result[f"gold_lost_at_{name}"] = 100 * (alive - still) / len(lists)
        alive = still
        say(f"{stage.name:<12} P@1 {p1:.2f}, MRR {mrr:.2f}, answers left for {still} of {len(lists)} questions")
    for without in (*((stage.name,) for stage in plan[:-1]), PEASI):
        p1, mrr = measured(run_stages(lists, [stage for stage in plan if stage.name not in without]), golds, plan[-1].name)
        name = "peasi" if without == PEASI else without[0].replace(".", "_")
        result |= {f"p1_without_{name}": p1, f"mrr_without_{name}": mrr}
        say(f"without {name:<12} P@1 {p1:.2f}, MRR {mrr:.2f}")
    if options.hashing:
        result |= with_hashing(plan, lists, golds, options.hashing, options.rounds)
    finish("chain", result, options.save)


if __name__ == "__main__":
    main()
