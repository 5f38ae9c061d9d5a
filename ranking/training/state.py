"""State of a training on disk while it runs, so that a stopped one continues from its last evaluation.

    _training/history.json          evaluations, the step, and the digest of its weights; written last, so that
                                    it names only whole files
    _training/STEP.safetensors      weights of the model, moments of the optimizer and fp16's factor at that step
    _training/best-STEP/            the checkpoint with the best dev score so far

Files and folders get their names once they are on the disk (`files/atomic_files.py`): a power cut leaves the
old or the new one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from answermill.files.atomic_files import read_json, replace_folder, replacing, sha256, sync, write_text
from answermill.files.model_files import HISTORY, STATE, SUMS, ModelDamaged, check_sums

KEPT = "history.json"
_ANEW = "delete {}, and the same command trains anew"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation during a training. `loss` is the mean since the evaluation before."""

    step: int
    epoch: float
    loss: float
    dev: float


@dataclass(slots=True)
class History:
    """Evaluations of a training, and the best step. `settings`: settings that the fingerprint stands for, for
    display."""

    fingerprint: str
    step: int = 0
    evaluations: list[Evaluated] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Evaluated | None:
        """The evaluation with the highest dev score; of equal ones the first."""
        return max(self.evaluations, key=lambda e: (e.dev, -e.step), default=None)

    def waited(self) -> int:
        """Evaluations since the best."""
        best = self.best
        return sum(1 for e in self.evaluations if best is not None and e.step > best.step)


def finished(folder: Path) -> History | None:
    """History of a training that has ended; None if none has ended in this folder. Raises WrongShape."""
    return _history(folder / HISTORY)


def begun(folder: Path) -> History | None:
    """History of a training that has not ended; None if none has reached its first evaluation in this folder.
    Raises WrongShape."""
    return _history(folder / STATE / KEPT)


def keep(
    state: Path,
    save: Callable[[Path], None],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    *,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write the state after an evaluation. `save` writes the checkpoint into a folder, and is called if it is
    the best so far. `scaler`: scaler of fp16."""
    state.mkdir(parents=True, exist_ok=True)
    now, best = history.evaluations[-1], history.best
    assert best is not None
    if best is now:
        write_folder(state / f"best-{now.step}", save)

    # One file has the model, the optimizer's moments and the scaler's factors.
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    for name, number in (scaler.state_dict() if scaler is not None else {}).items():
        tensors[f"scaler.{name}"] = torch.tensor(number, dtype=torch.float64)
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    # The history names the file of weights; earlier files are removed once it is written.
    weights = f"{now.step}.safetensors"
    with replacing(state / weights) as path:
        save_file(on_cpu, path)
        digest = sha256(path)
    _write(state / KEPT, history, digest)
    for path in state.iterdir():
        if path.name not in (weights, KEPT, f"best-{best.step}"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def resume(
    state: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    fingerprint: str,
    settings: Mapping[str, Any] | None = None,
    *,
    scaler: torch.amp.GradScaler | None = None,
) -> History:
    """Load a state of `keep` into model, optimizer and scaler; a new history if there is none.

    Raises ValueError if the state belongs to a training with another fingerprint, ModelDamaged if the weights
    are not those that were kept.
    """
    try:
        kept = read_json(state / KEPT, _HistoryFile)
    except FileNotFoundError:
        return History(fingerprint, settings=settings or {})
    history = kept.history
    if history.fingerprint != fingerprint:
        raise ValueError(
            f"{state.parent} holds a training with other settings or data; give another folder, or delete it"
        )

    weights = state / f"{history.step}.safetensors"
    if not weights.is_file() or sha256(weights) != kept.sha256:
        raise ModelDamaged(f"{weights} is not what the training has written; {_ANEW.format(state.parent)}")
    tensors = load_file(weights)
    model.load_state_dict(
        {name.removeprefix("model."): v for name, v in tensors.items() if name.startswith("model.")}
    )
    moments: dict[int, dict[str, Tensor]] = {}

    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, number, moment = name.split(".")
            moments.setdefault(int(number), {})[moment] = value

    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})

    factors = {
        name.removeprefix("scaler."): v.item() for name, v in tensors.items() if name.startswith("scaler.")
    }
    if scaler is not None and factors:
        steps = ("growth_interval", "_growth_tracker")  # whole numbers
        scaler.load_state_dict(factors | {name: int(factors[name]) for name in steps})

    return history


def publish(state: Path, folder: Path, history: History) -> None:
    """Move the best checkpoint to its place; the history is written last and marks the checkpoint as
    complete. Raises ModelDamaged as `check_published`."""
    assert history.best is not None
    best = state / f"best-{history.best.step}"
    if not best.is_dir():  # it stays, empty, when its files have been moved
        raise ModelDamaged(f"{best} is gone, the training's best checkpoint; {_ANEW.format(folder)}")

    # The digests are moved last.
    for path in sorted(best.iterdir(), key=lambda path: (path.name == SUMS, path.name)):
        path.replace(folder / path.name)
    sync(folder)
    check_published(folder)
    _write(folder / HISTORY, history)
    shutil.rmtree(state, ignore_errors=True)


def check_published(folder: Path) -> None:
    """Compare the files of a checkpoint with their digests, as far as it has some. Raises ModelDamaged."""
    try:
        check_sums(folder)
    except ModelDamaged as e:
        raise ModelDamaged(f"{e}; {_ANEW.format(folder)}") from e


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a whole folder or none: `write` gets a path at which there is nothing yet. The result replaces
    `folder`."""
    unfinished = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    write(unfinished)
    unfinished.mkdir(exist_ok=True)
    replace_folder(unfinished, folder)


def _write(path: Path, history: History, digest: str = "") -> None:
    values = asdict(history) | ({"sha256": digest} if digest else {})
    write_text(path, json.dumps(values, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class _HistoryFile:
    """Shape of a history's file; earlier files have no settings."""

    fingerprint: str
    step: int
    evaluations: list[Evaluated]
    settings: dict[str, Any] = field(default_factory=dict)
    sha256: str = ""
    """Digest of the weights of a training that has not ended."""

    @property
    def history(self) -> History:
        return History(self.fingerprint, self.step, self.evaluations, self.settings)


def _history(path: Path) -> History | None:
    try:
        return read_json(path, _HistoryFile).history
    except FileNotFoundError:
        return None
