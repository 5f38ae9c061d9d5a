"""Common parts of all model folders: `config.json` with a format and the model's name, `model.safetensors`,
and their digests (`files/model_files.py`). Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ValidationError

from answermill.files.atomic_files import write_text
from answermill.files.model_files import INT8, check_weights, folder_digest
from answermill.schemas.section import Section

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class Int8Loss(Section):
    """Measured loss of a model with `precision = "int8"`, in a file of its folder; scores in percent."""

    model: str
    """Digest of the folder (`folder_digest`)."""
    reranker: str
    settings: list[str]
    """Its stage settings, as 'key=value'."""
    metric: str
    lists: str
    """Name of the labelled lists."""
    lists_sha256: str
    questions: int
    fp32: float
    int8: float
    loss: float
    """Points that int8 is lower; below 0 if it is higher."""
    low: float
    high: float
    """95 % interval of the loss, over the questions."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The loss that was measured of the folder's model; None if none was. Raises ValueError if the file
        is damaged, or of another model."""
        try:
            loss = cls.model_validate_json((folder / INT8).read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as e:
            raise ValueError(f"{folder / INT8} is damaged ({e.errors()[0]['msg']}); measure it again") from e
        if loss.model != folder_digest(folder):
            raise ValueError(f"{folder / INT8} was measured of another model than this folder's")
        return loss

    def write(self, folder: Path) -> None:
        """Write the file."""
        write_text(folder / INT8, self.model_dump_json(indent=1) + "\n")

    def statement(self) -> str:
        """A sentence for the card."""
        return (
            f'With `precision = "int8"` {self.metric} is {self.int8:.2f} on {self.lists}, with fp32 '
            f"{self.fp32:.2f}: {self.loss:.2f} points are lost ({self.low:.2f} to {self.high:.2f}, of "
            f"{self.questions:,} questions)."
        )


def check_int8(folder: Path, reranker: str, bound: float | Literal["any"]) -> None:
    """Refuse int8 for a model folder that lost more than `bound` points, or whose loss nobody measured; 'any'
    refuses nothing. Raises ValueError, with the command to type."""
    if bound == "any":
        return
    command = f"`answermill int8 {folder} --reranker {reranker} --dev LABELLED --out NEW`"
    advice = f"run {command} and name NEW as the checkpoint, or set precision = 'fp32'"
    try:
        measured = Int8Loss.read(folder)
    except ValueError as e:
        raise ValueError(f"precision = 'int8': {e}; {advice}") from e
    if measured is None:
        raise ValueError(f"precision = 'int8': what {folder} loses by it was never measured; {advice}")
    if measured.loss > bound:
        raise ValueError(
            f"precision = 'int8': {folder} lost {measured.loss:.2f} points of {measured.metric} by it on "
            f"{measured.lists}, more than int8_loss = {bound:g}; set precision = 'fp32', or a higher "
            "int8_loss"
        )


def kind_of(folder: Path) -> str:
    """Checkpoint format of a model folder, as `Entry.checkpoint` names it. Raises ValueError if the folder
    names none."""
    try:
        kind: str = _read_config(folder)["model"]
    except (KeyError, TypeError) as e:
        raise ValueError(
            f"{folder}: {CONFIG} names no model; give another checkpoint, or train it again"
        ) from e
    except ValueError as e:
        raise ValueError(f"{folder} is no checkpoint: {e}") from e
    return kind


@contextmanager
def config_of(folder: Path, *names: str) -> Iterator[dict[str, Any]]:
    """config.json of a model folder of one of these formats, for a block that makes a model of it.

    Raises ValueError, with the folder, if it is of another format, or if the block finds a file or a value
    missing or wrong.
    """
    from safetensors import SafetensorError

    wanted = " or ".join(names)
    try:
        config = _read_config(folder)
        model, form = config["model"], config["format"]
        if model not in names:
            raise ValueError(f"it holds {model!r}; give one of {wanted}")
        if form != FORMAT:
            raise ValueError(f"it has format {form}, not {FORMAT}; train it again with this version")
        yield config
    except KeyError as e:
        raise ValueError(f"{folder} is no checkpoint of {wanted}: it has no {e}") from e
    except (OSError, TypeError, ValueError, SafetensorError) as e:
        raise ValueError(f"{folder} is no checkpoint of {wanted}: {e}") from e


def _read_config(folder: Path) -> Any:
    """Content of a model folder's config.json. Raises ValueError, which does not name the folder, if it is
    not there or is no JSON."""
    if not folder.is_dir():
        raise ValueError("it is a file, no folder" if folder.exists() else "there is no such folder")
    try:
        return json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise ValueError(f"it has no {CONFIG}") from e
    except OSError as e:
        raise ValueError(f"{CONFIG}: {e.strerror}") from e
    except ValueError as e:
        raise ValueError(f"{CONFIG} is not JSON: {e}") from e


def load_weights(file: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file, as they are stored. Raises ModelDamaged if one holds NaN or infinity,
    and the errors of safetensors and the file system."""
    from safetensors.torch import load_file

    weights = load_file(file)
    check_weights(weights, file)
    return weights
