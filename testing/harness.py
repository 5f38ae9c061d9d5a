"""Command line of a benchmark or an experiment, the record of the machine, and the flat JSON object at the
end."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from answermill.pipelines.runs.manifests.environment import processor
from testing.command_peak import peak_bytes
from testing.smoke_data import small_data

_BEGAN = time.monotonic()
P = ParamSpec("P")
T = TypeVar("T")
ROOT = Path(__file__).parents[1]
RESULTS = "results"
"""The folder of saved results, beside the commands of a package."""


def arguments(
    name: str,
    description: str,
    needs_data: bool = True,
    paths: Mapping[str, str] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
    numbers: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
) -> argparse.Namespace:
    """--data (a folder of measuring data, which must exist if it is needed), --save, --rounds, --smoke,
    `paths`, `numbers` and `texts`, option → help, and `choices`, option → values, the default first. With
    --smoke, `data` is a token copy and `rounds` is 1. `places`, argument → help: folders that are given
    without a name, and that --smoke does without.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {_module(name)}", description=description)
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder of the measuring data"
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS}/{name}.json")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repetitions; medians are reported")
    parser.add_argument(
        "--smoke", action="store_true", help="only try that it runs: on token data; saves nothing"
    )

    for option, meaning in (paths or {}).items():
        parser.add_argument(f"--{option}", type=Path, help=meaning)
    for option, meaning in (numbers or {}).items():
        parser.add_argument(f"--{option}", type=float, help=meaning)
    for option, meaning in (texts or {}).items():
        parser.add_argument(f"--{option}", help=meaning)
    for argument, meaning in (places or {}).items():
        parser.add_argument(argument, type=Path, nargs="?", help=meaning)
    for option, values in (choices or {}).items():
        parser.add_argument(f"--{option}", choices=values, default=values[0], help=f"default {values[0]}")

    options = parser.parse_args()
    if needs_data and not options.data.is_dir():
        parser.error(f"no folder {options.data}; give the measuring data with --data")
    if not options.smoke and (missing := [place for place in places or {} if not getattr(options, place)]):
        parser.error(f"give {', '.join(missing)}")

    if options.smoke:
        if options.save:
            parser.error("--smoke measures nothing, so there is nothing to --save; leave one out")
        options.rounds = 1
        if needs_data:
            options.data = small_data(options.data.resolve())

    return options


def shrink(module: dict[str, Any], **constants: Any) -> None:
    """Give constants of a benchmark's module (its `globals()`) token values, for --smoke."""
    if vars(sys.modules[module["__name__"]]) is not module:
        raise RuntimeError(
            f"{module['__name__']} was imported anew; what is shrunk is its former module, which nobody runs"
        )
    if unknown := constants.keys() - module.keys():
        raise KeyError(f"{module['__name__']} has no {', '.join(sorted(unknown))}")
    module.update(constants)


@contextmanager
def work_folder(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """The folder --work, or out/NAME, which stays with the checkpoints in it; with --smoke a new one, which
    is removed."""
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    work: Path = (options.work or Path("out") / name).resolve()
    work.mkdir(parents=True, exist_ok=True)
    yield work


class Inline(Executor):
    """Runs each task at once in this process: for --smoke, where a process takes longer to start than its
    task."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(function(*args, **kwargs))
        return future


@contextmanager
def processes(number: int = 2, inline: bool = False) -> Iterator[Executor]:
    """Fresh processes, or none with `inline`. If the block fails, tasks that have not begun are cancelled."""
    if inline:
        yield Inline()
        return
    with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def print_results(waiting: Iterable[Future[str]]) -> None:
    """Print each result when it is there; the first failure is raised at once."""
    for future in as_completed(list(waiting)):
        say(future.result())


def trained_by(work: Path) -> str:
    """The commits that the checkpoints in the folders of `work` were trained by, as their cards name them."""
    cards = "".join(card.read_text(encoding="utf-8") for card in work.glob("*/README.md"))
    commits = re.findall(r"^A checkpoint of AnswerMill .*commit (\w+(?:, changed)?);", cards, re.MULTILINE)
    return " ".join(sorted({commit.replace(", changed", "+") for commit in commits}))


@contextmanager
def seconds(into: list[float]) -> Iterator[None]:
    """Append the wall time of the block."""
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def installed(loaders: Mapping[str, Callable[[], T]]) -> tuple[dict[str, T], list[str]]:
    """(name → result of its loader, for the libraries that are installed; the names of the others)."""
    loaded: dict[str, T] = {}
    missing = []
    for name, load in loaders.items():
        try:
            loaded[name] = load()
        except ImportError as e:
            say(f"{name} is not installed ({e}); it is left out")
            missing.append(name)
    return loaded, missing


def peak_gb() -> float:
    """Highest resident memory so far of this process or, if larger, of one of its children that have
    ended."""
    return peak_bytes() / 1e9


def run_command(*words: str | Path, inline: bool = False) -> float:
    """Run `answermill` with these words in a new process, or in this one with `inline`; its peak memory in
    GB.

    Raises RuntimeError if the command fails.
    """
    if inline:
        from answermill.__main__ import main

        with redirect_stdout(sys.stderr):
            status = _exit_status(lambda: main([str(word) for word in words]))
        peak = peak_gb()
    else:
        with tempfile.NamedTemporaryFile() as file:
            command = [sys.executable, "-m", "testing.command_peak", file.name, *map(str, words)]
            status = subprocess.run(command, check=False, stdout=sys.stderr).returncode
            peak = int(file.read() or 0) / 1e9

    if status:
        raise RuntimeError(f"answermill {' '.join(map(str, words))} ended with status {status}")

    return peak


def _exit_status(run: Callable[[], object]) -> object:
    try:
        run()
    except SystemExit as e:
        return e.code
    return 0


def finish(
    name: str, result: Mapping[str, float | int | str], save: bool, models: Collection[str] = ()
) -> None:
    """Print the result as one JSON object, the last line of the run.

    With `save` keep it beside the command, with command line, seconds, date, machine, revision, and the
    digests of `models`: the shipped checkpoints that were measured, which the module's MEASURED_MODELS names.
    """
    flat = {key: _short(value) if isinstance(value, float) else value for key, value in result.items()}

    if save:
        about: dict[str, int | str] = {
            "command": command(_module(name), sys.argv[1:]),
            "command_s": round(time.monotonic() - _BEGAN),
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "revision": revision(),
        }
        if models:
            # Late: what reads checkpoints needs packages that a lent card's machine may lack.
            from testing.measured_models import KEY, models_text

            about[KEY] = models_text(models)
        folder = ROOT / _module(name).partition(".")[0] / RESULTS
        (folder / f"{name}.json").write_text(json.dumps({**flat, **about}, indent=1) + "\n", encoding="utf-8")

    print(json.dumps(flat))


def _short(value: float) -> float:
    """The value with four decimals, or with two digits if it is small."""
    return round(value, 4) if abs(value) >= 0.001 else float(f"{value:.2g}")


def command(module: str, words: Sequence[str]) -> str:
    """The command line without the folders of data and of work, which differ between machines; other absolute
    paths are cut to their last part.

    >>> command("experiments.chain", ["--data", "/data", "--rounds", "5", "--work", "/work", "--save"])
    'python -m experiments.chain --rounds 5 --save'
    >>> command("experiments.base_cascade", ["--learnt", "/card/learnt", "--save"])
    'python -m experiments.base_cascade --learnt learnt --save'
    """
    kept = list(words)
    for option in ("--data", "--work"):
        if option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    kept = [Path(word).name if Path(word).is_absolute() else word for word in kept]
    return " ".join(["python", "-m", module, *kept])


def _module(name: str) -> str:
    """The module that runs: 'experiments.chain'; if a test calls it, that of the first package that has
    `name`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    packages = ("benchmarks", "experiments")
    if spec is not None and spec.name.startswith(tuple(f"{package}." for package in packages)):
        return str(spec.name)
    files = {f"{package}.{name}": ROOT / package / f"{name}.py" for package in packages}
    return next((module for module, file in files.items() if file.is_file()), name)


def machine() -> str:
    torch = sys.modules.get("torch")  # a run without it needs no card
    card = f", {torch.cuda.get_device_name()}" if torch is not None and torch.cuda.is_available() else ""
    return f"{os.cpu_count()} cores, {processor()}{card}, Python {platform.python_version()}"


def revision() -> str:
    """The commit, with '+' where the working tree differs from it (results and their page aside)."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode:
        return "unknown"
    paths = ["--", ":/", ":!/benchmarks/results", ":!/experiments/results", ":!/README.md"]
    changed = subprocess.run(
        [*git, "status", "--porcelain", *paths], capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def say(line: str) -> None:
    """Print progress on stderr: stdout is for the result."""
    print(line, file=sys.stderr, flush=True)
