"""Plans over long lists of real retrieval: quality of the default plan, and gain or loss by each stage.

Lists: `long_lists`, L-test, or with --set dev L-dev, where choices are made. Figures are in percent of the
`questions` whose answer is among the retrieved sentences; `…_of_asked` is of all that were `asked`, where the
others count as wrong. P@1 and MRR are of the list that a plan leaves, and a lost answer counts 0.
`p1_lenient_…` counts every sentence of the gold document that holds a short answer as right.

Plans: `default`, the sample job's. `without_<stage>`, the default plan with that stage left out: its score is
not weighed, the other weights stay, and the stage before keeps as many as it would. `fast`, the sample's plan
with fewer sentences for its cascade. On `costly_questions`, all or --costly of them, drawn by hash: `full`,
the sample's plan with PEASI; `no_blend`, the chain of the papers (plan_without_blend.toml); --plan FILE, the
plan of another job, as `plan`; `similarity_all` and `cross_encoder_all`, the dense encoder's cosine and the
last exit of the default plan's cascade over all sentences of a list (on L-dev over the best 40 of Cosinet and
BM25); with --rows base alone `base`, the sample's plan of 12 layers, which --save writes to
`chain_base.json`. Every row is compared with the default plan on the same questions, `…_default_on_costly`
there. `…_low` and `…_high` are bootstrapped 95 % intervals; `p_default_over_<plan>` is the p of a paired
randomisation test of P@1, `mrr_p_default_over_<plan>` of MRR, and `p1_gain_over_<plan>` the difference.

Figures of the default plan's stages: `answer_p1_after_…` and `answer_mrr_after_…`, of the order in which a
stage leaves its list; after `peasi.pr`, which ranks passages, of passages that hold an answer.
`gold_lost_at_…`: questions whose last answer left there. `layer_tokens_share`: layers × tokens of the default
plan's transformers over those of `cross_encoder_all`; vectors of sentences count as none, as an index can
hold them. `questions_per_s`: the default plan on SPEED_QUESTIONS lists, one thread, and
`fast_questions_per_s`, the fast one; `fast_over_default` is the factor; medians of interleaved rounds.

--work keeps the lists, and the scores and vectors of every text by the cascade and the encoder, so that
another plan, or this one after a stop, computes only new ones; the rows are compared with the plan's own on
the lists of `questions_per_s`. --rows plans leaves out the rows `without_<stage>`, --rows stages the costly
ones.

With --hashing only the default plan's rows are measured, and a checkpoint of HAS in the cascade's place,
which leaves as many candidates. `p1_after_hashing` stands beside the cascade's; the later stages weigh the
cascade's score, and are left out. `…_questions_per_s` of each of the two alone are medians of interleaved
rounds, with answers read from their bits as from a store; `answers_encoded_per_s` is the speed of encoding
these. --save writes `chain_hashing.json`.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from answermill.indexing.shards.dense import find_model
from answermill.indexing.shards.sentence_codes import StoredCode
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.steps.job_plan import CheckedPlan, load_plan, load_stages
from answermill.pipelines.steps.model_work import collect_seldom
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.entry import SHIPPED
from answermill.ranking.plan import Reranked, Stage, run_stages
from answermill.ranking.rerankers.baselines.similarity import Similarity
from answermill.ranking.rerankers.blend.blend import Blend
from answermill.ranking.rerankers.blend.score_columns import WeightedSum
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.prior import Prior
from answermill.ranking.rerankers.hashing.hashing import AnswerCoder, Hashing
from answermill.ranking.rerankers.hashing.hashing_model import load as load_hashing
from answermill.schemas.ranked import CandidateKind
from benchmarks.cascade_speed import over, timed
from experiments.chain_rows import (
    AT_ONCE,
    Result,
    Row,
    after,
    comparison,
    figures,
    is_there,
    layer_tokens,
    measured,
    row_of,
)
from experiments.first_stage import cosinet_and_bm25
from experiments.long_lists import SETS, LongList, read_lists, small_lists
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, copy_of, remember
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = {
    "chain": ("cascade", "cosinet", "peasi"),
    "chain_base": ("cascade", "cascade_base", "cosinet"),
    "chain_hashing": ("cascade", "cosinet", "hashing"),
}
DECIDED = "Nothing ships by it: on L-test nothing is chosen."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
FAST, FULL, BASE = (SAMPLE.with_name(name) for name in ("fast.toml", "full.toml", "base.toml"))
NO_BLEND = Path(__file__).with_name("plan_without_blend.toml")
PEASI = ("peasi.pr", "peasi.easi")
SPEED_QUESTIONS, DEV_DEPTH = 40, 40


def whole_lists(plan: Sequence[Stage], encoder: Any, work: Path, suffix: str) -> dict[str, list[Stage]]:
    """Name of a row → ranker of all sentences."""
    cascade = next(str(stage.checkpoint) for stage in plan if isinstance(stage.reranker, Cascade))
    alone = {"rerank": {"stages": [{"reranker": "cascade", "checkpoint": cascade}]}}
    return {
        f"similarity_{suffix}": [Stage("similarity", Similarity(encoder))],
        f"cross_encoder_{suffix}": remember(load_plan(Job.model_validate(alone)), work),
    }


def costly(
    default: Sequence[Stage],
    encoder: Any,
    work: Path,
    options: argparse.Namespace,
    row: Row,
    lists: Sequence[LongList],
) -> Result:
    """Figures of other plans and rankers of all sentences, compared with the default plan's on the same
    questions."""
    names = set(drawn((question.asked.question_id for question in lists), int(options.costly or len(lists))))
    chosen = np.array([question.asked.question_id in names for question in lists])
    some, own_row = list(compress(lists, chosen)), row.where(chosen)
    layer_tokens(default)
    measured(default, some)
    default_tokens = layer_tokens(default)
    result: Result = {"costly_questions": len(some)} | figures("default_on_costly", own_row)

    plans = {"full": FULL, "no_blend": NO_BLEND, "plan": options.plan}
    for name, file in ({"base": BASE} if options.rows == "base" else plans).items():
        if file and file.is_file():
            other = measured(remember(load_stages(CheckedPlan.of(load(file)), lambda: encoder), work), some)
            result |= figures(name, other) | comparison(name, own_row, other)

    if options.rows == "base":
        return result
    whole, suffix = (some, "all") if options.set == "test" else (narrowed(some), f"of_{DEV_DEPTH}")
    for name, plan in whole_lists(default, encoder, work, suffix).items():
        other = measured(plan, whole, "sentence")
        result |= figures(name, other) | comparison(name, own_row, other)
        if name.startswith("cross_encoder"):
            result["layer_tokens_share"] = 100 * default_tokens / layer_tokens(plan)

    return result


def narrowed(lists: Sequence[LongList]) -> list[LongList]:
    """Lists of the best DEV_DEPTH sentences of each list, by Cosinet and BM25."""
    outcomes = run_stages([question.ranked for question in lists], cosinet_and_bm25(DEV_DEPTH), "sentence")
    return [replace(question, ranked=outcome.kept) for question, outcome in zip(lists, outcomes, strict=True)]


def stage_by_stage(plan: Sequence[Stage], lists: Sequence[LongList]) -> tuple[Row, Result]:
    """Row of the plan, and figures of the answers at each stage."""
    result: Result = {}
    current, kind, alive = [question.passages for question in lists], "passage", len(lists)
    outcomes: list[Reranked] = []

    for stage in plan:
        outcomes = []
        for start in range(0, len(current), AT_ONCE):
            outcomes += run_stages(current[start : start + AT_ONCE], [stage], cast(CandidateKind, kind))
        p1, mrr = after(outcomes, lists, stage.name)
        pairs = zip(outcomes, lists, strict=True)
        still = sum(is_there(outcome, question.gold) for outcome, question in pairs)
        name = stage.name.replace(".", "_")
        result |= {f"answer_p1_after_{name}": p1, f"answer_mrr_after_{name}": mrr}
        result[f"gold_lost_at_{name}"] = 100 * (alive - still) / len(lists)
        say(
            f"{stage.name:<12} P@1 {p1:.2f}, MRR {mrr:.2f}, answers left for {still} of {len(lists)} "
            "questions"
        )

        alive, current, kind = still, [outcome.kept for outcome in outcomes], stage.reranker.writes

    return row_of(outcomes, lists), result


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan in two forms."""

    plan: list[Stage]
    """Stages that compute all their scores."""
    remembered: list[Stage]
    """Stages with the scores kept in --work."""

    @classmethod
    def of(cls, file: Path, encoder: Any, work: Path) -> Plan:
        """The plan of a job's file; `encoder` keeps its vectors in `work`."""
        job = load(file)
        return cls(load_plan(job), remember(load_stages(CheckedPlan.of(job), lambda: encoder), work))


def on_their_own(plans: Mapping[str, Plan], lists: Sequence[LongList], rounds: int) -> Result:
    """Speed of plans without a memory. Raises SystemExit if a row differs from those with it."""
    passages = [question.passages for question in lists]
    for plan in plans.values():
        own, kept = (run_stages(passages, stages) for stages in (plan.plan, plan.remembered))
        if [outcome.rows() for outcome in own] != [outcome.rows() for outcome in kept]:
            raise SystemExit("the plan and its replay from --work gave different rows")

    gc.freeze()  # the lists, which no job's unit has beside its own questions
    collect_seldom()
    taken = timed({name: partial(run_stages, passages, plan.plan) for name, plan in plans.items()}, rounds)
    result: Result = {"speed_questions": len(lists)}
    for name, times in taken.items():
        key = "questions_per_s" if name == "default" else f"{name}_questions_per_s"
        result[key] = len(lists) / statistics.median(times)
        if name != "default":
            result[f"{name}_over_default"] = over(taken["default"], times)
    return result


@dataclass(frozen=True)
class Held:
    """Codes of answers in memory, in place of a store."""

    answers: dict[tuple[str, ...], StoredCode]

    def find(self, texts: Sequence[tuple[str, ...]]) -> list[StoredCode | None]:
        return [self.answers.get(text) for text in texts]


def with_hashing(
    default: Plan, lists: Sequence[LongList], some: Sequence[LongList], checkpoint: Path, rounds: int
) -> Iterator[tuple[str, float]]:
    """Figures of HAS in the cascade's place; speeds are of `some` lists."""
    plan = default.remembered
    place = next(n for n, stage in enumerate(plan) if stage.name == "cascade")
    passages = [question.passages for question in lists]
    before = [outcome.kept for outcome in run_stages(passages, plan[:place])]
    model, tokeniser = load_hashing(checkpoint, find_model)
    texts = list({parts: None for ranked in before for parts in model.reading.texts(ranked)})
    began = time.perf_counter()
    coded = AnswerCoder(model, tokeniser).encode(texts)
    yield "answers_encoded_per_s", len(texts) / (time.perf_counter() - began)
    bits = np.split(coded.bits, np.cumsum(coded.lengths)[:-1])
    held = Held(
        {text: StoredCode(*answer) for text, *answer in zip(texts, bits, coded.cut.tolist(), strict=True)}
    )

    left = max(len(outcome.kept.candidates) for outcome in run_stages(before, [plan[place]], "sentence"))
    hashing = Stage("hashing", Hashing(model, tokeniser, held), left)
    p1, mrr = after(run_stages(before, [hashing], "sentence"), lists, "hashing")
    yield "p1_after_hashing", p1
    yield "mrr_after_hashing", mrr
    names = {question.asked.question_id for question in some}
    read = [ranked for ranked in before if ranked.question.question_id in names]
    alone = {"cascade": default.plan[place], "hashing": hashing}
    runs = {name: partial(run_stages, read, [stage], "sentence") for name, stage in alone.items()}
    for name, taken in timed(runs, rounds).items():
        yield f"{name}_questions_per_s", len(read) / statistics.median(taken)


def others(plan: Sequence[Stage]) -> Iterator[tuple[str, list[Stage]]]:
    """Plans: the default one without one of its stages, or without PEASI's two."""
    for names in (*((stage.name,) for stage in plan), PEASI):
        if set(names) <= {stage.name for stage in plan}:
            label = "peasi" if names == PEASI else names[0].replace(".", "_")
            yield f"without_{label}", left_out(plan, names)


def left_out(plan: Sequence[Stage], names: Sequence[str]) -> list[Stage]:
    """Plan without some of its stages: their scores are not weighed, and the stage before keeps as many as
    they would."""
    shorter: list[Stage] = []
    for stage in plan:
        if stage.name not in names:
            shorter.append(not_weighing(stage, names))
        elif stage.keep is not None and shorter and shorter[-1].keep is None:
            shorter[-1] = replace(shorter[-1], keep=stage.keep)
    return shorter


def not_weighing(stage: Stage, names: Sequence[str]) -> Stage:
    """A stage that weighs no scores of stages that are left out; its other weights do not change."""

    def fewer(weighed: WeightedSum) -> dict[str, float]:
        return {
            name: weight
            for name, weight in zip(weighed.names, weighed.weights, strict=True)
            if name not in names
        }

    if isinstance(stage.reranker, Blend):
        return replace(stage, reranker=Blend(fewer(stage.reranker._sum)))

    if isinstance(stage.reranker, Cascade) and stage.reranker.prior is not None:
        cascade = copy_of(stage.reranker)
        cascade.prior = Prior(tuple(WeightedSum.of(fewer(weighed)) for weighed in stage.reranker.prior.sums))
        return replace(stage, reranker=cascade)

    return stage


def main() -> None:
    paths = {
        "work": "folder that keeps lists and scores; out/long_lists",
        "plan": "job file whose plan is measured too",
        "hashing": "checkpoint of HAS, as hashing_quality trains it",
    }
    numbers = {
        "costly": "questions, drawn by hash, for other plans and rankers of all sentences; all of them if "
        "absent"
    }
    options = arguments(
        "chain",
        __doc__ or "",
        paths=paths,
        numbers=numbers,
        choices={"set": SETS, "rows": ("all", "plans", "stages", "base")},
    )
    if options.smoke:
        shrink(globals(), SAMPLE=small_plan(fitted=True), FAST=small_plan(fitted=True), SPEED_QUESTIONS=4)
        shrink(globals(), FULL=Path(), NO_BLEND=Path())
        small_lists()

    torch.set_num_threads(1)
    job = load(SAMPLE)

    with work_folder(options, "long_lists") as work:
        asked = read_lists(options.data.resolve(), work, options.set)
        lists = [question for question in asked if question.gold]
        result: Result = {"set": options.set, "asked": len(asked), "questions": len(lists)}
        result["candidates"] = sum(len(question.ranked.candidates) for question in lists) / len(lists)
        encoder = RememberedEncoder(passage_encoder(job), work)
        plans = {"default": Plan.of(SAMPLE, encoder, work)}
        default = plans["default"].remembered
        row, stages = stage_by_stage(default, lists)
        result |= stages | figures("default", row, len(asked))

        if options.rows in ("all", "plans") and not options.hashing:
            plans["fast"] = Plan.of(FAST, encoder, work)
            other = measured(plans["fast"].remembered, lists)
            result |= figures("fast", other, len(asked)) | comparison("fast", row, other)
        names = drawn((question.asked.question_id for question in lists), SPEED_QUESTIONS)
        some = [question for question in lists if question.asked.question_id in names]
        result |= on_their_own(plans, some, options.rounds)

        if options.hashing:
            result |= with_hashing(plans["default"], lists, some, options.hashing, options.rounds)
        if options.rows in ("all", "stages") and not options.hashing:
            for name, plan in others(default):
                other = measured(plan, lists)
                result |= figures(name, other, len(asked)) | comparison(name, row, other)

        if options.rows != "stages" and not options.hashing:
            result |= costly(default, encoder, work, options, row, lists)

    name = "chain_hashing" if options.hashing else "chain_base" if options.rows == "base" else "chain"
    shipped = (SHIPPED / "hashing").resolve()
    is_other = options.hashing is not None and options.hashing.resolve() != shipped
    models = [model for model in MEASURED_MODELS[name] if not (is_other and model == "hashing")]
    finish(name if options.set == "test" else f"{name}_dev", result, options.save, models)


if __name__ == "__main__":
    main()
