"""Bits flipped in every file of a run, one at a time: does `answermill verify` find each, and name the file?

The subject is a small run of all steps with annotation. `flips`: bits at drawn places of each file, including
its first and last bytes; `cuts`, `removals` and `additions`: files that lost their end, removed files and
folders, files that nothing names. `found` counts the flips, and `found_other` the rest, after which verify
ended with 65 and a line that names the file, or the folder of a manifest. `clean` is 1 if verify finds the
undisturbed run sound, before and after.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from answermill.pipelines.config.job_file import load
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.steps.chain import run_steps, steps_of
from benchmarks.fault_list.fault import Ended, Place, in_process
from testing import tiny_job
from testing.harness import arguments, finish, say
from testing.smoke_data import small_encoder

TAKES = "ten minutes"

PLACES = 6
"""Flips in a file, beside those of its first and its last byte."""
FOLDERS_WITH_MANIFEST = ("documents", "shards", "retrieved", "scored", "labels/windows")


def verified(place: Place) -> Ended:
    return in_process(place, ["verify", str(place.run)])


def is_named(ended: Ended, name: str) -> bool:
    """True if the command says that this file is wrong; for a missing manifest it names the folder."""
    names = (name, name.removesuffix(f"/{MANIFEST}"))
    return ended.code == 65 and any(f"wrong      {path} " in ended.out for path in names)


def flip(content: bytes, bit: int) -> bytes:
    return content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :]


def bits_of(content: bytes, drawn: int, dice: random.Random) -> list[int]:
    """Drawn bits of the file, and one each of its first and last byte."""
    size = 8 * len(content)
    ends = [dice.randrange(8), size - 1 - dice.randrange(8)]
    return sorted({*ends, *(dice.randrange(size) for _ in range(drawn))}) if size else []


def measure(place: Place, drawn: int, every: int = 1) -> dict[str, int]:
    """Harm each `every`-th file of the run in turn, and put it back."""
    dice = random.Random(7)
    clean = verified(place).code == 0
    counts = dict.fromkeys(("flips", "found", "cuts", "removals", "additions", "found_other"), 0)
    # Hidden files are for people who look on, and no manifest names them.
    paths = sorted(path for path in place.run.rglob("[!.]*") if path.is_file())

    def tried(kind: str, name: str) -> None:
        counts[kind] += 1
        is_there = is_named(ended := verified(place), name)
        counts["found" if kind == "flips" else "found_other"] += is_there
        if not is_there:
            say(f"{kind}: {name} is not found: {ended.code} {ended.message}")

    for path in paths[::every]:
        name, content = path.relative_to(place.run).as_posix(), path.read_bytes()
        for bit in bits_of(content, drawn, dice):
            path.write_bytes(flip(content, bit))
            tried("flips", name)
        path.write_bytes(content[: len(content) * 2 // 3])
        tried("cuts", name)
        path.unlink()
        tried("removals", name)
        path.write_bytes(content)

    for folder in FOLDERS_WITH_MANIFEST:
        stray = place.run / folder / "part-99999-00000000.parquet"
        stray.write_bytes(b"PAR1")
        tried("additions", stray.relative_to(place.run).as_posix())
        stray.unlink()
        (place.run / folder).rename(place.folder / "away")
        tried("removals", folder)
        (place.folder / "away").rename(place.run / folder)

    return {"files": len(paths[::every]), **counts, "clean": int(clean and verified(place).code == 0)}


def main() -> None:
    options = arguments("bitflips", __doc__ or "", needs_data=False)
    with tempfile.TemporaryDirectory() as folder:
        job = load(tiny_job.write(Path(folder).resolve() / "job", small_encoder()))
        place = Place(Path(folder).resolve())
        list(run_steps(job, place.run, steps_of(job), ()))
        result = measure(place, 1, every=30) if options.smoke else measure(place, PLACES)
    finish("bitflips", result, options.save)


if __name__ == "__main__":
    main()
