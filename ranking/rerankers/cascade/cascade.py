"""The Cascade Transformer (Soldaini & Moschitti, ACL 2020) as a reranker: at each exit the worst candidates
leave (§4.3.2).

Reads sentences, writes sentences. `Cascade` scores many questions at once: after each exit the rows of the
dropped candidates are removed, and the next layers run over the rest. The model is in `cascade_model.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import torch

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, check_finite, left_at, order_by, rounded
from answermill.ranking.rerankers.blend.weights import USUAL_FIT, Fit, FitOptions, load_weights
from answermill.ranking.rerankers.cascade import ExitStage
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load
from answermill.ranking.rerankers.cascade.exits import ExitModel, ExitRows
from answermill.ranking.rerankers.cascade.prior import Prior, fit_exits
from answermill.ranking.rerankers.cascade.schedule import check, survivors
from answermill.ranking.transformer.devices import IN_FLIGHT, Arriving, dtype_of, in_turns
from answermill.ranking.transformer.packing import Pairs, Tokeniser
from answermill.schemas.arrays import Floats, Ints, StagePrecision
from answermill.schemas.ranked import CandidateKind, RankedList

TOKENISED = 8_192  # candidates at once
GROUP_TOKENS = 1 << 18  # of the lists in flight: 0.4 GB of encodings of 384 numbers in float32


class Cascade:
    """Reranker by the last classifier's score, a logit. Candidates dropped at an earlier exit have that
    exit's score."""

    name: ClassVar[str] = "cascade"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(
        self,
        model: CascadeModel,
        tokeniser: Tokeniser,
        drops: Sequence[float] = (),
        device: str | None = None,
        weights: Sequence[Mapping[str, float]] = (),
        *,
        precision: StagePrecision = "auto",
    ) -> None:
        """`drops`: α at each exit but the last; empty = 0 everywhere. `device`: device of the computation;
        the model's if None. `weights`: weights of the sum by which candidates leave, one table for all exits
        or one for each but the last; without them the exit's score alone decides.

        Raises ValueError if the drops or the weights do not fit the exits, or this machine has not the
        precision.
        """
        self.drops = tuple(drops) or (0.0,) * (len(model.exits) - 1)
        check(model.exits, self.drops)
        self.prior = Prior.of(weights, len(self.drops))
        self._device = torch.device(device or model.encoder.words.weight.device)
        self.precision = dtype_of(precision, self._device)
        """Type of the numbers in the products of the layers."""
        self._model = model.for_inference(self._device, precision)
        self._tokeniser = tokeniser
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        precision = resources.precision()
        model, tokeniser = load(resources.folder(), cls.name, resources.model)
        return cls(model, tokeniser, *exit_settings(resources, len(model.exits) - 1), precision=precision)

    @property
    def exits(self) -> tuple[int, ...]:
        return self._model.exits

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Reading of its model."""
        return (self._model.reading,)

    @property
    def depth(self) -> int:
        return self._model.depth

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        scored = zip(lists, self._scored(lists, self.drops), strict=True)
        return [self._reranked(ranked, passed) for ranked, passed in scored]

    def _reranked(self, ranked: RankedList, passed: _Passed) -> RankedList:
        last = len(self.exits)
        kept = np.flatnonzero(passed.exits == last)
        survivors = RankedList(ranked.question, tuple(ranked.candidates[n] for n in kept))
        dropped = np.flatnonzero(passed.exits < last)
        exits = passed.exits[dropped]
        scores = passed.scores[dropped, exits - 1]
        first_to_leave = np.lexsort((-dropped, rounded(scores), exits)).tolist()
        left = tuple(
            left_at(ranked.candidates[dropped[n]], scores[n], self.name, int(exits[n]))
            for n in first_to_leave
        )

        return replace(
            order_by(survivors, passed.scores[kept, -1], self.name, last if last > 1 else None), left=left
        )

    def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
        """Score of every candidate at every exit, without dropping, for `replay.replay`."""
        scored = self._scored(lists, (0.0,) * len(self.drops))
        columns = (self.prior.columns(ranked) if self.prior else None for ranked in lists)
        return [
            ExitRows(passed.scores, passed.tokens, known)
            for passed, known in zip(scored, columns, strict=True)
        ]

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, tokens, tokens cut, layers × candidates, layers × tokens,
        milliseconds.

        `full_layer_…` is the cost of the monolithic model of the same depth.
        """
        costs, self._costs = self._costs, Counter()
        return costs

    def _scored(self, lists: Sequence[RankedList], drops: Sequence[float]) -> Iterator[_Passed]:
        """Scores of each list at each exit. Raises ScoreNotFinite if one is NaN or infinite, at any exit."""
        began = time.perf_counter()
        for results in in_turns(self._works(lists, drops), IN_FLIGHT[self._device.type]):
            self._costs["milliseconds"] += round(1000 * (time.perf_counter() - began))
            for ranked, passed in results:
                check_finite(ranked, passed.scores, self.name)
                yield passed
            began = time.perf_counter()

    def _works(self, lists: Sequence[RankedList], drops: Sequence[float]) -> Iterator[_Work]:
        """Works that score groups of lists. Some thousand candidates are tokenised at a time; a card computes
        others meanwhile."""
        for some in _whole_lists(lists):
            texts = self._model.reading.tuples(some)
            pairs = self._tokeniser.pairs(texts, self._model.reading.turns)
            self._costs.update(self._model.reading.missing(texts))
            self._costs["tokens_cut"] += int(pairs.cut.sum())
            sizes = np.fromiter((len(r.candidates) for r in some), np.int64, len(some))
            for group in _groups(sizes, pairs.lengths):
                yield self._group(pairs, some[group.lists], group, drops)

    @torch.inference_mode()
    def _group(
        self, pairs: Pairs, lists: Sequence[RankedList], group: _Group, drops: Sequence[float]
    ) -> _Work:
        """Work that scores some whole lists together."""
        numbers, question = np.arange(*group.rows), np.repeat(np.arange(len(group.sizes)), group.sizes)
        known = np.concatenate([self.prior.columns(ranked) for ranked in lists]) if self.prior else None
        scores, exits = np.zeros((len(numbers), len(self.exits))), np.zeros(len(numbers), np.int64)

        # All candidates before the first layer. `remaining` are those not dropped so far, the longest first.
        remaining = np.argsort(-pairs.lengths[numbers], kind="stable")
        tokens = pairs.pack(numbers[remaining]).to(self._device)
        hidden, depth = self._model.encoder.embed(tokens), 0
        self._costs["candidates"] += len(remaining)
        self._costs["tokens"] += len(hidden)
        self._costs["full_layer_candidates"] += self.depth * len(remaining)
        self._costs["full_layer_tokens"] += self.depth * len(hidden)

        # Layers up to each exit; while a card computes its scores, other groups have their turn.
        for exit, (last, alpha) in enumerate(zip(self.exits, (*drops, 0.0), strict=True)):
            hidden = self._model.run(hidden, tokens, depth, last)
            arriving = Arriving(self._model.classify(hidden, tokens, exit))
            yield
            scores[remaining, exit] = arriving.numpy()
            exits[remaining] += 1
            layers = self._model.layers_between(depth, last)
            self._costs["layer_candidates"] += layers * len(remaining)
            self._costs["layer_tokens"] += layers * len(hidden)
            depth = last

            # Drop by the exit's scores, or by their sum with those known before.
            if alpha:
                decisive = scores[:, exit]
                if self.prior is not None and known is not None:
                    here = np.sort(remaining)  # in the order of their lists
                    decisive = np.zeros(len(numbers))
                    exit_score = rounded(scores[here, exit])
                    decisive[here] = self.prior.total(exit, known[here], question[here], exit_score)
                stay = survivors(question[remaining], decisive[remaining], remaining, alpha)
                tokens, rows = tokens.select(np.flatnonzero(stay))
                # `hidden[rows]` is the same, and takes several times as long on a processor.
                hidden, remaining = hidden.index_select(0, rows), remaining[stay]

        edges = np.cumsum(group.sizes)[:-1]
        columns_of_lists = zip(
            *(np.split(column, edges) for column in (scores, exits, pairs.lengths[numbers])), strict=True
        )
        return [(ranked, _Passed(*columns)) for ranked, columns in zip(lists, columns_of_lists, strict=True)]


def exit_settings(
    resources: Resources, exits: int
) -> tuple[Sequence[float], str, Sequence[Mapping[str, float]]]:
    """(drops, device, weights) of a stage whose model has `exits` exits but the last. Raises ValueError like
    `load_weights`."""
    stage = resources.stage(ExitStage)
    return alpha_per_exit(stage.drop, exits), resources.device, load_weights(resources, exits=True)


def alpha_per_exit(drop: Sequence[float], exits: int) -> Sequence[float]:
    """α of each exit but the last, of which there are `exits`; a single α in `drop` applies to all of them.

    Raises ValueError if candidates would have to leave a model that has no exit but the last.
    """
    if not exits and any(drop):
        raise ValueError(
            f"`drop` = {list(drop)}, and the model has no exit where candidates could leave; leave `drop` out"
        )
    return tuple(drop) * exits if len(drop) == 1 else drop


def fit_prior(
    model: ExitModel,
    lists: Sequence[RankedList],
    labels: Sequence[Sequence[int]],
    names: Sequence[str],
    drop: Sequence[float],
    *,
    options: FitOptions = USUAL_FIT,
) -> list[Fit]:
    """Weights for each exit but the last, of the exit's score and the known scores `names`. The model scores
    all candidates of the lists at all its exits, and they leave by `drop`: α at each exit, or one for all.

    Raises ValueError like `fit_exits`, ScoreNotFinite like the model.
    """
    scores = [rows.scores for rows in model.exit_scores(lists)]
    drops = alpha_per_exit(drop, len(model.exits) - 1)
    return fit_exits(lists, labels, scores, names, drops, options=options)


class _Passed(NamedTuple):
    """Scores of one list's candidates at the exits, in the list's order."""

    scores: Floats
    """[candidates, exits]; 0 at the exits that a candidate did not reach."""
    exits: Ints
    """[candidates]: number of exits that scored it; all of them unless it was dropped."""
    tokens: Ints
    """[candidates]: tokens of question and candidate."""


_Work: TypeAlias = Generator[None, None, list[tuple[RankedList, _Passed]]]
"""Work that yields before it waits for the device; see `in_turns`."""


class _Group(NamedTuple):
    lists: slice
    rows: tuple[int, int]  # of all candidates
    sizes: Ints  # of its lists


def _whole_lists(lists: Sequence[RankedList]) -> Iterator[Sequence[RankedList]]:
    """Neighbouring lists of TOKENISED candidates together, or a few more; fewer at first, so that a card
    begins early."""
    first = size = 0
    least = TOKENISED // 8
    for n, ranked in enumerate(lists, 1):
        size += len(ranked.candidates)
        if size >= least or n == len(lists):
            yield lists[first:n]
            first, size, least = n, 0, min(TOKENISED, 2 * least)


def _groups(sizes: Ints, lengths: Ints) -> Iterator[_Group]:
    """Neighbouring lists of at most GROUP_TOKENS tokens together, or one list that has more."""
    ends = np.cumsum(sizes)
    tokens = np.concatenate(([0], np.cumsum(lengths)))[np.concatenate(([0], ends))]  # up to each list
    first = 0
    while first < len(sizes):
        last = max(first + 1, int(np.searchsorted(tokens, tokens[first] + GROUP_TOKENS, side="right")) - 1)
        start = int(ends[first] - sizes[first])
        yield _Group(slice(first, last), (start, int(ends[last - 1])), sizes[first:last])
        first = last
