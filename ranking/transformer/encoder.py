"""BERT and its relatives as a stack of layers that runs in pieces, over packed tokens without padding.

`embed` makes the encodings h [n, d] of n tokens, `run` brings them from one depth to another: run(h, 0, 4)
and then run(h, 4, 6) is run(h, 0, 6). Heads read `normalised(h)`. layers/ has the two kinds of layers,
huggingface/ the families' names for their weights.

In inference the row-wise functions (the linear layers, normalisation, GELU) are computed window by window,
each of a fixed number of rows, since libraries choose their kernels by shape: so a text's encoding does not
depend on the other texts of its batch. Windows are of several sizes, those of which this machine gives the
same bits, and with all its threads, which is tried once per shape. On a card a batch is filled up once with
rows that are never read, so that one window holds it.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from answermill.files.model_files import ModelDamaged
from answermill.ranking.checkpoint import load_weights
from answermill.ranking.transformer.devices import (
    BATCH_TOKENS,
    BUSY,
    CORE_TOKENS,
    TokenBudget,
    cores,
    each_on_a_core,
    fast,
)
from answermill.ranking.transformer.huggingface import Shape, translated, translated_back
from answermill.ranking.transformer.layers import Places, layer_of
from answermill.ranking.transformer.layers.attention import dropped
from answermill.ranking.transformer.layers.int8 import to_int8
from answermill.ranking.transformer.layers.packed_linear import PackedLinear, pack, packs
from answermill.ranking.transformer.layers.row_windows import added, by_rows, filled_up
from answermill.ranking.transformer.packing import Packed

Served = TypeVar("Served", bound=nn.Module)


class LayeredEncoder(nn.Module):
    """Encoder of tokens, depth by depth. A new one has random weights, like BERT's before pre-training."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        embedded = shape.embedded or shape.width
        self.words = _table(shape.vocabulary, embedded)
        self.positions = None if shape.rotary else _table(shape.offset + shape.positions, embedded)
        self.types = _table(shape.types, embedded) if shape.types else None
        self.norm = nn.LayerNorm(embedded, shape.epsilon, bias=shape.biased)
        self.project: nn.Linear | PackedLinear | None = (
            nn.Linear(embedded, shape.width) if shape.embedded else None
        )
        self.layers = nn.ModuleList(layer_of(shape, n) for n in range(shape.layers))
        self.final = nn.LayerNorm(shape.width, shape.epsilon, bias=False) if shape.rotary else None

        # A bias that is not trained: [buckets, heads], the same in all layers.
        relative = None if shape.buckets is None else torch.zeros(shape.buckets, shape.heads)
        self.register_buffer("relative", relative)
        self.relative: Tensor | None

        self._budget: TokenBudget | None = None  # of the device on which it first serves
        self.recomputes = False
        """True if learning keeps only the input of each layer, and computes the layer again for its
        gradient."""

        if self.words.weight.is_meta:
            return

        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    @classmethod
    def load(cls, folder: Path, layers: int | None = None) -> LayeredEncoder:
        """Load a folder that Hugging Face's save_pretrained wrote; the first `layers` layers, None = all.

        Raises ValueError, with the folder and what to do, if it holds another family or no safetensors, or
        does not fit; ModelDamaged if a weight is no number.
        """
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if not isinstance(config, dict):
                raise ValueError("its config.json is no JSON object")
            shape = Shape.of(config)
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
            raise ValueError(f"{folder} is no encoder: {' '.join(str(e).split())}") from e

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
        hidden = self.words(tokens.ids)
        if self.types is not None:  # RoBERTa knows one only
            hidden = added(hidden, self.types(tokens.types.clamp(max=self.shape.types - 1)))
        if self.positions is not None:
            hidden = added(hidden, self.positions(_places(tokens, self.shape.offset)))
        hidden = dropped(self.norm(hidden), self.shape.dropout if self.training else 0.0)
        return hidden if self.project is None else by_rows(self.project, self.shape, hidden)

    def run(self, hidden: Tensor, tokens: Packed, first: int, last: int) -> Tensor:
        """Run layers first + 1 to last over h of depth `first`; returns h of depth `last` [n, d].

        Inference takes as many texts at a time as the device has memory for; if that runs out, half, with a
        warning. A processor's cores take a part of the texts each.
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
            return self._run(layers, hidden, tokens, first_only)

        after, text = hidden.new_empty(len(tokens.lengths) if first_only else len(hidden), hidden.shape[1]), 0
        together = cores(hidden.device)
        budget = self._budget = self._budget or TokenBudget.of(
            hidden.device, BATCH_TOKENS[hidden.device.type]
        )

        while text < len(tokens.lengths):
            rows, some = tokens.part(text, together * budget.tokens)
            next_text = text + len(some.lengths)
            try:
                with BUSY.span(hidden.device), budget.spending(len(some.ids)):
                    filled = filled_up(hidden[rows], self.shape)
                    encoded = self._run_on(together, layers, filled, some, first_only)
                    place = slice(text, next_text) if first_only else rows
                    after[place] = encoded[: place.stop - place.start]
                text = next_text
            except torch.OutOfMemoryError:
                if len(some.lengths) == 1:
                    raise
                budget.run_out(len(some.ids))

        return after

    def _run_on(
        self, together: int, layers: nn.ModuleList, hidden: Tensor, tokens: Packed, first_only: bool
    ) -> Tensor:
        """Run layers over texts that the device has memory for, in at most that many parts together."""
        parts = tokens.parted(min(together, len(tokens.ids) // CORE_TOKENS))
        if len(parts) == 1:
            return self._run(layers, hidden, tokens, first_only)

        def run_part(part: tuple[int, int]) -> Tensor:
            rows, some = tokens.between(*part)
            return self._run(layers, hidden[rows], some, first_only)

        return torch.cat(each_on_a_core(run_part, parts))

    def _run(self, layers: nn.ModuleList, hidden: Tensor, tokens: Packed, first_only: bool) -> Tensor:
        """Run layers over texts at once."""
        places = Places.of(tokens, self.shape, self.relative, hidden)
        for n, layer in enumerate(layers, 1):
            run = (
                partial(checkpoint, layer, use_reentrant=False)
                if self.recomputes and self.training
                else layer
            )
            hidden = run(hidden, tokens, places, first_only and n == len(layers))
        return hidden

    def normalised(self, hidden: Tensor) -> Tensor:
        """Encodings as heads read them, of tokens or of texts [n, d]: h itself, or after ModernBERT's last
        normalisation, at whatever depth."""
        return hidden if self.final is None else by_rows(self.final, self.shape, hidden)

    def cut(self, layers: int) -> LayeredEncoder:
        """Encoder of the first `layers` layers, which are shared, not copied."""
        encoder = copy.copy(self)
        encoder._modules = dict(self._modules)
        encoder.layers, encoder.shape = self._between(0, layers), replace(self.shape, layers=layers)
        return encoder

    def copy_layers(self, first: int, last: int) -> nn.ModuleList:
        """Copies of layers first + 1 to last, for `run_through`."""
        return nn.ModuleList(copy.deepcopy(layer) for layer in self._between(first, last))

    def _between(self, first: int, last: int) -> nn.ModuleList:
        if not 0 <= first <= last <= len(self.layers):
            raise ValueError(f"layers {first} to {last} of an encoder that has {len(self.layers)}")
        return self.layers[first:last]

    def for_inference(
        self, device: torch.device | str = "cpu", precision: torch.dtype | None = None
    ) -> LayeredEncoder:
        """Copy on the device, in its `fast` precision if none is given, without dropout and gradients. With
        int8, which is for processors, the products of its layers are of whole numbers; attention is in the
        `fast` precision, all else in fp32.

        Raises ValueError if this machine has no exact products of whole numbers.

        Weights that need no change are not copied: a file's are mapped into memory, and the processes of a
        machine share them.
        """
        same = {id(each): nn.Parameter(each.detach(), requires_grad=False) for each in self.parameters()}
        precision = precision or fast(device)
        encoder = serving(copy.deepcopy(self, same), device, precision)
        if isinstance(encoder.project, nn.Linear) and packs(device, precision):
            encoder.project = PackedLinear(encoder.project)
        encoder._budget = None
        return encoder.requires_grad_(False).eval()


def _places(tokens: Packed, offset: int) -> Tensor:
    """[n]: row of each token's position. Where rows before the first are left out (RoBERTa, MPNet), a padding
    token that stands in a text, such as a written '<pad>', has the last of them and is not counted."""
    if not offset:
        return tokens.positions
    is_padding = tokens.ids == offset - 1
    before = F.pad(is_padding.cumsum(0), (1, 0))  # [n + 1]: padding tokens before each token
    first = torch.arange(len(is_padding), device=is_padding.device) - tokens.positions  # of its text
    places = tokens.positions + offset - (before[:-1] - before[first])
    return places.masked_fill(is_padding, offset - 1)


def serving(part: Served, device: torch.device | str, precision: torch.dtype) -> Served:
    """A model's part with `layers`, moved to the device and the precision. Raises ValueError as
    `for_inference`."""
    is_int8 = precision == torch.int8
    part.to(device, torch.float32 if is_int8 else precision)
    layers = cast(nn.ModuleList, part.layers)
    if is_int8:
        to_int8(layers)
    elif packs(device, precision):
        pack(layers)
    return part


def _table(rows: int, width: int) -> nn.Embedding:
    """Table of embeddings. On the meta device, where a checkpoint's weights take its place, no numbers are
    drawn: torch would import its compiler for that, which takes a second and more."""
    if torch.get_default_device().type == "meta":
        return nn.Embedding(rows, width, _weight=torch.empty(rows, width))
    return nn.Embedding(rows, width)
