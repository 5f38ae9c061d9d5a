"""Figures of a run's report: everything that report.json holds and report.html shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from answermill.pipelines.look.annotation.annotation_progress import AnnotationFigures
from answermill.pipelines.look.report.agreement import Agreement
from answermill.pipelines.look.report.correct_answers import Fate, Quality
from answermill.pipelines.look.report.histogram import Bin


@dataclass(frozen=True, slots=True)
class StepFigures:
    """A complete step."""

    step: str
    rows: Mapping[str, int]
    """Folder → rows."""
    bytes: int
    """Bytes of all parts."""
    version: str
    revision: int
    fingerprint: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    """First inputs by name → their digests."""
    more_inputs: int
    environment: Mapping[str, str]
    counts: Mapping[str, int]
    """Every count that is not 0, inner ones as 'stages.cascade.incoming'."""
    ended: float | None
    """Seconds since 1970; None if the run does not say."""
    clock_seconds: float | None
    """Seconds by the clock, within the command that ended it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A step that is not complete, and what it does or lacks."""

    step: str
    state: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A bar of a funnel."""

    what: str
    count: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rejects:
    """Records that a step refused, by reason, most first."""

    folder: str
    rows: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepCost:
    """Time of all workers for one kind of work, and the number of items that they did."""

    what: str
    items: int
    item: str
    seconds: float
    dollars: float | None

    @property
    def per_second(self) -> float:
        return self.items / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Predicted:
    """A count, 'bytes of FOLDER' or 'seconds of STEP', as planned and as it was."""

    what: str
    predicted: float
    actual: float


@dataclass(frozen=True, slots=True)
class StageFigures:
    """A stage of the plan. Fields are None if they were not counted or have no price."""

    name: str
    reranker: str
    came: int
    went: int
    dropped: int
    """Rows of scored/ that name the stage as the one that dropped them."""
    seconds: float | None
    candidates_per_second: float | None
    card_share: float | None
    """Share of its seconds in which a graphics card was at work; None on a processor."""
    card_peak_bytes: int | None
    """Peak of a worker's memory on its card, including the models' weights; None on a processor."""
    layer_tokens: int | None
    full_layer_tokens: int | None
    """Layers × tokens if no candidate had left within the stage."""
    dollars: float | None
    bin_width: float
    scores: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """The first answers of all questions."""

    questions: int
    answered: int
    """Questions with a kept candidate, given as the answer or declined."""
    declined: int
    """Questions whose best candidate is below the bar of rerank.answers."""
    promise: str
    """What the bar promises; '' if nothing."""
    retrieved_rank: Mapping[str, int]
    """Rank of the answer's passage in retrieval's order, as a range → answers."""
    sources: Mapping[str, int]
    """The index that returned the answer's passage → answers."""
    several_pages: int
    """Answers that several pages give, each by a retrieved candidate that says the same."""
    several_sites: int


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """A slow unit of work."""

    step: str
    unit: int
    seconds: float
    times_mean: float
    items: int
    item: str


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """A candidate with the text around it, and its place in the crawl."""

    text: str
    before: str
    after: str
    """Text of its passage before and after it; '' if retrieved/ was removed."""
    rank: int | None
    score: float | None
    retrieved_rank: int
    title: str
    url: str
    start: int
    """Code point of Document.text that it begins at."""
    source_file: str
    source_offset: int | None
    is_correct: bool | None
    """What a label says of it; None if there is none."""


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question with its first answers."""

    question_id: str
    question: str
    answers: tuple[ShownAnswer, ...]


@dataclass(frozen=True, slots=True)
class ShownLoss:
    """A question whose first answer is wrong, with its furthest correct candidate."""

    question_id: str
    question: str
    fate: Fate
    stage: str
    """Stage that dropped the last correct candidate, if one did."""
    correct: ShownAnswer
    first: ShownAnswer | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything that is reported about a run."""

    run: str
    steps: tuple[StepFigures, ...]
    missing: tuple[Missing, ...]
    corpus: tuple[Amount, ...]
    candidates: tuple[Amount, ...]
    rejects: tuple[Rejects, ...]
    failed_units: Mapping[str, int]
    """Step → number of failed units, whose content is among the rejects."""
    work: tuple[StepCost, ...]
    price_per_hour: float | None
    predictions: tuple[Predicted, ...]
    """Predictions about complete steps; empty if `answermill plan` wrote no plan into the run."""
    stages: tuple[StageFigures, ...]
    answers: AnswerFigures | None
    agreement: tuple[Agreement, ...]
    quality: Quality | None
    units: tuple[UnitFigures, ...]
    seed: int
    questions: tuple[ShownQuestion, ...]
    losses: tuple[ShownLoss, ...]
    annotation: AnnotationFigures | None
    """Progress and agreement of the people who judge; None if the run has no tasks."""
