"""Training of PEASI on labelled passages (§2.1 to §2.3): a task of `loop.py`.

A step is a batch of passages; all have much the same number of tokens. PR's loss is the binary cross-entropy
of its passages, EASI's the cross-entropy of the passages that hold a correct sentence; a model with both has
their sum. The paper's two stages are two trainings: PR and EASI on their own, then a joint variant that
begins with both checkpoints.

Our choices. Where several sentences of a passage are correct, their probabilities are added: −log Σ p(c). A
passage of more sentences than slots is read in all its windows, and the softmax is over all of them, as when
it is served. If the answers to the dev questions are all right, all wrong or missing, or the surer ones are
not more often right, there is nothing to calibrate on: the confidence stays UNCALIBRATED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.lists import ranked_passages
from answermill.ranking.rerankers.peasi.extractor import Stretches, side_by_side
from answermill.ranking.rerankers.peasi.passage_reader import PassageReader
from answermill.ranking.rerankers.peasi.peasi import (
    PassageReranker,
    SentenceExtractor,
    TopPassage,
    calibrated,
)
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.training.groups import cut, steps_of
from answermill.ranking.training.loop import Dev, Ranks
from answermill.ranking.training.passages.passage_data import PassageData, Questions, windows_of
from answermill.ranking.transformer.packing import Packed, Pairs, ranges


class PassageBatch(NamedTuple):
    """Passages of a step, as PR and as EASI read them."""

    passages: Packed | None  # for PR, unless it reads EASI's windows
    labels: Tensor  # [passages]
    sentences: Packed | None  # for EASI, or both: windows, passage by passage
    stretches: Stretches  # tokens of each part of `sentences`
    passage: Tensor  # [windows]: the passage's place in the batch
    filled: Tensor  # [windows, k]: places with a sentence
    right: Tensor  # [windows, k]: places with a correct sentence


@dataclass(frozen=True, slots=True)
class PassageOptions:
    """Settings of learning from passages."""

    tokens: int = 2_000
    """Tokens of a mean batch; see `groups.cut`."""
    classifier_rate: float = 1.0
    """Multiple of the learning rate, for the layers on top of the transformers."""
    context_dropout: float = 0.0
    """Probability with which a step reads a title as if it were missing."""
    seed: int = 0


class PassageTask:
    """Passages of all questions, in random order."""

    def __init__(
        self,
        data: PassageData,
        model: PeasiModel,
        dev: Questions,
        save: Callable[[Path, PeasiModel], None],
        options: PassageOptions = PassageOptions(),
    ) -> None:
        """`dev`: questions on which the confidence is calibrated when the model is saved.

        Raises ValueError if a passage has more than half of a batch's tokens.
        """
        self.model, self._data, self._dev, self._save, self._options = model, data, dev, save, options
        self.steps = steps_of(data.lengths, options.tokens, "passages")
        self.tokens = data.lengths.sum() / self.steps  # of a mean batch

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        body = [
            p
            for encoder in (self.model.encoder, self.model.easi_encoder)
            if encoder
            for p in encoder.parameters()
        ]
        body_ids = set(map(id, body))
        heads = [p for p in self.model.parameters() if id(p) not in body_ids]
        return [(1.0, body), (self._options.classifier_rate, heads)]

    def batches(self, epoch: int) -> Iterator[PassageBatch]:
        data, device = self._data, self.model.encoder.words.weight.device
        random = np.random.default_rng([self._options.seed, epoch])
        order = random.permutation(np.flatnonzero(data.lengths))
        passages, windows = self._texts(epoch)
        starts = np.cumsum(data.counts) - data.counts

        for numbers in cut(data.lengths, order, self.steps, random):
            counts = data.counts[numbers] * data.read[numbers]
            rows = ranges(starts[numbers], counts)  # the windows that EASI reads, passage by passage
            passage = np.repeat(np.arange(len(numbers)), counts)
            tensors = (data.labels[numbers], passage, data.filled[rows], data.right[rows])
            labels, places, filled, right = (torch.from_numpy(x).to(device) for x in tensors)
            yield PassageBatch(
                passages=passages.pack(numbers).to(device) if data.apart else None,
                labels=labels,
                sentences=windows.pack(rows).to(device) if len(rows) else None,
                stretches=windows.stretches(rows),
                passage=places,
                filled=filled,
                right=right,
            )

    def _texts(self, epoch: int) -> tuple[Pairs, Pairs]:
        """Texts of PR and windows of EASI in an epoch; with `context_dropout` some lack their titles."""
        data, reading = self._data, self.model.reading
        if not self._options.context_dropout:
            return data.passages, data.windows.pairs
        texts = reading.dropped(data.texts, self._options.context_dropout, [self._options.seed, epoch, 1])
        passages, windows = data.tokeniser.pairs(texts, reading.turns), data.windows
        if self.model.reads_title:
            windows = windows_of(self.model, data.tokeniser, data.sentences, texts)
        return passages, windows.pairs

    def loss(self, batch: PassageBatch) -> Tensor:
        """Mean loss of PR over the passages, plus that of EASI over those with a correct sentence."""
        loss, passages, beside = torch.zeros((), device=batch.labels.device), None, None
        pr, easi = self.model.pr, self.model.easi
        if batch.sentences is not None and easi is not None:
            counts = torch.bincount(batch.passage)  # [passages]: windows
            first = counts.cumsum(0) - counts
            windows, vectors = self.model.window_vectors(batch.sentences, batch.stretches)
            passages = None if windows is None else windows[first]

            logits = easi.logits(vectors, batch.filled)
            # [passages, …]: logits of all sentences, and of the correct ones.
            every, right = (side_by_side(logits, places, counts) for places in (batch.filled, batch.right))
            learnt = right.isfinite().any(1)
            if learnt.any():
                loss = loss + (every[learnt].logsumexp(1) - right[learnt].logsumexp(1)).mean()

            if self.model.variant == "joint":
                best = first * batch.filled.shape[1] + every.argmax(1)  # [passages]: places in all windows
                beside = easi.chosen(
                    vectors, easi.rows(batch.filled).flatten()[best], every.isfinite().any(1), first
                )

        if batch.passages is not None:
            passages = self.model.passage_vectors(batch.passages)
        if pr is not None and passages is not None:
            loss = loss + F.binary_cross_entropy_with_logits(pr.logits(passages, beside), batch.labels)
        return loss

    def reranker(self) -> Ranks:
        kind = {"pr": PassageReranker, "easi": SentenceExtractor}.get(self.model.variant, TopPassage)
        reranker: Ranks = kind(self.model, self._data.tokeniser)
        return reranker

    def save(self, folder: Path) -> None:
        if self.model.pr is not None and self.model.easi is not None:
            self.model.calibration = calibrated(PassageReader(self.model, self._data.tokeniser), self._dev)
        self._save(folder, self.model)


def dev_lists(model: PeasiModel, questions: Questions) -> Dev:
    """Lists on which the dev score of a variant is measured. PR: passages, labelled by whether they hold a
    correct sentence; EASI: the sentences of each passage that holds a correct one; both: the sentences of all
    passages of a question, one of which is the answer. Raises ValueError if no passage holds a correct
    sentence."""
    if not any(row.label for passages in questions for row in passages):
        raise ValueError(
            f"no passage of the {len(questions)} dev questions holds a correct sentence; nothing can be "
            "measured"
        )

    lists, labels = [], []
    for passages in questions:
        if model.variant == "easi":
            for row in passages:
                if row.label:
                    lists.append(ranked_passages([row]))
                    labels.append({s.sentence_id: s.label for s in row.sentences})
        else:
            lists.append(ranked_passages(passages))
            passage_labels = {row.passage_id: row.label for row in passages}
            sentence_labels = {s.sentence_id: s.label for row in passages for s in row.sentences}
            labels.append(passage_labels if model.variant == "pr" else sentence_labels)

    return Dev.of(lists, labels)
