"""Published cross-encoders on passages: a passage that is too long for the model is read in windows of whole
sentences, and its score is that of its best window (MaxP, Dai & Callan 2019).

Reads passages. `PassageCrossEncoder` writes passages; `WindowExtractor` writes sentences, the first of the
best window in its passage's place. A title, if it is read, comes before every window. A sentence that is too
long by itself is a window, and is cut; a passage without sentences is one text, and is cut too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from answermill.ranking.plan import order_extracted
from answermill.ranking.reranker import check_finite, order_by, rounded
from answermill.ranking.rerankers.pretrained.pair_scorers import PairScorer
from answermill.ranking.rerankers.pretrained.sequence_classifier import CrossEncoder
from answermill.ranking.transformer.packing import whole_windows
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import CandidateKind, RankedList


class Window(NamedTuple):
    """Whole sentences of a passage that are read together."""

    numbers: Sequence[int]
    """Sentences by their number in the passage, from 0; none for a passage without any."""
    text: str


def windows(scorer: PairScorer, asked: Sequence[tuple[str, Passage]], titled: bool) -> list[list[Window]]:
    """Windows of the passage of each (question, passage), in the passage's order. `titled`: the title comes
    before each."""
    texts = dict.fromkeys(
        text for question, passage in asked for text in (question, *_parts(passage, _title(passage, titled)))
    )
    # [texts]: tokens of each text by itself.
    fixed, *sizes = scorer.sizes([("", ""), *(("", text) for text in texts)]).tolist()
    size = dict(zip(texts, (tokens - fixed for tokens in sizes), strict=True))

    split = []
    for question, passage in asked:
        sentences, title = [s.text for s in passage.sentences], _title(passage, titled)
        room = scorer.limit - fixed
        room -= min(size[question], (room + 1) // 2)  # a long question keeps at most half
        later = [size[f" {text}"] for text in sentences]
        leading = later if title else [size[text] for text in sentences]  # no blank before the first
        parts = whole_windows(sentences, later, room - size[title], leading)
        split.append([_window(passage, part.tolist(), title) for part in parts])
    return split


def _parts(passage: Passage, title: str) -> list[str]:
    """Texts of which windows are made: the title, sentences after a blank and, where no title leads a window,
    without one."""
    sentences = [sentence.text for sentence in passage.sentences]
    return [title, *(f" {text}" for text in sentences), *(() if title else sentences)]


def _window(passage: Passage, numbers: list[int], title: str) -> Window:
    texts = [passage.sentences[n].text for n in numbers] if numbers else [passage.text]
    return Window(numbers, " ".join(filter(None, (title, *texts))))


def _title(passage: Passage, titled: bool) -> str:
    return f"{passage.title}." if titled and passage.title else ""


class PassageCrossEncoder(CrossEncoder):
    """Reranker of passages by their best windows."""

    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"

    def _rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            order_by(ranked, [max(scores) for _, scores in read], self.name)
            for ranked, read in zip(lists, self._read(lists), strict=True)
        ]

    def _read(self, lists: Sequence[RankedList]) -> list[list[tuple[list[Window], list[float]]]]:
        """[lists][passages]: the windows of each passage, with their scores."""
        asked = [(ranked.question.text, c.hit.passage) for ranked in lists for c in ranked.candidates]
        (reading,) = self.readings
        split = windows(self._scorer, asked, "title" in reading.context)
        pairs = [(question, w.text) for (question, _), part in zip(asked, split, strict=True) for w in part]
        self._costs.update(windows=len(pairs))
        scores = iter(self._scored(pairs).tolist())

        parts = iter([(part, [next(scores) for _ in part]) for part in split])
        return [[next(parts) for _ in ranked.candidates] for ranked in lists]


class WindowExtractor(PassageCrossEncoder):
    """Extractor of the sentence with which a passage's best window begins; its score is the window's.

    A sentence that an earlier stage has dropped is read, but not extracted: the first of the others stands
    for its window.
    """

    writes: ClassVar[CandidateKind] = "sentence"

    def _rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [self._extracted(ranked, read) for ranked, read in zip(lists, self._read(lists), strict=True)]

    def _extracted(self, ranked: RankedList, read: Sequence[tuple[list[Window], list[float]]]) -> RankedList:
        check_finite(ranked, np.array([max(scores) for _, scores in read]), self.name)
        extracted = []
        for candidate, (split, scores) in zip(ranked.candidates, read, strict=True):
            eligible = {sentence.sentence_id for sentence in candidate.sentences}
            inside = candidate.hit.passage.sentences
            firsts = [
                (score, inside[number])
                for window, score in zip(split, rounded(scores).tolist(), strict=True)
                if (number := next((n for n in window.numbers if inside[n].sentence_id in eligible), None))
                is not None
            ]
            if firsts:
                score, sentence = max(firsts, key=lambda pair: pair[0])  # of equal windows the first
                extracted.append((candidate, sentence, score))

        return order_extracted(ranked, extracted, self.name)
