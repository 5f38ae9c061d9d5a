"""Interface of rerankers: the `Reranker` protocol, the `Resources` that it is loaded with, and the order of a
list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from answermill.ranking.checkpoint import check_int8
from answermill.ranking.context import Reading
from answermill.ranking.entry import StageBefore, StageSettings, TransformerStage
from answermill.schemas.arrays import Floats, Precision, PrecisionSetting, StagePrecision
from answermill.schemas.plug_ins import PlugInUnusable
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList, StageScore

Settings = TypeVar("Settings", bound=StageSettings)


SCORE_DECIMALS = 6
"""Scores are rounded to this number of decimals before they order a list: the noise of the arithmetic decides
nothing."""


class SentenceEncoder(Protocol):
    """Encoder of texts as vectors: the part of the dense encoder that `Similarity` needs."""

    dimension: int
    precision: Precision

    def encode_questions(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, d], one row a question."""
        ...

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, d], one row a sentence."""
        ...

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """[n, d], one row a title with its text."""
        ...


class LoadEncoder(Protocol):
    """Loads a published encoder of sentences."""

    def __call__(self, name: str, *, max_tokens: int, precision: PrecisionSetting) -> SentenceEncoder:
        """Load it by folder or hub name. A text is cut after `max_tokens`, at most as many as the model
        takes. Raises RuntimeError if it cannot be loaded."""
        ...


def no_encoder_of(name: str, *, max_tokens: int, precision: str) -> SentenceEncoder:
    raise ValueError(f"the reranker needs the sentence encoder {name!r}, and nothing is given that loads it")


class StoredCode(Protocol):
    """A sentence that was encoded when it was indexed."""

    @property
    def bits(self) -> npt.NDArray[np.uint8]:
        """[rows, bytes of a row]: a row a token, or one of the whole sentence."""
        ...

    @property
    def cut(self) -> int:
        """Tokens left out."""
        ...


class SentenceCodes(Protocol):
    """Codes that index stored of all sentences for one model."""

    def find(self, texts: Sequence[tuple[str, ...]]) -> Sequence[StoredCode | None]:
        """One code per text, which is a sentence with the parts that are encoded with it; None if the text
        is not stored."""
        ...


class EncodedSentences(Protocol):
    """Codes of several sentences, end to end."""

    @property
    def bits(self) -> npt.NDArray[np.uint8]:
        """[rows, bytes of a row]."""
        ...

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[sentences]: rows."""
        ...

    @property
    def cut(self) -> npt.NDArray[np.int64]:
        """[sentences]: tokens left out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Parts of a job that a reranker may use when it is loaded."""

    settings: StageSettings
    """Settings of the stage, of the class that the reranker's entry names."""
    checkpoint: Path | None
    """The stage's model folder, or the shipped one; None for a reranker without a model. See
    `Entry.folder`."""
    encoder: Callable[[], SentenceEncoder]
    """Returns the job's dense encoder; the first call loads it."""
    model: Callable[[str], Path] = Path
    """Maps a transformer's name to its folder."""
    device: str = "cpu"
    """Device of the reranker's model, as torch names it."""
    before: tuple[StageBefore, ...] = ()
    """Stages before this one, in order; the candidates have their scores."""
    codes: SentenceCodes | None = None
    """Codes that index stored of all sentences for the stage; None if it stored nothing."""
    model_digest: str | None = None
    """Digest of the checkpoint; None if not computed."""
    indexes: tuple[str, ...] | None = None
    """Indexes searched for the candidates, of 'bm25' and 'dense'; None if unknown."""
    path: Callable[[str], Path] = Path
    """Maps a file's name in the settings to its path."""
    encoder_of: LoadEncoder = no_encoder_of
    """Loads an encoder of the stage's own."""

    def stage(self, kind: type[Settings]) -> Settings:
        """The settings, typed as those of a reranker with further keys. Raises TypeError if they are another
        reranker's, and PlugInUnusable if nothing says that the reranker has keys."""
        if type(self.settings) is StageSettings and kind is not StageSettings:
            raise PlugInUnusable(
                f"{self.settings.reranker} reads keys of {kind.__name__}, and its class does not name them; "
                f"add `Settings = {kind.__name__}` to the class"
            )
        if not isinstance(self.settings, kind):
            raise TypeError(
                f"{kind.__name__} expected, but the stage's settings are {type(self.settings).__name__}"
            )
        return self.settings

    def precision(self) -> StagePrecision:
        """Arithmetic of the stage's model. Raises ValueError if it is int8 on a graphics card, or of a
        checkpoint that lost too much by it, or was not measured."""
        stage = self.stage(TransformerStage)
        if stage.precision == "int8":
            if self.device != "cpu":
                raise ValueError(
                    "precision = 'int8' is for processors, and this model runs on a graphics card; set "
                    "precision = 'auto'"
                )
            check_int8(self.folder(), stage.reranker, stage.int8_loss)
        return stage.precision

    def scored_by(self, reranker: str) -> str | None:
        """Key of the last stage before this one that runs the reranker; None if there is none."""
        return next((stage.key for stage in reversed(self.before) if stage.reranker == reranker), None)

    def folder(self) -> Path:
        """The checkpoint. Raises ValueError if there is none."""
        if self.checkpoint is None:
            raise ValueError(
                f"{self.settings.reranker} needs a checkpoint: the folder that `answermill train` wrote"
            )
        return self.checkpoint


class SentenceCoder(Protocol):
    """Encodes all sentences when they are indexed, for a reranker that reads the codes later
    (`Entry.sentence_codes`)."""

    width: int
    """Bits of a row: of a token, or of a sentence's whole vector."""
    form: str
    """'bits' if a row is a token's; else the type of its numbers, such as 'fp16'."""
    precision: str
    """Precision of its arithmetic; '' if there is only one."""
    reading: Reading
    """Parts that it encodes as one text."""

    @classmethod
    def decisive(cls, stage: StageSettings, checkpoint: Path | None) -> tuple[str, ...] | None:
        """The stage's settings that decide its codes beside the model; None if it reads none. Raises
        ValueError if the checkpoint is not the reranker's."""
        ...

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """The coder, ready to encode. Raises ValueError like `Reranker.load`."""
        ...

    def encode(self, texts: Sequence[tuple[str, ...]]) -> EncodedSentences: ...


class Reranker(Protocol):
    """R : Q × P(A) → P(A)  (Cascade Transformer §3.2), over a batch of questions.

    Incoming and returned lists are best first. A returned list is a subset of its candidates (or, for an
    extractor, sentences of them) with this stage's score added; `left` may name those that it scored and
    dropped. The incoming order matters to list-wise models; ties keep it. A candidate's score depends on its
    question's list alone, never on the other lists of the call.
    """

    name: ClassVar[str]
    reads: ClassVar[CandidateKind]
    writes: ClassVar[CandidateKind]

    @classmethod
    def load(cls, resources: Resources) -> Self:
        """The reranker, ready to score. Raises ValueError if its checkpoint is missing or unusable."""
        ...

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]: ...


@runtime_checkable
class Costed(Protocol):
    """A reranker that accounts for its work."""

    def costs(self) -> Counter[str]:
        """Costs since the last call, in whole numbers that can be added up."""
        ...


class ScoreNotFinite(RuntimeError):
    """A model gave a candidate a score that is no number. The message names the stage, the question and the
    candidate."""

    exit_code = 65


@contextmanager
def naming(where: str, checkpoint: Path | None) -> Iterator[None]:
    """Add the place, such as the stage of the plan, and the model's folder to a `ScoreNotFinite` raised in
    the block."""
    try:
        yield
    except ScoreNotFinite as e:
        model = "" if checkpoint is None else f", checkpoint {checkpoint}"
        raise ScoreNotFinite(f"{where}{model}: {e}") from e


def check_finite(ranked: RankedList, scores: npt.NDArray[np.floating], stage: str) -> None:
    """Raises ScoreNotFinite if a score [candidates, …] is NaN or infinite; the message names the first such
    candidate."""
    if np.isfinite(scores).all():
        return
    row, *place = (int(n) for n in np.argwhere(~np.isfinite(scores))[0])
    raise ScoreNotFinite(
        f"{stage}: score {scores[(row, *place)]} for candidate {ranked.candidates[row].candidate_id} of "
        "question "
        f"{ranked.question.question_id}; the model is damaged or was never sound, give another one"
    )


def rounded(scores: Iterable[float] | npt.NDArray[np.floating]) -> Floats:
    """Scores [n] rounded to the decimals that order a list.

    >>> rounded([0.123456789, -2.0]).tolist()
    [0.123457, -2.0]
    """
    values = scores if isinstance(scores, np.ndarray) else np.fromiter(scores, np.float64)
    # No text, date or complex number becomes a score; an array of objects may hold numbers.
    casting: Literal["same_kind", "unsafe"] = "unsafe" if values.dtype == object else "same_kind"
    return np.round(values.astype(np.float64, casting=casting), SCORE_DECIMALS)


def order_by(
    ranked: RankedList,
    scores: Sequence[float] | npt.NDArray[np.floating],
    stage: str,
    exit: int | None = None,
) -> RankedList:
    """The list ordered by `scores` (one per candidate, in the list's order), which become the score of
    `stage`.

    Higher is better; ties keep the incoming order. `exit`: exit of the model that gave them, if it has
    several. Raises ScoreNotFinite on a score that is NaN or infinite.
    """
    values = rounded(scores)
    if values.shape != (len(ranked.candidates),):
        number = f"{len(values)} scores" if values.ndim == 1 else f"scores of shape {values.shape}"
        raise ValueError(
            f"{stage}: {number} for {len(ranked.candidates)} candidates of question "
            f"{ranked.question.question_id}"
        )

    check_finite(ranked, values, stage)
    order = np.argsort(-values, kind="stable")
    best_first = zip(order.tolist(), values[order].tolist(), strict=True)
    candidates = tuple(
        ranked.candidates[i].with_stages((*ranked.candidates[i].stages, StageScore(stage, value, rank, exit)))
        for rank, (i, value) in enumerate(best_first, 1)
    )

    return RankedList(ranked.question, candidates)


def left_at(candidate: Candidate, score: float, stage: str, exit: int) -> Candidate:
    """A candidate that leaves within a stage, with the score of the exit, counted from 1, at which it
    leaves."""
    return candidate.with_stages(
        (*candidate.stages, StageScore(stage, float(rounded([score])[0]), None, exit))
    )
