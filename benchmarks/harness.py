"""What every benchmark does the same way: its command line, the machine, and the flat JSON object at its end."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

RESULTS = Path(__file__).with_name("results")


def arguments(
    name: str,
    what: str,
    needs_data: bool = True,
    paths: Mapping[str, str] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> argparse.Namespace:
    """--data (a folder of measuring data; must be there where it is needed), --save, --rounds, `paths`, option → help, and
    `choices`, option → values, the default first.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=what)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the measuring data")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}/{name}.json")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repetitions; medians are reported")
    for option, meaning in (paths or {}).items():
        parser.add_argument(f"--{option}", type=Path, help=meaning)
    for option, values in (choices or {}).items():
        parser.add_argument(f"--{option}", choices=values, default=values[0], help=f"default {values[0]}")
    given = parser.parse_args()
    if needs_data and not given.data.is_dir():
        parser.error(f"no folder {given.data}; give the measuring data with --data")
    return given


@contextmanager
def processes(number: int = 2) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes. Where the block fails, what none of them has begun is not begun."""
    with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def tell(waiting: Iterable[Future[str]]) -> None:
    """Say each result as it comes; the first failure is raised at once."""
    for done in as_completed(list(waiting)):
        say(done.result())


def trained_by(work: Path) -> str:
    """The commits that the checkpoints in the folders of `work` were trained by, as their cards name them."""
    cards = "".join(card.read_text(encoding="utf-8") for card in work.glob("*/README.md"))
    found = re.findall(r"^A checkpoint of AnswerMill .*commit (\w+(?:, changed)?);", cards, re.MULTILINE)
    return " ".join(sorted({commit.replace(", changed", "+") for commit in found}))


@contextmanager
def seconds(into: list[float]) -> Iterator[None]:
    """Append the wall time of the block."""
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def peak_gb() -> float:
    """Highest resident memory so far of this process or, if larger, of one of its children."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6


def finish(name: str, result: Mapping[str, float | int | str], save: bool) -> None:
    """Print the result as one JSON object, the last line of the run; with `save` keep it with date, machine and revision."""
    flat = {key: _short(value) if isinstance(value, float) else value for key, value in result.items()}
    if save:
        about = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "revision": revision()}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps({**flat, **about}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(flat))


def _short(value: float) -> float:
    """Four decimals; of what is small two digits."""
    return round(value, 4) if abs(value) >= 0.001 else float(f"{value:.2g}")


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    return f"{os.cpu_count()} cores, {model or platform.machine()}, Python {platform.python_version()}"


def revision() -> str:
    """The commit, with '+' where the working tree differs from it (results and their page aside)."""
    command = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*command, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown"
    paths = ["--", ":/", ":!/benchmarks/results", ":!/README.md"]
    changed = subprocess.run([*command, "status", "--porcelain", *paths], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def say(line: str) -> None:
    """Progress, on stderr: stdout is for the result."""
    print(line, file=sys.stderr, flush=True)
