"""Train, dev and test sets that share nothing: neither a question nor a document stands in two. Pure functions over ids.

What questions have in common (a labelled document, their text) is a key here; `links` says which keys a question has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

Key = TypeVar("Key", bound=Hashable)
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
CLAIMS: tuple[Split, ...] = ("test", "dev", "train")
"""Who takes first what two could have: test, so that what is measured is whole."""


def split(links: Mapping[str, Iterable[Key]], shares: Sequence[float], seed: int = 0) -> dict[str, Split]:
    """Question → split, with questions that have a key in common, over others too, in the same.

    Groups of such questions, the largest first, those of a size in the order of a hash of the seed and their smallest id,
    each go to the split that is then furthest below its share of the questions (train, dev, test). No order matters.
    """
    groups = connected(links)
    order = sorted(groups, key=lambda first: (-len(groups[first]), hashlib.sha256(f"{seed}:{first}".encode()).digest()))
    missing = {name: share * len(links) for name, share in zip(SPLITS, shares, strict=True)}  # questions
    found: dict[str, Split] = {}
    for first in order:
        name = max(SPLITS, key=lambda each: missing[each])
        missing[name] -= len(groups[first])
        found |= dict.fromkeys(groups[first], name)
    return found


def connected(links: Mapping[str, Iterable[Key]]) -> dict[str, list[str]]:
    """Smallest id → the questions, ascending, that hang together by keys."""
    parent = {question: question for question in links}
    first_with: dict[Key, str] = {}

    def root(question: str) -> str:
        while parent[question] != question:
            parent[question] = question = parent[parent[question]]
        return question

    for question, keys in links.items():
        for key in keys:
            one, other = sorted((root(question), root(first_with.setdefault(key, question))))
            parent[other] = one
    groups: dict[str, list[str]] = {}
    for question in sorted(links):
        groups.setdefault(root(question), []).append(question)
    return groups


def owners(links: Mapping[str, Iterable[Key]], splits: Mapping[str, Split]) -> dict[Key, Split]:
    """Key → the split that it belongs to: of those of its questions the first in CLAIMS."""
    found: dict[Key, Split] = {}
    for name in CLAIMS:
        for question, keys in links.items():
            if splits[question] == name:
                for key in keys:
                    found.setdefault(key, name)
    return found
