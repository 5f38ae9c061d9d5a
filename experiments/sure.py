"""Answers of the default plan with the probability that they are right, and the share that is given if only
some may be wrong.

A hash draws half of the questions of `long_lists` to be asked as if the corpus lacked their page: the
passages of the gold document leave the list before the plan reads it. They have no answer, as have those
whose answer was not retrieved; a right sentence of another page counts as wrong, since no label knows it. On
L-dev the plan is calibrated as `answermill calibrate` does, which writes the file that the sample's plan
`sure` names: fitted on a third, and on the others, held back, a bar is chosen for each share of wrong answers
in MAX_WRONG. L-test measures that file and these bars.

Keys, of L-test unless they begin with `dev_`: `questions`, `unanswerable` among them; `ece` and `brier` of
the first answers, with bootstrapped 95 % intervals, on L-dev each by a fit without its fold; `right`,
percentage of right ones, and `probability_3` and `right_3`, mean probability and percentage right of the
fourth of ten bins of equally many; `wrong_of_all`, percentage wrong if all are given. For a share of 15 %:
`promised_at_15`, 0 where no bar can promise it, and then none of `bar_at_15`; `answers_at_15` at or above it
and `wrong_at_15`, percentage wrong of them, with its exact 95 % interval; `answered_at_15`, percentage of
questions answered; `right_kept_at_15`, percentage of all right first answers that is given;
`declined_of_unanswerable_at_15`, percentage of the questions without an answer that get none, with its
interval, and `declined_without_page_at_15` of those without their page alone; `dev_answered_at_15`,
`dev_wrong_at_15` and `dev_p_at_15` of the test of the bar on the `dev_held_back` questions of L-dev.

--work keeps the lists and what the plan has left of each, so that a stopped run goes on. --questions and
--dev-questions take that many of a set, drawn by hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.revision import code_version
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.entry import decisive_settings
from answermill.ranking.evaluation.risk_coverage import reliability
from answermill.ranking.plan import run_stages
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
from answermill.ranking.rerankers.probability.calibration_file import PlanStage
from answermill.schemas.arrays import Floats
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, StageScore
from experiments.chain_rows import AT_ONCE
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.question_sets.draw import questions
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = "The calibration of the sample's plan `sure`, whose file it writes, and the bar of max_wrong = 0.1."
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
FILE = "weights/probability.json"
MAX_WRONG = (0.1, 0.15, 0.2)
"""Shares of wrong answers that are promised, where the labels are enough."""
Row = Mapping[str, Any]
Result = dict[str, float | int | str]


class PlanLists:
    """Lists that the plan leaves, kept in a file for each set."""

    def __init__(self, job: Job, data: Path, work: Path) -> None:
        self._job, self._data, self._work = job, data, work
        self.checked = CheckedPlan.of(job)
        self.stages = [stage.key for stage in self.checked.stages]

    def plan(self) -> list[PlanStage]:
        """Stages of the plan, as a calibration file has them."""
        models = self.checked.model_of_stage
        return [
            PlanStage(
                key=stage.key,
                reranker=stage.reranker,
                model=models[stage.key],
                settings=decisive_settings(stage, self.checked.files),
            )
            for stage in self.checked.stages
        ]

    def labelled(self, name: str, number: int | None) -> list[LabelledList]:
        """Lists of a set, by question id; `number`: questions that a hash draws, None for all."""
        ids = [asked.question_id for asked in questions(self._data, name)]
        wanted = drawn(ids, number or len(ids))
        rows = self._known(name)
        if missing := [key for key in wanted if key not in rows]:
            rows |= self._computed(name, missing)
        return [self._list(rows[key]) for key in wanted]

    def _file(self, name: str) -> Path:
        plan = json.dumps([stage.model_dump() for stage in self.plan()], sort_keys=True)
        return self._work / f"sure-{hashlib.sha256(plan.encode()).hexdigest()[:12]}" / f"{name}.jsonl"

    def _known(self, name: str) -> dict[str, Row]:
        file = self._file(name)
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        return {row["question_id"]: row for row in map(json.loads, lines)}

    def _computed(self, name: str, wanted: Sequence[str]) -> dict[str, Row]:
        """Rows of these questions, which are also added to the file, some at a time."""
        encoder = RememberedEncoder(passage_encoder(self._job), self._work)
        plan = remember(load_stages(self.checked, lambda: encoder), self._work)
        lists = {one.asked.question_id: one for one in read_lists(self._data, self._work, name)}
        self._file(name).parent.mkdir(parents=True, exist_ok=True)
        rows: dict[str, Row] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            chosen = [lists[key] for key in some]
            outcomes = run_stages([asked_passages(one) for one in chosen], plan)
            new = {
                key: row_of(one, outcome.kept)
                for key, one, outcome in zip(some, chosen, outcomes, strict=True)
            }
            with self._file(name).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in new.values())
            rows |= new
            say(f"{name}: {len(rows):,} of {len(wanted):,} lists")
        return rows

    def _list(self, row: Row) -> LabelledList:
        question = Question(row["question_id"], "")
        candidates = tuple(self._candidates(question, row["scores"]))
        return LabelledList(
            RankedList(question, candidates), tuple(label > 0 for label in row["right"]), row["answerable"]
        )

    def _candidates(self, question: Question, scores: Sequence[Sequence[float]]) -> Iterator[Candidate]:
        """Candidates as far as a calibration needs them: best first, with the scores of the stages."""
        for n, values in enumerate(scores):
            passage = Passage(str(n), "", "", "", 0, 0, "", ())
            hit = Hit(question.question_id, question.text, n + 1, 0.0, None, None, None, None, passage)
            stages = tuple(
                StageScore(stage, value, n + 1) for stage, value in zip(self.stages, values, strict=True)
            )
            yield Candidate(hit, None, n, stages)


def lacks_page(question_id: str) -> bool:
    """True for the half of the questions that are asked as if the corpus lacked their page."""
    return hashlib.sha256(f"page:{question_id}".encode()).digest()[0] < 128


def asked_passages(one: LongList) -> RankedList:
    """Retrieved passages of a question, without those of its page if it is to lack it."""
    if not lacks_page(one.asked.question_id):
        return one.passages
    documents = one.asked.documents
    kept = (c for c in one.passages.candidates if c.hit.passage.doc_id not in documents)
    return replace(one.passages, candidates=tuple(kept))


def row_of(one: LongList, kept: RankedList) -> Row:
    """What the plan left of a list: scores of its stages, and labels."""
    return {
        "question_id": one.asked.question_id,
        "answerable": bool(one.gold) and not lacks_page(one.asked.question_id),
        "right": [int(c.candidate_id in one.gold) for c in kept.candidates],
        "scores": [[score.score for score in c.stages] for c in kept.candidates],
    }


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


def at_bar(lists: Sequence[LabelledList], probability: Floats, bar: float, ending: str) -> Result:
    """Figures of the answers at or above a bar, with names that end in `ending`."""
    right = np.array([labelled.is_right for labelled in lists])
    unanswerable = ~np.array([labelled.answerable for labelled in lists])
    no_page = np.array([lacks_page(labelled.question_id) for labelled in lists])
    is_given = probability >= bar
    result: Result = {f"bar_{ending}": bar, f"answers_{ending}": int(is_given.sum())}
    result |= percentage(f"wrong_{ending}", int((is_given & ~right).sum()), int(is_given.sum()))
    result |= percentage(f"answered_{ending}", int(is_given.sum()), len(lists))
    result[f"right_kept_{ending}"] = 100 * float((is_given & right).sum() / max(1, right.sum()))
    for key, some in (("declined_of_unanswerable", unanswerable), ("declined_without_page", no_page)):
        result |= percentage(f"{key}_{ending}", int((some & ~is_given).sum()), int(some.sum()))
    return result


def number_of(option: float | None) -> int | None:
    return None if option is None else int(option)


def measured(options: argparse.Namespace, lists: PlanLists, file: Path) -> Result:
    dev = lists.labelled("dev", number_of(options.dev_questions))
    content = calibrate(dev, lists.plan(), "L-dev", code_version())
    content.write(file)
    result = of_first_answers("dev_", dev, held_out(dev, lists.stages)[0])

    test = lists.labelled("test", number_of(options.questions))
    probability = first_probabilities(test, content.calibration, lists.stages)
    result |= of_first_answers("", test, probability)
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
        result |= at_bar(test, probability, bar.probability, ending) | promise(bar, ending)
    return result


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
        paths={"work": "folder that keeps lists and scores; out/long_lists"},
        numbers={
            "questions": "questions of L-test; all if absent",
            "dev-questions": "questions of L-dev; all if absent",
        },
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=True))

    torch.set_num_threads(1)
    file = SAMPLE.parent / FILE
    file.parent.mkdir(exist_ok=True)
    with work_folder(options, "long_lists") as work:
        result = measured(options, PlanLists(load(SAMPLE), options.data.resolve(), work), file)

    finish("sure", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
