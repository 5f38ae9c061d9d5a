"""One answer for candidates that say the same: precision and recall of the rule, and the worth of the number
of pages to a blend.

Pairs: `same_answer_pairs.jsonl`, 180 pairs of sentences of one list of L-dev, drawn by hash within strata:
equal or one inside the other after folding, near by a Jaccard similarity of their pairs of words of .7, .5,
.35 and .25, and two right sentences of a question. A language model judged each pair by reading it: do both
say the same, so that one of them can stand for the other? A pronoun counts as the same thing in both. It read
them again, knowing its first judgements. The readings differ in `readings_differ` pairs, which a third look
settled. Strata are no sample of all pairs, so the figures compare rules and estimate no share. Texts are of
Wikipedia, CC BY-SA.

`precision` and `recall` are, in percent, of the half of the pairs, by hash, that did not choose the rule's
constants; `…_all` of all; `…_low` and `…_high` are bootstrapped 95 % intervals. `p1` and `mrr` are those of
the default plan's last blend on L-dev, held out in five folds, `…_with_count` with the stage `same_answer`,
over all complete sentences of a list, among its scores; `p1_gain` the difference, with its interval and p.
`several_pages`: percent of the questions whose first answer several pages give.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.pipelines.config.job_file import load
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.evaluation.significance import compare_shared, interval
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.rerankers.baselines.same_answer import SameAnswer, groups
from answermill.ranking.rerankers.blend.fitting import held_out
from answermill.schemas.ranked import RankedList
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import gain
from experiments.plan_weights import NAMES
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import arguments, finish, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cascade", "cosinet")
TAKES = "ten minutes; with scores that --work keeps"
DECIDED = "The rule by which candidates are one answer. The count of pages is in no shipped blend."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
PAIRS = Path(__file__).with_name("same_answer_pairs.jsonl")
COUNT = SameAnswer.name
Figures = dict[str, float | int | str]


def judged_pairs() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def measures(pair: dict[str, Any]) -> bool:
    """True for the half of the pairs that chose no constant."""
    return bool(hashlib.sha256(f"{pair['id_a']}{pair['id_b']}".encode()).digest()[0] % 2)


def rule_figures(pairs: Sequence[dict[str, Any]], suffix: str = "") -> Figures:
    """Precision and recall of `groups` on judged pairs."""
    joined = np.array([groups([pair["a"], pair["b"]]) == [0, 0] for pair in pairs])
    same = np.array([pair["same"] == 1 for pair in pairs])
    figures: Figures = {f"pairs{suffix}": len(pairs), f"pairs_same{suffix}": int(same.sum())}
    for name, values in (("precision", same[joined]), ("recall", joined[same])):
        low, high = interval(100.0 * values)
        figures |= {f"{name}{suffix}": 100 * float(values.mean())}
        figures |= {f"{name}{suffix}_low": low, f"{name}{suffix}_high": high}
    return figures


def last_lists(lists: Sequence[LongList], work: Path) -> list[RankedList]:
    """The lists that the default plan's last blend reads, with scores of `same_answer` too."""
    job = load(SAMPLE)
    encoder = RememberedEncoder(passage_encoder(job), work)
    plan = remember(load_stages(CheckedPlan.of(job), lambda: encoder), work)
    plan.insert(2, Stage(COUNT, SameAnswer()))  # after Cosinet and the choice of whole sentences
    return [outcome.kept for outcome in run_stages([one.passages for one in lists], plan[:-1])]


def gain_figures(lists: Sequence[LongList], read: Sequence[RankedList]) -> Figures:
    """P@1 and MRR of the last blend without and with the count."""
    labels = [
        [int(candidate.candidate_id in one.gold) for candidate in ranked.candidates]
        for one, ranked in zip(lists, read, strict=True)
    ]
    keys = {score.stage for ranked in read for c in ranked.candidates[:1] for score in c.stages}
    names = [name for name in NAMES["last"] if name in keys or name in ("bm25", "dense")]
    without = held_out(read, labels, names)
    with_count = held_out(read, labels, [*names, COUNT])

    figures: Figures = {"questions": len(without["P@1"])}
    for metric, short in (("P@1", "p1"), ("MRR", "mrr")):
        comparison = compare_shared(without[metric], with_count[metric])
        figures |= {short: 100 * comparison.a, f"{short}_with_count": 100 * comparison.b}
        figures |= gain(f"{short}_gain", comparison)
    several = [next(s.score for s in r.candidates[0].stages if s.stage == COUNT) > 0 for r in read]
    return figures | {"several_pages": 100 * float(np.mean(several))}


def main() -> None:
    options = arguments(
        "same_answer",
        __doc__ or "",
        paths={"work": "folder that keeps lists and scores; out/long_lists"},
        numbers={"questions": "questions of L-dev; all if absent"},
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=True))

    torch.set_num_threads(1)
    pairs = judged_pairs()
    result = rule_figures([pair for pair in pairs if measures(pair)]) | rule_figures(pairs, "_all")
    result["readings_differ"] = sum(pair["reading_1"] != pair["reading_2"] for pair in pairs)

    with work_folder(options, "long_lists") as work:
        lists = [one for one in read_lists(options.data.resolve(), work, "dev") if one.gold]
        if options.questions:
            names = set(drawn((one.asked.question_id for one in lists), int(options.questions)))
            lists = [one for one in lists if one.asked.question_id in names]
        result |= gain_figures(lists, last_lists(lists, work))

    finish("same_answer", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
