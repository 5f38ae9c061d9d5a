"""Settings that an encoder's folder states beside its weights: pooling, length of the vectors, prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from answermill.files.model_files import ModelMissing
from answermill.indexing.shards.encoders.static_encoder import static_part

Pooling = Literal["mean", "cls"]
_MODULES = ("Transformer", "Pooling", "Normalize")


def pooling_of(folder: Path) -> tuple[Pooling, bool]:
    """(pooling, True if vectors are scaled to length 1) as the model's folder states. Raises ModelMissing."""
    if not (folder / "modules.json").is_file():
        is_static = static_part(folder) is not None
        return "mean", bool(model_json(folder / "config.json").get("normalize")) if is_static else True

    kind = _own_settings(folder).get("model_type") or "SentenceTransformer"
    if kind != "SentenceTransformer":
        raise ModelMissing(
            f"{folder}: its modules are a {kind}'s, which give no vectors of whole texts; give a "
            "SentenceTransformer"
        )
    modules = {
        module["type"].rpartition(".")[2]: module["path"]
        for module in model_json(folder / "modules.json", list)
    }
    known = ("StaticEmbedding", "Normalize") if "StaticEmbedding" in modules else _MODULES
    if unknown := [kind for kind in modules if kind not in known]:
        raise ModelMissing(
            f"{folder}: its module {unknown[0]} is not supported; a model of Transformer, Pooling, "
            "Normalize, or of StaticEmbedding, Normalize is"
        )
    if [*modules] != [kind for kind in known if kind in modules]:
        raise ModelMissing(
            f"{folder}: its modules {', '.join(modules)} stand in an order that is not supported; "
            f"{', '.join(known)} is"
        )

    pooling = model_json(folder / modules["Pooling"] / "config.json") if "Pooling" in modules else {}
    stated = pooling.get("pooling_mode")  # of former versions: a key for each
    modes = list(stated) if isinstance(stated, list) else [str(stated or "mean")]
    if stated is None:
        modes = [
            key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
            for key, value in pooling.items()
            if key.startswith("pooling_mode_") and value is True
        ] or modes
    if modes not in (["mean"], ["cls"]) or pooling.get("include_prompt") is False:
        without = " without the prompt" if pooling.get("include_prompt") is False else ""
        raise ModelMissing(
            f"{folder}: pooling {', '.join(modes)}{without} is not supported; mean and cls are"
        )

    return ("mean" if modes == ["mean"] else "cls"), "Normalize" in modules


def prompts_of(folder: Path) -> dict[str, str]:
    """Prompts that the model expects before a question ('query') and before a passage ('document'), if its
    folder has some."""
    prompts = _own_settings(folder).get("prompts") or {}
    of_document = (prompts.get(name) for name in ("document", "passage", "corpus"))
    by_role = {"query": prompts.get("query"), "document": next(filter(None, of_document), None)}
    return {role: prompt for role, prompt in by_role.items() if prompt}


def numbers_kept(folder: Path) -> int | None:
    """Numbers of a vector, from its first on, that a folder of sentence-transformers keeps; None: all."""
    kept = _own_settings(folder).get("truncate_dim")
    return int(kept) if kept else None


def _own_settings(folder: Path) -> dict[str, Any]:
    """Settings of a whole model of sentence-transformers, which reads them beside modules.json alone."""
    path = folder / "config_sentence_transformers.json"
    if not path.is_file() or not (folder / "modules.json").is_file():
        return {}
    settings: dict[str, Any] = model_json(path)
    return settings


def model_json(path: Path, kind: type = dict) -> Any:
    """The object, or the value of another `kind`, in a model's file. Raises ModelMissing, with the file, if
    it holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise ModelMissing(
            f"{path}: not JSON ({e}); copy the model's folder again, or give another model"
        ) from e
    if not isinstance(value, kind):
        raise ModelMissing(
            f"{path}: not what a model's folder has there; copy it again, or give another model"
        )
    return value
