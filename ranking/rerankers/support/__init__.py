"""Evidence between the candidates of one question: what the other good ones say for or against each."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from answermill.ranking.entry import ContextStage, Entry, OneTextStage, StageBefore, StageSettings


class EvidenceStage(StageSettings):
    """A stage that compares each candidate with the best others."""

    others: int = Field(
        5, ge=1, description="most other candidates, the best of the list, with which each is compared"
    )
    by: str | None = Field(
        None,
        description="stage before this one whose score says which others are the best, and weighs them; if "
        "absent the last stage before it, or retrieval's rank if there is none",
    )

    def check_scores(self, before: Sequence[StageBefore]) -> None:
        """Raises ValueError if no stage before this one has the key `by`."""
        keys = [stage.key for stage in before]
        if self.by is not None and self.by not in keys:
            known = f"known here: {', '.join(keys)}" if keys else "here are none; leave `by` out"
            raise ValueError(f"{self.key}: by = {self.by!r}: no stage before this one has that key; {known}")


class VectorEvidenceStage(EvidenceStage, OneTextStage):
    """A stage of `support_vectors`, which can encode a sentence with its title and neighbours."""


class PairEvidenceStage(EvidenceStage, ContextStage):
    """A stage of `support_pairs`, whose checkpoint says what is read beside the sentence."""


ENTRIES = (
    Entry(
        "support_vectors",
        "answermill.ranking.rerankers.support.support_vectors:SupportVectors",
        settings=VectorEvidenceStage,
        uses_encoder=True,
    ),
    Entry(
        "support_pairs",
        "answermill.ranking.rerankers.support.support_pairs:SupportPairs",
        settings=PairEvidenceStage,
        checkpoint="cascade",
    ),
)
