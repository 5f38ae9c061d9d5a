"""Starting points of the training of a transformer: a transformer in Hugging Face's format, or a checkpoint
of ours.

A sequence classifier in Hugging Face's format, such as TANDA's, is a body and a head: it serves as a starting
point like a checkpoint of `pointwise`. Registry entries (`Training.start`) decide which checkpoints can be
starting points; a method's builder decides which of them it takes over, and how.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import nn

from answermill.files.model_files import HISTORY, check_ended
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.entry import resolve
from answermill.ranking.rerankers.cascade.cascade_model import published
from answermill.ranking.rerankers.registry import trainings
from answermill.ranking.training.inputs import TrainingInputs
from answermill.ranking.transformer.body_settings import BodySettings
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.published.published_classifier import load_with_head
from answermill.ranking.transformer.transformer_checkpoint import BodySource, word_source


class Trained(Protocol):
    """Model of a checkpoint with which another training begins."""

    encoder: LayeredEncoder

    def body(self) -> LayeredEncoder:
        """The whole transformer. Raises ValueError if its layers are not all in one place."""
        ...


Kind = TypeVar("Kind", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Start:
    """Starting point of a training."""

    name: str
    """Name in the training file; for a checkpoint the folder's name."""
    description: str
    format: str | None
    """The checkpoint's format, as `Entry.checkpoint`; None for a transformer in Hugging Face's format without
    a head."""
    model: Trained | None
    """Model of the checkpoint; None for a transformer in Hugging Face's format."""
    encoder: LayeredEncoder
    folder: Path
    """Folder of the tokenizer."""
    words: BodySource | None
    """Source of the word embeddings; None if they were trained."""

    def model_of(self, kind: type[Kind], formats: Collection[str], reranker: str) -> Kind | None:
        """The checkpoint's model if it is in one of these formats; None for a transformer in Hugging Face's
        format.

        Raises ValueError for a checkpoint in another format.
        """
        if self.format is None:
            return None
        if self.format not in formats or not isinstance(self.model, kind):
            raise ValueError(f"{self.name} is a checkpoint of {self.format}; {reranker} cannot begin with it")
        return self.model

    def body(self) -> LayeredEncoder:
        """The whole transformer. Raises ValueError if the checkpoint's layers are not all in one place."""
        try:
            return self.encoder if self.model is None else self.model.body()
        except ValueError as e:
            raise ValueError(
                f"{self.name} is a checkpoint of {self.format}, {e}; give another encoder"
            ) from e


def begin(inputs: TrainingInputs[BodySettings], name: str, layers: int | None = None) -> Start:
    """The transformer, or the checkpoint, that a key of the settings names. `layers`: number of layers of a
    transformer, from its first; None = all.

    Raises ValueError if the checkpoint has no transformer, or is unfinished or broken.
    """
    folder = inputs.path(name)
    if not is_checkpoint(folder):
        source = inputs.model(str(folder) if folder.is_dir() else name)
        encoder, head = load_with_head(source, layers)
        description = f"body {name}, {encoder.shape.layers} layers of {encoder.shape.width}"
        if head is None:
            return Start(name, description, None, None, encoder, source, BodySource.read(name, source))

        model = published(encoder, head)
        return Start(
            name,
            f"{description}, and its head",
            "pointwise",
            model,
            encoder,
            source,
            BodySource.read(name, source),
        )

    kind = kind_of(folder)
    training = trainings().get(kind)
    if training is None or training.start is None:
        raise ValueError(f"{folder} is a checkpoint of {kind}, which has no transformer to begin with")

    load: Callable[[Path, Callable[[str], Path]], tuple[Trained, Tokeniser]] = resolve(training.start)
    checkpoint_model, tokeniser = load(folder, inputs.model)
    description = f"begun with {folder.name}"
    return Start(
        folder.name,
        description,
        kind,
        checkpoint_model,
        checkpoint_model.encoder,
        tokeniser.path.parent,
        word_source(folder),
    )


def is_checkpoint(folder: Path) -> bool:
    """True if the folder holds a checkpoint of ours, False if a transformer in Hugging Face's format.

    Raises ValueError if a training has begun there and has not ended.
    """
    check_ended(folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (folder / HISTORY).is_file() or (isinstance(config, dict) and {"format", "model"} <= config.keys())


def source_words(settings: BodySettings, start: Start) -> BodySource | None:
    """Source of the word embeddings that the training leaves unchanged; None if it trains them. Raises
    ValueError if the start has none."""
    if settings.words != "source":
        return None
    if start.words is None:
        raise ValueError(
            f"{start.name} has trained its word embeddings; words = 'source' is for those of a transformer"
        )
    return start.words


def check_beside(settings: BodySettings, start: Start, second: Start) -> None:
    """Check that two starts fit one checkpoint. Raises ValueError if their shapes or, with words = 'source',
    their sources differ."""
    ours, other = start.encoder.shape, second.encoder.shape
    if ours != other:
        sizes = (
            f"{start.name} has {ours.layers} layers of {ours.width}, {second.name} {other.layers} of "
            f"{other.width}"
        )
        raise ValueError(f"peasi.encoder and peasi.easi must be of one shape: {sizes}")
    if settings.words == "source" and (start.words and start.words.sha256) != (
        second.words and second.words.sha256
    ):
        raise ValueError(
            f"{start.name} and {second.name} do not have the same word embeddings; words = 'source' is for "
            "two of one source"
        )


def tokeniser_of(settings: BodySettings, start: Start) -> Tokeniser:
    """Tokenizer of the starting point."""
    return Tokeniser(start.folder, min(settings.limit, start.encoder.shape.positions))


def prepare(model: nn.Module, device: str, train_words: bool, recompute: bool | None = False) -> None:
    """Move a model to the device and let all of it learn; its word embeddings only with `train_words`.
    `recompute`: use less memory and more work."""
    model.requires_grad_().to(torch.device(device))
    for module in model.modules():
        if isinstance(module, LayeredEncoder):
            module.words.requires_grad_(train_words)
            module.recomputes = bool(recompute)
