"""Worth of evidence between the candidates of a question, `support_vectors` and `support_pairs`, to a blend.

Both stages read the 20 best candidates of the default plan, and choose and weigh the five best others by the
score of the cascade, which has learnt from no question of L-dev. `support_vectors` encodes a sentence with
its title, as the plan's `similarity` does; `support_pairs` has the cascade that ships, which has learnt from
no pair of candidates. The weights of a blend of these 20, with the scores of the plan's last one, are fitted
without and with their scores too, and judged held out in five folds of the questions of L-dev that have an
answer among them. Nothing here reads L-test.

Keys: `p1` and `mrr` of the blend without them, in percent of the `questions`; `…_vectors`, `…_pairs` and
`…_both` with these scores too; `p1_gain_…` and `mrr_gain_…` the difference, with its 95 % interval and its p
by paired randomisation; `candidates`, `pairs`, and layers × tokens of `layer_tokens_pairs` and
`layer_tokens_cascade`, for a question. --work keeps vectors and scores of pairs, so that a stopped run goes
on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.evaluation.significance import compare_shared
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.reranker import Costed
from answermill.ranking.rerankers.blend.fitting import held_out
from answermill.ranking.rerankers.blend.score_columns import RETRIEVED
from answermill.ranking.rerankers.registry import find
from answermill.schemas.ranked import RankedList
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import gain
from experiments.plan_weights import NAMES
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cascade", "cosinet")
TAKES = "half an hour; a minute with scores that --work keeps"
DECIDED = "No shipped plan has either stage: neither is shown to add to the default plan."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
VECTORS, PAIRS = "support_vectors", "support_pairs"
ARMS = {"vectors": (VECTORS,), "pairs": (PAIRS,), "both": (VECTORS, PAIRS)}
"""Suffix of a key → scores that the blend weighs beside those of the default plan's last one."""
BY, BEST = "cascade", 20
Figures = dict[str, float | int | str]


def with_evidence(job: Job) -> Job:
    """The job whose plan keeps its best candidates, with both stages behind it."""
    assert job.rerank is not None
    *before, last = job.rerank.stages
    (cascade,) = (stage for stage in before if stage.key == BY)
    vectors = find(VECTORS).stage(by=BY, context=["title", "sentence"])
    pairs = find(PAIRS).stage(by=BY, checkpoint=cascade.checkpoint)
    stages = [*before, last.model_copy(update={"keep": BEST}), vectors, pairs]
    return job.model_copy(update={"rerank": job.rerank.model_copy(update={"stages": stages})})


def loaded(work: Path) -> list[Stage]:
    """The default plan with both kinds of evidence, ready to rank."""
    job = with_evidence(load(SAMPLE))
    encoder = RememberedEncoder(passage_encoder(job), work)
    return remember(load_stages(CheckedPlan.of(job), lambda: encoder), work)


def cost_figures(plan: Sequence[Stage], read: Sequence[RankedList]) -> Figures:
    """Candidates, pairs, and layers × tokens of a question."""
    costs = {stage.name: stage.reranker.costs() for stage in plan if isinstance(stage.reranker, Costed)}
    return {
        "candidates": sum(len(ranked.candidates) for ranked in read) / len(read),
        "pairs": costs[PAIRS]["pairs"] / len(read),
        "layer_tokens_cascade": costs[BY]["layer_tokens"] / len(read),
        "layer_tokens_pairs": costs[PAIRS]["layer_tokens"] / len(read),
    }


def gain_figures(lists: Sequence[LongList], read: Sequence[RankedList]) -> Figures:
    """P@1 and MRR of a blend of the candidates, without and with the evidence."""
    labels = [
        [int(candidate.candidate_id in one.gold) for candidate in ranked.candidates]
        for one, ranked in zip(lists, read, strict=True)
    ]
    keys = {score.stage for ranked in read for c in ranked.candidates[:1] for score in c.stages}
    names = [name for name in NAMES["last"] if name in keys or name in RETRIEVED]
    without = held_out(read, labels, names)

    figures: Figures = {"questions": len(without["P@1"])}
    for arm, added in ARMS.items():
        with_them = held_out(read, labels, [*names, *added])
        for metric, short in (("P@1", "p1"), ("MRR", "mrr")):
            compared = compare_shared(without[metric], with_them[metric])
            figures |= {short: 100 * compared.a, f"{short}_{arm}": 100 * compared.b}
            figures |= gain(f"{short}_gain_{arm}", compared)
    return figures


def main() -> None:
    options = arguments(
        "support",
        __doc__ or "",
        paths={"work": "folder that keeps lists and scores; out/long_lists"},
        numbers={"questions": "questions of L-dev, drawn by hash; all if absent"},
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=True))

    torch.set_num_threads(1)
    with work_folder(options, "long_lists") as work:
        lists = [one for one in read_lists(options.data.resolve(), work, "dev") if one.gold]
        if options.questions:
            names = set(drawn((one.asked.question_id for one in lists), int(options.questions)))
            lists = [one for one in lists if one.asked.question_id in names]

        plan = loaded(work)
        read = [outcome.kept for outcome in run_stages([one.passages for one in lists], plan)]
        say(f"{len(read)} lists are scored")
        result = gain_figures(lists, read) | cost_figures(plan, read)

    finish("support", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
