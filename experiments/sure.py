"""Answers of a plan with the probability that they are right, and the share that is given if only some may be
wrong.

Questions are those of `long_lists` and of its sets without an answer, whose page is there and does not answer
them. Of the former a hash draws a third to be asked as if the corpus lacked their page: the passages of the
gold document leave the list before the plan reads it. They have no answer either, nor have those whose answer
was not retrieved. Labels are of one document, so a right sentence of another page counts as wrong. The first
answers of a probability of JUDGED or more that do were therefore judged by a language model in two
readings (`testing/judgements.py`); `sure.tsv` has it, for the base plan also `sure_base.tsv`, and for L-test
`judged_pool.tsv` too. On L-dev the plan is calibrated as `answermill calibrate` does, which writes the file
that the sample's plan names: fitted on a third, and on the others, held back, a bar is chosen for each share
of wrong answers in MAX_WRONG. L-test measures that file and these bars. --plan base does so for the base
plan: its keys are in `sure_base`.

Keys, of L-test unless they begin with `dev_`: `questions`, `unanswerable` among them; `ece` and `brier` of
the first answers, with bootstrapped 95 % intervals, on L-dev each by a fit without its fold; `right`,
percentage of right ones, and `probability_3` and `right_3`, mean probability and percentage right of the
fourth of ten bins of equally many; `wrong_of_all`, percentage wrong if all are given. For a share of 15 %:
`promised_at_15`, 0 where no bar can promise it, and then none of `bar_at_15`; `answers_at_15` at or above it
and `wrong_at_15`, percentage wrong of them, with its exact 95 % interval, `wrong_by_labels_at_15`, without
the judgements, and `wrong_known_at_15`, of the answers to questions of the kinds that L-dev has;
`answered_at_15`, percentage of questions answered; `right_kept_at_15`, percentage of all right first answers
that is given; `declined_of_unanswerable_at_15`, percentage of the questions without an answer that get none,
with its interval, and the same of a kind of them: `declined_no_page_at_15` of those without their page,
`declined_wikiqa_at_15` of real queries that their page does not answer, and `declined_squad_at_15` of
SQuAD's, written to seem answerable; `dev_answered_at_15`, `dev_wrong_at_15` and `dev_p_at_15` of the test of
the bar on the `dev_held_back` questions of L-dev. `dev_judged` and `judged` first answers, `dev_judged_right`
and `judged_right` of them, and `kappa` of the readings of the former two files; `unjudged`: --sheet FILE
writes these, to be judged.

--work keeps the lists and what the plan has left of each, so that a stopped run goes on. --questions and
--dev-questions take that many of L-test and of L-dev, drawn by hash.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binomtest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.revision import code_version
from answermill.ranking.evaluation.risk_coverage import reliability
from answermill.ranking.rerankers.probability.bar import Bar
from answermill.ranking.rerankers.probability.calibrating import (
    BINS,
    LabelledList,
    brier_interval,
    calibrate,
    error_interval,
    first_probabilities,
    held_out,
)
from answermill.schemas.arrays import Bools, Floats
from experiments import judged_pool
from experiments.judged_pool import PLACE, write_sheet
from experiments.long_lists import small_lists
from experiments.sure_lists import Place, PlanLists, Row, kinds_without_answer, place_of_best
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.judgements import Judgement, agreement, read_judgements
from testing.smoke_data import small_plan

MEASURED_MODELS = {"sure": ("cascade", "cosinet"), "sure_base": ("cascade_base", "cosinet")}
DECIDED = "The calibration of the sample's plan `sure`, whose file it writes."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample"
PLANS = {"default": "job.toml", "base": "base.toml"}
FILES = {"default": "probability.json", "base": "probability_base.json"}
"""Files of the calibrations in the sample's folder `weights`."""
MAX_WRONG = (0.1, 0.15, 0.2)
"""Shares of wrong answers that are promised, where the labels are enough."""
SHEETS = {"default": ("sure.tsv",), "base": ("sure.tsv", "sure_base.tsv")}
"""Files of the judgements of a plan's first answers."""
UNKNOWN = "squad"
"""Kind of questions without an answer that L-dev lacks."""
JUDGED = 0.5
"""Least probability of a first answer that is judged where it counts as wrong."""
Result = dict[str, float | int | str]


def percentage(key: str, count: int, total: int) -> Result:
    """A percentage with its exact 95 % interval (Clopper and Pearson)."""
    if not total:
        return {}
    low, high = binomtest(count, total).proportion_ci(0.95)
    return {key: 100 * count / total, f"{key}_low": 100 * low, f"{key}_high": 100 * high}


def of_first_answers(prefix: str, lists: Sequence[LabelledList], probability: Floats) -> Result:
    """Counts, P@1, calibration error and Brier score of a set."""
    right = np.array([labelled.is_right for labelled in lists], np.float64)
    result: Result = {
        f"{prefix}questions": len(lists),
        f"{prefix}unanswerable": sum(not labelled.answerable for labelled in lists),
        f"{prefix}right": 100 * float(right.mean()),
    }
    for key, figure in (
        ("ece", error_interval(probability, right)),
        ("brier", brier_interval(probability, right)),
    ):
        names = (f"{prefix}{key}", f"{prefix}{key}_low", f"{prefix}{key}_high")
        result |= dict(zip(names, (figure.value, figure.low, figure.high), strict=True))
    for n, part in enumerate(reliability(probability, right, BINS)):
        result |= {f"{prefix}probability_{n}": 100 * part.confidence, f"{prefix}right_{n}": 100 * part.right}
    return result


def at_bar(
    lists: Sequence[LabelledList],
    by_labels: Bools,
    kinds: Mapping[str, frozenset[str]],
    probability: Floats,
    bar: float,
    ending: str,
) -> Result:
    """Figures of the answers at or above a bar, with names that end in `ending`.

    `by_labels` [questions]: true where the first answer is right without a judgement.
    """
    right = np.array([labelled.is_right for labelled in lists])
    unanswerable = {"of_unanswerable": ~np.array([labelled.answerable for labelled in lists])}
    for kind, ids in kinds.items():
        is_kind = np.array([labelled.question_id in ids for labelled in lists])
        unanswerable[kind] = is_kind & unanswerable["of_unanswerable"]  # not if another page answers it
    is_given = probability >= bar
    result: Result = {f"bar_{ending}": bar, f"answers_{ending}": int(is_given.sum())}
    result |= percentage(f"wrong_{ending}", int((is_given & ~right).sum()), int(is_given.sum()))
    result |= percentage(f"wrong_by_labels_{ending}", int((is_given & ~by_labels).sum()), int(is_given.sum()))
    known = is_given & ~np.array([labelled.question_id in kinds.get(UNKNOWN, ()) for labelled in lists])
    result |= percentage(f"wrong_known_{ending}", int((known & ~right).sum()), int(known.sum()))
    result |= percentage(f"answered_{ending}", int(is_given.sum()), len(lists))
    result[f"right_kept_{ending}"] = 100 * float((is_given & right).sum() / max(1, right.sum()))
    for kind, some in unanswerable.items():
        result |= percentage(f"declined_{kind}_{ending}", int((some & ~is_given).sum()), int(some.sum()))
    return result


def number_of(option: float | None) -> int | None:
    return None if option is None else int(option)


def judgements(plan: str) -> list[Judgement]:
    """The judgements of all files of a plan."""
    folder = Path(__file__).parent
    return [row for name in SHEETS[plan] for row in read_judgements(folder / name, PLACE)]


def right_by_labels(rows: Sequence[Row]) -> Bools:
    """[questions]: true where the first answer is a labelled one."""
    return np.array([bool(row["right"]) and row["right"][0] > 0 for row in rows], np.bool_)


def unjudged(rows: Sequence[Row], probability: Floats, judged: Mapping[Place, bool]) -> list[Sequence[str]]:
    """Rows of a sheet: best sentences that count as wrong, as likely as JUDGED, without a judgement."""
    is_asked = (probability >= JUDGED) & ~right_by_labels(rows)
    return [
        row["best"][0]
        for row, ask in zip(rows, is_asked, strict=True)
        if ask and place_of_best(row) not in judged
    ]


def measured(options: argparse.Namespace, lists: PlanLists, file: Path) -> tuple[Result, list[Sequence[str]]]:
    """Keys, and rows of a sheet: first answers that lack a judgement."""
    own = {row.place: row.label == 1 for row in judgements(options.plan)}
    pool = {row.place: row.label == 1 for row in read_judgements(judged_pool.SHEET, PLACE)}

    rows = lists.rows("dev", number_of(options.dev_questions))
    dev = [lists.labelled(row, own) for row in rows]
    content = calibrate(dev, lists.plan(), "L-dev", code_version())
    content.write(file)
    result = of_first_answers("dev_", dev, held_out(dev, lists.stages)[0])
    probability = first_probabilities(dev, content.calibration, lists.stages)
    result |= of_judgements("dev_", rows, own)
    missing = unjudged(rows, probability, own)

    rows = lists.rows("test", number_of(options.questions))
    test = [lists.labelled(row, pool | own) for row in rows]
    kinds = kinds_without_answer(lists.data, "test")
    probability = first_probabilities(test, content.calibration, lists.stages)
    result |= of_first_answers("", test, probability)
    result |= of_judgements("", rows, pool | own)
    missing += unjudged(rows, probability, pool | own)

    result |= {"wrong_of_all": 100 - float(result["right"]), "dev_held_back": len(content.held_back.right)}
    for share in MAX_WRONG:
        ending = f"at_{100 * share:.0f}"
        try:
            bar = content.bar(share)
        except ValueError as e:
            say(str(e))
            result[f"promised_{ending}"] = 0
            continue
        result[f"promised_{ending}"] = 1
        result |= at_bar(test, right_by_labels(rows), kinds, probability, bar.probability, ending)
        result |= promise(bar, ending)
    return result, missing


def of_judgements(prefix: str, rows: Sequence[Row], judged: Mapping[Place, bool]) -> Result:
    """Counts of the first answers that are judged."""
    places = filter(None, map(place_of_best, rows))
    right = [judged[place] for place in places if place in judged]
    return {f"{prefix}judged": len(right), f"{prefix}judged_right": sum(right)}


def promise(bar: Bar, ending: str) -> Result:
    """Figures of the test on the part of L-dev that was held back."""
    return {
        f"dev_answered_{ending}": 100 * bar.answered / bar.questions,
        f"dev_wrong_{ending}": 100 * bar.wrong / bar.answered,
        f"dev_p_{ending}": bar.p,
    }


def main() -> None:
    options = arguments(
        "sure",
        __doc__ or "",
        paths={
            "work": "folder that keeps lists and scores; out/long_lists",
            "sheet": "file to write the first answers to that lack a judgement",
        },
        numbers={
            "questions": "questions of L-test; all if absent",
            "dev-questions": "questions of L-dev; all if absent",
        },
        choices={"plan": tuple(PLANS)},
    )
    if options.smoke:
        small_lists()
        plan = small_plan(fitted=True)
        shrink(globals(), SAMPLE=plan.parent, PLANS=dict.fromkeys(PLANS, plan.name))

    torch.set_num_threads(1)
    file = SAMPLE / "weights" / FILES[options.plan]
    file.parent.mkdir(exist_ok=True)
    job = load(SAMPLE / PLANS[options.plan])
    with work_folder(options, "long_lists") as work:
        result, missing = measured(options, PlanLists(job, options.data.resolve(), work), file)

    result |= {"unjudged": len(missing), "kappa": agreement(judgements(options.plan)).value or 0.0}
    if options.sheet:
        write_sheet(options.sheet, missing)
    if missing and options.save:
        raise SystemExit(f"{len(missing)} first answers lack a judgement; write them with --sheet FILE")
    name = "sure" if options.plan == "default" else f"sure_{options.plan}"
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
