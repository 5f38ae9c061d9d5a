"""Cascade Transformer (Soldaini & Moschitti, ACL 2020): one encoder, a classifier at several depths, and at each depth the
worst candidates leave. Reads sentences, writes sentences. Sections and equations are the paper's.

`CascadeModel` is §4.3: partial classifiers C_ρ(i) over the mean of a depth's encodings. With a single exit it is the
monolithic cross-encoder (§4.1, TANDA); several of those in sequence are the sequential ranker SR (§4.2), which encodes
what is left anew each time. `Cascade` is inference (§4.3.2) for many questions in flight: after each exit the rows of those
that left are taken out, and the next layers run over what remains.

Settled here. All encodings count in the mean, as the text of §4.3 has it; its formula leaves out h_0. A classifier has
two hidden layers with tanh and one that gives the score: §5.2's "3-layers feed-forward modules". It gives one number, and
its cross-entropy is the binary one. At inference it runs in float64: a score does not feel its batch mates, and a survivor
has exactly the score that it would have had without any dropping.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ranking import checkpoint
from ranking.cascade import CascadeStage
from ranking.cascade.exits import ExitRows
from ranking.cascade.schedule import check, dropped
from ranking.checkpoint import WordsOf
from ranking.reranker import SCORE_DECIMALS, Resources, order_by
from ranking.transformer.encoder import LayeredEncoder, pool
from ranking.transformer.packing import Numbers, Packed, Pairs, Tokeniser
from schemas.ranked import RankedList, Unit

Floats = npt.NDArray[np.float64]

GROUP_TOKENS = 1 << 18  # of the lists in flight: 0.4 GB of encodings of 384 numbers in float32


class Classifier(nn.Module):
    """C_ρ(i): the mean encoding [texts, d] → a score per text [texts]."""

    reads_first: ClassVar[bool] = False
    """Whether it is given the encodings of the texts' first tokens alone [texts, d]."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def read(self, hidden: Tensor, tokens: Packed) -> Tensor:
        """Of the encodings [n, d] what it is called with [texts, d]."""
        return pool(hidden, tokens)

    def forward(self, mean: Tensor) -> Tensor:
        h = self.first(self.dropout(mean)).tanh()
        h = self.second(self.dropout(h)).tanh()
        scores: Tensor = self.score(self.dropout(h))
        return scores.squeeze(1)


class CascadeModel(nn.Module):
    """An encoder and its partial classifiers, one after layer ρ(i) for each of `exits`; the last one after its last layer."""

    def __init__(self, encoder: LayeredEncoder, exits: Sequence[int]) -> None:
        """Raises ValueError where the exits do not increase or do not end at the encoder's depth."""
        super().__init__()
        self.exits = tuple(exits)
        check(self.exits, [0.0] * (len(self.exits) - 1))
        if self.exits[-1] != encoder.shape.layers:
            raise ValueError(
                f"the last exit is after layer {self.exits[-1]}, but the encoder has {encoder.shape.layers} layers"
            )
        self.encoder = encoder
        self.classifiers = nn.ModuleList(Classifier(encoder.shape.width, encoder.shape.dropout) for _ in exits)

    @property
    def depth(self) -> int:
        return self.exits[-1]

    def forward(self, tokens: Packed, exit: int, stop: bool = False) -> Tensor:
        """Scores [texts] at an exit, counted from 0. `stop`: no gradient below the exit before (an ablation of §4.3.1)."""
        return self.classify(self._encoded(tokens, exit, stop), tokens, exit)

    def outputs(self, tokens: Packed, exit: int, stop: bool = False) -> list[Tensor]:
        """As `forward`, what each classifier there says: one logit per text, [texts]."""
        return self.logits(self._encoded(tokens, exit, stop), tokens, exit)

    def _encoded(self, tokens: Packed, exit: int, stop: bool) -> Tensor:
        before = self.exits[exit - 1] if stop and exit else 0
        with torch.set_grad_enabled(torch.is_grad_enabled() and not before):
            hidden = self.encoder.embed(tokens)
            hidden = self.encoder.run(hidden, tokens, 0, before)
        return self.run(hidden, tokens, before, self.exits[exit])

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        """h of depth `first` → what the classifiers of depth `last` read [n, d]."""
        return self.encoder.run(hidden, tokens, first, last)

    def layers_between(self, first: int, last: int) -> int:
        """Layers that are computed from one exit's scores to another's."""
        return last - first

    def logits(self, hidden: Tensor, tokens: Packed, exit: int) -> list[Tensor]:
        """What `run` gives at an exit [n, d] → what each classifier there says: one logit per text, [texts]."""
        return [classified(cast(Classifier, self.classifiers[exit]), hidden, tokens)]

    def classify(self, hidden: Tensor, tokens: Packed, exit: int) -> Tensor:
        """What `run` gives at an exit [n, d] → scores [texts]."""
        (logits,) = self.logits(hidden, tokens, exit)
        return logits

    def classifier_parameters(self) -> Iterator[nn.Parameter]:
        """Of all that stands on the layers."""
        return self.classifiers.parameters()

    def for_inference(self, device: torch.device | str) -> Self:
        """A copy for scoring: layers in the device's fast precision, the classifiers in float64."""
        made = copy.copy(self)
        made._modules = dict(self._modules)
        made.encoder = self.encoder.for_inference(device)
        made.classifiers = copy.deepcopy(self.classifiers).to(device, torch.float64)
        return made.requires_grad_(False).eval()


def classified(classifier: Classifier, hidden: Tensor, tokens: Packed) -> Tensor:
    """Encodings [n, d] → logits [texts], in the classifier's own precision, never under autocast."""
    with torch.autocast(hidden.device.type, enabled=False):
        logits: Tensor = classifier(classifier.read(hidden, tokens).to(classifier.score.weight.dtype))
    return logits


def grown(monolithic: CascadeModel, exits: Sequence[int]) -> CascadeModel:
    """A cascade that begins with a monolithic model's body and classifier; the other classifiers are new."""
    made = CascadeModel(monolithic.encoder, exits)
    made.classifiers[-1] = monolithic.classifiers[-1]
    return made


class Cascade:
    """Score = the last classifier's, a logit; whoever left at an exit before is not in the list that comes back."""

    name: ClassVar[str] = "cascade"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(
        self, model: CascadeModel, tokeniser: Tokeniser, drops: Sequence[float] = (), device: str | None = None
    ) -> None:
        """`drops`: α at each exit but the last; none = 0 everywhere. `device`: where it runs; the model's if None.

        Raises ValueError if the drops do not fit the exits.
        """
        self.drops = tuple(drops) or (0.0,) * (len(model.exits) - 1)
        check(model.exits, self.drops)
        self._model = model.for_inference(device or model.encoder.words.weight.device)
        self._tokeniser = tokeniser
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        model, tokeniser = load(resources.folder(), cls.name, resources.model)
        return cls(model, tokeniser, for_each(resources.stage(CascadeStage).drop, len(model.exits) - 1), resources.device)

    @property
    def exits(self) -> tuple[int, ...]:
        return self._model.exits

    @property
    def depth(self) -> int:
        return self._model.depth

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        made = []
        for ranked, rows in zip(lists, self._scored(lists, self.drops), strict=True):
            there = np.flatnonzero(~np.isnan(rows.scores[:, -1]))
            survivors = RankedList(ranked.question, tuple(ranked.candidates[n] for n in there))
            made.append(order_by(survivors, rows.scores[there, -1], self.name))
        return made

    def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
        """Every candidate's score at every exit, nobody dropped: what `schedule.replay` reads."""
        return list(self._scored(lists, (0.0,) * len(self.drops)))

    def costs(self) -> Counter[str]:
        """What was spent since the last call: candidates, tokens, tokens cut, layers × each of the first two, milliseconds.

        `full_layer_…` is what the monolithic model of the same depth would have spent.
        """
        spent, self._costs = self._costs, Counter()
        return spent

    def _scored(self, lists: Sequence[RankedList], drops: Sequence[float]) -> Iterator[ExitRows]:
        """Per list, its scores at each exit; NaN from where a candidate has left."""
        began = time.perf_counter()
        pairs = self._tokeniser.pairs([(r.question.text, c.text) for r in lists for c in r.candidates])
        sizes = np.fromiter((len(r.candidates) for r in lists), np.int64, len(lists))
        self._costs["tokens_cut"] += int(pairs.cut.sum())
        for group in _groups(sizes, pairs.lengths):
            numbers = np.arange(*group.rows)
            scores = self._group(pairs, numbers, np.repeat(np.arange(len(group.sizes)), group.sizes), drops)
            edges = np.cumsum(group.sizes)[:-1]
            self._costs["milliseconds"] += round(1000 * (time.perf_counter() - began))
            yield from map(ExitRows, np.split(scores, edges), np.split(pairs.lengths[numbers], edges))
            began = time.perf_counter()

    @torch.inference_mode()
    def _group(self, pairs: Pairs, numbers: Numbers, question: Numbers, drops: Sequence[float]) -> Floats:
        """Scores [candidates, exits] of whole lists in flight together; `question` [candidates] tells the lists apart."""
        scores = np.full((len(numbers), len(self.exits)), np.nan)
        here = np.argsort(-pairs.lengths[numbers], kind="stable")  # who is still there, the longest first
        tokens = pairs.pack(numbers[here]).to(next(self._model.parameters()).device)
        hidden, depth = self._model.encoder.embed(tokens), 0
        self._costs["candidates"] += len(here)
        self._costs["tokens"] += len(hidden)
        self._costs["full_layer_candidates"] += self.depth * len(here)
        self._costs["full_layer_tokens"] += self.depth * len(hidden)
        for exit, (last, alpha) in enumerate(zip(self.exits, (*drops, 0.0), strict=True)):
            hidden = self._model.run(hidden, tokens, depth, last)
            scores[here, exit] = self._model.classify(hidden, tokens, exit).cpu().numpy()
            layers = self._model.layers_between(depth, last)
            self._costs["layer_candidates"] += layers * len(here)
            self._costs["layer_tokens"] += layers * len(hidden)
            depth = last
            if alpha:
                stay = survivors(question[here], scores[here, exit], here, alpha)
                tokens, rows = tokens.select(np.flatnonzero(stay))
                hidden, here = hidden[rows], here[stay]
        return scores


def for_each(drop: Sequence[float], exits: int) -> Sequence[float]:
    """α as a setting gives it, once for all exits that drop, or for each."""
    return tuple(drop) * exits if len(drop) == 1 else drop


def survivors(question: Numbers, scores: Floats, order: Numbers, alpha: float) -> npt.NDArray[np.bool_]:
    """Who stays: all but the ⌊α·k⌋ lowest of each question's k  (§4.3.2); of equal scores the later in `order` leaves first."""
    rounded = np.fromiter((round(s, SCORE_DECIMALS) for s in scores.tolist()), np.float64, len(scores))  # as `order_by` does
    best_first = np.lexsort((order, -rounded, question))
    _, number, k = np.unique(question, return_inverse=True, return_counts=True)
    starts = np.cumsum(k) - k
    rank = np.empty(len(question), np.int64)
    rank[best_first] = np.arange(len(question)) - starts[number[best_first]]
    stay = k - np.fromiter((dropped(int(n), alpha) for n in k), np.int64, len(k))
    kept: npt.NDArray[np.bool_] = rank < stay[number]
    return kept


class _Group(NamedTuple):
    rows: tuple[int, int]  # of all candidates
    sizes: Numbers  # of its lists


def _groups(sizes: Numbers, lengths: Numbers) -> Iterator[_Group]:
    """Neighbouring lists of at most GROUP_TOKENS tokens together, or one list that has more."""
    ends = np.cumsum(sizes)
    tokens = np.concatenate(([0], np.cumsum(lengths)))[np.concatenate(([0], ends))]  # up to each list
    first = 0
    while first < len(sizes):
        last = max(first + 1, int(np.searchsorted(tokens, tokens[first] + GROUP_TOKENS, side="right")) - 1)
        start = int(ends[first] - sizes[first])
        yield _Group((start, int(ends[last - 1])), sizes[first:last])
        first = last


class Sequential:
    """SR: monolithic rankers of growing depth, each trained on its own; each encodes anew what the one before has left (§4.2).

    A checkpoint is a folder whose sub-folders are checkpoints of `pointwise`; the shallowest comes first.
    """

    name: ClassVar[str] = "sequential"
    reads: ClassVar[Unit] = "sentence"
    writes: ClassVar[Unit] = "sentence"

    def __init__(self, rankers: Sequence[Cascade], drops: Sequence[float] = ()) -> None:
        """`drops`: α after each ranker but the last. Raises ValueError where they do not fit the rankers."""
        self.drops = tuple(drops) or (0.0,) * (len(rankers) - 1)
        check([ranker.depth for ranker in rankers], self.drops)
        self._rankers = rankers

    @classmethod
    def load(cls, resources: Resources) -> Self:
        folder = resources.folder()
        loaded = [load(path.parent, "pointwise", resources.model) for path in sorted(folder.glob("*/config.json"))]
        if not loaded:
            raise ValueError(
                f"{folder} is no checkpoint of sequential: it has no sub-folders that are checkpoints of pointwise"
            )
        rankers = sorted((Cascade(*each, device=resources.device) for each in loaded), key=lambda ranker: ranker.depth)
        return cls(rankers, for_each(resources.stage(CascadeStage).drop, len(rankers) - 1))

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        now = list(lists)
        for ranker, alpha in zip(self._rankers, (*self.drops, 0.0), strict=True):
            scores = [rows.scores[:, -1] for rows in ranker.exit_scores(now)]
            if ranker is self._rankers[-1]:
                break
            for n, ranked in enumerate(now):
                size = len(ranked.candidates)
                stay = survivors(np.zeros(size, np.int64), scores[n], np.arange(size), alpha)
                now[n] = RankedList(ranked.question, tuple(compress(ranked.candidates, stay)))
        return [order_by(ranked, values, self.name) for ranked, values in zip(now, scores, strict=True)]

    def costs(self) -> Counter[str]:
        """As `Cascade.costs`, summed over the rankers, but for the candidates, which came in once."""
        first, *others = [ranker.costs() for ranker in self._rankers]
        came = {key: first[key] for key in ("candidates", "tokens")}
        full = {f"full_layer_{key}": self._rankers[-1].depth * n for key, n in came.items()}
        return Counter({**sum(others, first), **came, **full}) if first else first


def save(
    folder: Path,
    name: str,
    model: CascadeModel,
    tokeniser: Tokeniser,
    store: Literal["fp32", "fp16"] = "fp32",
    words: WordsOf | None = None,
) -> None:
    """Write the model folder of `name`: 'cascade', or 'pointwise' with a single exit. See `checkpoint.save_transformer`."""
    checkpoint.save_transformer(folder, name, {"exits": model.exits}, model, tokeniser, store, words)


def load(folder: Path, name: str, source: Callable[[str], Path] = Path) -> tuple[CascadeModel, Tokeniser]:
    """What `save` wrote. Raises ValueError where the folder is incomplete, broken, or of another format or model."""
    return checkpoint.load_transformer(folder, name, lambda told, encoder: CascadeModel(encoder, told["exits"]), source)
