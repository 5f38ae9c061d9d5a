"""Section [peasi] of a training file, which learns from passages (`answermill passages` writes them)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from answermill.ranking.context import Pooling
from answermill.ranking.entry import FileName, Training
from answermill.ranking.transformer.body_settings import ReadingSettings
from answermill.schemas.section import Count


class PassageSettings(ReadingSettings):
    """Keys for PR, EASI, or both."""

    reranker: Literal["peasi"] = Field("peasi", description="model to train")
    variant: Literal["pr", "easi", "mtl0", "mtl1", "joint"] = Field(
        description="passage reranker or sentence extractor alone; both on one transformer; each on its "
        "own, trained together; "
        "or those with EASI's embedding in PR (PEASI Table 2). The dev score (metric P@1, P@k, MAP or MRR) "
        "is of passages for "
        "'pr', of each passage's sentences for 'easi', of the answers for the others"
    )
    easi: Annotated[str, FileName()] = Field(
        "", description="mtl1, joint: the checkpoint that EASI begins with; the one of `encoder` if empty"
    )
    slots: Count = Field(
        5, description="sentences that EASI chooses among at once (k); longer passages are read in windows"
    )
    extractor: Literal["slots", "span"] | None = Field(
        None,
        description="'slots': EASI chooses by the encoding of the first token (the paper's); 'span': it "
        "reads the whole "
        "passage, up to the limit, and scores each sentence by the mean of its own tokens, in mtl0 by the "
        "same pass as PR, "
        "with the classifier of the checkpoint of pointwise or cascade that it begins with, unless that "
        "reads the first token; "
        "if absent as the checkpoint of peasi that it begins with, else 'slots'",
    )
    limit: int = Field(
        320,
        ge=8,
        description="tokens of question and passage together; a longer text is cut, and the cut tokens are "
        "counted",
    )

    pooling: Pooling | None = Field(
        None,
        description="what PR's head reads: the encoding of the first token (the paper's), the mean of all, "
        "or the mean of "
        "the passage's own tokens; if it is named, and that of the checkpoint of pointwise or cascade in "
        "`encoder`, PR begins "
        "with that one's classifier; if absent as the checkpoint of peasi that it begins with, else 'first'",
    )
    context: list[Literal["passage", "title"]] | None = Field(
        None,
        description="what PR reads of a candidate, in this order, with a separator between; EASI reads the "
        "sentences alone, "
        "with extractor 'span' the title behind them too; if absent as the checkpoint that it begins with, "
        "else ['passage']",
    )

    @property
    def title(self) -> str:
        return f"{self.reranker} {self.variant} of {Path(self.encoder).name}"


TRAINING = Training(
    "peasi",
    PassageSettings,
    "answermill.ranking.training.passages.passage_start:build",
    learns_from="passages",
    start="answermill.ranking.rerankers.peasi.peasi_model:load",
)
