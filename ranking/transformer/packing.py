"""Packed tokens of texts: [CLS] question [SEP] candidate [SEP], laid end to end without padding.

Each different text is tokenised once in a call; pairs are then put together from ids. The special tokens
before, between and after the texts are read off the tokenizer's own encoding of a pair, so BERT, ELECTRA
([CLS] q [SEP] c [SEP]) and RoBERTa (<s> q </s></s> c </s>) need no names here. A pair is a tuple of texts,
most often two; all but the first are of the second token type. Texts beside the candidate, such as its title,
follow it (`ranking/context.py`).

A tuple of more than `limit` tokens is cut, never silently: `Pairs.cut` counts the tokens left out. The texts
after the first lose theirs from the end; the first one loses some too if it has more than half of the room
and the others need it. For a pair this is what tokenizers call longest first. With `turns`, question and
candidate share the room as if they were a pair, and the other texts get the rest, each in its turn. A
`Layout` can make the texts after the first one running text, in which the place of each text stays known; a
title may follow it, behind special tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from answermill.ranking.transformer.devices import sent
from answermill.schemas.arrays import Ints


@dataclass(frozen=True)
class Packed:
    """Texts end to end, n tokens in all. In any order; faster if texts of one length are neighbours."""

    ids: Tensor  # [n]
    types: Tensor  # [n]
    positions: Tensor  # [n], from 0 in each text
    own: Tensor  # [n] bool: the tokens of the candidate itself
    starts: Tensor  # [texts + 1] int32, on the tokens' device: text t has the rows starts[t] to starts[t + 1]
    lengths: Ints  # [texts], on the host

    @cached_property
    def groups(self) -> list[tuple[int, int, int]]:
        """(first row, texts, length) for each run of texts of one length."""
        edges = np.flatnonzero(np.diff(self.lengths, prepend=-1, append=-1))
        rows = np.concatenate(([0], np.cumsum(self.lengths)))
        return [(int(rows[a]), int(b - a), int(self.lengths[a])) for a, b in pairwise(edges)]

    def places(self, length: int) -> Tensor:
        """[n]: row of each token when all texts are filled up to `length` tokens."""
        if length not in self._places:
            first = np.arange(len(self.lengths)) * length
            self._places[length] = sent(torch.from_numpy(ranges(first, self.lengths)), self.ids.device)
        return self._places[length]

    @cached_property
    def _places(self) -> dict[int, Tensor]:
        return {}

    def by_length(self, rows: Tensor) -> list[Tensor]:
        """Split rows [n, …] into runs of texts of one length, [texts, length, …] each."""
        # One split, since each slice would have a gradient of all n rows.
        parts = torch.split(rows, [texts * length for _, texts, length in self.groups])
        return [
            p.reshape(texts, length, *p.shape[1:])
            for p, (_, texts, length) in zip(parts, self.groups, strict=True)
        ]

    def to(self, device: torch.device | str) -> Packed:
        tensors = (self.ids, self.types, self.positions, self.own, self.starts)
        ids, types, positions, own, starts = (sent(x, device) for x in tensors)
        return Packed(ids, types, positions, own, starts, self.lengths)

    def part(self, text: int, tokens: int) -> tuple[slice, Packed]:
        """Rows and tokens of the texts from number `text` on that have at most `tokens` tokens together; at
        least one text."""
        ends = np.cumsum(self.lengths)
        done = int(ends[text - 1]) if text else 0
        stop = max(text + 1, int(np.searchsorted(ends, done + tokens, side="right")))
        return self.between(text, stop)

    def parted(self, parts: int) -> list[tuple[int, int]]:
        """(first text, text after the last) of consecutive parts, of about as many tokens each; fewer parts if
        the texts are fewer, and one at least."""
        ends = np.cumsum(self.lengths)
        wanted = np.linspace(0, ends[-1], max(parts, 1) + 1)[1:-1]  # tokens before each inner edge
        inner = 1 + np.searchsorted(ends, wanted)
        return list(pairwise(np.unique([0, *inner, len(ends)]).tolist()))

    def between(self, text: int, stop: int) -> tuple[slice, Packed]:
        """Rows and tokens of the texts from number `text` to before `stop`, of which there is one or more."""
        ends = np.cumsum(self.lengths)
        rows = slice(int(ends[text - 1]) if text else 0, int(ends[stop - 1]))
        starts = self.starts[text : stop + 1] - self.starts[text]
        ids, types, positions, own = (x[rows] for x in (self.ids, self.types, self.positions, self.own))
        return rows, Packed(ids, types, positions, own, starts, self.lengths[text:stop])

    def select(self, texts: Sequence[int] | Ints) -> tuple[Packed, Tensor]:
        """These texts alone, in this order, and their rows [n']: `hidden[rows]` are their encodings."""
        chosen = np.asarray(texts, np.int64)
        lengths = self.lengths[chosen]
        rows = torch.from_numpy(ranges((np.cumsum(self.lengths) - self.lengths)[chosen], lengths))
        rows, starts = (sent(x, self.ids.device) for x in (rows, _starts(lengths)))
        return Packed(
            self.ids[rows], self.types[rows], self.positions[rows], self.own[rows], starts, lengths
        ), rows


@dataclass(frozen=True, slots=True)
class Layout:
    """Separators between the texts of a tuple; by default one after each."""

    end_to_end: bool = False  # none between the texts after the first, which are one running text
    titled: bool = False  # the last text is a title, which stands apart from a running text


class Tokeniser:
    """A model's tokenizer, from its folder's tokenizer.json, or as transformers has loaded it. `limit`: most
    tokens of a tuple, special ones included. `typed`: False if the model is given no token types, so that all
    are 0."""

    def __init__(
        self, folder: Path, limit: int = 512, loaded: Tokenizer | None = None, typed: bool = True
    ) -> None:
        path = folder / "tokenizer.json"
        if loaded is None and not path.is_file():
            raise ValueError(
                f"{folder}: no tokenizer.json; write it with transformers: "
                "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
            )

        self.limit, self.path = limit, path
        try:
            self._tokenizer = Tokenizer.from_file(str(path)) if loaded is None else loaded
        except Exception as e:  # tokenizers raises nothing narrower
            raise ValueError(f"{path}: no tokenizer ({e}); copy the model's folder again") from e

        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

        # The special tokens around and between two texts.
        frame = self._tokenizer.encode("a", "a")
        places = frame.sequence_ids
        texts = [number for number in places if number is not None]
        if {0, 1} != set(texts) or texts != sorted(texts) or {places[0], places[-1]} != {None}:
            raise ValueError(
                f"{path}: it puts no special tokens around a pair; give the tokenizer of a BERT, RoBERTa or "
                "ELECTRA"
            )

        before, second, after = places.index(0), places.index(1), len(places) - places[::-1].index(1)
        first_after = second - places[:second][::-1].index(0)
        self._frame = (frame.ids[:before], frame.ids[first_after:second], frame.ids[after:])
        self._types = (frame.type_ids[before], frame.type_ids[second]) if typed else (0, 0)

    @property
    def rows(self) -> int:
        """Rows that a table of embeddings needs for all tokens."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    @property
    def separator(self) -> str:
        """Special tokens between two texts, as they are written in a text."""
        return "".join(str(self._tokenizer.id_to_token(number)) for number in self._frame[1])

    @property
    def special(self) -> int:
        """Number of special tokens of a pair."""
        return sum(map(len, self._frame))

    @property
    def between(self) -> int:
        """Number of special tokens between two texts."""
        return len(self._frame[1])

    def sizes(self, texts: Sequence[str]) -> Ints:
        """[texts]: tokens of each text by itself, without special ones."""
        different = list(dict.fromkeys(texts))
        encoded = self._tokenizer.encode_batch_fast(different, add_special_tokens=False)
        size = dict(zip(different, map(len, encoded), strict=True))
        return np.fromiter((size[text] for text in texts), np.int64, len(texts))

    def pairs(
        self, tuples: Sequence[tuple[str, ...]], turns: Sequence[int] = (), layout: Layout = Layout()
    ) -> Pairs:
        """Tokenise and cut; each tuple has one text or more. Raises ValueError if not even the special tokens
        fit.

        `turns`: places of all texts but the first, from 1, in the order in which they get room; all tuples
        must then have as many. The first of them is the candidate. Without `turns` the candidate is the
        second text, or the only one.

        >>> tokeniser.pairs([("who", "he is", "title")]).pack().ids.tolist()  # 101 is [CLS], 102 is [SEP]
        [101, 2040, 102, 2002, 2003, 102, 2516, 102]
        >>> tokeniser.pairs([("who", "he", "is", "title")], layout=Layout(end_to_end=True, titled=True)).pack().ids.tolist()
        [101, 2040, 102, 2002, 2003, 102, 2516, 102]
        """
        # 1. Every different text once: a piece of one table of ids, whose pieces 0 to 2 are the special tokens.
        numbers = {text: n for n, text in enumerate(dict.fromkeys(chain.from_iterable(tuples)), 3)}
        encoded = [e.ids for e in self._tokenizer.encode_batch_fast(list(numbers), add_special_tokens=False)]
        table = np.fromiter(chain(*self._frame, *encoded), np.int64)
        sizes = np.fromiter(map(len, chain(self._frame, encoded)), np.int64)  # [3 + different texts]
        starts = np.cumsum(sizes) - sizes

        # 2. Place of each text: a tuple is a row of texts, and short rows end early.
        counts = np.fromiter(map(len, tuples), np.int64, len(tuples))  # [tuples]
        if len(counts) and counts.min() < 1:
            raise ValueError(f"tuple {int(counts.argmin())} has no text")

        place = np.arange(counts.max(initial=1))
        present = place < counts[:, None]  # [tuples, most texts]
        texts = np.zeros(present.shape, np.int64)
        texts[present] = [numbers[text] for text in chain.from_iterable(tuples)]

        # 3. Room: texts share what the special tokens, one piece before them all and one behind each, leave of the limit.
        last = place == counts[:, None] - 1
        closers = np.where(last, 2, 1)
        closing = sizes[closers] * present  # [tuples, most texts]
        running = counts - 1 - layout.titled  # [tuples]: texts after the first, without the title
        if layout.end_to_end:
            closing[:, 1:] *= (last | (place == running[:, None]))[:, 1:]
        room = self.limit - sizes[0] - closing.sum(1)  # [tuples]
        if len(room) and room.min() < 2:
            raise ValueError(
                f"{int(counts[room.argmin()])} texts do not fit into {self.limit} tokens; raise the limit"
            )

        whole = sizes[texts] * present
        kept = _cut_in_turn(whole, room, turns) if turns and len(tuples) else _cut(whole, room)

        # 4. Pieces of each tuple: before, text, between, text, …, after. Its own text is the candidate.
        pieces = np.zeros((len(counts), 1 + 2 * len(place)), np.int64)
        pieces[:, 1::2], pieces[:, 2::2] = texts, closers
        lengths = np.full(pieces.shape, sizes[0], np.int64)
        lengths[:, 1::2], lengths[:, 2::2] = kept, closing
        types = np.full(pieces.shape[1], self._types[1], np.int64)
        types[:3] = self._types[0]
        own = np.arange(pieces.shape[1]) == 1 + 2 * min(turns[0] if turns else 1, len(place) - 1)

        return Pairs(table, starts[pieces], lengths, types, own, (whole - kept).sum(1), running)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Tokenised tuples: for each its pieces, as stretches of one table of ids."""

    table: Ints  # [ids]
    starts: Ints  # [tuples, pieces]
    sizes: Ints  # [tuples, pieces]
    types: Ints  # [pieces]
    own: npt.NDArray[np.bool_]  # [pieces]: true for the candidate itself
    cut: Ints  # [tuples]: tokens left out
    running: Ints  # [tuples]: texts after the first, without a title

    @property
    def lengths(self) -> Ints:
        """[tuples]: tokens, special ones included."""
        lengths: Ints = self.sizes.sum(1)
        return lengths

    def pack(self, rows: Sequence[int] | Ints | None = None) -> Packed:
        """Pack these tuples (None: all), in the order given."""
        chosen = np.arange(len(self.sizes)) if rows is None else np.asarray(rows, np.int64)
        sizes = self.sizes[chosen]
        lengths = sizes.sum(1)
        ids = torch.from_numpy(self.table[ranges(self.starts[chosen].ravel(), sizes.ravel())])
        positions = torch.from_numpy(ranges(np.zeros_like(lengths), lengths))
        types, own = (
            torch.from_numpy(np.repeat(np.broadcast_to(per_piece, sizes.shape).ravel(), sizes.ravel()))
            for per_piece in (self.types, self.own)
        )
        return Packed(ids, types, positions, own, _starts(lengths), lengths)

    @property
    def filled(self) -> npt.NDArray[np.bool_]:
        """[tuples, most texts - 1]: true for texts after the first that have tokens; a title does not
        count."""
        after = self.sizes[:, 3::2]
        return np.asarray((after > 0) & (np.arange(after.shape[1]) < self.running[:, None]))

    def stretches(self, rows: Sequence[int] | Ints) -> tuple[Ints, Ints]:
        """Places in `pack(rows)` of the texts that `filled` marks, in its order: first token of each, and
        number of tokens."""
        chosen = np.asarray(rows, np.int64)
        sizes, filled = self.sizes[chosen], self.filled[chosen]
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        return starts[:, 3::2][filled], sizes[:, 3::2][filled]

    def batches(self, tokens: int, order: Ints | None = None) -> Iterator[Ints]:
        """Numbers of all tuples, the longest first (or those of `order`, in this order), in batches of at
        most `tokens` tokens, or of one tuple that has more."""
        if order is None:
            order = np.argsort(-self.lengths, kind="stable")
        ends = np.cumsum(self.lengths[order])
        start = 0
        while start < len(order):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + tokens, side="right")))
            yield order[start:stop]
            start = stop


def _cut(lengths: Ints, room: Ints) -> Ints:
    """[tuples, texts]: number of tokens that each text keeps, at most `room` [tuples] in all.

    >>> _cut(np.array([[9, 4, 3], [2, 9, 3]]), np.array([10, 10])).tolist()
    [[5, 4, 1], [2, 8, 0]]
    """
    # The first text keeps half of the room, or more where the others leave it.
    first, rest = lengths[:, 0], lengths[:, 1:]
    needed = rest.sum(1)
    half = (room + (first > needed)) // 2
    first = np.minimum(first, np.maximum(half, room - needed))

    # [tuples, texts - 1]: room left for each text by those before it.
    remaining = (room - first)[:, None] - (np.cumsum(rest, 1) - rest)
    return np.concatenate((first[:, None], np.clip(remaining, 0, rest)), 1)


def _cut_in_turn(lengths: Ints, room: Ints, turns: Sequence[int]) -> Ints:
    """[tuples, texts]: number of tokens that each text keeps. The first text and the one at turns[0] share
    the room as in `_cut`; the others then get the rest, each in its turn.

    >>> _cut_in_turn(np.array([[2, 3, 9]]), np.array([10]), [2, 1]).tolist()
    [[2, 0, 8]]
    """
    kept, pair = np.zeros_like(lengths), [0, turns[0]]
    kept[:, pair] = _cut(lengths[:, pair], room)
    for turn in turns[1:]:
        kept[:, turn] = np.minimum(lengths[:, turn], room - kept.sum(1))
    return kept


def whole_windows(
    texts: Sequence[str], sizes: Sequence[int], room: int, leading: Sequence[int] | None = None
) -> list[Ints]:
    """Numbers of a passage's sentences that have text, in windows of at most `room` tokens, or of one
    sentence that has more; one empty window if there are none. `sizes`: tokens of each text; `leading`:
    those of each where it begins a window, if they differ."""
    parts: list[list[int]] = [[]]
    left = room
    for n in filled(texts).tolist():
        if parts[-1] and sizes[n] > left:
            parts.append([])
            left = room
        left -= sizes[n] if parts[-1] or leading is None else leading[n]
        parts[-1].append(n)
    return [np.array(part, np.int64) for part in parts]


def filled(texts: Sequence[str]) -> Ints:
    """Numbers of the texts that are not blank."""
    return np.flatnonzero([bool(text.strip()) for text in texts])


def ranges(starts: npt.ArrayLike, lengths: npt.ArrayLike) -> Ints:
    """Consecutive numbers from each start, end to end.

    >>> ranges([5, 9], [2, 3]).tolist()
    [5, 6, 9, 10, 11]
    """
    sizes = np.asarray(lengths, np.int64)
    before = np.cumsum(sizes) - sizes  # [starts]: numbers before those of each
    return np.repeat(np.asarray(starts) - before, sizes) + np.arange(sizes.sum())


def _starts(lengths: Ints) -> Tensor:
    return torch.from_numpy(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
