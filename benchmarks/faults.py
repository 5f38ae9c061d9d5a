"""Faults that users meet, one at a time: does each end in its documented exit code, with a message that
helps, and no row lost?

Each fault of `fault_list/` damages a copy of a small complete run or of its inputs; then a command is typed.
Counts:

- `silent`: the command ended with 0, and rows are lost or changed, or it does not say what it must;
- `tracebacks`: it ended with a traceback, or with an exit code that is not documented, or with 70;
- `wrong_code`: it ended with another exit code than the one documented for the fault;
- `unclear`: its message lacks what it must have;
- `loops`: following the message does not end in a complete run with the right rows.

--fuzz draws damaged files for that time instead. --smoke tries a few of the fast faults.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from concurrent.futures import as_completed
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # what a machine without a network has
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.fault_list import (
    advice,
    coded_index,
    commands,
    fuzz,
    machine,
    models,
    nights,
    run_folder,
    starts,
    stops,
    tables,
)
from benchmarks.fault_list.fault import Ended, Fault, Place, sound_place, try_fault
from benchmarks.fault_list.inputs import files, rows, shown_pages, web_pages, web_servers
from testing.harness import arguments, finish, processes, say

TAKES = "half an hour; [--only NAME]; [--fuzz MINUTES]"

INPUTS = (files, web_pages, shown_pages, rows, web_servers)
COMMANDS = (commands, advice, nights, starts)
LISTS = (models, run_folder, coded_index, *INPUTS, tables, *COMMANDS, machine, stops)
FAULTS: tuple[Fault, ...] = tuple(fault for module in LISTS for fault in module.FAULTS)
COUNTS = ("silent", "tracebacks", "wrong_code", "unclear", "loops")
FAST = (
    "missing file: status",
    "missing file: evaluate",
    "question: a list",
    "question: deep JSON",
    "questions: CSV",
    "no TOML",
)


def try_numbered(n: int, sound: Path) -> tuple[str, Ended, set[str]]:
    """(fault's name, end of its command, counts of its mistakes); `sound` is the folder of the undisturbed
    run."""
    return (FAULTS[n].name, *try_fault(FAULTS[n], Place(sound)))


def main() -> None:
    options = arguments(
        "faults",
        __doc__ or "",
        needs_data=False,
        numbers={
            "fuzz": "minutes of damaged files, instead of the list",
            "processes": "how many faults at once; default 4",
        },
        paths={"only": "try only the faults with this in their name; saves nothing"},
    )

    names = [fault.name for fault in FAULTS]
    if len(names) != len(set(names)):
        raise ValueError(f"two faults have one name: {[name for name, n in Counter(names).items() if n > 1]}")

    with tempfile.TemporaryDirectory(prefix="answermill-faults-") as folder:
        (Path(folder) / "sound").mkdir()
        sound = sound_place(Path(folder) / "sound")
        if options.fuzz is not None:
            finish("faults", fuzz.throw(sound, 60 * options.fuzz, say), save=False)
            return

        chosen = [n for n, fault in enumerate(FAULTS) if not options.smoke or fault.name in FAST]
        if options.only is not None:
            chosen = [n for n in chosen if str(options.only) in FAULTS[n].name]
        counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))

        with processes(int(options.processes or 4), inline=options.smoke) as pool:
            for task in as_completed([pool.submit(try_numbered, n, sound.folder) for n in chosen]):
                name, ended, wrong = task.result()
                counts.update(wrong)
                say(f"{name:<44} {ended.code:>3}  {' '.join(sorted(wrong)) or 'ok'}  {ended.message[:200]}")

        finish("faults", {"tried": len(chosen), **counts}, options.save and options.only is None)


if __name__ == "__main__":
    main()
