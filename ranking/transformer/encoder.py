"""BERT, RoBERTa and ELECTRA as a stack of layers that runs in pieces, over packed tokens without padding.

`embed` makes the encodings h [n, d] of n tokens, `run` brings them from one depth to another: run(h, 0, 4)
and then run(h, 4, 6) is run(h, 0, 6). huggingface.py knows the families' names for their weights.

In inference the row-wise functions (the linear layers, normalisation, GELU) are computed window by window,
each of a fixed number of rows, since libraries choose their kernels by shape: so a text's encoding does not
depend on the other texts of its batch. The last rows are computed in a smaller window if this machine gives
the same bits with it, and with all its threads, which is tried once per shape. On a card a batch is filled up
once with rows that are never read, so that one window holds it.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from answermill.files.model_files import ModelDamaged
from answermill.ranking.checkpoint import load_weights
from answermill.ranking.transformer.attention import attend, dropped
from answermill.ranking.transformer.devices import BATCH_TOKENS, BUSY, TokenBudget, fast
from answermill.ranking.transformer.huggingface import Shape, translated, translated_back
from answermill.ranking.transformer.packing import Packed

_WINDOWS = {
    "cpu": (2048, 1024, 512, 256, 128, 64, 32),
    "cuda": (*range(BATCH_TOKENS["cuda"], 0, -4_096), 2_048, 1_024),
}
_Product: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


class LayeredEncoder(nn.Module):
    """Encoder of tokens, depth by depth. A new one has random weights, like BERT's before pre-training."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        embedded = shape.embedded or shape.width
        self.words = _table(shape.vocabulary, embedded)
        self.positions = _table(shape.offset + shape.positions, embedded)
        self.types = _table(shape.types, embedded)
        self.norm = nn.LayerNorm(embedded, shape.epsilon)
        self.project = nn.Linear(embedded, shape.width) if shape.embedded else None
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

        self._budget: TokenBudget | None = None  # of the device on which it first serves
        self.recomputes = False
        """True if learning keeps only the input of each layer, and computes the layer again for its
        gradient."""

        if self.words.weight.is_meta:
            return

        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    @classmethod
    def load(cls, folder: Path, layers: int | None = None) -> LayeredEncoder:
        """Load a folder that Hugging Face's save_pretrained wrote; the first `layers` layers, None = all.

        Raises ValueError, with the folder and what to do, if it holds another family or no safetensors, or
        does not fit; ModelDamaged if a weight is no number.
        """
        try:
            shape = Shape.of(json.loads((folder / "config.json").read_text(encoding="utf-8")))
            if not (folder / "model.safetensors").is_file():
                raise ValueError(
                    "no model.safetensors (pickled weights are not loaded); load the model once with "
                    "transformers "
                    "and write it with save_pretrained(folder)"
                )
            if layers is not None and not 1 <= layers <= shape.layers:
                raise ValueError(f"it has {shape.layers} layers; the first {layers} cannot be had")

            with torch.device("meta"):
                encoder = cls(shape if layers is None else replace(shape, layers=layers))
            encoder.load_state_dict(
                translated(load_weights(folder / "model.safetensors"), encoder.shape), assign=True
            )
        except ModelDamaged:
            raise
        except KeyError as e:
            raise ValueError(f"{folder} is no encoder: it lacks {e}") from e
        except (OSError, ValueError, RuntimeError, SafetensorError) as e:
            raise ValueError(f"{folder} is no encoder: {e}") from e

        return encoder

    def save(self, folder: Path, layers: int | None = None) -> None:
        """Write a folder for `load` and Hugging Face's from_pretrained, in fp32; the first `layers` layers,
        None = all."""
        shape = self.shape if layers is None else replace(self.shape, layers=layers)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(translated_back(self.state_dict(), shape), folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(shape.config(), indent=2) + "\n", encoding="utf-8")

    def embed(self, tokens: Packed) -> Tensor:
        """h of depth 0 [n, d]. Raises ValueError if a text is longer than the model allows."""
        longest = int(tokens.lengths.max(initial=0))
        if longest > self.shape.positions:
            raise ValueError(
                f"a text of {longest} tokens for a model of {self.shape.positions}; cut it before"
            )
        types = tokens.types.clamp(max=self.shape.types - 1)  # RoBERTa knows one type only
        hidden = (
            self.words(tokens.ids) + self.types(types) + self.positions(tokens.positions + self.shape.offset)
        )
        hidden = dropped(self.norm(hidden), self.shape.dropout if self.training else 0.0)
        return hidden if self.project is None else by_rows(self.project, self.shape, hidden)

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        """Run layers first + 1 to last over h of depth `first`; returns h of depth `last` [n, d].

        Inference takes as many texts at a time as the device has memory for; if that runs out, half, with a
        warning.
        """
        return self.run_through(self._between(first, last), hidden, tokens)

    def run_through(
        self, layers: nn.ModuleList, hidden: Tensor, tokens: Packed, first_only: bool = False
    ) -> Tensor:
        """Run other layers of this shape, such as copies of its own, over h [n, d]; returns h after them.

        `first_only`: returns h of each text's first token alone [texts, d], the same bits for less of the
        last layer's work.
        """
        if torch.is_grad_enabled() or not len(layers):
            return _run(layers, hidden, tokens, first_only, self.recomputes and self.training)

        after, text = hidden.new_empty(len(tokens.lengths) if first_only else len(hidden), hidden.shape[1]), 0
        budget = self._budget = self._budget or TokenBudget.of(
            hidden.device, BATCH_TOKENS[hidden.device.type]
        )

        while text < len(tokens.lengths):
            rows, some = tokens.part(text, budget.tokens)
            next_text = text + len(some.lengths)
            try:
                with BUSY.span(hidden.device), budget.spending(len(some.ids)):
                    encoded = _run(layers, filled_up(hidden[rows], self.shape), some, first_only)
                    place = slice(text, next_text) if first_only else rows
                    after[place] = encoded[: place.stop - place.start]
                text = next_text
            except torch.OutOfMemoryError:
                if len(some.lengths) == 1:
                    raise
                budget.run_out(len(some.ids))

        return after

    def cut(self, layers: int) -> LayeredEncoder:
        """Encoder of the first `layers` layers, which are shared, not copied."""
        encoder = copy.copy(self)
        encoder._modules = dict(self._modules)
        encoder.layers, encoder.shape = self._between(0, layers), replace(self.shape, layers=layers)
        return encoder

    def copy_layers(self, first: int, last: int) -> nn.ModuleList:
        """Copies of layers first + 1 to last, each called as layer(hidden, tokens)."""
        return nn.ModuleList(copy.deepcopy(layer) for layer in self._between(first, last))

    def _between(self, first: int, last: int) -> nn.ModuleList:
        if not 0 <= first <= last <= len(self.layers):
            raise ValueError(f"layers {first} to {last} of an encoder that has {len(self.layers)}")
        return self.layers[first:last]

    def for_inference(
        self, device: torch.device | str = "cpu", precision: torch.dtype | None = None
    ) -> LayeredEncoder:
        """Copy on the device, in its `fast` precision if none is given, without dropout and gradients."""
        encoder = copy.deepcopy(self).to(device, precision or fast(device))
        encoder._budget = None
        return encoder.requires_grad_(False).eval()


def _run(
    layers: nn.ModuleList, hidden: Tensor, tokens: Packed, first_only: bool, recompute: bool = False
) -> Tensor:
    for n, layer in enumerate(layers, 1):
        run = partial(checkpoint, layer, use_reentrant=False) if recompute else layer
        hidden = run(hidden, tokens, first_only and n == len(layers))
    return hidden


def _table(rows: int, width: int) -> nn.Embedding:
    """Table of embeddings. On the meta device, where a checkpoint's weights take its place, no numbers are
    drawn: torch would import its compiler for that, which takes a second and more."""
    if torch.get_default_device().type == "meta":
        return nn.Embedding(rows, width, _weight=torch.empty(rows, width))
    return nn.Embedding(rows, width)


class Layer(nn.Module):
    """Attention and the two linear layers after it, each with its residual sum and normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.attention = nn.Linear(shape.width, 3 * shape.width)  # query, key and value
        self.output = nn.Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.widen = nn.Linear(shape.width, shape.inner)
        self.narrow = nn.Linear(shape.inner, shape.width)
        self.final_norm = nn.LayerNorm(shape.width, shape.epsilon)

    def forward(self, hidden: Tensor, tokens: Packed, first_only: bool = False) -> Tensor:
        """Map [n, d] to [n, d], or to the first token of each text alone [texts, d]. Rows after the tokens'
        are filling."""
        projected = by_rows(self.attention, self.shape, hidden)  # [n, 3 d]
        dropout = self.shape.attention_dropout if self.training else 0.0
        attended = attend(projected, tokens, self.shape.heads, dropout)
        if first_only:
            first = tokens.starts[:-1].long()
            attended, hidden = attended[first], hidden[first]
        return by_rows(self._after_attention, self.shape, attended, hidden)

    def _after_attention(self, attended: Tensor, hidden: Tensor) -> Tensor:
        hidden = self.norm(self._drop(self.output(attended)) + hidden)
        narrowed = self.narrow(_widened(hidden, self.widen.weight, self.widen.bias))
        normalised: Tensor = self.final_norm(self._drop(narrowed) + hidden)
        return normalised

    def _drop(self, x: Tensor) -> Tensor:
        return dropped(x, self.shape.dropout if self.training else 0.0)


def _widened(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """GELU of a linear layer.

    A card that serves in half precision computes it within the product, by its form with tanh (Hendrycks &
    Gimpel 2016): at most 0.0005 away, less than half precision rounds off.
    """
    if hidden.is_cuda and hidden.dtype != torch.float32 and not torch.is_grad_enabled():
        return torch._addmm_activation(bias, hidden, weight.t(), use_gelu=True)
    return F.gelu(F.linear(hidden, weight, bias))


def by_rows(function: Callable[..., Tensor], shape: Shape, *inputs: Tensor) -> Tensor:
    """Apply a row-wise function to [n, …] tensors: at once if gradients are needed, else window by window."""
    if torch.is_grad_enabled() or not len(inputs[0]):
        return function(*inputs)
    outputs = []
    for start, size in _windows_of(inputs[0], shape):
        rows = [x[start : start + size] for x in inputs]
        if missing := size - len(rows[0]):
            rows = [F.pad(x, (0, 0, 0, missing)) for x in rows]
        outputs.append(function(*rows)[: size - missing])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def filled_up(hidden: Tensor, shape: Shape) -> Tensor:
    """On a card, h [n, d] with rows added to fill its windows; elsewhere unchanged."""
    if not hidden.is_cuda or not len(hidden):
        return hidden
    return F.pad(hidden, (0, 0, 0, sum(size for _, size in _windows_of(hidden, shape)) - len(hidden)))


def _windows_of(rows: Tensor, shape: Shape) -> Iterator[tuple[int, int]]:
    """(first row, rows) of the windows over rows [n, …]; only the last may reach beyond them."""
    device = rows.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
    return _windows(len(rows), exact_windows(device, dtype, shape, torch.get_num_threads()), few=rows.is_cuda)


def _windows(n: int, sizes: Sequence[int], few: bool = False) -> Iterator[tuple[int, int]]:
    """Windows over n rows, the largest first. With `few` the smallest window that holds all rows is taken, so
    that there is one if possible."""
    start = 0
    while start < n:
        fits = [size for size in sizes if (size >= n - start if few else size <= n - start)]
        size = (fits[-1] if few else fits[0]) if fits else sizes[0 if few else -1]
        yield start, size
        start += size


def exact_windows(device: str, dtype: torch.dtype, shape: Shape, threads: int) -> tuple[int, ...]:
    """Numbers of rows of the usable windows: the largest, and each smaller one that gives the same bits as
    the largest.

    Tried once in a process, on random numbers, with each linear layer of this shape: a window counts as the
    same if its first rows and its last rows are equal, bit for bit, to those of the largest window computed
    by one thread. So the number of threads changes no bit either: where it would, this call sets torch's
    threads to one, and the first such call warns.
    """
    sizes = _equal_windows(device, dtype, shape, threads)
    if sizes or threads == 1:
        return sizes
    torch.set_num_threads(1)
    return _equal_windows(device, dtype, shape, 1)


@lru_cache
def _equal_windows(device: str, dtype: torch.dtype, shape: Shape, threads: int) -> tuple[int, ...]:
    """Usable windows with this number of threads; none if it changes bits of the largest."""
    largest, *smaller = _WINDOWS[device]
    random = torch.Generator(device).manual_seed(0)
    width, inner = shape.width, shape.inner
    linears = [(shape.embedded or width, width), (width, 3 * width), (width, width), (inner, width)]
    products: list[tuple[_Product, int, int]] = [
        *((F.linear, *sizes) for sizes in linears),
        (_widened, width, inner),
    ]
    same = [largest, *smaller]

    with torch.no_grad(), torch.autocast(device, enabled=False):
        for product, n_in, n_out in products:
            sizes = ((largest, n_in), (n_out, n_in), (n_out,))
            rows, weight, bias = (
                torch.randn(size, generator=random, device=device, dtype=dtype) for size in sizes
            )
            torch.set_num_threads(1)
            whole = product(rows, weight, bias)
            torch.set_num_threads(threads)
            same = [
                size
                for size in same
                if torch.equal(product(rows[:size], weight, bias), whole[:size])
                and (size == largest or torch.equal(product(rows[-size:], weight, bias), whole[-size:]))
            ]

    if largest in same:
        return tuple(same)

    warnings.warn(
        f"{threads} threads compute other bits than one on this machine; going on with one", stacklevel=3
    )
    return ()
