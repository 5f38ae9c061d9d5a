"""Texts that EASI reads of a passage, in training and serving: windows of its sentences, tokenised.

With k slots a window has at most k sentences, and all are of much the same size (q [SEP] s1 … [SEP] sk,
§2.2). If each sentence has a vector (`span`, not the paper's), a passage is one text, q [SEP] s1 … sn. Only a
passage that is too long is read in several windows, in its order, each with as many whole sentences as fit. A
title follows each window, in the remaining room. A sentence that is too long by itself is cut. Sentences
without text are in no window; a passage without any has an empty one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from answermill.ranking.transformer.packing import Layout, Pairs, Tokeniser, filled, whole_windows
from answermill.schemas.arrays import Ints


class PassageWindows(NamedTuple):
    """Windows of passages, passage by passage."""

    passage: Ints
    """[windows]: number of the passage, from 0."""
    numbers: Sequence[Ints]
    """Sentences of each window, by their number in the passage from 0."""
    pairs: Pairs


def windows(texts: Sequence[str], slots: int) -> list[Ints]:
    """Numbers of a passage's sentences that have text, in windows of at most `slots`; one empty window if
    there are none."""
    numbers = filled(texts)
    return np.array_split(numbers, max(1, math.ceil(len(numbers) / slots)))


def read_windows(
    tokeniser: Tokeniser,
    passages: Sequence[tuple[str, Sequence[str]]],
    slots: int | None,
    titles: Sequence[str] | None = None,
) -> PassageWindows:
    """Windows of questions, each with the sentences of a passage. `slots`: sentences of a window; None: as
    many as fit, end to end. `titles`: [passages], which follow a window, with separators around; None: no
    titles."""
    if slots is None:
        between = tokeniser.between if titles is not None else 0
        split = list(_whole(tokeniser, passages, tokeniser.limit - tokeniser.special - between))
    else:
        split = [
            (n, numbers) for n, (_, sentences) in enumerate(passages) for numbers in windows(sentences, slots)
        ]

    texts = [
        (passages[n][0], *(passages[n][1][i] for i in numbers), *(titles[n : n + 1] if titles else ()))
        for n, numbers in split
    ]
    passage = np.fromiter((n for n, _ in split), np.int64, len(split))
    pairs = tokeniser.pairs(texts, layout=Layout(end_to_end=slots is None, titled=titles is not None))

    return PassageWindows(passage, [numbers for _, numbers in split], pairs)


def _whole(
    tokeniser: Tokeniser, passages: Sequence[tuple[str, Sequence[str]]], room: int
) -> Iterator[tuple[int, Ints]]:
    sizes = tokeniser.sizes(
        [text for question, sentences in passages for text in (question, *sentences)]
    ).tolist()
    done = 0
    for n, (_, sentences) in enumerate(passages):
        question_size, *sentence_sizes = sizes[done : done + 1 + len(sentences)]
        done += 1 + len(sentences)
        left = room - min(question_size, (room + 1) // 2)  # a long question keeps at most half
        yield from ((n, window) for window in whole_windows(sentences, sentence_sizes, left))
