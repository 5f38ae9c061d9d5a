"""Rerankers by published models, unchanged, given by folder or name; and scores that were computed
elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from answermill.ranking.entry import Entry, FileName, OneTextStage, StageSettings, TransformerStage
from answermill.ranking.rerankers.baselines import SimilarityStage
from answermill.schemas.arrays import PrecisionSetting
from answermill.schemas.ranked import CandidateKind

_PASSAGES = "answermill.ranking.rerankers.pretrained.passages"


class CrossEncoderStage(OneTextStage, TransformerStage):
    """A stage of a sequence classifier."""

    output: Literal["model", "logit", "probability"] = Field(
        "model",
        description="what the score is: what the model's CrossEncoder.predict gives; or the logit, or its "
        "sigmoid, whatever "
        "the model's folder says. Of two classes the logit is the second's minus the first's",
    )
    limit: int | None = Field(
        None,
        ge=8,
        description="tokens of question and candidate together, after which they are cut; the model's own "
        "if absent",
    )
    yes_token: str | None = Field(
        None,
        description="of a language model: the token, such as 'yes', whose logit is the score; the folder's "
        "if absent",
    )
    no_token: str | None = Field(
        None,
        description="of a language model: the token, such as 'no', whose logit is taken from the score; '' "
        "for none",
    )
    template: str | None = Field(
        None,
        description="the whole prompt, with {question} and {candidate}, of a model that reads one; the chat "
        "template of the folder, if it has one, if absent",
    )

    reads: CandidateKind = Field(
        "sentence",
        description="'passage' scores whole passages, a long one by its best window of whole sentences",
    )
    writes: CandidateKind | None = Field(
        None,
        description="of a stage that reads passages: 'sentence' passes on the first sentence of each one's "
        "best window, in its place; the passage if absent",
    )

    @model_validator(mode="after")
    def _check_kinds(self) -> Self:
        if self.reads == "sentence" and self.writes == "passage":
            raise ValueError("writes: a stage that reads sentences writes sentences; leave it out")
        if self.reads == "passage" and not {"previous", "next"}.isdisjoint(self.context):
            raise ValueError(
                f"context = {self.context}: a passage has no neighbours; give ['sentence'] or "
                "['title', 'sentence']"
            )
        return self

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        for place in ("{question}", "{candidate}"):
            if self.template is not None and place not in self.template:
                raise ValueError(f"template: {place} is not in it; write it where that text belongs")
        return self


class BiEncoderStage(SimilarityStage):
    """A stage of a published encoder of sentences, with the keys of `similarity`."""

    limit: int | None = Field(
        None,
        ge=8,
        description="tokens of a text, after which it is cut; the model's own, and at most that, if absent",
    )
    precision: PrecisionSetting = Field(
        "auto",
        description="arithmetic; 'auto' is bf16 on processors and graphics cards that multiply it natively, "
        "else fp32",
    )


class LateInteractionStage(OneTextStage):
    """A stage of a model of late interaction."""


class ScoresStage(StageSettings):
    """A stage whose scores were computed elsewhere."""

    table: Annotated[str, FileName(required=True)] = Field(
        description="Parquet of question_id, candidate_id or text, and the scores; relative to the job file"
    )
    column: str = Field("score", description="the table's column of scores, higher is better")
    missing: Literal["count", "refuse"] = Field(
        "count",
        description="a candidate that the table does not have: 'count' gives it the lowest score of its "
        "list and counts it, "
        "'refuse' ends with an error (65)",
    )


ENTRIES = (
    Entry(
        "bi_encoder",
        "answermill.ranking.rerankers.pretrained.bi_encoder:BiEncoder",
        settings=BiEncoderStage,
        pretrained="an encoder of sentences, such as a sentence-transformers model",
        sentence_codes="answermill.ranking.rerankers.pretrained.bi_encoder:PublishedVectorCoder",
        pairwise=True,
    ),
    Entry(
        "cross_encoder",
        "answermill.ranking.rerankers.pretrained.sequence_classifier:CrossEncoder",
        settings=CrossEncoderStage,
        pretrained="a CrossEncoder, of modules or not, or another model whose architecture ends in "
        "ForSequenceClassification, or a language model that answers yes or no",
        pairwise=True,
        by_kinds={
            ("passage", None): f"{_PASSAGES}:PassageCrossEncoder",
            ("passage", "passage"): f"{_PASSAGES}:PassageCrossEncoder",
            ("passage", "sentence"): f"{_PASSAGES}:WindowExtractor",
        },
    ),
    Entry(
        "late_interaction",
        "answermill.ranking.rerankers.pretrained.late_interaction:LateInteraction",
        settings=LateInteractionStage,
        pretrained="a MultiVectorEncoder of sentence-transformers, or a model of PyLate or ColBERT",
        pairwise=True,
    ),
    Entry(
        "scores", "answermill.ranking.rerankers.pretrained.stored_scores:StoredScores", settings=ScoresStage
    ),
)
