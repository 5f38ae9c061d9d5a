"""Published cross-encoders: any `CrossEncoder` of sentence-transformers, or sequence classifier of
transformers, with its own head (BERT, RoBERTa, XLM-R, ELECTRA, DeBERTa, ModernBERT, MPNet, DistilBERT, ALBERT
and more).

Reads sentences, writes sentences. A pair is (question, candidate); a title or neighbours become part of the
candidate's text, since such a model reads two texts. `pair_scorers.py` computes the logits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from answermill.ranking.context import Reading
from answermill.ranking.reranker import Resources, order_by
from answermill.ranking.rerankers.pretrained import CrossEncoderStage
from answermill.ranking.rerankers.pretrained.pair_scorers import PairScorer, Wording, load_scorer
from answermill.ranking.transformer.published.published_classifier import Output, PublishedClassifier
from answermill.schemas.ranked import CandidateKind, RankedList

SENTENCE = Reading()
"""Default reading: the sentence alone."""


class CrossEncoder:
    """Reranker by the model's `CrossEncoder.predict`, or by its logit or probability."""

    name: ClassVar[str] = "cross_encoder"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self, scorer: PairScorer, output: Output, reading: Reading = SENTENCE) -> None:
        self._scorer, self._output = scorer, output
        self.readings = (reading,)
        self._costs: Counter[str] = Counter()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        stage = resources.stage(CrossEncoderStage)
        classifier = PublishedClassifier.read(resources.folder())
        limit = classifier.longest(stage.limit)
        output = classifier.output if stage.output == "model" else stage.output
        if output is None:
            raise ValueError(
                f"{classifier.folder}: its activation function, in config_sentence_transformers.json or "
                "config.json, is neither Sigmoid nor Identity; set output = 'logit' or output = 'probability'"
            )
        wording = Wording(stage.yes_token, stage.no_token, stage.template)
        scorer = load_scorer(classifier, limit, resources.device, resources.precision(), wording)
        return cls(scorer, output, stage.reading)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        began = time.perf_counter()
        (reading,) = self.readings
        reranked = self._rerank(lists)
        self._costs.update(reading.missing(reading.tuples(lists)) if reading.around else {})
        self._costs.update(
            candidates=sum(len(ranked.candidates) for ranked in lists),
            milliseconds=round(1000 * (time.perf_counter() - began)),
        )
        return reranked

    def _rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        (reading,) = self.readings
        pairs = [(question, reading.one_text(parts)) for question, *parts in reading.tuples(lists)]
        scores = iter(self._scored(pairs))
        return [order_by(ranked, [next(scores) for _ in ranked.candidates], self.name) for ranked in lists]

    def _scored(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Score of each pair [pairs]; each different one is scored once."""
        number: dict[tuple[str, str], int] = {}
        rows = [number.setdefault(pair, len(number)) for pair in pairs]
        scored = self._scorer.score(list(number))
        self._costs.update(tokens=int(scored.tokens.sum()), tokens_cut=int(scored.cut.sum()))
        return self._scores(scored.logits)[rows]

    def _scores(self, logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self._output == "logit":
            return logits
        return np.asarray(expit(logits), np.float64)

    def costs(self) -> Counter[str]:
        """Costs since the last call: candidates, tokens of the different pairs, tokens cut, milliseconds, and
        candidates without a part that the context names."""
        costs, self._costs = self._costs, Counter()
        return costs
