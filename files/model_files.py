"""Checks of a model folder when it is loaded: its files are those that were written, its weights are numbers,
and it needs no code of its own. transformers loads a folder by `load_pretrained` only.

A checkpoint of ours has `sha256.json` beside its files, written last, with the SHA-256 of each. A folder
without it, such as one in Hugging Face's format, has nothing to compare; its weights are checked all the
same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import sha256, write_text

SUMS = "sha256.json"
STATE = "_training"
"""Folder of a training that has not ended, in the folder of its checkpoint."""
HISTORY = "training.json"
"""History of a training that has ended, in the folder of its checkpoint."""
INT8 = "int8.json"
"""File of what a model loses with `precision = "int8"`; it decides no number of the model."""
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""Patterns of the files that define a model's computation."""
PYLATE_DENSE = "pylate.models.Dense.Dense"
"""Module of PyLate's models, which sentence-transformers replaces by its own."""

NO_LIMIT = 1_000_000
"""Tokens: a tokenizer without a limit states more."""
_TRANSFORMER_SETTINGS = (
    "sentence_bert_config.json",
    *(
        f"sentence_{family}_config.json"
        for family in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
_OFFSET_FAMILIES = (
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "layoutlmv3",
    "lilt",
    "longformer",
    "luke",
    "markuplm",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
"""Families whose positions count from the row after the padding token's number."""
_UNNUMBERED = ("longt5", "mt5", "switch_transformers", "t5", "umt5")
"""Families that read distances alone, though their config.json may state a number of positions."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_encoder_position_embeddings")
"""Names of the number of positions in config.json."""
_SAME_VALUES = (
    "add_pooling_layer",
    "attn_implementation",
    "device_map",
    "dtype",
    "low_cpu_mem_usage",
    "torch_dtype",
    "trust_remote_code",
    "use_safetensors",
)
"""Options of a model's loading that change no value in fp32."""
_SUFFIXES = (".json", ".model", ".safetensors", ".txt")
Stamp = tuple[tuple[str, int, int], ...]


class ModelMissing(RuntimeError):
    """A model cannot be had or used; the message says why and what to type."""

    exit_code = 69


class ModelDamaged(RuntimeError):
    """A model's files are not those that were written, or it gives no numbers. The message names the file or
    the folder."""

    exit_code = 65


def write_sums(folder: Path, names: Sequence[str]) -> None:
    """Write the digests of these files of the folder, which must be complete, beside them. All can be read by
    whom the umask lets: safetensors writes files for their owner alone."""
    digests = {name: sha256(folder / name) for name in sorted(names)}
    write_text(folder / SUMS, json.dumps({"format": 1, "sha256": digests}, indent=1) + "\n")
    for name in names:
        (folder / name).chmod((folder / SUMS).stat().st_mode)


def check_sums(folder: Path) -> None:
    """Compare a folder's files with the digests beside them, if there are some. Raises ModelDamaged, with the
    file."""
    sums = folder / SUMS
    try:
        digests = json.loads(sums.read_text(encoding="utf-8"))["sha256"].items()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise ModelDamaged(
            f"{sums} is damaged ({e}); copy the model's folder again, or train it again"
        ) from e

    for name, digest in digests:
        file = folder / name
        if not file.is_file():
            raise ModelDamaged(
                f"{file} is not there, but {SUMS} names it; copy the model's folder again, or train it again"
            )
        if sha256(file) != digest:
            raise ModelDamaged(
                f"{file} is not the file that was written with this model (its SHA-256 is not the one in "
                f"{SUMS}); copy the "
                f"folder again, or train it again; if you changed the file yourself, delete {sums}"
            )


def check_ended(folder: Path) -> None:
    """Raise ValueError if a training has begun in the folder and has not ended."""
    if (folder / STATE).is_dir() and not (folder / HISTORY).is_file():
        raise ValueError(
            f"{folder}: its training has not ended; end it first with the same `answermill train` command"
        )


def folder_digest(folder: Path) -> str | None:
    """32 hex digits that stand for the content of a model folder, without its training's history, its
    digests and its loss by int8; None if it has no files.

    Each file is read once in a process, unless its size or time changes.
    """
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SUFFIXES and path.name not in (HISTORY, SUMS, INT8)
    ]
    stamp = tuple(
        (str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files
    )
    return _digest(folder, stamp) if files else None


@lru_cache(maxsize=64)
def _digest(folder: Path, stamp: Stamp) -> str:
    content = "".join(f"{name} {sha256(folder / name)}\n" for name, _, _ in stamp)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def check_weights(weights: Mapping[str, Any], file: Path) -> None:
    """Check all tensors of a file. Raises ModelDamaged, with file and tensor, if one holds NaN or
    infinity."""
    for name, tensor in weights.items():
        if (
            tensor.numel()
            and tensor.is_floating_point()
            and not all(bound.isfinite() for bound in tensor.aminmax())
        ):
            raise ModelDamaged(
                f"{file}: its weights {name!r} hold NaN or infinity; copy the model's folder again, train "
                "it again, or give "
                "another model"
            )


def code_in(folder: Path) -> str | None:
    """Python code that a folder in Hugging Face's format needs, and that is never run here; None if it needs
    none.

    If a folder names code (auto_map) for a model that transformers knows too, transformers' own is used.
    """
    config, tokenizer = (json_table(folder / name) for name in ("config.json", "tokenizer_config.json"))
    if "auto_map" in config and not _is_known(config.get("architectures") or [], config.get("model_type")):
        return (
            f"its config.json names Python code (auto_map) for {config.get('model_type')!r}, which "
            "transformers does not know"
        )
    if "auto_map" in tokenizer and not _is_known([tokenizer.get("tokenizer_class") or ""]):
        return (
            f"its tokenizer_config.json names Python code (auto_map) for {tokenizer.get('tokenizer_class')!r}"
        )
    for kind in module_types(folder):
        if not kind.startswith("sentence_transformers.") and kind != PYLATE_DENSE:
            return f"its modules.json names Python code ({kind!r})"
    return None


def module_types(folder: Path) -> list[str]:
    """Classes that a folder of sentence-transformers names as its modules; none without modules.json."""
    modules = _json(folder / "modules.json")
    return [str(module.get("type", "")) for module in modules] if isinstance(modules, list) else []


def _is_known(classes: Sequence[str], model_type: str | None = None) -> bool:
    """True if transformers has all these classes and, if one is given, the type of model."""
    import transformers

    known = model_type is None or model_type in transformers.CONFIG_MAPPING
    return (
        known
        and all(name.isidentifier() and hasattr(transformers, name) for name in classes)
        and bool(classes)
    )


def _json(file: Path) -> Any:
    """Content of a JSON file; None if it is missing, or is no JSON, from which nothing is loaded."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def json_table(file: Path) -> Mapping[str, Any]:
    """Table in a JSON file; an empty one if it is missing, or holds something else."""
    values = _json(file)
    return values if isinstance(values, Mapping) else {}


def read_table(file: Path) -> dict[str, Any]:
    """Table in a JSON file of a model; an empty one if there is no file. Raises ValueError, with the file, if
    it holds something else."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise ValueError(
            f"{file}: not JSON ({e}); copy the model's folder again, or give another model"
        ) from e
    if not isinstance(values, dict):
        raise ValueError(f"{file}: no JSON object; copy the model's folder again, or give another model")
    return values


def transformer_settings(folder: Path) -> dict[str, Any]:
    """Settings of the transformer in a folder of sentence-transformers, which reads them beside modules.json
    alone; none elsewhere. Raises ValueError, with the file, if one is damaged, or if a setting would change
    the model's values and is not computed here."""
    if not (folder / "modules.json").is_file():
        return {}

    tables = ((folder / name, read_table(folder / name)) for name in _TRANSFORMER_SETTINGS)
    file, settings = next((each for each in tables if each[1]), (folder, {}))
    if (unread := _unread_setting(settings)) is not None:
        raise ValueError(f"{file}: its {unread} is not computed here; give a model without it")
    return settings


def _unread_setting(settings: Mapping[str, Any]) -> str | None:
    """A setting of sentence-transformers that changes what its transformer gives, and is not read here."""

    def options(*keys: str) -> dict[str, Any]:
        return next((dict(settings[key]) for key in keys if settings.get(key)), {})

    unread = [
        *(f"model_kwargs.{key}" for key in options("model_kwargs", "model_args") if key not in _SAME_VALUES),
        *(
            f"config_kwargs.{key}"
            for key in options("config_kwargs", "config_args")
            if key not in _SAME_VALUES
        ),
        *(key for key in ("tokenizer_name_or_path", "query_expansion") if settings.get(key)),
    ]
    for kind, output in options("modality_config").items():
        if kind in ("text", "message") and not _is_usual(output):
            unread.append(f"modality_config.{kind}")

    processing = options("processing_kwargs")
    for group in ("common", "text"):
        for key, value in (processing.get(group) or {}).items():
            is_usual = key == "truncation" and value in (True, "longest_first")
            if not is_usual and key not in ("max_length", "padding", "padding_side", "pad_to_multiple_of"):
                unread.append(f"processing_kwargs.{group}.{key}")
    for key, value in (processing.get("chat_template") or {}).items():
        if key in ("truncation", "max_length") or (key == "restore_suffix" and not value):
            unread.append(f"processing_kwargs.chat_template.{key}")

    return next(iter(unread), None)


def _is_usual(output: Any) -> bool:
    """True if a transformer's own forward pass gives what is read of it."""
    return (
        isinstance(output, Mapping)
        and output.get("method") == "forward"
        and output.get("method_output_name") in ("last_hidden_state", "logits")
    )


def tokenizer_options(folder: Path) -> dict[str, Any]:
    """Options with which sentence-transformers loads a folder's tokenizer; never code of the folder."""
    settings = transformer_settings(folder)
    options = dict(settings.get("processor_kwargs") or settings.get("tokenizer_args") or {})
    options.pop("trust_remote_code", None)
    return options


def position_count(config: Mapping[str, Any]) -> int:
    """Most tokens that a model takes by its config.json, or by its family's own setting where that has none;
    NO_LIMIT if its positions are not numbered.

    >>> position_count({"model_type": "roberta", "max_position_embeddings": 514})
    512
    """
    family = str(config.get("model_type"))
    if family in _UNNUMBERED:
        return NO_LIMIT
    rows = next((config[key] for key in _POSITIONS if config.get(key)), None)
    if not rows:
        rows = _usual_positions(family)
    if not rows or int(rows) < 0:  # XLNet has -1
        return NO_LIMIT
    if family not in _OFFSET_FAMILIES:
        return int(rows)
    padding = 1 if family == "mpnet" else config.get("pad_token_id", 1)  # MPNet's is fixed
    return int(rows) - 1 - (1 if padding is None else int(padding))


def _usual_positions(family: str) -> int | None:
    """Positions of a family of transformers by itself; None if they are not numbered."""
    import transformers

    if family not in transformers.CONFIG_MAPPING:
        return 512
    usual = transformers.CONFIG_MAPPING[family]()
    return next((getattr(usual, key) for key in _POSITIONS if hasattr(usual, key)), None)


def token_limit(folder: Path, config: Mapping[str, Any]) -> int:
    """Most tokens of a text, or of a pair: where transformers and sentence-transformers keep it, and at most
    the model's positions. Raises ValueError, with the file, if one is damaged."""
    settings = transformer_settings(folder)
    of_texts = [(settings.get("processing_kwargs") or {}).get(key) or {} for key in ("common", "text")]
    tokenizer = read_table(folder / "tokenizer_config.json")
    stated = (
        next((options["max_length"] for options in of_texts if options.get("max_length")), None)
        or tokenizer_options(folder).get("model_max_length")
        or settings.get("max_seq_length")
        or tokenizer.get("model_max_length", tokenizer.get("max_len"))
    )
    return min(position_count(config), int(stated or NO_LIMIT))


def load_pretrained(kind: str, folder: Path, **options: Any) -> Any:
    """Load a folder by transformers' class `kind`: without the network, and without code of the folder.

    Raises ValueError if it needs such code, ModelDamaged if a weight is no number, and the errors of
    transformers.
    """
    import transformers

    if reason := code_in(folder):
        raise ValueError(
            f"{folder}: {reason}; code of a model's folder is never run here, give another model"
        )

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    loaded = getattr(transformers, kind).from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, **options
    )

    model = loaded[0] if isinstance(loaded, tuple) else loaded  # a pair with output_loading_info
    if hasattr(model, "named_parameters"):
        check_weights(dict(model.named_parameters()), folder)
    return loaded
