"""Section [model] of a training file: list models over static word vectors."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from answermill.ranking.entry import FileName, Training, TrainingSettings
from answermill.schemas.section import Count

Feature = Literal["bm25", "dense", "log_rank", "position", "title"]
FEATURES: tuple[Feature, ...] = get_args(Feature)
"""Numbers that a Cosinet may read beside a pair; `list_features.py` defines them."""


class ListModelSettings(TrainingSettings):
    """Keys for a list model: Cosinet or Compare-Aggregate."""

    reranker: Literal["cosinet", "compare_aggregate"] = Field(description="model to train")
    form: Literal["pointwise", "list", "rnn", "birnn", "lstm", "bilstm"] = Field(
        "birnn", description="head over the candidates in their original order (Cosinet Table 4)"
    )
    embeddings: Annotated[str, FileName()] = Field(
        "all-MiniLM-L6-v2",
        description="word vectors: a word2vec, GloVe or Numberbatch file; or a transformer (the embedded "
        "default, a folder, "
        "a hub name) from whose word pieces they are computed",
    )
    vocabulary: Annotated[list[str], FileName(required=True)] = Field(
        [],
        description="further data sets, or text files of one text a line, whose words get vectors too: for "
        "use on other texts",
    )
    min_count: Count = Field(1, description="words that occur less often get no vector")
    features: list[Feature] | None = Field(
        None,
        min_length=1,
        description="cosinet: what it reads beside question and sentence: bm25, dense, log_rank "
        "(standardised within the list, "
        "as in `blend`), position (in its passage), title (the question's relatedness to the page's); "
        "nothing if absent",
    )
    filters: Count = Field(300, description="filters of each convolution")
    store: Literal["fp32", "fp16"] = Field("fp32", description="precision of the numbers in the checkpoint")
    vectors: Literal["stored", "source"] = Field(
        "stored",
        description="'source' leaves a transformer's vectors out of the checkpoint: they are computed again "
        "on loading",
    )

    @model_validator(mode="after")
    def _features_once(self) -> Self:
        if self.features and self.reranker != "cosinet":
            raise ValueError(f"`features` are for cosinet; leave them out for {self.reranker}")
        if self.features and len(set(self.features)) < len(self.features):
            raise ValueError(f"features = {self.features}: one comes twice; name each once")
        return self

    @property
    def title(self) -> str:
        return f"{self.reranker} {self.form}"


TRAINING = Training("model", ListModelSettings, "answermill.ranking.training.list_models:build")
