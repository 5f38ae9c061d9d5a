"""Labelled passages as PEASI learns from them: tokenised, cut into windows, with the places of correct
sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.rerankers.peasi.windows import PassageWindows, read_windows
from answermill.ranking.training.inputs import NothingToLearn
from answermill.ranking.transformer.packing import Pairs, Tokeniser
from answermill.schemas.arrays import Ints
from answermill.schemas.labels import LabelledPassage

Questions = Sequence[Sequence[LabelledPassage]]


@dataclass(frozen=True)
class PassageData:
    """Passages as PR reads them, and their windows, which EASI reads."""

    tokeniser: Tokeniser
    labels: npt.NDArray[np.float32]
    """[passages]: 1 if the passage holds a correct sentence."""
    texts: Sequence[tuple[str, ...]]
    """[passages]: (question, part, part, …) as PR reads them."""
    passages: Pairs
    """The texts, tokenised."""
    sentences: Sequence[tuple[str, Sequence[str]]]
    """[passages]: (question, sentences); empty without EASI."""
    windows: PassageWindows
    filled: npt.NDArray[np.bool_]
    """[windows, k]: true at places with a sentence."""
    right: npt.NDArray[np.bool_]
    """[windows, k]: true at places with a correct sentence that is not cut off."""
    read: npt.NDArray[np.bool_]
    """[passages]: true for passages that EASI reads."""
    apart: bool
    """True if PR reads texts apart from EASI's windows."""
    missing: Mapping[str, int]
    """Passages without a part of the context, as `Reading.missing` counts them."""

    @classmethod
    def of(cls, questions: Questions, model: PeasiModel, tokeniser: Tokeniser) -> PassageData:
        """Passages for a model of this form.

        Raises ValueError if there is nothing to learn from: no passage with a correct sentence; for PR, none
        without, or no title that it is to read; for EASI, no correct sentence that is not cut off. Raises it
        too if a window of as many sentences as slots could not be read.
        """
        rows = _useful([row for passages in questions for row in passages], model)
        slots = 0 if model.easi is None else model.easi.window or 0
        if slots:
            tokeniser.pairs([("",) * (1 + slots)])  # refused here, not where the first long passage is served

        # PR reads texts, and a title also where EASI alone does.
        reading, reads_context = model.reading, model.pr is not None or model.reads_title
        texts = [(row.question, *reading.arrange(row.text, row.title)) for row in rows]
        if reads_context:
            reading.check_data(texts)

        # EASI reads windows, in which each place has a sentence or none.
        sentences = [
            (row.question, [s.text for s in row.sentences]) for row in rows if model.easi is not None
        ]
        windows = windows_of(model, tokeniser, sentences, texts)
        filled = np.pad(windows.pairs.filled, ((0, 0), (0, max(0, slots - windows.pairs.filled.shape[1]))))

        # A correct sentence that is cut off cannot be learnt.
        right = filled & _correct(windows, rows, filled.shape)
        if model.easi is not None and not right.any():
            labelled = sum(row.label for row in rows)
            raise ValueError(
                f"the correct sentences of all {labelled} passages are empty or cut off; raise the limit"
            )

        # A passage without a correct sentence is read only where PR needs it.
        read = np.full(len(rows), model.variant == "joint" or model.at_once)
        read[windows.passage[right.any(1)]] = True
        return cls(
            tokeniser=tokeniser,
            labels=np.array([row.label for row in rows], np.float32),
            texts=texts,
            passages=tokeniser.pairs(texts, reading.turns),
            sentences=sentences,
            windows=windows,
            filled=filled,
            right=right,
            read=read,
            apart=model.pr is not None and not model.at_once,
            missing=reading.missing(texts) if reads_context else {},
        )

    @cached_property
    def counts(self) -> Ints:
        """[passages]: windows of each."""
        return np.bincount(self.windows.passage, minlength=len(self.labels))

    @cached_property
    def lengths(self) -> Ints:
        """[passages]: tokens that PR and EASI together read of each; 0 for passages that are not learnt
        from."""
        windows = np.bincount(self.windows.passage, self.windows.pairs.lengths, len(self.labels)).astype(
            np.int64
        )
        lengths: Ints = self.passages.lengths * self.apart + windows * self.read
        return lengths

    @property
    def tokens_cut(self) -> int:
        """Tokens cut off the texts and windows that are read."""
        windows = int(self.windows.pairs.cut[self.read[self.windows.passage]].sum())
        return int(self.passages.cut.sum()) * self.apart + windows


def windows_of(
    model: PeasiModel,
    tokeniser: Tokeniser,
    sentences: Sequence[tuple[str, Sequence[str]]],
    texts: Sequence[tuple[str, ...]],
) -> PassageWindows:
    """Windows of passages that EASI reads; none without an EASI. `texts`: the passages as PR reads them,
    titles included."""
    titles = [text[1 + model.reading.context.index("title")] for text in texts] if model.reads_title else None
    return read_windows(tokeniser, sentences, None if model.easi is None else model.easi.window, titles)


def _useful(rows: Sequence[LabelledPassage], model: PeasiModel) -> Sequence[LabelledPassage]:
    """Passages that a model can learn from: for EASI alone, those with a correct sentence."""
    right = sum(row.label for row in rows)
    if not right or (model.pr is not None and right == len(rows)):
        raise NothingToLearn(
            f"{right} of {len(rows)} passages hold a correct sentence; there is nothing to learn from"
        )
    return rows if model.pr is not None else [row for row in rows if row.label]


def _correct(
    windows: PassageWindows, rows: Sequence[LabelledPassage], shape: tuple[int, ...]
) -> npt.NDArray[np.bool_]:
    """[windows, k]: true at places of correct sentences."""
    right = np.zeros(shape, np.bool_)
    for n, (passage, numbers) in enumerate(zip(windows.passage, windows.numbers, strict=True)):
        right[n, : len(numbers)] = [rows[passage].sentences[i].label for i in numbers]
    return right
