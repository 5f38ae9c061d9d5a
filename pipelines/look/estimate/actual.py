"""Predicted against actual: what the plan of a run said, and what the manifests say that came."""

from __future__ import annotations

from pathlib import Path

from answermill.pipelines.look.estimate.prediction import Plan, compared
from answermill.pipelines.look.estimate.rates import layer_tokens
from answermill.pipelines.runs.manifests.manifest import Manifest, read_manifest


def predicted_and_actual(run: Path) -> dict[str, tuple[float, float]]:
    """Name → (predicted, actual) of what a run's plan said and its complete steps have; empty if it has no plan.

    Counts are named as in `Plan.counts`; 'bytes of FOLDER'; 'seconds of STEP', as the manifests count them.
    """
    plan = Plan.read(run)
    return {} if plan is None else compared(plan, actual(run))


def actual(run: Path) -> dict[str, float]:
    """What the manifests of a run say."""
    values: dict[str, float] = {}
    for folder in ("documents", "passages", "rejects", "shards", "questions", "retrieved", "scored", "answers"):
        manifest = read_manifest(run / folder)
        if manifest is not None:
            values[f"bytes of {folder}"] = sum(part.bytes for part in manifest.parts)
            values |= _counts(folder, manifest)
    return values


def _counts(folder: str, manifest: Manifest) -> dict[str, float]:
    counts = manifest.counts
    seconds = sum(count for name, count in counts.items() if name.endswith("_ms")) / 1e3
    if folder == "passages":
        return {name: counts[name] for name in ("pages", "documents", "passages")} | {"seconds of ingest": seconds}
    if folder == "shards":
        return {"shards": len(manifest.parts), "seconds of index": seconds}
    if folder == "retrieved":
        times = {"seconds of retrieve": seconds} if seconds else {}  # those of former versions have none
        return {name: counts[name] for name in ("questions", "hits") if name in counts} | times
    if folder == "scored":
        microseconds = sum(count for name, count in counts.items() if name.endswith("_microseconds"))
        seconds = microseconds / 1e6
        return {"candidates": counts["candidates"], "layer_tokens": layer_tokens(counts), "seconds of rerank": seconds}
    return {}
