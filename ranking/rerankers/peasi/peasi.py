"""PEASI (Zhang, Vu & Moschitti 2022) as stages: `peasi.pr` reranks passages, `peasi.easi` extracts a sentence
of each, and `peasi` scores sentences in place by both, without dropping any.

The model is in `peasi_model.py`, its reading of passages in `passage_reader.py`. EASI can return no answer:
p(q, p) · p(s | p) is the probability that a sentence answers. A logistic regression of its logit, fitted on
dev lists that hold unanswerable questions too, gives the answer's confidence (`calibration.py`); below a
threshold no answer is returned. The paper has no such rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import ClassVar, Self

import numpy as np

from answermill.ranking.evaluation.calibration import UNCALIBRATED, Calibration
from answermill.ranking.lists import ranked_passages
from answermill.ranking.plan import order_extracted, to_passages
from answermill.ranking.reranker import Resources, check_finite, order_by, rounded
from answermill.ranking.rerankers.peasi import EXTRACTOR, IN_PLACE, PASSAGE_RERANKER, ExtractorStage, Score
from answermill.ranking.rerankers.peasi.answer_logit import answer_logit
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader, per_list
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel, load
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.arrays import Floats, Ints
from answermill.schemas.labels import LabelledPassage
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList


class PassageReranker:
    """Reranker of passages by the logit of p(q, p), the probability that one holds a correct sentence."""

    name: ClassVar[str] = PASSAGE_RERANKER
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"

    def __init__(self, model: PeasiModel, tokeniser: Tokeniser, device: str | None = None) -> None:
        """`device`: device of the computation; the model's if None. Raises ValueError if the model has no
        PR."""
        if model.pr is None:
            raise ValueError("the checkpoint is of variant 'easi', which has no passage reranker")
        self._reader = PassageReader(model, tokeniser, sentences=False, device=device)
        self.readings, self.costs = (model.reading,), self._reader.costs

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(*load(resources.folder(), resources.model), resources.device)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        inputs = [AskedPassage.from_candidate(ranked, c) for ranked in lists for c in ranked.candidates]
        scores = per_list(lists, self._reader.passages(inputs))
        return [order_by(ranked, part, self.name) for ranked, part in zip(lists, scores, strict=True)]


class SentenceExtractor:
    """Extractor of each passage's answer sentence. Its score is the confidence if `peasi.pr` has scored the
    passage, or if there was no such stage and the checkpoint reads passage and sentences at once; else p(s |
    p)."""

    name: ClassVar[str] = EXTRACTOR
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(
        self,
        model: PeasiModel,
        tokeniser: Tokeniser,
        threshold: float | None = None,
        *,
        scored_by: str | None = PASSAGE_RERANKER,
        device: str | None = None,
        score: Score = "confidence",
    ) -> None:
        """`threshold`: least confidence of a returned answer. `scored_by`: stage of `peasi.pr` whose scores
        the passages have; None if there was none. `device`: device of the computation; the model's if None.
        `score`: score to rank by. Raises ValueError if the model has no EASI."""
        if model.easi is None:
            raise ValueError("the checkpoint is of variant 'pr', which extracts no sentence")
        self._scores_passages = scored_by is None and model.at_once
        self._reader = PassageReader(model, tokeniser, passages=self._scores_passages, device=device)
        self._calibration = model.calibration or UNCALIBRATED
        self._threshold, self._scored_by, self._score = threshold, scored_by, score
        self.costs = self._reader.costs

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage, scored_by = resources.stage(ExtractorStage), resources.scored_by(PassageReranker.name)
        model, tokeniser = load(resources.folder(), resources.model)
        return cls(
            model, tokeniser, stage.threshold, scored_by=scored_by, device=resources.device, score=stage.score
        )

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        inputs = [AskedPassage.from_candidate(ranked, c) for ranked in lists for c in ranked.candidates]
        passage_logits: Sequence[Floats | None] = [None] * len(lists)
        if self._scores_passages:
            logits, extracted = self._reader.both(inputs)
            passage_logits = per_list(lists, logits)
        else:
            extracted = self._reader.sentences(inputs)

        parts = zip(
            lists,
            per_list(lists, extracted.sentence),
            per_list(lists, extracted.log_p),
            passage_logits,
            strict=True,
        )

        return [self._answers(*part) for part in parts]

    def _answers(
        self, ranked: RankedList, sentence: Ints, log_p: Floats, passage_logits: Floats | None
    ) -> RankedList:
        """Candidates of the extracted sentences, given by number in each passage. `passage_logits`: logits of
        p(q, p) that were computed with them."""
        # Checked before a threshold or a better passage could drop such a score.
        check_finite(ranked, log_p if passage_logits is None else log_p + passage_logits, self.name)
        answered = np.flatnonzero(sentence >= 0)  # passages that have an eligible sentence
        passages = [ranked.candidates[n] for n in answered]
        scores, confidences = self._scores(
            self._stage_scores(passages) if passage_logits is None else passage_logits[answered],
            log_p[answered],
        )

        # As published: what is shown as the threshold passes it.
        is_sure = rounded(confidences) >= (self._threshold or 0.0)
        extracted = [
            (passage, passage.hit.passage.sentences[sentence[n]], score)
            for passage, n, score in compress(
                zip(passages, answered, scores.tolist(), strict=True), is_sure.tolist()
            )
        ]
        return order_extracted(ranked, extracted, self.name)

    def _stage_scores(self, passages: Sequence[Candidate]) -> Floats | None:
        """Scores by `peasi.pr`; None if it has not scored all passages."""
        scores = [
            next((s.score for s in reversed(c.stages) if s.stage == self._scored_by), None) for c in passages
        ]
        return None if None in scores else np.array(scores, np.float64)

    def _scores(self, passage_logits: Floats | None, log_p: Floats) -> tuple[Floats, Floats]:
        """Scores to rank by, and confidences to compare with a threshold, [passages] each. Raises ValueError
        if a threshold, product or odds are set, and the passages have no scores."""
        if passage_logits is not None:
            confidences = self._calibration(answer_logit(passage_logits, log_p))
            ranked_by = {
                "confidence": confidences,
                "log_product": log_p - np.logaddexp(0.0, -passage_logits),
                "log_odds": log_p + passage_logits,
            }
            return ranked_by[self._score], confidences

        # Without PR's scores there is p(s | p) alone.
        if self._score != "confidence":
            raise ValueError(
                f"`score` = {self._score!r} needs the passages' scores of {PassageReranker.name}; "
                "rerank them with it before, or leave `score` out"
            )
        if self._threshold is not None:
            raise ValueError(
                "`threshold` is compared with the confidence, which needs the passages' scores of "
                f"{PassageReranker.name}; "
                "rerank them with it before, or leave `threshold` out"
            )

        probabilities: Floats = np.exp(log_p)
        return probabilities, probabilities


class InPlace:
    """Reranker of sentences by PR and EASI together: score = logit p(q, p) + log p(s | p), with p the passage
    in which the sentence was retrieved.

    The product p(q, p) · p(s | p) has p(q, p) in place of its odds. For a passage that is unlikely to answer,
    both are almost equal; but if several are likely, their p(q, p) are all near 1, and the product hardly
    distinguishes them.

    All sentences of a passage are read, also those that the list has lost. Nothing is dropped, so that a
    `blend` can weigh the passage's score beside scores of the sentence alone. A sentence that was cut off, or
    has no text, has the least p(s | p) of its passage's sentences; one of a passage without any has p(s | p)
    = 1.
    """

    name: ClassVar[str] = IN_PLACE
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, model: PeasiModel, tokeniser: Tokeniser, device: str | None = None) -> None:
        """`device`: device of the computation; the model's if None. Raises ValueError if the model lacks PR
        or EASI."""
        if model.pr is None or model.easi is None:
            raise ValueError(f"the checkpoint is of variant {model.variant!r}; both PR and EASI are needed")
        self._reader = PassageReader(model, tokeniser, device=device)
        self.readings, self.costs = (model.reading,), self._reader.costs

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls(*load(resources.folder(), resources.model), resources.device)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        passages = [(ranked, passage) for ranked in lists for passage in to_passages(ranked).candidates]
        logits, read = self._reader.every_sentence([AskedPassage.from_candidate(*pair) for pair in passages])
        log_p: list[dict[int, float]] = [{} for _ in passages]

        for n, number, value in zip(
            read.passage.tolist(), read.number.tolist(), read.log_p.tolist(), strict=True
        ):
            log_p[n][number] = value

        # A sentence that was not read has the least of its passage.
        scores: dict[tuple[str, str, str], float] = {}  # (question, passage, sentence) → score
        for (ranked, candidate), logit, known in zip(passages, logits, log_p, strict=True):
            passage, least = candidate.hit.passage, min(known.values(), default=0.0)
            for number, sentence in enumerate(passage.sentences):
                key = ranked.question.question_id, passage.passage_id, sentence.sentence_id
                scores[key] = float(logit) + known.get(number, least)

        return [
            order_by(
                ranked,
                [
                    scores[ranked.question.question_id, c.hit.passage.passage_id, c.candidate_id]
                    for c in ranked.candidates
                ],
                self.name,
            )
            for ranked in lists
        ]


class TopPassage:
    """The pipeline 'top-1' (§4.3): the answer sentence of PR's best passage."""

    def __init__(self, model: PeasiModel, tokeniser: Tokeniser) -> None:
        self._pr, self._easi = PassageReranker(model, tokeniser), SentenceExtractor(model, tokeniser)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        best = [RankedList(r.question, r.candidates[:1]) for r in self._pr.rerank(lists)]
        return self._easi.rerank(best)


def calibrated(reader: PassageReader, questions: Sequence[Sequence[LabelledPassage]]) -> Calibration | None:
    """Calibration of the confidence of each question's answer, the sentence of PR's best passage, by p(q, p)
    and p(s | p).

    None if all answers are right, all are wrong, or there are none, or if the surer ones are not more often
    right.
    """
    lists = [ranked_passages(passages) for passages in questions]
    scores = per_list(
        lists, reader.passages([AskedPassage.from_candidate(r, c) for r in lists for c in r.candidates])
    )
    best = [int(np.argmax(question_scores)) for question_scores in scores]
    answers = reader.sentences(
        [
            AskedPassage.from_candidate(ranked, ranked.candidates[n])
            for ranked, n in zip(lists, best, strict=True)
        ]
    )
    answered = np.flatnonzero(answers.sentence >= 0).tolist()
    right = [bool(questions[q][best[q]].sentences[answers.sentence[q]].label) for q in answered]
    if len(set(right)) < 2:
        return None

    best_scores = np.array([scores[q][best[q]] for q in answered])
    calibration = Calibration.fit(answer_logit(best_scores, answers.log_p[answered]), np.array(right))
    return calibration if calibration.weights[0] > 0 else None
