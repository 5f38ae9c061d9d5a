"""Damaged files, drawn at random, thrown at the command line: any documented exit code will do, a traceback
will not."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.fault_list.damage import interrupted, written
from benchmarks.fault_list.fault import Ended, Harm, Place, faults_of

VALUES = (
    "null",
    "true",
    "-1",
    "1e400",
    '""',
    '"\\u200b"',
    "[]",
    "{}",
    '{"a": [1]}',
    "[[[[]]]]",
    "9" * 400,
    '"' + "a" * 3_000 + '"',
)
VALUE = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')


class Target(NamedTuple):
    """A file of the small job's folder, and a command that reads it. `works`: the command may then write into
    the run."""

    file: str
    command: str
    works: bool = False


TRAINING = """[cascade]
encoder = "encoder"
exits = [1, 2]

[data]
name = "none"
licence = "none"
train = ["none.parquet"]
dev = ["none.parquet"]

[train]
epochs = 1
learning_rate = 5e-5
seed = 1
"""
REPORT = '{"unit": 0, "parts": {}, "counts": {"questions": 1}, "digests": {}}'
OWN_FILES: dict[str, Harm] = {
    "train.toml": written("train.toml", TRAINING),
    "run/_work/rerank-*/unit-00000.json": interrupted("rerank", "scored", REPORT),
}
"""File that the small job's folder does not have → harm that writes it."""

STATUS, RUN = "status RUN", "run JOB --out RUN"
TARGETS = (
    Target("job.toml", "run JOB --out RUN --redo no-step"),
    Target("train.toml", "train DIR/train.toml --out WORK/checkpoint"),
    Target("questions.jsonl", RUN),
    Target("labels.tsv", RUN),
    Target("labels.tsv", "evaluate RR --labels DIR/labels.tsv"),
    Target("labels.tsv", "evaluate RUN/scored --labels DIR/labels.tsv"),
    Target("run/scored/_manifest.json", STATUS),
    Target("run/shards/_manifest.json", STATUS),
    Target("run/shards/00000*/shard.json", STATUS),
    Target("run/labels/passages/part-*", "status RUN"),
    Target("run/labels/sentences/part-*", "evaluate RUN/scored --labels RUN/labels/sentences"),
    Target("run/scored/part-*", "evaluate RUN/scored --labels RUN/labels/sentences"),
    Target("run/inputs.json", RUN),
    Target("run/scored/_manifest.json", RUN, works=True),
    Target("run/documents/_manifest.json", RUN, works=True),
    Target("run/shards/00001*/shard.json", RUN, works=True),
    Target("run/_work/rerank-*/unit-00000.json", RUN, works=True),
)


def throw_one(sound: Place, folder: Path, target: Target, seed: int) -> tuple[Ended, set[str]]:
    """Damage a copy of the target's file below the empty folder, and type the command; returns its end and
    its mistakes.

    A mistake is tracebacks, or silent: exit code 0 with other rows in the run.
    """
    place = Place(folder)
    for path in sound.folder.iterdir():
        if path.name != "work" and not target.file.startswith(path.name):
            (place.folder / path.name).symlink_to(path)

    first = target.file.partition("/")[0]
    source = sound.folder / first
    if source.is_dir():
        shutil.copytree(source, place.folder / first)
    elif source.exists():
        shutil.copy2(source, place.folder / first)

    place.work.mkdir()
    if (own := OWN_FILES.get(target.file)) is not None:
        own(place)
    path = place.file(target.file)
    path.write_bytes(mutated(path.read_bytes(), random.Random(seed)))
    ended = place.call(target.command)
    wrong = faults_of(ended)
    if target.works and ended.code == 0 and place.rows() != sound.rows():
        wrong.add("silent")

    return ended, wrong


def throw(sound: Place, seconds: float, say: Callable[[str], object], first_seed: int = 0) -> dict[str, int]:
    """Throw files for so long; returns the numbers of all, of refused, and of wrong ends, with a line for
    each of the last."""
    until, counts = time.monotonic() + seconds, {"thrown": 0, "refused": 0, "tracebacks": 0, "silent": 0}
    seed = first_seed
    while time.monotonic() < until:
        target = TARGETS[seed % len(TARGETS)]
        with tempfile.TemporaryDirectory(prefix="answermill-fuzz-") as folder:
            ended, wrong = throw_one(sound, Path(folder), target, seed)
        counts["thrown"] += 1
        counts["refused"] += ended.code != 0
        for name in wrong & counts.keys():
            counts[name] += 1
            say(f"{name}: seed {seed}, {target.file}, {target.command}: {ended.code} {ended.message[:300]}")
        seed += 1

    return counts


def mutated(whole: bytes, random: random.Random) -> bytes:
    """Bytes with one to three changes: flipped bits, a piece cut, repeated or replaced, a value of another
    type."""
    for _ in range(random.randint(1, 3)):
        whole = random.choice((_flip, _cut, _repeat, _noise, _value, _value))(whole, random)
    return whole


def _piece(whole: bytes, random: random.Random) -> tuple[int, int]:
    first = random.randrange(len(whole) + 1)
    return first, min(len(whole), first + random.choice((1, 4, 60, 2_000)))


def _flip(whole: bytes, random: random.Random) -> bytes:
    place = random.randrange(max(1, len(whole)))
    return (
        whole[:place]
        + bytes(byte ^ (1 << random.randrange(8)) for byte in whole[place : place + 1])
        + whole[place + 1 :]
    )


def _cut(whole: bytes, random: random.Random) -> bytes:
    first, last = _piece(whole, random)
    return whole[:first] + (b"" if random.random() < 0.3 else whole[last:])


def _repeat(whole: bytes, random: random.Random) -> bytes:
    first, last = _piece(whole, random)
    return whole[:last] + whole[first:]


def _noise(whole: bytes, random: random.Random) -> bytes:
    first, last = _piece(whole, random)
    return whole[:first] + random.randbytes(last - first) + whole[last:]


def _value(whole: bytes, random: random.Random) -> bytes:
    places = list(VALUE.finditer(whole))
    if not places:
        return whole
    match = random.choice(places)
    return whole[: match.start()] + random.choice(VALUES).encode() + whole[match.end() :]
