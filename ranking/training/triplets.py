"""Training of HAS on labelled lists ("Similarity Layer and Loss Function"): a task of `loop.py`.

A step is a batch of triplets (q, p, n); all have much the same number of tokens. Its loss is the mean over
them of the paper's

    max(0, 0.1 − s(q, p) + s(q, n)) + δ (J(p) + J(n)),    J(a) = ‖B_a − B̄_a‖² (Eq. 2)

The optimisation alternates: B̄ = sgn(B) is recomputed at each step, and is a constant to its gradient.
`pooling` and `attention` have no B and are trained by the hinge alone.

Our choices. The paper sums over triplets; their mean leaves the proportion of its terms, and so the meaning
of δ, unchanged. J is a sum over an answer's columns and dimensions: at 384 dimensions a δ weighs half as much
as at 768. An epoch has each right answer of each question once. n is drawn from the wrong answers of the
question's own list or, by `among`, from all answers of the training data; from these too where the list has
no wrong one, as in insuranceQA's. `hard` draws several and takes the one that the model, as it would serve at
that step, scores highest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.context import Reading
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.hashing import hashing_model
from answermill.ranking.rerankers.hashing.hashing import Hashing
from answermill.ranking.rerankers.hashing.hashing_model import HashingModel, sign
from answermill.ranking.rerankers.hashing.triplet_settings import TripletSettings
from answermill.ranking.training.beginning import begin, prepare, source_words, tokeniser_of
from answermill.ranking.training.groups import cut, steps_of
from answermill.ranking.training.inputs import Built, TrainingInputs, check_answered, missing
from answermill.ranking.training.loop import Dev
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import StoredForm
from answermill.schemas.arrays import Ints
from answermill.schemas.labels import LabelledCandidate

Negatives = Literal["random", "hard"]
Among = Literal["list", "all"]
MARGIN = 0.1


class Triplets(NamedTuple):
    """A batch of triplets; texts are given by their numbers."""

    question: Ints  # [triplets]
    right: Ints  # [triplets]
    wrong: list[Ints]  # answers drawn for each triplet: one, or more to choose from


@dataclass(frozen=True, slots=True)
class TripletOptions:
    """Settings of drawing triplets and learning from them."""

    delta: float = 1e-6
    """δ, weight of the binary constraint."""
    negatives: Negatives = "random"
    among: Among = "list"
    drawn: int = 8
    """Wrong answers drawn by `hard`, which takes one."""
    tokens: int = 2_000
    """Tokens of a mean batch (`groups.cut`); a wrong answer counts with the mean length of those that it is
    drawn from."""
    attention_rate: float = 1.0
    """Learning rate of W1, W2 and m, as a multiple of the others'."""
    needs_context: bool = False
    """True to refuse data in which no candidate has a part of the context."""
    seed: int = 0


class HashTask:
    """Triplets of the questions that have an answer, in random order."""

    def __init__(
        self,
        model: HashingModel,
        tokeniser: Tokeniser,
        questions: Sequence[Sequence[LabelledCandidate]],
        save: Callable[[Path, HashingModel], None],
        options: TripletOptions = TripletOptions(),
    ) -> None:
        """Raises ValueError if no question has an answer, a question has no wrong answer to learn from, no
        candidate has a part that it must have, or a triplet has more than half of a batch's tokens."""
        self.model, self._options = model, options
        self._tokeniser, self._save = tokeniser, save
        self._drawn = options.drawn if options.negatives == "hard" else 1

        # Every different text has a number; a right answer of a question is a triplet without its wrong
        # answer.
        numbers: dict[str, int] = {}
        self._question: list[int] = []  # of each triplet
        self._right: list[int] = []
        self._rights: list[set[int]] = []  # right answers of its question
        self._wrong: list[Ints] = []  # wrong answers of its list; if empty, all answers are drawn from
        answers: set[int] = set()
        read: list[tuple[str, ...]] = []  # (question, parts of an answer)

        for rows in questions:
            tuples = model.reading.tuples([ranked_list(rows)])
            texts = [model.reading.one_text(parts) for _, *parts in tuples]
            labels = [bool(row.label) for row in rows]

            # Dicts in place of sets, since they keep the order.
            right = {numbers.setdefault(text, len(numbers)): None for text in compress(texts, labels)}
            wrong = {
                numbers.setdefault(text, len(numbers)): None for text in compress(texts, map(not_, labels))
            }
            read += tuples
            answers |= right.keys() | wrong.keys()
            own = np.array([n for n in wrong if n not in right and options.among == "list"], np.int64)

            for n in right:
                self._question.append(numbers.setdefault(rows[0].question, len(numbers)))
                self._right.append(n)
                self._rights.append(set(right))
                self._wrong.append(own)

        check_answered(self._right, questions)

        if options.needs_context:
            model.reading.check_data(read)
        self.missing = model.reading.missing(read)

        self._answers = np.array(sorted(answers), np.int64)
        for rights, wrong_ones in zip(self._rights, self._wrong, strict=True):
            if not len(wrong_ones) and len(rights) == len(self._answers):
                raise ValueError(
                    f"all {len(rights)} answers are right for one question; there is no wrong one to learn "
                    "from"
                )

        # Wrong answers are drawn later, so a triplet counts with their mean length.
        self._texts = tokeniser.pairs([(text,) for text in numbers])
        self.tokens_cut = int(self._texts.cut.sum())
        lengths = self._texts.lengths
        mean_length = lengths[self._answers].mean()
        wrong_length = [lengths[own].mean() if len(own) else mean_length for own in self._wrong]
        self._lengths = (
            lengths[self._question] + lengths[self._right] + np.ceil(wrong_length).astype(np.int64)
        )

        self.steps = steps_of(self._lengths, options.tokens, "triplets")
        self.tokens = self._lengths.sum() / self.steps  # of a mean batch

    @property
    def rates(self) -> list[tuple[float, list[nn.Parameter]]]:
        body = list(self.model.encoder.parameters())
        attention = [
            p
            for module in (self.model.w1, self.model.w2, self.model.m)
            if module
            for p in module.parameters()
        ]
        return [(1.0, body), *([(self._options.attention_rate, attention)] if attention else [])]

    def batches(self, epoch: int) -> Iterator[Triplets]:
        random = np.random.default_rng([self._options.seed, epoch])
        order = random.permutation(len(self._right))
        for rows in cut(self._lengths, order, self.steps, random):
            question, right = (
                np.array([numbers[row] for row in rows], np.int64)
                for numbers in (self._question, self._right)
            )
            yield Triplets(question, right, [self._draw(row, random) for row in rows])

    def _draw(self, triplet: int, random: np.random.Generator) -> Ints:
        """Draw different wrong answers, as many as the options ask for and the data have."""
        own = self._wrong[triplet]
        if len(own):
            return random.choice(own, min(self._drawn, len(own)), replace=False)
        rights = self._rights[triplet]
        some = random.choice(self._answers, min(self._drawn + len(rights), len(self._answers)), replace=False)
        return np.array([n for n in some.tolist() if n not in rights][: self._drawn], np.int64)

    def loss(self, batch: Triplets) -> Tensor:
        """Mean loss over the triplets."""
        count, lengths = len(batch.right), self._texts.lengths
        by_question = np.argsort(-lengths[batch.question], kind="stable")
        answers = np.concatenate([batch.right, self._hardest(batch)])
        by_length = np.argsort(-lengths[answers], kind="stable")  # texts of one length meet
        device = self.model.encoder.words.weight.device
        tokens = self._texts.pack(answers[by_length]).to(device)
        place = np.argsort(by_question)  # of a triplet's question among the encoded
        question = self.model.question(self._texts.pack(batch.question[by_question]).to(device))[
            place[by_length % count]
        ]

        columns = self.model.answer(tokens)
        scores = F.cosine_similarity(question, self.model.compose(columns, tokens.starts, question))
        right, wrong = scores[np.argsort(by_length)].chunk(2)
        loss = (MARGIN - right + wrong).clamp(min=0).mean()
        if self.model.variant == "has":
            loss = loss + self._options.delta * (columns - sign(columns).detach()).square().sum() / count

        return loss

    @torch.no_grad()
    def _hardest(self, batch: Triplets) -> Ints:
        """[triplets]: the drawn answer that scores highest without dropout, as it would be served; of equal
        ones the first."""
        if self._drawn == 1:
            return np.concatenate(batch.wrong)

        answers, number = np.unique(np.concatenate(batch.wrong), return_inverse=True)
        triplet = np.repeat(np.arange(len(batch.wrong)), [len(drawn) for drawn in batch.wrong])
        answers_packed, questions = self._texts.pack(answers), self._texts.pack(batch.question)
        device = self.model.encoder.words.weight.device
        training = self.model.training
        self.model.eval()
        kept = self.model.kept(answers_packed.to(device))
        vectors = self.model.question(questions.to(device))
        scores = (
            self.model.scores(vectors, kept, answers_packed.to(device).starts, triplet, number).cpu().numpy()
        )

        self.model.train(training)
        best = np.lexsort((np.arange(len(scores)), -scores, triplet))
        return answers[number[best[np.searchsorted(triplet, np.arange(len(batch.wrong)))]]]

    def reranker(self) -> Reranker:
        return Hashing(self.model, self._tokeniser)

    def save(self, folder: Path) -> None:
        self._save(folder, self.model)


def build(inputs: TrainingInputs[TripletSettings]) -> Built:
    """Build the training of `hashing`. It begins with a transformer, with the transformer of a checkpoint, or
    with a checkpoint of `hashing`, whose attention it takes over too. Raises ValueError if the settings do
    not fit each other or the starting point."""
    settings = inputs.settings
    inputs.check_no_batch("hashing")
    start = begin(inputs, settings.encoder)
    model = HashingModel(start.body(), settings.variant, settings.attention, settings.beta)
    if isinstance(start.model, HashingModel):
        model.take_attention(start.model)
        model.reading = start.model.reading

    if settings.context is not None:
        model.reading = Reading(tuple(settings.context))
    words, tokeniser = source_words(settings, start), tokeniser_of(settings, start)
    prepare(model, inputs.device, words is None, settings.recompute)

    def save(folder: Path, trained: HashingModel) -> None:
        hashing_model.save(folder, trained, tokeniser, StoredForm(settings.store, words))

    options = TripletOptions(
        delta=settings.delta,
        negatives=settings.negatives,
        among=settings.among,
        drawn=settings.drawn,
        tokens=settings.tokens,
        attention_rate=settings.classifier_rate,
        # A checkpoint's own context is counted where data lack it.
        needs_context=settings.context is not None,
        seed=inputs.recipe.seed,
    )
    task = HashTask(model, tokeniser, inputs.learn, save, options)
    description = f"{start.description}; {task.tokens_cut:,} tokens cut{missing(task.missing)}"

    return Built(task, Dev(inputs.dev), description, task.tokens)
