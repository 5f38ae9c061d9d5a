"""The row that the papers print of a data set (Cosinet Table 2, Cascade Transformer Table 1, MHS Table 1),
counted in a stream.

Lengths. spaCy's English tokens, white space not among them, give Cosinet's 7.28 per question of WikiQA's test
set (7.28 here) and nearly its 25.36 per candidate (25.38; the paper's spaCy is 2.1). Its figures for
SQuAD-sent, 10.02 and 23.75, are those of words between blanks (10.02 and 23.74), not of spaCy's tokens (11.30
and 27.56): the table mixes two ways of counting, and so both are here. A question counts once for its own
length, a candidate once for each question that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Literal, Self, get_args

from answermill.schemas.labels import LabelledCandidate

Tokens = Literal["spacy", "blanks"]
Kept = Literal["all", "answerable", "clean"]


@dataclass
class Totals:
    """Sums over some questions, and the averages that follow from them."""

    questions: int = 0
    answerable: int = 0
    candidates: int = 0
    positives: int = 0
    question_tokens: int = 0
    candidate_tokens: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def answered(self) -> float:
        """Percent of the questions that have a positive; 0 if there are none, as below."""
        return 100 * self.answerable / max(1, self.questions)

    @property
    def average_candidates(self) -> float:
        """Candidates per question."""
        return self.candidates / max(1, self.questions)

    @property
    def average_positives(self) -> float:
        """Positives per question."""
        return self.positives / max(1, self.questions)

    @property
    def question_length(self) -> float:
        """Tokens, mean over questions."""
        return self.question_tokens / max(1, self.questions)

    @property
    def candidate_length(self) -> float:
        """Tokens, mean over candidates."""
        return self.candidate_tokens / max(1, self.candidates)


class DatasetStatistics:
    """Tallies of all questions, the answerable (they have a positive), and the clean (a positive and a
    negative).

    `add` takes the candidates as `read_dataset` gives them, a question's one after the other, in any number
    of calls. Only sums are kept.
    """

    def __init__(self, tokens: Tokens = "spacy") -> None:
        self._length = _length_by(tokens)
        self._closed: dict[Kept, Totals] = {kept: Totals() for kept in get_args(Kept)}
        self._question = Totals()  # sums of the question whose candidates are being read
        self._question_id: str | None = None

    def add(self, candidates: Iterable[LabelledCandidate]) -> Self:
        """Count the candidates; returns the statistics."""
        for candidate in candidates:
            if candidate.question_id != self._question_id:
                self._closed = {kept: self.over(kept) for kept in self._closed}
                self._question = Totals(questions=1, question_tokens=self._length(candidate.question))
                self._question_id = candidate.question_id

            question = self._question
            question.answerable |= candidate.label
            question.candidates += 1
            question.positives += candidate.label
            question.candidate_tokens += self._length(candidate.text)
        return self

    def over(self, kept: Kept) -> Totals:
        """The sums over these questions so far."""
        question = self._question
        if not {
            "all": True,
            "answerable": question.positives,
            "clean": 0 < question.positives < question.candidates,
        }[kept]:
            return self._closed[kept]
        return self._closed[kept] + question


@dataclass(frozen=True)
class Published:
    """A paper's row of the questions of a split that it keeps; None where it gives no figure."""

    source: str
    kept: Kept
    questions: float
    candidates: float | None = None
    positives: float | None = None
    answered: float | None = None
    average_candidates: float | None = None
    average_positives: float | None = None
    question_length: float | None = None
    candidate_length: float | None = None


def _cosinet(
    questions: int, candidates: int, *, answered: float, average: float, lengths: tuple[float, float]
) -> Published:
    """`lengths`: those of a question and of a candidate."""
    return Published("Cosinet T2", "all", questions, candidates, None, answered, average, None, *lengths)


def _cascade(questions: int, average: float, average_positives: float) -> Published:
    return Published("Cascade T1", "answerable", questions, None, None, None, average, average_positives)


def _mhs(questions: int, candidates: int, positives: int) -> Published:
    return Published("MHS T1", "answerable", questions, candidates, positives)


def _has(questions: int, average: float | None = None) -> Published:
    return Published("HAS T1", "answerable", questions, average_candidates=average)


# By (set, split); "193k" is NQ-LA's count as printed.
PUBLISHED: Mapping[tuple[str, str], Sequence[Published]] = {
    ("wikiqa", "train"): (_mhs(873, 8_672, 1_040), _cascade(873, 9.9, 1.2), _has(873, 9)),
    ("wikiqa", "dev"): (_mhs(126, 1_130, 140), _cascade(126, 9.0, 1.1), _has(126, 9)),
    ("wikiqa", "test"): (
        _cosinet(633, 6_165, answered=38.39, average=9.74, lengths=(7.28, 25.36)),
        _mhs(243, 2_351, 293),
        _cascade(243, 9.7, 1.2),
        _has(243, 9),
    ),
    ("squad-sent", "test"): (_cosinet(11_873, 63_959, answered=49.92, average=5.38, lengths=(10.02, 23.75)),),
    ("nq-la", "test"): (_cosinet(6_230, 193_000, answered=55.47, average=30.95, lengths=(9.38, 98.76)),),
    ("asnq", "train"): (_mhs(57_242, 23_662_238, 69_002), _cascade(57_242, 413.3, 1.2)),
    ("asnq", "dev"): (_mhs(1_336, 539_210, 4_166), _cascade(1_336, 403.6, 3.2)),
    ("asnq", "test"): (_mhs(1_336, 535_116, 4_250), _cascade(1_336, 400.5, 3.2)),
    ("trecqa", "train"): (_cascade(1_227, 39.2, 4.8),),
    ("trecqa", "dev"): (_cascade(65, 15.9, 2.9),),
    ("trecqa", "test"): (_cascade(68, 20.0, 3.4),),
    ("insuranceqa", "train"): (_has(12_887),),
    ("insuranceqa", "dev"): (_has(1_000, 500),),
    ("insuranceqa", "test1"): (_has(1_800, 500),),
    ("insuranceqa", "test2"): (_has(1_800, 500),),
}
_COLUMNS = {
    "questions": "questions",
    "candidates": "candidates",
    "positives": "positives",
    "answered": "answered %",
    "average_candidates": "cand./q.",
    "average_positives": "pos./q.",
    "question_length": "q. length",
    "candidate_length": "cand. length",
}


def table(statistics: DatasetStatistics, published: Sequence[Published] = ()) -> list[str]:
    """The lines of a table: all, answerable and clean questions, then the published rows ('-' for no
    figure)."""
    rows: list[tuple[str, Totals | Published]] = [(kept, statistics.over(kept)) for kept in get_args(Kept)]
    rows += [(f"{row.source} ({row.kept})", row) for row in published]
    lines = [["", *_COLUMNS.values()]]
    lines += [[name, *(_number(getattr(row, column)) for column in _COLUMNS)] for name, row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join((cell.rjust if n else cell.ljust)(widths[n]) for n, cell in enumerate(line))
        for line in lines
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _length_by(tokens: Tokens) -> Callable[[str], int]:
    """A function: text -> its number of tokens."""
    if tokens == "blanks":
        return lambda text: len(text.split())
    if tokens != "spacy":
        raise ValueError(f"tokens is {tokens!r}; known: {', '.join(get_args(Tokens))}")

    import spacy  # takes seconds, so not at the top

    nlp = spacy.blank("en")

    @lru_cache(1 << 17)  # spaCy, too, splits between blanks first and then each piece on its own
    def pieces(word: str) -> int:
        with nlp.memory_zone():  # or it keeps every word that it ever saw
            return len(nlp.tokenizer(word))

    return lambda text: sum(map(pieces, text.split()))
