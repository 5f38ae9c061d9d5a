"""Materials of a run: its pages, questions and labels, its encoder, and the models and weights of its
stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import sha256
from answermill.pipelines.data import sample
from answermill.pipelines.data.push import MODEL_FILES
from answermill.pipelines.look.materials.cards import named, of_model
from answermill.pipelines.look.materials.facts import Kind, Link, Material
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.ranking.rerankers import registry
from answermill.schemas.plug_ins import PlugInUnusable

SAMPLE, WEIGHTS = "sample web", "weights of the shipped plans"
OWN_TERMS = "each page keeps its publisher's terms"
_FILES = ("weights_file", "calibration_file")
_SHOWN = 2


def of_run(run: Path, name: str) -> Iterator[Material]:
    """The run, then what it was made of as far as no table knows it."""
    parts = [*_inputs(run), *_encoders(run), *_stages(run)]
    links = {material.name: way for way, material in reversed(parts) if way}
    yield Material(name, "run", rests_on=tuple(Link(*pair) for pair in reversed(links.items())))
    for _, material in parts:
        yield material


def _inputs(run: Path) -> Iterator[tuple[str, Material]]:
    """(way, material) of the files that the run read."""
    documents = DOCUMENTS.manifest(run)
    if documents is not None:
        files = sorted(name for name in documents.inputs if name != "domain_list")
        shown = ", ".join(Path(name).name for name in files[:_SHOWN])
        rest = f" and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
        is_sample = {documents.digests.get(name) for name in files} <= _sample_digests()
        yield "pages", _sample_or("pages", f"{shown}{rest}", OWN_TERMS, is_sample=is_sample)

    files_given: tuple[tuple[Kind, str, Manifest | None], ...] = (
        ("data set", "questions", QUESTIONS.manifest(run)),
        ("labels", "labels", SENTENCE_LABELS.manifest(run)),
    )
    for kind, key, manifest in files_given:
        if manifest is not None:
            is_sample = manifest.inputs.get(key) in _sample_digests()
            yield key, _sample_or(kind, f"{key} of the run", "", is_sample=is_sample)


def _sample_or(kind: Kind, name: str, source: str, *, is_sample: bool) -> Material:
    return named(SAMPLE)[0] if is_sample else Material(name, kind, source=source)


@cache
def _sample_digests() -> frozenset[str | None]:
    """SHA-256 of the sample's files."""
    folder = Path(sample.__file__).parent
    return frozenset(sha256(folder / name) for name in sample.FILES)


def _encoders(run: Path) -> Iterator[tuple[str, Material]]:
    for folder in (SHARDS, QUESTIONS, SCORED):
        manifest = folder.manifest(run)
        settings: Mapping[str, Any] = manifest.settings if manifest is not None else {}
        named = settings.get("encoder")
        table = named if isinstance(named, Mapping) else settings
        for key in ("encoder", "question_encoder"):
            if isinstance(name := table.get(key), str):
                yield key.replace("_", " "), next(model(name))


def _stages(run: Path) -> Iterator[tuple[str, Material]]:
    """(way, material) of the stages' models and weights; no way of what only a model rests on."""
    scored = SCORED.manifest(run)
    for stage in scored.settings["stages"] if scored is not None else ():
        key = stage_name(stage)
        if (checkpoint := _checkpoint(stage)) is not None:
            first, *others = model(checkpoint)
            yield f"stage {key}", first
            yield from (("", material) for material in others)
        for file in filter(stage.get, _FILES):
            assert scored is not None
            is_shipped = scored.inputs.get(f"{file} of {key}") in _sample_digests()
            own = Material(Path(stage[file]).name, "weights")
            yield f"stage {key}", named(WEIGHTS)[0] if is_shipped else own


def _checkpoint(stage: Mapping[str, Any]) -> str | None:
    """Name or path of a stage's model; None if it has none."""
    if stage.get("checkpoint"):
        return str(stage["checkpoint"])
    try:
        return registry.find(stage["reranker"]).checkpoint
    except (ValueError, PlugInUnusable):  # a plug-in that is not installed here
        return str(stage["reranker"])


def model(name: str) -> Iterator[Material]:
    """A model that settings name, by its folder if it is there, else by the table; and its data set."""
    folder = Path(name)
    if any((folder / file).is_file() for file in MODEL_FILES):
        yield from of_model(folder, folder.name)
    else:
        yield from named(name) or [Material(name, "model")]
