"""Section [hashing] of a training file: HAS, which learns from labelled candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from answermill.ranking.context import Part, check_one_text
from answermill.ranking.entry import Training
from answermill.ranking.transformer.body_settings import BodySettings
from answermill.schemas.section import Count


class TripletSettings(BodySettings):
    """Keys for a model that encodes questions and answers apart."""

    reranker: Literal["hashing"] = Field("hashing", description="model to train")
    variant: Literal["pooling", "attention", "has"] = Field(
        description="both sides max-pooled; the answer composed by attention; or the same over bits (HAS "
        "Table 5)"
    )
    context: list[Literal["sentence", "title", "previous", "next"]] | None = Field(
        None,
        description="what is read of an answer, as one text in this order, a title first: the sentence, its "
        "page's title, the "
        "sentences before and after it in its passage; if absent as the checkpoint that it begins with, "
        "else ['sentence']",
    )
    attention: Count = Field(128, description="hidden size of the attention (M)")
    beta: float = Field(
        5.0, ge=1, description="has: β of tanh(βx), which replaces the sign in training (Eq. 1)"
    )
    delta: float = Field(
        1e-6, ge=0, description="has: δ, weight of the binary constraint (Eq. 2), a sum over tokens × width"
    )
    limit: int = Field(
        200,
        ge=8,
        description="tokens of a question, and of an answer (L); longer texts are cut, and the cut tokens "
        "are counted",
    )
    classifier_rate: float = Field(
        1.0,
        gt=0,
        description="learning rate of the attention, which is new, as a multiple of train.learning_rate",
    )
    negatives: Literal["random", "hard"] = Field(
        "random",
        description="wrong answer of a triplet: a random one, or of `drawn` random ones the one that scores "
        "highest",
    )
    among: Literal["list", "all"] = Field(
        "list",
        description="wrong answers are drawn from the question's own list if it has some, or from all "
        "answers of the data",
    )
    drawn: Count = Field(8, description="hard: wrong answers to choose from")

    @field_validator("context")
    @classmethod
    def _check_context(cls, context: list[Part] | None) -> list[Part] | None:
        if context is not None:
            check_one_text(context)
        return context

    @property
    def title(self) -> str:
        return f"{self.reranker} {self.variant} of {Path(self.encoder).name}"


TRAINING = Training(
    "hashing",
    TripletSettings,
    "answermill.ranking.training.triplets:build",
    start="answermill.ranking.rerankers.hashing.hashing_model:load",
)
