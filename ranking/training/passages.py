"""Training of PEASI on labelled passages (§2.1 to §2.3): a task of `loop.py`.

A step is a batch of passages, up to some tokens. PR's loss is the binary cross-entropy of its passages, EASI's the
cross-entropy of the passages that hold a correct sentence; where there are both, their sum. The paper's two stages are two
trainings: PR and EASI on their own, then a joint variant that begins with both checkpoints.

Our choices. Where several sentences of a passage are correct, their probabilities are added: −log Σ p(c). A passage of more
sentences than slots is read in all its windows, and the softmax goes over all of them, as where it is served. Where the answers
to the dev questions are all right, all wrong, or none, or no more often right where they are surer, there is nothing to
calibrate on: the confidence stays UNCALIBRATED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.lists import ranked_passages
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.extractor import ExtractorName, Stretches, side_by_side
from answermill.ranking.rerankers.peasi.passage_ranker import ClassifierRanker
from answermill.ranking.rerankers.peasi.passage_reader import Reader
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi import PassageReranker, SentenceExtractor, TopPassage, calibrated
from answermill.ranking.rerankers.peasi.peasi_model import PassageHead, PeasiModel
from answermill.ranking.rerankers.peasi.span import Span
from answermill.ranking.rerankers.peasi.windows import Windows, read_windows
from answermill.ranking.training.beginning import Start, begin, check_beside, prepare, source_words, tokeniser_of
from answermill.ranking.training.groups import cut
from answermill.ranking.training.inputs import Built, TrainingInputs, missing
from answermill.ranking.training.loop import Dev, Ranks
from answermill.ranking.transformer.classifier import Classifier, Head, head_name
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.schemas.labels import LabelledPassage

Questions = Sequence[Sequence[LabelledPassage]]


class PassageBatch(NamedTuple):
    """Passages of a step, as PR and as EASI read them."""

    passages: Packed | None  # for PR, where it does not read what EASI does
    labels: Tensor  # [passages]
    sentences: Packed | None  # for EASI, or both: windows, passage by passage
    stretches: Stretches  # which tokens of `sentences` are whose
    passage: Tensor  # [windows]: the passage's place in the batch
    filled: Tensor  # [windows, k]: places with a sentence
    right: Tensor  # [windows, k]: places with a correct sentence


class PassageTask:
    """Passages of all questions, in random order."""

    def __init__(
        self,
        model: PeasiModel,
        tokeniser: Tokeniser,
        questions: Questions,
        dev: Questions,
        save: Callable[[Path, PeasiModel], None],
        *,
        tokens: int = 2_000,
        classifier_rate: float = 1.0,
        context_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`dev`: what the confidence is calibrated on when the model is saved. `tokens`: of a batch. `classifier_rate`:
        multiple of the learning rate, for the layers on top of the transformers. `context_dropout`: probability with which a
        step reads a title as if it were missing. Raises ValueError if there is nothing to learn from: no passage with a
        correct sentence or, for PR, none without, or no title that it is to read; for EASI, no correct sentence that is not
        cut off; and where a window of as many sentences as slots could not be read."""
        self.model, self._tokeniser, self._save, self._seed = model, tokeniser, save, seed
        self._classifier_rate, self._dev = classifier_rate, dev
        rows = [row for passages in questions for row in passages]
        right = sum(row.label for row in rows)
        if not right or (model.pr is not None and right == len(rows)):
            raise ValueError(f"{right} of {len(rows)} passages hold a correct sentence; there is nothing to learn from")
        if model.pr is None:
            rows = [row for row in rows if row.label]
        slots = None if model.easi is None else model.easi.window
        if slots:
            tokeniser.pairs([("",) * (1 + slots)])  # refused here, not where the first long passage is served
        self._labels = torch.tensor([float(row.label) for row in rows])
        reading, self._context_dropout = model.reading, context_dropout
        self._texts = [(row.question, *reading.arrange(row.text, row.title)) for row in rows]
        reads_context = model.pr is not None or model.reads_title
        if reads_context:
            reading.check_data(self._texts)
        self.missing = reading.missing(self._texts) if reads_context else {}
        self._passages = tokeniser.pairs(self._texts, reading.turns)
        self._asked = [(row.question, [s.text for s in row.sentences]) for row in rows] if model.easi is not None else []
        passage, numbers, self._sentences = self._read_windows(self._texts)
        self._windows = np.bincount(passage, minlength=len(rows))  # [passages]
        self._starts = np.cumsum(self._windows) - self._windows
        with_tokens = self._sentences.filled
        missing_slots = max(0, (slots or 0) - with_tokens.shape[1])
        self._filled = np.pad(with_tokens, ((0, 0), (0, missing_slots)))
        self._right = np.zeros_like(self._filled)
        for n, window in enumerate(numbers):
            self._right[n, : len(window)] = [rows[passage[n]].sentences[i].label for i in window]
        self._right &= self._filled  # a correct sentence that is cut off cannot be learnt
        self._read = np.full(len(rows), model.variant == "joint" or model.at_once)  # by EASI
        self._read[passage[self._right.any(1)]] = True
        if model.easi is not None and not self._right.any():
            raise ValueError(f"the correct sentences of all {right} passages are empty or cut off; raise the limit")
        of_easi = np.bincount(passage, self._sentences.lengths, len(rows)).astype(np.int64)
        self._apart = model.pr is not None and not model.at_once  # PR reads texts of its own
        self._lengths = self._passages.lengths * self._apart + of_easi * self._read
        self.tokens_cut = int(self._passages.cut.sum()) * self._apart
        self.tokens_cut += int(self._sentences.cut[self._read[passage]].sum())
        self.steps = -(-int(self._lengths.sum()) // tokens)
        self.tokens = self._lengths.sum() / self.steps  # of a mean batch
        if tokens < 2 * self._lengths.max():
            raise ValueError(f"batches of {tokens} tokens for passages of up to {self._lengths.max()}; give twice as many")

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        body = [p for encoder in (self.model.encoder, self.model.easi_encoder) if encoder for p in encoder.parameters()]
        new = set(map(id, body))
        heads = [p for p in self.model.parameters() if id(p) not in new]
        return [(1.0, body), (self._classifier_rate, heads)]

    def batches(self, epoch: int) -> Iterator[PassageBatch]:
        random = np.random.default_rng([self._seed, epoch])
        order = random.permutation(np.flatnonzero(self._lengths))
        device, passages, sentences = self.model.encoder.words.weight.device, self._passages, self._sentences
        if self._context_dropout:
            texts = self.model.reading.dropped(self._texts, self._context_dropout, [self._seed, epoch, 1])
            passages = self._tokeniser.pairs(texts, self.model.reading.turns)
            sentences = self._read_windows(texts).pairs if self.model.reads_title else sentences
        for numbers in cut(self._lengths, order, self.steps, random):
            counts = self._windows[numbers] * self._read[numbers]
            passage = np.repeat(np.arange(len(numbers)), counts)
            read = np.repeat(self._starts[numbers] - np.cumsum(counts) + counts, counts) + np.arange(len(passage))
            yield PassageBatch(
                passages.pack(numbers).to(device) if self._apart else None,
                self._labels[numbers].to(device),
                sentences.pack(read).to(device) if len(read) else None,
                sentences.stretches(read),
                *(torch.from_numpy(x).to(device) for x in (passage, self._filled[read], self._right[read])),
            )

    def _read_windows(self, texts: Sequence[tuple[str, ...]]) -> Windows:
        """What EASI reads of the passages; `texts`: as PR reads them, the titles among them."""
        titles = [row[1 + self.model.reading.context.index("title")] for row in texts] if self.model.reads_title else None
        window = None if self.model.easi is None else self.model.easi.window
        return read_windows(self._tokeniser, self._asked, window, titles and titles[: len(self._asked)])

    def loss(self, batch: PassageBatch) -> Tensor:
        """Mean over the passages of PR, plus mean over those of EASI that hold a correct sentence."""
        loss, passages, beside = torch.zeros((), device=batch.labels.device), None, None
        pr, easi = self.model.pr, self.model.easi
        if batch.sentences is not None and easi is not None:
            counts = torch.bincount(batch.passage)  # [passages]: windows
            first = counts.cumsum(0) - counts
            windows, vectors = self.model.window_vectors(batch.sentences, batch.stretches)
            passages = None if windows is None else windows[first]
            logits = easi.logits(vectors, batch.filled)
            every, right = (side_by_side(logits, places, counts) for places in (batch.filled, batch.right))  # [passages, …]
            learnt = right.isfinite().any(1)
            if learnt.any():
                loss = loss + (every[learnt].logsumexp(1) - right[learnt].logsumexp(1)).mean()
            if self.model.variant == "joint":
                best = first * batch.filled.shape[1] + every.argmax(1)  # [passages]: places in all windows
                beside = easi.chosen(vectors, easi.rows(batch.filled).flatten()[best], every.isfinite().any(1), first)
        if batch.passages is not None:
            passages = self.model.passage_vectors(batch.passages)
        if pr is not None and passages is not None:
            loss = loss + F.binary_cross_entropy_with_logits(pr.logits(passages, beside), batch.labels)
        return loss

    def reranker(self) -> Ranks:
        kind = {"pr": PassageReranker, "easi": SentenceExtractor}.get(self.model.variant, TopPassage)
        reranker: Ranks = kind(self.model, self._tokeniser)
        return reranker

    def save(self, folder: Path) -> None:
        if self.model.pr is not None and self.model.easi is not None:
            self.model.calibration = calibrated(Reader(self.model, self._tokeniser), self._dev)
        self._save(folder, self.model)


def dev_lists(model: PeasiModel, questions: Questions) -> Dev:
    """What the dev score of a variant is measured on. PR: passages, which hold a correct sentence or not; EASI: the sentences
    of each passage that holds a correct one; both: the sentences of all passages of a question, one of which is the answer.
    Raises ValueError if no passage holds a correct sentence."""
    if not any(row.label for passages in questions for row in passages):
        raise ValueError(f"no passage of the {len(questions)} dev questions holds a correct sentence; nothing can be measured")
    lists, labels = [], []
    for passages in questions:
        if model.variant == "easi":
            for row in passages:
                if row.label:
                    lists.append(ranked_passages([row]))
                    labels.append({s.sentence_id: s.label for s in row.sentences})
        else:
            lists.append(ranked_passages(passages))
            of_passages = {row.passage_id: row.label for row in passages}
            of_sentences = {s.sentence_id: s.label for row in passages for s in row.sentences}
            labels.append(of_passages if model.variant == "pr" else of_sentences)
    return Dev.of(lists, labels)


def build(inputs: TrainingInputs[PassageSettings]) -> Built:
    """Begins with a transformer, with the transformer of a checkpoint, or with a checkpoint of `peasi`, whose heads it takes
    over too; EASI, if it has a transformer to itself, with `easi`. PR also takes over the classifier of a cross-encoder whose
    pooling the settings name, and the head of a published one. Raises ValueError if the settings do not fit each other or what
    the training begins with."""
    settings = inputs.settings
    start = begin(inputs, settings.encoder)
    body = _easi_body(start) if settings.variant == "easi" else start.body()
    second = begin(inputs, settings.easi) if settings.easi and settings.variant in ("mtl1", "joint") else start
    extractor = _extractor(settings, second)
    slots = 1 if extractor == "span" else settings.slots
    model = PeasiModel(body, settings.variant, slots, _head(settings, start), extractor)
    if model.easi_encoder is not None:
        check_beside(settings, start, second)
        model.easi_encoder.load_state_dict(_easi_body(second).state_dict())
    elif settings.easi:
        raise ValueError(f"peasi.easi = {settings.easi!r}, but variant {settings.variant!r} has one transformer, peasi.encoder")
    if isinstance(start.model, PeasiModel):
        model.take_passage_head(start.model)
        model.reading = start.model.reading
    elif isinstance(model.pr, ClassifierRanker) and (of_sentences := _cross_encoder(start)):
        model.pr.take_classifier(cast(Head, of_sentences.classifiers[-1]))
    if model.pr is not None or (extractor == "span" and not settings.pooling):
        model.reading = settings.reading(model.reading)
    elif settings.context or settings.pooling or settings.context_dropout:
        raise ValueError("peasi.context, pooling and context_dropout are PR's, and variant 'easi' has none; leave them out")
    if isinstance(second.model, PeasiModel):
        model.take_sentence_head(second.model)
    of_sentences, easi_taken = _cross_encoder(second), False
    if isinstance(model.easi, Span) and of_sentences is not None and of_sentences.reading.pooling != "first":
        model.easi.take(cast(Classifier, of_sentences.classifiers[-1]))
        easi_taken = True
    words, tokeniser = source_words(settings, start), tokeniser_of(settings, start)
    prepare(model, inputs.device, words is None, settings.recompute)

    def save(folder: Path, trained: PeasiModel) -> None:
        peasi_model.save(folder, trained, tokeniser, settings.store, words)

    task = PassageTask(
        model,
        tokeniser,
        inputs.learn,
        inputs.dev,
        save,
        tokens=settings.tokens,
        classifier_rate=settings.classifier_rate,
        context_dropout=settings.context_dropout or 0.0,
        seed=inputs.recipe.seed,
    )
    begun = start.description if second is start else f"{start.description}, EASI {second.description}"
    parts = [part for part, taken in (("PR", isinstance(model.pr, ClassifierRanker)), ("EASI", easi_taken)) if taken]
    begun += f", {' and '.join(parts)} with its classifier" if parts else ""
    description = f"{begun}; {task.tokens_cut:,} tokens cut{missing(task.missing)}"
    return Built(task, dev_lists(model, inputs.dev), description, task.tokens)


def _head(settings: PassageSettings, start: Start) -> PassageHead:
    """PR's: as in a checkpoint of `peasi`; or a cross-encoder's whose pooling the settings name, or that was published."""
    if isinstance(start.model, PeasiModel):
        return start.model.head
    of_sentences = _cross_encoder(start)
    head = head_name(cast(Head, of_sentences.classifiers[-1])) if of_sentences else "classifier"
    pooling = settings.pooling or (None if head == "classifier" else "first")
    return head if of_sentences and of_sentences.reading.pooling == pooling else "linear"


def _extractor(settings: PassageSettings, start: Start) -> ExtractorName:
    """EASI's: as in a checkpoint of `peasi` that has one, or as the settings say. Raises ValueError if these differ, or a
    setting has no effect."""
    known = start.model.easi.name if isinstance(start.model, PeasiModel) and start.model.easi is not None else None
    if settings.extractor and settings.variant == "pr":
        raise ValueError("peasi.extractor is EASI's, and variant 'pr' has none; leave it out")
    if settings.extractor and known not in (None, settings.extractor):
        raise ValueError(f"{start.name} is a checkpoint with extractor {known!r}; leave out peasi.extractor")
    extractor = known or settings.extractor or "slots"
    if extractor == "span" and "slots" in settings.model_fields_set:
        raise ValueError("peasi.slots is of extractor 'slots'; 'span' reads a passage's sentences all; leave it out")
    return extractor


def _cross_encoder(start: Start) -> CascadeModel | None:
    """What ranks sentences by one classifier of its whole transformer, if the training begins with that."""
    model = start.model if start.format in ("pointwise", "cascade") else None
    return model if isinstance(model, CascadeModel) else None


def _easi_body(start: Start) -> LayeredEncoder:
    """What EASI begins with: the transformer that EASI has in a checkpoint of `peasi`, else the whole one."""
    own = start.model.easi_encoder if isinstance(start.model, PeasiModel) else None
    return own or start.body()
