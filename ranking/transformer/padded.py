"""Hugging Face's own forward over padded texts: for transformers that no packed encoder computes, such as
DeBERTa.

Texts of one length class (a multiple of 16 tokens, or the limit) are computed together, in batches that are
filled up to the class's number of rows, so every matrix product has the same shape whatever the other texts
are; libraries may choose their kernels by shape, in bf16 and on a GPU above all. So a text's values depend on
the text alone, unless a card runs out of memory: then the batches have half as many rows from there on, with
a warning.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from answermill.files.model_files import NO_LIMIT, ModelDamaged, load_pretrained
from answermill.ranking.transformer.devices import BUSY, TokenBudget, dtype_of, texts_at_once
from answermill.ranking.transformer.published.modular_head import Pooled
from answermill.ranking.transformer.published.published_tokenizer import TYPES, load_tokenizer
from answermill.schemas.arrays import Ints, Precision, Singles

_CLASS = 16  # tokens
# Rows of a batch = this over the class: small, since empty rows cost time.
_BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}
_TRIAL = ("when was it finished", "it was finished in the year 1970")
"""A pair that every model is tried with."""

_LAST_TOKEN: dict[str, Any] = {"logits_to_keep": 1, "use_cache": False}
"""Options of a causal model's forward pass: nothing is computed of which no value is read."""

Read = Callable[[Any, Tensor], Tensor]
"""(output of a model for a batch, the batch's mask [rows, length]) → values [rows, …]."""


class Tokenised(NamedTuple):
    """Tokens of texts, in their order."""

    ids: list[list[int]]
    types: list[list[int]] | None
    """Token types; None if the model is given none."""
    cut: Ints
    """[texts]: number of tokens left out."""

    @property
    def lengths(self) -> Ints:
        """[texts]: tokens, special ones included."""
        return np.fromiter(map(len, self.ids), np.int64, len(self.ids))


class TextTokens(Protocol):
    """Tokeniser of texts for a padded model."""

    limit: int
    """Tokens of the longest text."""

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> Tokenised:
        """Tokens of texts of one part, or of two, in their order."""
        ...


class PlainTexts:
    """Texts, or pairs of texts, as transformers' own tokenizer cuts them. `prompt`: text before each."""

    def __init__(self, tokenizer: Any, limit: int, prompt: str = "") -> None:
        self._tokenizer, self.limit, self._prompt = tokenizer, limit, prompt

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> Tokenised:
        cut = np.zeros(len(texts), np.int64)
        if not texts:
            return Tokenised([], None, cut)

        tokens = self._encode(texts, truncation="longest_first", max_length=self.limit)
        # Only a text that fills the limit may have lost tokens, which a second encoding counts.
        if full := [n for n, ids in enumerate(tokens["input_ids"]) if len(ids) >= self.limit]:
            whole = self._encode([texts[n] for n in full], truncation=False)
            cut[full] = [len(ids) - self.limit for ids in whole["input_ids"]]
        return Tokenised(tokens["input_ids"], tokens.get(TYPES), cut)

    def _encode(self, texts: Sequence[tuple[str, ...]], **options: Any) -> Any:
        second = [parts[1] for parts in texts] if len(texts[0]) == 2 else None
        return self._tokenizer(
            [self._prompt + parts[0] for parts in texts], second, return_attention_mask=False, **options
        )


class PaddedModel:
    """A model of transformers, run over tokenised texts that are padded on the side where padding changes no
    value."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Any,
        model: Any,
        *,
        read: Read,
        tokens: TextTokens,
        causal: bool = False,
    ) -> None:
        """`read`: the values of texts. `tokens`: their tokeniser, whose limit is at most the model's
        positions. `causal`: the values are the last token's alone.

        Raises ValueError, with the folder, if it cannot compute a text, or if padding changes a text's
        values.
        """
        pad = tokenizer.pad_token_id
        if pad is None and causal:  # no later token sees one that is hidden
            pad = tokenizer.eos_token_id or 0
        if pad is None:
            raise ValueError(
                f"{folder}: its tokenizer has no padding token, so texts cannot be put into a batch; set "
                "tokenizer.pad_token in transformers and write it with save_pretrained(folder)"
            )
        needed, rows = 1 + max(tokenizer.get_vocab().values()), _embedded(model)
        if needed > rows:
            raise ValueError(
                f"{folder}: its tokenizer has {needed:,} tokens, its weights {rows:,}; copy both from one "
                "model"
            )

        self._model = model.eval()
        self._read, self._longest, self._device = read, tokens.limit, "cpu"
        self._takes = inspect.signature(model.forward).parameters
        self._causal = causal
        self._pad, self._pad_type = pad, tokenizer.pad_token_type_id
        has_decoder = getattr(model.config, "is_encoder_decoder", False)
        self._end = model.config.eos_token_id if has_decoder else None
        self._budget = TokenBudget(_BATCH_TOKENS["cpu"], None)

        # Causal classifiers find a text's end by the padding token of their config.
        config = model.config.get_text_config()
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = self._pad
        sides: list[Literal["left", "right"]] = ["left", "right"]
        if tokenizer.padding_side == "right" and not causal:
            sides.reverse()
        self._side = self._padding_side(folder, tokens([_TRIAL]), sides)

    def serve(self, device: str, precision: torch.dtype, part: nn.Module | None = None) -> None:
        """Move the model to the device, and compute a part of it, or all, in the given precision."""
        for module in (part or self._model).modules():
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(precision)
            for name, values in module.named_buffers(recurse=False):
                # The frequencies of rotary positions stay exact: bf16 would move distant tokens.
                if values.is_floating_point() and "inv_freq" not in name:
                    setattr(module, name, values.to(precision))

        self._model.to(device)
        self._device, self._budget = device, TokenBudget(_BATCH_TOKENS[device], None)

    def run(self, texts: Tokenised) -> Singles:
        """Values [texts, …] in the order of the texts."""
        # BART reads a text's last end, and wants as many ends in each text of a batch.
        by_class: dict[tuple[int, int], list[int]] = {}
        for number, ids in enumerate(texts.ids):
            size = min(-(-max(1, len(ids)) // _CLASS) * _CLASS, self._longest)
            ends = 0 if self._end is None else ids.count(self._end)
            by_class.setdefault((size, ends), []).append(number)

        values: Singles | None = None
        for (length, _), numbers in sorted(by_class.items()):
            start = 0
            while start < len(numbers):
                rows = max(1, self._budget.tokens // length)
                batch = numbers[start : start + rows]
                try:
                    batch_values = self._batch(texts, batch, rows, length)
                except torch.OutOfMemoryError:
                    if rows == 1:
                        raise
                    self._budget.run_out(rows * length)
                    continue

                if values is None:
                    values = np.empty((len(texts.ids), *batch_values.shape[1:]), np.float32)
                values[batch] = batch_values[: len(batch)]
                start += rows

        return np.empty((0,), np.float32) if values is None else values

    def _batch(self, texts: Tokenised, batch: Sequence[int], rows: int, length: int) -> Singles:
        """Values [rows, …] of some texts, padded to `length` tokens; rows after the last text repeat the
        first one."""
        typed = texts.types is not None and TYPES in self._takes
        inputs = {
            "input_ids": np.full((rows, length), self._pad, np.int64),
            "attention_mask": np.zeros((rows, length), np.int64),
        } | ({TYPES: np.full((rows, length), self._pad_type, np.int64)} if typed else {})

        for row, n in enumerate([*batch, *[batch[0]] * (rows - len(batch))]):
            ids = texts.ids[n]
            place = slice(length - len(ids), None) if self._side == "left" else slice(len(ids))
            inputs["input_ids"][row, place] = ids
            inputs["attention_mask"][row, place] = 1
            if typed and texts.types is not None:
                inputs[TYPES][row, place] = texts.types[n]

        # Positions count from a text's first token, behind the padding before it.
        options: dict[str, Any] = {}
        if self._causal:
            options = {name: value for name, value in _LAST_TOKEN.items() if name in self._takes}
            if "position_ids" in self._takes:
                inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clip(0)

        on_device = {name: torch.from_numpy(values).to(self._device) for name, values in inputs.items()}
        with torch.inference_mode(), BUSY.span(torch.device(self._device)):
            result = self._read(self._model(**on_device, **options), on_device["attention_mask"]).float()
        values: Singles = result.cpu().numpy()
        return values

    def _padding_side(
        self, folder: Path, trial: Tokenised, sides: Sequence[Literal["left", "right"]]
    ) -> Literal["left", "right"]:
        """The first side on which padding changes no value of a text."""
        size = len(trial.ids[0])
        padded = min((size // _CLASS + 1) * _CLASS, self._longest)
        for side in sides:
            self._side = side
            try:
                alone, among = (self._batch(trial, [0], *shape)[0] for shape in ((1, size), (2, padded)))
            except Exception as e:
                reason = " ".join(str(e).split())
                raise ValueError(
                    f"{folder}: the model computes no text ({reason}); give another model"
                ) from e
            if np.allclose(alone, among, rtol=1e-3, atol=1e-5):
                return side

        raise ValueError(
            f"{folder}: padding changes what the model gives for a text, so texts cannot be put into a "
            "batch; give another model"
        )


def load_whole(kind: str, folder: Path, unread: str = "") -> Any:
    """A model in fp32. Raises ValueError, with the folder, if transformers loads none, or if weights are
    missing, but for those that no result reads, whose names begin with `unread`; ModelDamaged if a weight is
    no number."""
    try:
        model, names = load_pretrained(
            kind, folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    except ModelDamaged:
        raise
    except Exception as e:  # each family raises its own
        reason = " ".join(str(e).split())
        if "ignore_mismatched_sizes" in reason:  # it refers to lines that are not shown
            reason = "its weights have other sizes than config.json says"
        if not reason.startswith(str(folder)):
            reason = f"{folder}: transformers loads no model of it ({reason}); give another model"
        raise ValueError(reason) from e
    missing = [name for name in sorted(names["missing_keys"]) if not unread or not name.startswith(unread)]
    if missing:
        raise ValueError(
            f"{folder}: its weights lack {missing[0]}, which would be random; give another model"
        )
    return model


def load_body(folder: Path, kind: str = "AutoModel") -> Any:
    """A transformer without a head, as `load_whole`."""
    return load_whole(kind, folder, unread="pooler.")


def pooled(hidden: Tensor, mask: Tensor, pooling: Pooled) -> Tensor:
    """One encoding per text [rows, d] in fp32, from those of tokens [rows, length, d] and their mask.

    >>> hidden, mask = torch.tensor([[[1.0], [3.0], [5.0]]]), torch.tensor([[0, 1, 1]])
    >>> [float(pooled(hidden, mask, name)) for name in ("first", "mean", "last", "max")]
    [3.0, 4.0, 5.0, 5.0]
    """
    hidden, rows = hidden.float(), torch.arange(len(hidden), device=hidden.device)
    if pooling == "first":
        return hidden[rows, mask.argmax(1)]
    if pooling == "last":
        return hidden[rows, mask.shape[1] - 1 - mask.flip(1).argmax(1)]

    present = mask[..., None].bool()  # [rows, length, 1]
    if pooling == "max":
        return hidden.masked_fill(~present, -torch.inf).amax(1)
    return (hidden * present).sum(1) / present.sum(1)


def _embedded(model: Any) -> int:
    """Rows of a model's table of embeddings."""
    try:
        return len(model.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError):
        return int(getattr(model.config, "vocab_size", NO_LIMIT))  # CANINE's are hashed


class PaddedTransformer:
    """Encoder of texts as vectors by any model that transformers' AutoModel loads, or by an encoder of
    DPR."""

    def __init__(self, folder: Path, limit: int, device: str, precision: Precision) -> None:
        """Raises ValueError, with the folder, if it holds a model that gives no vectors."""
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        is_dpr = config.get("model_type") == "dpr"
        self.at_once = texts_at_once(device, limit)
        self._pooling: Literal["mean", "cls"] = "mean"

        def read(out: Any, mask: Tensor) -> Tensor:
            if is_dpr:
                # [rows, d]: the first token, projected if the model has a projection.
                projected: Tensor = out.pooler_output
                return projected
            return pooled(out.last_hidden_state, mask, "first" if self._pooling == "cls" else "mean")

        tokenizer = load_tokenizer(folder)
        self._tokens = PlainTexts(tokenizer, limit)
        model = load_body(folder, config["architectures"][0] if is_dpr else "AutoModel")
        self._model = PaddedModel(folder, tokenizer, model, read=read, tokens=self._tokens)
        self._model.serve(device, dtype_of(precision, device))
        self.dimension = self.encode([_TRIAL], "mean").shape[1]

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: Literal["mean", "cls"]) -> Singles:
        """[texts, d], in the order of the texts; all texts have one part, or all have two."""
        self._pooling = pooling
        return self._model.run(self._tokens(texts))
