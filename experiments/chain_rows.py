"""Rows of a table of plans over long lists: figures of each question, of all, and beside another row's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from answermill.ranking.evaluation.significance import compare
from answermill.ranking.plan import Reranked, Stage, run_stages
from answermill.ranking.reranker import Costed
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import Candidate, CandidateKind
from experiments.long_lists import LongList
from experiments.percents import ends
from testing.harness import say

AT_ONCE = 32
"""Lists that a plan is given at once."""
Result = dict[str, float | int | str]


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of a plan, question by question [questions]."""

    p1: Floats
    mrr: Floats
    lenient: Floats

    def where(self, chosen: npt.NDArray[np.bool_]) -> Row:
        return Row(self.p1[chosen], self.mrr[chosen], self.lenient[chosen])


def measured(plan: Sequence[Stage], lists: Sequence[LongList], kind: CandidateKind = "passage") -> Row:
    """Run the plan over the lists, some at a time."""
    outcomes: list[Reranked] = []
    for start in range(0, len(lists), AT_ONCE):
        some = lists[start : start + AT_ONCE]
        outcomes += run_stages(
            [question.passages if kind == "passage" else question.ranked for question in some], plan, kind
        )
    return row_of(outcomes, lists)


def row_of(outcomes: Sequence[Reranked], lists: Sequence[LongList]) -> Row:
    kept = [[c.candidate_id for c in outcome.kept.candidates] for outcome in outcomes]
    pairs = list(zip(kept, lists, strict=True))
    ranks = [next((n for n, key in enumerate(ids, 1) if key in question.gold), 0) for ids, question in pairs]
    lenient = [bool(ids) and ids[0] in question.lenient for ids, question in pairs]
    reciprocal = [1 / rank if rank else 0.0 for rank in ranks]
    first = [rank == 1 for rank in ranks]
    return Row(*(np.array(values, np.float64) for values in (first, reciprocal, lenient)))


def figures(name: str, row: Row, asked: int | None = None) -> Result:
    """Keys of a plan; those over all questions only if their number `asked` is given."""
    result: Result = {}
    for metric, values in (("p1", row.p1), ("mrr", row.mrr)):
        mean, key = compare(np.zeros(len(values)), values), f"{metric}_{name}"
        result |= {key: 100 * mean.b, **ends(key, mean)}
        if asked is not None:
            result[f"{metric}_{name}_of_asked"] = 100 * float(values.sum()) / asked

    result[f"p1_lenient_{name}"] = 100 * float(row.lenient.mean())
    say(
        f"{name:<22} P@1 {result[f'p1_{name}']:.2f}, MRR {result[f'mrr_{name}']:.2f}, lenient "
        f"{100 * row.lenient.mean():.2f}"
    )

    return result


def comparison(name: str, default: Row, other: Row) -> Result:
    name = name.removesuffix("_all")
    p1, mrr = compare(other.p1, default.p1), compare(other.mrr, default.mrr)
    return {
        f"p_default_over_{name}": p1.p,
        f"mrr_p_default_over_{name}": mrr.p,
        f"p1_gain_over_{name}": 100 * p1.difference,
        **ends(f"p1_gain_over_{name}", p1),
        f"mrr_gain_over_{name}": 100 * mrr.difference,
        **ends(f"mrr_gain_over_{name}", mrr),
    }


def layer_tokens(plan: Sequence[Stage]) -> int:
    """Layers × tokens that the plan's stages have spent since the last call."""
    return sum(stage.reranker.costs()["layer_tokens"] for stage in plan if isinstance(stage.reranker, Costed))


def rank_after(stage: str, outcome: Reranked, gold: frozenset[str]) -> int | None:
    """Best rank of an answer, or of a passage that holds one, in the list that a stage left; None if there is
    none."""
    candidates: Sequence[Candidate] = (
        *outcome.kept.candidates,
        *(departure.candidate for departure in outcome.departed),
    )
    ranks = [
        score.rank
        for c in candidates
        for score in c.stages
        if score.rank is not None
        and score.stage == stage
        and (c.candidate_id in gold or (stage == "peasi.pr" and holds(c, gold)))
    ]

    return min(ranks, default=None)


def holds(candidate: Candidate, gold: frozenset[str]) -> bool:
    return any(sentence.sentence_id in gold for sentence in candidate.sentences)


def is_there(outcome: Reranked, gold: frozenset[str]) -> bool:
    """True if a plan leaves an answer, or a passage that holds one."""
    return any(
        c.candidate_id in gold or (c.sentence is None and holds(c, gold)) for c in outcome.kept.candidates
    )


def after(outcomes: Sequence[Reranked], lists: Sequence[LongList], stage: str) -> tuple[float, float]:
    """P@1 and MRR of the list that a stage left, in percent."""
    pairs = zip(outcomes, lists, strict=True)
    ranks = [rank_after(stage, outcome, question.gold) for outcome, question in pairs]
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
    return 100 * first, 100 * reciprocal
