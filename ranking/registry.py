"""Name → what the program knows of the reranker. A job can use these rerankers and no others: configuration names no class."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ranking.entry import Entry, StageSettings, resolve
from ranking.reranker import Reranker, Resources, SentenceEncoder

PACKAGES = (
    "ranking.baselines",
    "ranking.cascade",
    "ranking.cosinet",
    "ranking.hashing",
    "ranking.multihead",
    "ranking.peasi",
)
"""One line per method. Each package's `ENTRIES` declare its rerankers; importing it imports neither torch nor a model."""

RERANKERS: dict[str, Entry] = {entry.name: entry for package in PACKAGES for entry in resolve(f"{package}:ENTRIES")}


def _no_encoder() -> SentenceEncoder:
    raise ValueError("the reranker needs a sentence encoder, and none is given")


def find(name: str) -> Entry:
    """The reranker of that name. Raises ValueError with the known names and the nearest one."""
    if name in RERANKERS:
        return RERANKERS[name]
    near = difflib.get_close_matches(name, RERANKERS, n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown reranker {name!r}{suggestion} Known: {', '.join(sorted(RERANKERS))}")


def load_reranker(
    name: str,
    checkpoint: str | Path | None = None,
    *,
    encoder: Callable[[], SentenceEncoder] = _no_encoder,
    model: Callable[[str], Path] = Path,
    device: str = "cpu",
    scores: Mapping[str, str] | None = None,
    **settings: Any,
) -> Reranker:
    """A reranker by itself, outside of any plan; `settings` are the keys of its stage, the rest is as in `Resources`.

    Raises ValueError if there is no such reranker, a setting is wrong, or the checkpoint is missing or unusable.
    """
    entry = find(name)
    return entry.load(Resources(entry.stage(**settings), entry.folder(checkpoint), encoder, model, device, scores or {}))


def scores_before(stages: Sequence[StageSettings]) -> list[dict[str, str]]:
    """For each stage of a plan its `Resources.scores`: of each reranker that it reads, the last stage before it, if any.

    Raises ValueError with the stage's number if a setting needs scores that no stage before it gives.
    """
    last: dict[str, str] = {}  # reranker → key of its last stage so far
    plan = []
    for n, stage in enumerate(stages):
        scores = {name: last[name] for name in find(stage.reranker).reads_scores if name in last}
        try:
            stage.check_scores(scores)
        except ValueError as e:
            raise ValueError(f"rerank.stages[{n}]: {e}") from e
        plan.append(scores)
        last[stage.reranker] = stage.key
    return plan
