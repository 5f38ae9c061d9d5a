"""Train, dev and test sets that share nothing: neither a question nor a document stands in two. Pure
functions over ids.

A key is something that questions have in common (a labelled document, their words); `links` maps a question
to its keys. Near-duplicate questions are found exactly: every pair whose words' Jaccard similarity reaches a
threshold.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, TypeVar

Key = TypeVar("Key", bound=Hashable)
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
CLAIMS: tuple[Split, ...] = ("test", "dev", "train")
"""Splits in the order in which they take a key that two could have: test, so that the test set is
complete."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_ROUNDING = 1e-9
_STOPS = (
    "a an the this that these those there it its i me my we us our you your he him his she her they them "
    "their "
    "is are was were am be been being do does did done has have had can could will would shall should may "
    "might must "
    "of in on at to from for by with about into as and or but if so than then too very just also please"
)
_STOP_WORDS = frozenset(_STOPS.split())
"""Words without which a question means the same. Question words are not among them: who wrote it is not when
it was written."""


def split(links: Mapping[str, Iterable[Key]], shares: Sequence[float], seed: int = 0) -> dict[str, Split]:
    """Question → split; questions that share a key, also through others, are in the same one.

    Groups of such questions, the largest first, those of a size in the order of a hash of the seed and their
    smallest id, each go to the split that is then furthest below its share of the questions (train, dev,
    test). No order matters.
    """
    groups = connected(links)
    order = sorted(
        groups, key=lambda first: (-len(groups[first]), hashlib.sha256(f"{seed}:{first}".encode()).digest())
    )
    missing = {name: share * len(links) for name, share in zip(SPLITS, shares, strict=True)}  # questions
    splits: dict[str, Split] = {}
    for first in order:
        name = max(SPLITS, key=missing.__getitem__)
        missing[name] -= len(groups[first])
        splits |= dict.fromkeys(groups[first], name)
    return splits


def connected(links: Mapping[str, Iterable[Key]]) -> dict[str, list[str]]:
    """Smallest id → the questions, ascending, that keys connect."""
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
    owner: dict[Key, Split] = {}
    for name in CLAIMS:
        for question, keys in links.items():
            if splits[question] == name:
                for key in keys:
                    owner.setdefault(key, name)
    return owner


def words_of(question: str) -> frozenset[str]:
    """The words that distinguish a question: case folded, no punctuation, no stop words; all if there are
    only stop words."""
    words = {word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(question.casefold())}
    return frozenset(words - _STOP_WORDS) or frozenset(words)


def near_duplicates(questions: Mapping[str, str], threshold: float = 0.8) -> dict[str, str]:
    """Question → smallest id of the questions that near-duplicates connect with it, itself included.

    Two are near-duplicates if the Jaccard similarity of their words is at least the threshold, above 0 and at
    most 1.
    """
    same: dict[frozenset[str], list[str]] = defaultdict(list)
    for question in sorted(questions):
        same[words_of(questions[question])].append(question)
    keys: dict[str, list[tuple[str, str]]] = {ids[0]: [] for ids in same.values()}
    ids_of = list(same.values())
    for one, other in similar(list(same), threshold):
        pair = (ids_of[one][0], ids_of[other][0])
        for question in pair:
            keys[question].append(pair)
    groups = connected(keys)
    first_of = {question: first for first, group in groups.items() for question in group}
    return {question: first_of[ids[0]] for ids in ids_of for question in ids}


def similar(sets: Sequence[Set[str]], threshold: float) -> Iterator[tuple[int, int]]:
    """All pairs of sets, by number, whose Jaccard similarity is at least the threshold; an empty set is like
    no other.

    Prefix filtering (Chaudhuri et al. 2006, Bayardo et al. 2007): with the elements in one order, the rarest
    first, two such sets share one of the first |x| - ⌈t|x|⌉ + 1 of each. Only sets that do are compared, and
    none is smaller than t|x|.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold is {threshold}; it must be above 0 and at most 1")

    frequency = Counter(element for elements in sets for element in elements)
    ordered = [sorted(elements, key=lambda e: (frequency[e], e)) for elements in sets]
    # Element → sets that have it in their prefix, the smallest first.
    index: dict[str, list[int]] = defaultdict(list)

    # The smallest first, so that a set meets only sets that are no larger.
    for number in sorted(range(len(sets)), key=lambda n: (len(sets[n]), n)):
        elements, size = ordered[number], len(sets[number])
        least = math.ceil(threshold * size - _ROUNDING)
        candidates: set[int] = set()
        for element in elements[: size - least + 1]:
            candidates.update(other for other in index[element] if len(sets[other]) >= least)
            index[element].append(number)
        for other in sorted(candidates):
            shared = len(sets[number] & sets[other])
            if shared / (size + len(sets[other]) - shared) >= threshold:
                yield (min(other, number), max(other, number))
