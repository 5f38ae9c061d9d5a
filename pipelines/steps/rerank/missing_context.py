"""Refusal, before any work, of data without titles or neighbours that a stage's checkpoint reads, where its
`missing_context` is 'refuse'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.ranking.context import ReadsContext, check_passages
from answermill.ranking.entry import ContextStage, StageSettings
from answermill.ranking.plan import Stage
from answermill.schemas.corpus import Passage


def check_context(
    settings: Sequence[StageSettings],
    stages: Callable[[], Sequence[Stage]],
    passages: Callable[[], Iterable[Passage]],
) -> None:
    """Look through the passages, which are read until one has what each stage reads; without a stage that
    refuses, none is read.

    `stages`: the plan, loaded. Raises JobError (65) with the stage.
    """
    refusing = [isinstance(stage, ContextStage) and stage.missing_context == "refuse" for stage in settings]
    if not any(refusing):
        return
    for n, stage in enumerate(stages()):
        if refusing[n] and isinstance(stage.reranker, ReadsContext):
            try:
                check_passages(stage.reranker.readings, passages())
            except ValueError as e:
                raise JobError(f"rerank.stages.{n} ({stage.name}): {e}", BAD_DATA) from e
