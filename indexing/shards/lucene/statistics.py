"""Constants of BM25, and what it counts in a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Scoring:
    """BM25's constants, and the weight of the title's score beside that of title and text together."""

    k1: float = 0.9
    b: float = 0.4
    title_weight: float = 0.0


USUAL = Scoring()
"""Anserini's constants."""


@dataclass(frozen=True, slots=True)
class ShardSize:
    """A shard as BM25 counts it: documents with at least one word, and words; and the same of titles."""

    documents: int = 0
    tokens: int = 0
    titles: int = 0
    title_tokens: int = 0

    def __add__(self, other: ShardSize) -> ShardSize:
        """Size of both; associative and commutative, with `ShardSize()` as its zero."""
        return ShardSize(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __sub__(self, other: ShardSize) -> ShardSize:
        """Size without the documents of `other`, which are some of these."""
        return ShardSize(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))


@dataclass(frozen=True, slots=True)
class GlobalStatistics:
    """Size of the whole corpus, and the number of documents in which each word of the questions occurs: the
    sum over its shards. A word that is looked for in titles begins with a tab."""

    size: ShardSize = ShardSize()
    frequencies: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: GlobalStatistics) -> GlobalStatistics:
        """Associative and commutative; `GlobalStatistics()` is its zero."""
        frequencies = dict(self.frequencies)
        for term, frequency in other.frequencies.items():
            frequencies[term] = frequencies.get(term, 0) + frequency
        return GlobalStatistics(self.size + other.size, frequencies)
