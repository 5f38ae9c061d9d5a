"""Texts that training lists share with a test set: equal and near questions and answers, and runs of 13 words
(Brown et al., NeurIPS 2020, appendix C).

Near texts are those of `same_answer`: a Jaccard similarity of the pairs of words of 0.6 or more, and all
names and numbers of one in the other. Near by vectors are texts whose vectors by the dense encoder have a
cosine of COSINE or more. Right answers of the test are looked up among the right ones of training, runs of
words among all candidates.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from answermill.ranking.rerankers.baselines.same_answer import ComparedText
from answermill.schemas.arrays import Vectors
from answermill.schemas.labels import LabelledCandidate

RUN = 13
"""Words of a run."""
COSINE = 0.9
"""Least cosine of texts that are near by vectors."""
EXAMPLES = 3
KINDS = {
    "question_equal": "the same question",
    "question_near": "a near question, in other words",
    "question_vector": "a question near by vectors",
    "answer_equal": "the same right answer",
    "answer_near": "a near right answer",
    "answer_vector": "a right answer near by vectors",
    "pair": "the same or a near question, with the same or a near right answer",
    "run_of_answer": f"{RUN} words of a right answer, in any candidate",
    "run_of_any": f"{RUN} words of any candidate, in any candidate",
}
"""Kind of what a test question shares with training → its meaning."""
Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True, slots=True, order=True)
class Shared:
    """A text of a test question, and one of training that it shares something with."""

    likeness: float
    """1 for equal texts; else the Jaccard similarity or cosine; of runs, the share of the test text's."""
    question_id: str
    text: str
    training_question_id: str
    training_text: str


@dataclass(slots=True)
class Overlap:
    """What a test set shares with training lists."""

    questions: int = 0
    training_questions: int = 0
    training_candidates: int = 0
    encoded: int = 0
    """Different training texts whose vectors were compared; the others were not."""
    shared: dict[str, dict[str, Shared]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    """Kind → question id → the likest of what was found."""

    def add(self, kind: str, shared: Shared) -> None:
        before = self.shared[kind].get(shared.question_id)
        if before is None or (-shared.likeness, shared.training_question_id) < (
            -before.likeness,
            before.training_question_id,
        ):
            self.shared[kind][shared.question_id] = shared

    def share(self, kind: str) -> float:
        return len(self.shared[kind]) / self.questions if self.questions else 0.0

    def worst(self, kind: str) -> list[Shared]:
        """The likest first, ties by id."""
        shared = self.shared[kind].values()
        return sorted(shared, key=lambda each: (-each.likeness, each.question_id))[:EXAMPLES]


class _Texts:
    """Texts of a test set, each with the questions that it is of."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """`texts`: (question id, text)."""
        by_text: dict[str, dict[str, None]] = defaultdict(dict)
        for question_id, text in texts:
            by_text[text][question_id] = None
        self.texts = list(by_text)
        self.questions = [tuple(ids) for ids in by_text.values()]
        self._compared = [ComparedText.of(text) for text in self.texts]

        self._equal = defaultdict[str, list[int]](list)
        common = defaultdict[str, int](int)
        for n, compared in enumerate(self._compared):
            self._equal[compared.folded].append(n)
            for pair in compared.pairs:
                common[pair] += 1
        self._rare = defaultdict[str, list[int]](list)
        for n, compared in enumerate(self._compared):
            by_rarity = sorted(compared.pairs, key=lambda pair: (common[pair], pair))
            for pair in by_rarity[: compared.least_shared]:
                self._rare[pair].append(n)

    def find(self, text: str) -> Iterator[tuple[int, str, float]]:
        """(number, 'equal' or 'near', likeness) of the texts that are so."""
        compared = ComparedText.of(text)
        equal = self._equal.get(compared.folded, ())
        yield from ((n, "equal", 1.0) for n in equal)
        for n in sorted({n for pair in compared.pairs for n in self._rare.get(pair, ())} - set(equal)):
            if compared.is_near(self._compared[n]):
                both = len(compared.pairs & self._compared[n].pairs)
                yield n, "near", both / (len(compared.pairs) + len(self._compared[n].pairs) - both)


def overlap(
    training: Iterable[Sequence[LabelledCandidate]], test: Sequence[Sequence[LabelledCandidate]]
) -> Overlap:
    """Equal and near texts, and shared runs of words. Both are lists of questions' candidates."""
    result = Overlap(questions=len(test))
    asked = _Texts((rows[0].question_id, rows[0].question) for rows in test)
    right = _Texts((row.question_id, row.text) for rows in test for row in rows if row.label > 0)
    runs = _Runs(test)

    for rows in training:
        result.training_questions += 1
        result.training_candidates += len(rows)
        near_questions = set[str]()
        for n, how, likeness in asked.find(rows[0].question):
            near_questions.update(asked.questions[n])
            for question_id in asked.questions[n]:
                shared = _shared(likeness, question_id, asked.texts[n], rows[0], rows[0].question)
                result.add(f"question_{how}", shared)

        for row in rows:
            for question_id, kind, share, text in runs.find(row.text):
                result.add(kind, _shared(share, question_id, text, row, row.text))
            for n, how, likeness in right.find(row.text) if row.label > 0 else ():
                for question_id in right.questions[n]:
                    shared = _shared(likeness, question_id, right.texts[n], row, row.text)
                    result.add(f"answer_{how}", shared)
                    if question_id in near_questions:
                        result.add("pair", shared)
    return result


def _shared(likeness: float, question_id: str, text: str, row: LabelledCandidate, training: str) -> Shared:
    return Shared(round(float(likeness), 4), question_id, text, row.question_id, training)


class _Runs:
    """Runs of words of a test set's candidates."""

    def __init__(self, test: Iterable[Sequence[LabelledCandidate]]) -> None:
        self._rows = [row for rows in test for row in rows]
        self._places = defaultdict[str, list[int]](list)
        self._counts = list[int]()
        for n, row in enumerate(self._rows):
            runs = runs_of_words(row.text)
            self._counts.append(len(runs))
            for run in runs:
                self._places[run].append(n)

    def find(self, text: str) -> Iterator[tuple[str, str, float, str]]:
        """(question id, kind, share of its runs, text) of each candidate that shares a run with the text."""
        shared = defaultdict[int, int](int)
        for run in runs_of_words(text):
            for n in self._places.get(run, ()):
                shared[n] += 1
        for n, count in shared.items():
            row, share = self._rows[n], count / self._counts[n]
            yield row.question_id, "run_of_any", share, row.text
            if row.label > 0:
                yield row.question_id, "run_of_answer", share, row.text


def runs_of_words(text: str) -> set[str]:
    """Each run of RUN words, folded; none in a shorter text.

    >>> len(runs_of_words("a b c d e f g h i j k l m n"))
    2
    """
    words = ComparedText.of(text).folded.split()
    return {" ".join(words[n : n + RUN]) for n in range(len(words) - RUN + 1)}


def add_vectors(
    result: Overlap,
    training: Sequence[Sequence[LabelledCandidate]],
    test: Sequence[Sequence[LabelledCandidate]],
    encode: Encode,
    most: int,
) -> None:
    """Add what is near by vectors and not equal: questions, and right answers.

    Of the training texts of either kind at most `most` are encoded, those with the least hash. `encode`:
    texts → [texts, d], of length 1.
    """
    questions = _first_of(((rows[0].question, rows[0]) for rows in training), most)
    answers = _first_of(((row.text, row) for rows in training for row in rows if row.label > 0), most)
    result.encoded = len(questions) + len(answers)

    asked = _Texts((rows[0].question_id, rows[0].question) for rows in test)
    right = _Texts((row.question_id, row.text) for rows in test for row in rows if row.label > 0)
    for kind, known, of_training in (("question", asked, questions), ("answer", right, answers)):
        if not known.texts or not of_training:
            continue
        test_vectors, training_vectors = encode(known.texts), encode([text for text, _ in of_training])
        for n, text in enumerate(known.texts):
            likeness = training_vectors @ test_vectors[n]
            for m in np.flatnonzero(likeness >= COSINE).tolist():
                other, row = of_training[m]
                if ComparedText.of(other).folded != ComparedText.of(text).folded:
                    for question_id in known.questions[n]:
                        result.add(f"{kind}_vector", _shared(likeness[m], question_id, text, row, other))


def _first_of(
    texts: Iterable[tuple[str, LabelledCandidate]], most: int
) -> list[tuple[str, LabelledCandidate]]:
    """At most `most` different texts, those with the least hash, each with its first row."""
    different: dict[str, LabelledCandidate] = {}
    for text, row in texts:
        different.setdefault(text, row)
    order = sorted(different, key=lambda text: hashlib.sha256(text.encode()).digest())
    return [(text, different[text]) for text in order[:most]]
