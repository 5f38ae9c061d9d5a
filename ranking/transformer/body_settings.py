"""Keys that every section of a training file has which trains a transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ranking.entry import FileName, TrainingSettings
from schemas.section import Count


class BodySettings(TrainingSettings):
    """What trainings of transformers have in common."""

    encoder: Annotated[str, FileName()] = Field(
        "all-MiniLM-L6-v2",
        description="transformer to begin with: the embedded default, a folder, or a hub name of a BERT, RoBERTa or ELECTRA; "
        "or a checkpoint, whose training goes on with other data (TANDA's adapt after its transfer)",
    )
    limit: int = Field(
        256, ge=8, description="tokens of question and candidate together; a longer pair is cut, and the cut tokens are counted"
    )
    tokens: Count = Field(2_000, description="tokens of the texts of one step")
    classifier_rate: float = Field(
        1.0, gt=0, description="learning rate of the classifiers, which are new, as a multiple of train.learning_rate"
    )
    store: Literal["fp32", "fp16"] = Field("fp32", description="precision of the numbers in the checkpoint")
    words: Literal["trained", "source"] = Field(
        "trained",
        description="'source' does not train the word embeddings; the checkpoint leaves them out and takes the encoder's",
    )

    @property
    def title(self) -> str:
        return f"{self.reranker} of {Path(self.encoder).name}"
