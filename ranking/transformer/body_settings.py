"""Keys of every section of a training file that trains a transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from answermill.ranking.context import Part, Pooling, Reading
from answermill.ranking.entry import FileName, TrainingSettings
from answermill.schemas.section import Count


class BodySettings(TrainingSettings):
    """Keys common to all trainings of transformers."""

    encoder: Annotated[str, FileName()] = Field(
        "all-MiniLM-L6-v2",
        description="transformer to begin with: the embedded default, a folder, or a hub name of a BERT, "
        "RoBERTa, XLM-R, ELECTRA, DistilBERT, MPNet or ModernBERT, of a sequence classifier, such as "
        "TANDA's, with its head; or a checkpoint (one that ships, by its name), which learns from other data "
        "next: TANDA's adapt after its transfer",
    )
    limit: int = Field(
        256,
        ge=8,
        description="tokens of question and candidate together; a longer pair is cut, and the cut tokens "
        "are counted",
    )
    tokens: Count = Field(2_000, description="tokens of the texts of one step, on average")
    classifier_rate: float = Field(
        1.0,
        gt=0,
        description="learning rate of the classifiers, which are new, as a multiple of train.learning_rate",
    )
    store: Literal["fp32", "fp16"] = Field("fp32", description="precision of the numbers in the checkpoint")
    words: Literal["trained", "source"] = Field(
        "trained",
        description="'source' does not train the word embeddings; the checkpoint leaves them out and takes "
        "the encoder's",
    )
    recompute: bool | None = Field(
        None,
        description="compute each layer a second time for its gradient, and keep of the first time only "
        "what it read: less "
        "memory, so that `tokens` may be more, for about a third more time",
    )

    @property
    def title(self) -> str:
        return f"{self.reranker} of {Path(self.encoder).name}"


class ReadingSettings(BodySettings):
    """Keys for a transformer whose checkpoint states its reading of a candidate (`ranking/context.py`).
    Subclasses declare `context`."""

    pooling: Pooling | None = Field(
        None,
        description="what the classifiers read: the encoding of the first token, the mean of all, or the "
        "mean of the "
        "candidate's own tokens; if absent as the checkpoint that it begins with, else 'mean'",
    )
    context_dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="probability with which a step reads a title, or a neighbour, as if it were missing, "
        "drawn for each anew "
        "in each epoch, so that data without them can be ranked too; 0 if absent",
    )

    @field_validator("context", check_fields=False)
    @classmethod
    def _check_context(cls, context: list[Part] | None) -> list[Part] | None:
        if context is not None:
            Reading(tuple(context))
        return context

    def reading(self, former: Reading) -> Reading:
        """Reading of the new model. `former`: its reading so far. Raises ValueError if there is nothing to
        drop at random."""
        context: list[Part] | None = getattr(self, "context", None)
        reading = Reading(
            former.context if context is None else tuple(context), self.pooling or former.pooling
        )
        if self.context_dropout and not reading.around:
            raise ValueError(
                f"context_dropout = {self.context_dropout}, but context = {list(reading.context)}: nothing "
                "can be dropped; "
                "name the title or a neighbour in `context`, or leave context_dropout out"
            )
        return reading
