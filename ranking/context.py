"""Parts of a candidate that a checkpoint reads, and the encodings that its classifiers read: settings of the
checkpoint.

Training, serving, tuning and export take a candidate's texts from `Reading.tuples`, so they read the same. A
candidate carries its passage, with its title and its sentences: [CLS] question [SEP] sentence [SEP] title
[SEP] previous [SEP] next [SEP].

The neighbours are those in the passage. The sentence before a passage's first one, and the one after its
last, are not in it: they are read as empty, as is the title of a page without one. An empty part keeps its
separator, so a place always means the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, get_args, runtime_checkable

import numpy as np

from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import RankedList

Part = Literal["sentence", "passage", "title", "previous", "next"]
Pooling = Literal["first", "mean", "candidate"]

OWN: tuple[Part, ...] = ("sentence", "passage")
"""The candidate itself; a context has one of them."""
_KEPT_LONGEST: tuple[Part, ...] = (*OWN, "title", "previous", "next")
_NAMES = {
    "title": "a title",
    "previous": "a sentence before it in its passage",
    "next": "a sentence after it in its passage",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Parts of a candidate that are read, in their order, and the pooling of a text's encodings into one.

    `pooling`: the encoding of the first token, the mean of all, or the mean of the candidate's own tokens.
    Raises ValueError if a part or the pooling is unknown, a part is named twice, or the candidate itself is
    missing.
    """

    context: tuple[Part, ...] = ("sentence",)
    pooling: Pooling = "mean"

    def __post_init__(self) -> None:
        written = list(self.context)
        if unknown := [part for part in self.context if part not in _KEPT_LONGEST]:
            raise ValueError(
                f"context = {written}: unknown part {unknown[0]!r}; known: {', '.join(_KEPT_LONGEST)}"
            )
        if len(set(self.context)) != len(self.context):
            raise ValueError(f"context = {written}: a part comes twice; name each once")
        if len(set(OWN) & set(self.context)) != 1:
            raise ValueError(
                f"context = {written}: name the candidate itself too, 'sentence' (or 'passage' for PEASI)"
            )

        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling = {self.pooling!r}: unknown; known: {', '.join(get_args(Pooling))}")

    @classmethod
    def of(cls, config: Mapping[str, Any], default: Self) -> Self:
        """Reading that a checkpoint's config.json states; the default where it states none. Raises ValueError
        like the constructor."""
        context = config.get("context", default.context)
        if isinstance(context, str) or not isinstance(context, Sequence):
            raise ValueError(f"context = {context!r}: not a list")
        return cls(tuple(context), config.get("pooling", default.pooling))

    def details(self, default: Reading) -> dict[str, Any]:
        """Its entries in config.json, without those that equal the default."""
        context = {} if self.context == default.context else {"context": list(self.context)}
        return context if self.pooling == default.pooling else context | {"pooling": self.pooling}

    @property
    def around(self) -> tuple[Part, ...]:
        """The parts beside the candidate itself."""
        return tuple(part for part in self.context if part not in OWN)

    @property
    def turns(self) -> tuple[int, ...]:
        """Places of the parts in a tuple, from 1, in the order in which they get room: a tuple that is too
        long loses tokens of its neighbours first, then of its title, then of the candidate itself."""
        return tuple(1 + self.context.index(part) for part in _KEPT_LONGEST if part in self.context)

    def tuples(self, lists: Sequence[RankedList]) -> list[tuple[str, ...]]:
        """(question, part, part, …) of each candidate of all lists, in their order."""
        return [(ranked.question.text, *texts) for ranked in lists for texts in self.texts(ranked)]

    def texts(self, ranked: RankedList) -> Iterator[tuple[str, ...]]:
        """Parts of each candidate, in the context's order."""
        passages = (
            {c.hit.passage.passage_id: c.hit.passage for c in ranked.candidates}
            if self._reads_neighbours
            else {}
        )
        around = {name: neighbours(passage) for name, passage in passages.items()}
        for candidate in ranked.candidates:
            passage = candidate.hit.passage
            sides = around.get(passage.passage_id, {}).get(candidate.candidate_id, ("", ""))
            yield self.arrange(candidate.text, passage.title, *sides)

    def sentence_texts(self, passage: Passage) -> Iterator[tuple[str, ...]]:
        """Parts of each sentence of a passage, in the context's order."""
        around = neighbours(passage) if self._reads_neighbours else {}
        for sentence in passage.sentences:
            yield self.arrange(sentence.text, passage.title, *around.get(sentence.sentence_id, ("", "")))

    @property
    def _reads_neighbours(self) -> bool:
        return not {"previous", "next"}.isdisjoint(self.context)

    def arrange(self, own: str, title: str = "", previous: str = "", following: str = "") -> tuple[str, ...]:
        """A candidate's parts in the context's order."""
        parts: dict[Part, str] = {
            "sentence": own,
            "passage": own,
            "title": title,
            "previous": previous,
            "next": following,
        }
        return tuple(parts[part] for part in self.context)

    def one_text(self, parts: Sequence[str]) -> str:
        """A candidate's parts that are not empty, as one text; a title at its start ends with a full stop."""
        titled = self.context[0] == "title" and parts[0]
        return " ".join(filter(None, (f"{parts[0]}." if titled else parts[0], *parts[1:])))

    def missing(self, tuples: Sequence[tuple[str, ...]]) -> dict[str, int]:
        """'without_<part>' → number of `tuples` in which the part is empty, for the parts beside the
        candidate itself."""
        places = {part: 1 + self.context.index(part) for part in self.around}
        return {
            f"without_{part}": sum(not row[place].strip() for row in tuples) for part, place in places.items()
        }

    def dropped(
        self, tuples: Sequence[tuple[str, ...]], probability: float, seed: Sequence[int]
    ) -> list[tuple[str, ...]]:
        """The tuples, with each part beside the candidate itself emptied with this probability, independently
        of the others."""
        stays = np.random.default_rng(seed).random((len(tuples), 1 + len(self.context))) >= probability
        stays[:, [0, *(1 + n for n, part in enumerate(self.context) if part in OWN)]] = True
        return [
            tuple(text if stay else "" for text, stay in zip(*row, strict=True))
            for row in zip(tuples, stays, strict=True)
        ]

    def check_data(self, tuples: Sequence[tuple[str, ...]]) -> None:
        """Refuse data in which a part is empty everywhere. Raises ValueError with what to do."""
        for part in self.around:
            if tuples and self.missing(tuples)[f"without_{part}"] == len(tuples):
                raise ValueError(
                    f"context = {list(self.context)}, but none of {len(tuples):,} candidates has "
                    f"{_NAMES[part]}; "
                    f"leave {part!r} out, or give data that have it"
                )


def check_one_text(context: Sequence[Part]) -> None:
    """Raises ValueError unless `Reading.one_text` can join these parts: the title first, as in an indexed
    passage."""
    Reading(tuple(context))
    if "title" in context[1:]:
        raise ValueError(f"context = {list(context)}: the title comes first, as in an indexed passage")


@runtime_checkable
class ReadsContext(Protocol):
    """A reranker that may read more than the candidate."""

    @property
    def readings(self) -> Sequence[Reading]:
        """Readings of its models."""
        ...


def check_passages(readings: Iterable[Reading], passages: Iterable[Passage]) -> None:
    """Refuse to rank if none of the candidates' passages has a part that is read. Raises ValueError with what
    to do."""
    wanted = {part for reading in readings for part in reading.around}
    count = 0
    for count, passage in enumerate(passages, 1):  # noqa: B007
        if passage.title.strip():
            wanted.discard("title")
        if len(passage.sentences) > 1:
            wanted -= {"previous", "next"}
        if not wanted:
            return

    for part in sorted(wanted) if count else ():
        raise ValueError(
            f"the checkpoint reads {_NAMES[part]}, but no candidate of {count:,} passages has one; give "
            "data that have it, or "
            "set missing_context = 'count' to rank without"
        )


def neighbours(passage: Passage) -> dict[str, tuple[str, str]]:
    """Sentence id → texts of the sentences before and after it in the passage; '' where the passage begins or
    ends."""
    texts = ["", *(sentence.text for sentence in passage.sentences), ""]
    return {sentence.sentence_id: (texts[n], texts[n + 2]) for n, sentence in enumerate(passage.sentences)}
