"""Some questions with their first answers, for readers of a report: each answer in its passage, with its page
and its place in the crawl.

The questions are chosen by a hash of their ids, so that the same run shows the same ones.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np

from answermill.pipelines.look.report.correct_answers import LostAnswer
from answermill.pipelines.look.report.figures import ShownAnswer, ShownLoss, ShownQuestion
from answermill.pipelines.look.report.scored_blocks import ScoredBlock
from answermill.pipelines.runs.parquet_folder import Folder, Part, read_batches, read_rows
from answermill.schemas.ranked import Hit, ScoredCandidate

QUESTIONS, LOSSES, ANSWERS = 20, 12, 3
AROUND = 240
"""Most characters of the passage that are shown before an answer, and after it."""


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """A question that may be shown, with the place of its rows; the smallest digests are chosen."""

    digest: str
    question_id: str
    part: str
    first_row: int
    kept: int


class Choices:
    """Chooses among the questions of all blocks; holds no more than are shown."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.questions: list[Choice] = []
        self.losses: list[tuple[Choice, LostAnswer]] = []

    def add(self, block: ScoredBlock, losses: dict[int, LostAnswer]) -> None:
        """Consider the questions of a block."""
        kept = np.bincount(block.question[block.rank > 0], minlength=len(block.question_ids))
        chosen = [
            Choice(
                hashlib.sha256(f"{self._seed}\0{question_id}".encode()).hexdigest(),
                question_id,
                block.part.file,
                block.first_row + int(block.begins[n]),
                int(kept[n]),
            )
            for n, question_id in enumerate(block.question_ids)
        ]
        self.questions = heapq.nsmallest(QUESTIONS, [*self.questions, *chosen])

        lost = [(chosen[n], loss) for n, loss in losses.items()]
        self.losses = heapq.nsmallest(LOSSES, [*self.losses, *lost], key=itemgetter(0))


class Reader:
    """Reads the rows that are shown, and of the parts only the row groups that have them."""

    def __init__(
        self,
        scored: Folder[ScoredCandidate],
        retrieved: Folder[Hit] | None,
        labels: Mapping[tuple[str, str], bool],
    ) -> None:
        """`labels`: (question id, candidate id) → True if correct, of the judged candidates of the shown
        questions."""
        self._scored = scored
        self._parts = {part.file: part for part in scored.parts}
        self._labels = labels
        self._hits = Hits(retrieved)

    def questions(self, choices: Iterable[Choice]) -> Iterator[ShownQuestion]:
        """The chosen questions in the order of the run, so that each part is opened once."""
        for choice in sorted(choices, key=_place):
            rows = self._read(choice.part, choice.first_row, max(1, min(choice.kept, ANSWERS)))
            answers = tuple(
                self._answer(row, self._parts[choice.part]) for row in rows if row.rank is not None
            )
            yield ShownQuestion(choice.question_id, rows[0].question, answers)

    def losses(self, choices: Iterable[tuple[Choice, LostAnswer]]) -> Iterator[ShownLoss]:
        """The chosen losses in the same order."""
        for choice, loss in sorted(choices, key=lambda pair: _place(pair[0])):
            part = self._parts[choice.part]
            (first,) = self._read(choice.part, choice.first_row, 1)
            (correct,) = self._read(choice.part, loss.row, 1)
            answer = self._answer(first, part) if first.rank is not None else None
            yield ShownLoss(
                choice.question_id, first.question, loss.fate, loss.stage, self._answer(correct, part), answer
            )

    def _read(self, file: str, first: int, rows: int) -> list[ScoredCandidate]:
        return list(read_rows(self._scored.path, self._parts[file], ScoredCandidate, first, first + rows))

    def _answer(self, row: ScoredCandidate, part: Part) -> ShownAnswer:
        before = after = source_file = ""
        offset: int | None = None
        hit = self._hits.find(part.unit, row.question_id, row.retrieved_rank)

        if hit is not None and hit.passage.passage_id == row.passage_id:
            passage = hit.passage
            source_file, offset = passage.source_file, passage.source_offset if passage.source_file else None
            before = shortened_before(passage.text[: max(0, row.start - passage.start)])
            after = shortened_after(passage.text[max(0, row.end - passage.start) :])

        return ShownAnswer(
            text=row.text,
            before=before,
            after=after,
            rank=row.rank,
            score=row.stages[-1].score if row.stages else None,
            retrieved_rank=row.retrieved_rank,
            title=row.title,
            url=row.url,
            start=row.start,
            source_file=source_file,
            source_offset=offset,
            is_correct=self._labels.get((row.question_id, row.candidate_id)),
        )


class Hits:
    """Reader of single rows of retrieved/; finds none if the folder was removed."""

    def __init__(self, retrieved: Folder[Hit] | None) -> None:
        self._folder = retrieved
        self._begins: dict[int, dict[str, int]] = {}

    def find(self, unit: int, question_id: str, rank: int) -> Hit | None:
        """The hit of a question at a rank; `unit` is the unit of its part."""
        if self._folder is None or unit >= len(self._folder.parts):
            return None
        part = self._folder.parts[unit]
        if unit not in self._begins:
            self._begins = {unit: _begins(self._folder.path, part)}  # questions are read part by part
        begin = self._begins[unit].get(question_id)
        if begin is None:
            return None
        hits = list(read_rows(self._folder.path, part, Hit, begin + rank - 1, begin + rank))
        return hits[0] if hits and (hits[0].question_id, hits[0].rank) == (question_id, rank) else None


def _place(choice: Choice) -> tuple[str, int]:
    return choice.part, choice.first_row


def _begins(folder: Path, part: Part) -> dict[str, int]:
    """Question id → row of its first hit."""
    begins: dict[str, int] = {}
    row = 0
    for batch in read_batches(folder, part, ["question_id"], rows=65_536):
        for question_id in batch.column(0).to_pylist():
            begins.setdefault(question_id, row)
            row += 1
    return begins


def shortened_before(text: str) -> str:
    """The end of a text, in whole words."""
    return text if len(text) <= AROUND else "… " + text[-AROUND:].partition(" ")[2]


def shortened_after(text: str) -> str:
    """The beginning of a text, in whole words."""
    return text if len(text) <= AROUND else text[:AROUND].rpartition(" ")[0] + " …"
