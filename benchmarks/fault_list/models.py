"""Faults of models: a checkpoint or encoder that is damaged, is none, or brings code. No row may be made with
it."""

from __future__ import annotations

import math

from benchmarks.fault_list.damage import (
    all_of,
    copied,
    cut,
    emptied,
    flipped,
    json_changed,
    overwritten,
    removed,
    replaced,
    weight,
    written,
    zeroed,
)
from benchmarks.fault_list.fault import Fault

REDO, NEW = "run JOB --out RUN --redo rerank", "run JOB --out WORK/new"
CHECKPOINTS = ("cosinet", "cascade", "peasi.pr", "peasi.easi")


def weights(name: str) -> str:
    return f"checkpoints/{name}/model.safetensors"


def config(name: str) -> str:
    return f"checkpoints/{name}/config.json"


def sums(name: str) -> str:
    """Name of the file of digests beside the model; without it only the files themselves can be checked."""
    return f"checkpoints/{name}/sha256.json"


def _faults_of(name: str) -> list[Fault]:
    return [
        Fault(f"{name}: NaN", weight(weights(name), math.nan), REDO, 65, "NaN", "restore"),
        Fault(f"{name}: infinity", weight(weights(name), math.inf), REDO, 65, "infinit"),
        Fault(f"{name}: bit flipped", flipped(weights(name)), REDO, 65, "not the file"),
        Fault(f"{name}: zeros", zeroed(weights(name)), REDO, 65, "not the file"),
        Fault(f"{name}: cut", cut(weights(name)), REDO, 65, name),
        Fault(f"{name}: emptied", emptied(weights(name)), REDO, 65, name),
        Fault(f"{name}: cut, no digests", all_of(cut(weights(name)), removed(sums(name))), REDO, 78, name),
        Fault(f"{name}: config emptied", all_of(emptied(config(name)), removed(sums(name))), REDO, 78, name),
        Fault(
            f"{name}: config a list",
            all_of(overwritten(config(name), "[]"), removed(sums(name))),
            REDO,
            78,
            name,
        ),
    ]


ENCODER = "encoder/model.safetensors"
TOKENIZER, OWN_CODE = (
    "checkpoints/cascade/tokenizer.json",
    {"AutoModel": "own.Own", "AutoConfig": "own.Config"},
)
FAULTS = (
    *(fault for name in CHECKPOINTS for fault in _faults_of(name)),
    Fault(
        "cascade: other weight",
        weight(weights("cascade"), 9.0, keep_sums=True),
        REDO,
        65,
        "not the file",
        "restore",
    ),
    Fault("cascade: weights lost", removed(weights("cascade")), REDO, 65, "is not there", "restore"),
    Fault(
        "cascade: config of nothing",
        all_of(overwritten(config("cascade"), "{}"), removed(sums("cascade"))),
        REDO,
        78,
        "cascade",
    ),
    Fault(
        "cascade: tokenizer cut",
        all_of(cut(TOKENIZER), removed(sums("cascade"))),
        REDO,
        78,
        "tokenizer.json",
        "restore",
    ),
    Fault("cascade: digests emptied", emptied(sums("cascade")), REDO, 65, "sha256.json", "restore"),
    Fault(
        "cascade: weights a pickle", overwritten(weights("cascade"), b"\x80\x04N."), REDO, 65, "not the file"
    ),
    Fault("cascade: lost", removed("checkpoints/cascade"), REDO, 66, "no such folder", "restore"),
    Fault("config of another model", copied(config("cascade"), config("peasi.pr")), REDO, 65, "not the file"),
    Fault(
        "cosinet: other words",
        all_of(overwritten("checkpoints/cosinet/words.json", "{}"), removed(sums("cosinet"))),
        REDO,
        78,
        "words.json",
    ),
    Fault(
        "encoder: other weights", weight(ENCODER, 9.0), "run JOB --out RUN", 73, "input encoder", "restore"
    ),
    Fault("encoder: NaN", weight(ENCODER, math.nan), NEW, 65, "NaN"),
    Fault("encoder: cut", cut(ENCODER), NEW, 69, "encoder"),
    Fault("encoder: emptied", emptied(ENCODER), NEW, 69, "encoder"),
    Fault("encoder: config emptied", emptied("encoder/config.json"), NEW, 69, "encoder"),
    Fault("encoder: config a list", overwritten("encoder/config.json", "[]"), NEW, 69, "encoder"),
    Fault("encoder: tokenizer cut", cut("encoder/tokenizer.json"), NEW, 69, "encoder"),
    Fault("encoder: lost", removed("encoder"), NEW, 69, "no model"),
    Fault(
        "encoder: of a hub, no network",
        replaced("job.toml", 'encoder = "encoder"', 'encoder = "no-such/model"'),
        NEW,
        69,
        "no-such/model",
    ),
    Fault(
        "encoder: brings code",
        all_of(
            json_changed(
                "encoder/config.json", lambda config: config.update(model_type="own", auto_map=OWN_CODE)
            ),
            written("encoder/own.py", "raise SystemExit(0)\n"),
        ),
        NEW,
        69,
        "auto_map",
    ),
)
