"""Lists that a plan leaves of questions with and without an answer, for the calibrations of `sure`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.entry import decisive_settings
from answermill.ranking.plan import run_stages
from answermill.ranking.rerankers.probability.calibrating import LabelledList
from answermill.ranking.rerankers.probability.calibration_file import PlanStage
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, StageScore
from experiments.chain_rows import AT_ONCE
from experiments.judged_pool import PLACE, place_of, sheet_cells
from experiments.long_lists import LongList, read_lists
from experiments.question_sets.draw import questions
from experiments.question_sets.gold import Asked, drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import say

WITHOUT_ANSWER = "{}-without-answer"
"""Name of the set of questions that no page answers, beside L-dev or L-test."""
Row = Mapping[str, Any]
Place = tuple[str, ...]
"""Question and sentence, as a sheet of judgements names them."""


class PlanLists:
    """Lists that the plan leaves, kept in a file for each set."""

    def __init__(self, job: Job, data: Path, work: Path) -> None:
        self._job, self.data, self._work = job, data, work
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

    def rows(self, name: str, number: int | None) -> list[Row]:
        """Rows of the lists of a set and of the one without answers, by question id; `number`: questions that
        a hash draws, None for all."""
        set_of = {
            asked.question_id: part
            for part in (name, WITHOUT_ANSWER.format(name))
            for asked in questions(self.data, part)
        }
        wanted = drawn(set_of, number or len(set_of))
        rows = self._known(name)
        for part in dict.fromkeys(set_of.values()):
            if missing := [key for key in wanted if set_of[key] == part and key not in rows]:
                rows |= self._computed(name, part, missing)
        return [rows[key] for key in wanted]

    def _file(self, name: str) -> Path:
        plan = json.dumps([stage.model_dump() for stage in self.plan()], sort_keys=True)
        return self._work / f"sure-{hashlib.sha256(plan.encode()).hexdigest()[:12]}" / f"{name}.jsonl"

    def _known(self, name: str) -> dict[str, Row]:
        file = self._file(name)
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        return {row["question_id"]: row for row in map(json.loads, lines)}

    def _computed(self, name: str, part: str, wanted: Sequence[str]) -> dict[str, Row]:
        """Rows of these questions of a part, which are also added to the set's file, some at a time."""
        encoder = RememberedEncoder(passage_encoder(self._job), self._work)
        plan = remember(load_stages(self.checked, lambda: encoder), self._work)
        lists = {one.asked.question_id: one for one in read_lists(self.data, self._work, part)}
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
            say(f"{part}: {len(rows):,} of {len(wanted):,} lists")
        return rows

    def labelled(self, row: Row, right: Mapping[Place, bool]) -> LabelledList:
        """A list with its labels, and with `right`, judgements of sentences that are no labelled answer."""
        question = Question(row["question_id"], "")
        candidates = tuple(self._candidates(question, row["scores"]))
        labels = [label > 0 for label in row["right"]]
        place = place_of_best(row)
        is_right = right.get(place, False) if place else False
        if is_right:
            labels[0] = True
        return LabelledList(RankedList(question, candidates), tuple(labels), row["answerable"] or is_right)

    def _candidates(self, question: Question, scores: Sequence[Sequence[float]]) -> Iterator[Candidate]:
        """Candidates as far as a calibration needs them: best first, with the scores of the stages."""
        for n, values in enumerate(scores):
            passage = Passage(str(n), "", "", "", 0, 0, "", ())
            hit = Hit(question.question_id, question.text, n + 1, 0.0, None, None, None, None, passage)
            stages = tuple(
                StageScore(stage, value, n + 1) for stage, value in zip(self.stages, values, strict=True)
            )
            yield Candidate(hit, None, n, stages)


def lacks_page(asked: Asked) -> bool:
    """True for a third of the questions with an answer: they are asked as if the corpus lacked their page."""
    digest = hashlib.sha256(f"page:{asked.question_id}".encode()).digest()
    return bool(asked.gold) and int.from_bytes(digest[:8], "big") % 3 == 0


def asked_passages(one: LongList) -> RankedList:
    """Retrieved passages of a question, without those of its page if it is to lack it."""
    if not lacks_page(one.asked):
        return one.passages
    documents = one.asked.documents
    kept = (c for c in one.passages.candidates if c.hit.passage.doc_id not in documents)
    return replace(one.passages, candidates=tuple(kept))


def row_of(one: LongList, kept: RankedList) -> Row:
    """What the plan left of a list: scores of its stages, labels, and the best sentence as a sheet has it."""
    key, best = one.asked.question_id, kept.candidates[:1]
    return {
        "best": [sheet_cells(place_of(key, each), one.asked.text, each) for each in best],
        "question_id": one.asked.question_id,
        "answerable": bool(one.gold) and not lacks_page(one.asked),
        "right": [int(c.candidate_id in one.gold) for c in kept.candidates],
        "scores": [[score.score for score in c.stages] for c in kept.candidates],
    }


def place_of_best(row: Row) -> Place | None:
    """Place of the best sentence of a row; None of an empty list."""
    return tuple(row["best"][0][: len(PLACE)]) if row["best"] else None


def kinds_without_answer(data: Path, name: str) -> dict[str, frozenset[str]]:
    """Kind of questions that were asked without an answer → their ids."""
    kinds: dict[str, set[str]] = {"no_page": {q.question_id for q in questions(data, name) if lacks_page(q)}}
    for asked in questions(data, WITHOUT_ANSWER.format(name)):
        kinds.setdefault(asked.source, set()).add(asked.question_id)
    return {kind: frozenset(ids) for kind, ids in kinds.items()}
