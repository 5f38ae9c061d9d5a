"""Faults put into a copy of the tree, one at a time: does the narrow test that should notice each of them
fail?

A fault names the text that it replaces, which must stand in exactly one module, and the test file that is
run. Before the first fault the same files must pass in the copy. `survived` names the faults that no test
noticed. --smoke runs no test: it only checks that each fault's text is still in exactly one module, and that
its test file is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from testing.harness import arguments, finish, say

TAKES = "five minutes"

ROOT = Path(__file__).parents[1]
MODULES = ("schemas", "files", "indexing", "ranking", "pipelines")
TREES = (*MODULES, "answermill", "tests")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "results")


class Fault(NamedTuple):
    """A fault, the text that it replaces, its own text, and the test file that should notice it."""

    name: str
    old: str
    new: str
    tests: str


FAULTS = (
    Fault(
        "ties_reversed",
        'order = np.argsort(-values, kind="stable")',
        "order = np.lexsort((-np.arange(len(values)), -values))",
        "ranking/test_reranker.py",
    ),
    Fault(
        "keep_off_by_one", "[: stage.keep]", "[: stage.keep and stage.keep + 1]", "ranking/test_reranker.py"
    ),
    Fault(
        "shard_checksum_skipped",
        "checksums and sha256(path) != file.sha256",
        "False",
        "indexing/shards/test_shard_files.py",
    ),
    Fault(
        "part_checksum_skipped",
        "wrong = wrong or damage_of(folder, part, checksums=True)",
        "wrong = wrong or damage_of(folder, part)",
        "pipelines/runs/test_parquet_folder.py",
    ),
    Fault(
        "k1_and_b_swapped",
        "scoring.k1, scoring.b, depth",
        "scoring.b, scoring.k1, depth",
        "indexing/shards/test_bm25.py",
    ),
    Fault("tombstones_counted", "self._size -= _size(self._gone)", "pass", "indexing/shards/test_bm25.py"),
    Fault("fold_removed", '" ".join(text.casefold().split())', "text", "indexing/passages/test_text.py"),
    Fault(
        "drop_one_more",
        "k * exact.numerator //",
        "1 + k * exact.numerator //",
        "ranking/rerankers/cascade/test_schedule.py",
    ),
    Fault(
        "report_ignored",
        "self.skips_reported and Reports",
        "False and Reports",
        "pipelines/engine/test_unit_work.py",
    ),
    Fault(
        "inputs_not_in_fingerprint",
        '"inputs": self.inputs,',
        '"inputs": {},',
        "pipelines/runs/test_commit.py",
    ),
    Fault(
        "softmax_without_mask", ".masked_fill(~filled, -torch.inf)", "", "ranking/training/test_passages.py"
    ),
    Fault(
        "window_of_others",
        "if run[1] > labelled]",
        "if run[1] >= labelled]",
        "indexing/labels/test_windows.py",
    ),
    Fault(
        "labels_of_all",
        "maximum.reduceat(self.label",
        "minimum.reduceat(self.label",
        "indexing/labels/test_propagation.py",
    ),
    Fault(
        "tau_not_squared", "tau**2 * soft_loss", "tau * soft_loss", "ranking/training/test_distillation.py"
    ),
    Fault(
        "ties_as_they_come",
        "/ self.size * self.places(cut)",
        "* (self.start < cut)",
        "ranking/evaluation/test_metrics.py",
    ),
)


def module_with(tree: Path, text: str) -> Path:
    """The module that has the text, once. Raises ValueError if there is none, or several."""
    modules = [path for name in MODULES for path in (tree / name).rglob("*.py")]
    places = [path for path in modules for _ in range(path.read_text(encoding="utf-8").count(text))]
    if len(places) != 1:
        where = ", ".join(str(path.relative_to(tree)) for path in places)
        raise ValueError(f"{text!r} is in {len(places)} places ({where}); mend benchmarks/mutations.py")
    return places[0]


def check_faults() -> None:
    """Raises ValueError if a fault's text is not in exactly one module, FileNotFoundError if its test file is
    not there."""
    for fault in FAULTS:
        module_with(ROOT, fault.old)
        (ROOT / "tests" / fault.tests).stat()


def passes(tree: Path, *tests: str) -> bool:
    """True if the test files pass. Raises RuntimeError with pytest's output if they neither pass nor fail."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-p",
        "no:cacheprovider",
        *(f"tests/{name}" for name in tests),
    ]

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)

    return done.returncode == 0


def main() -> None:
    options = arguments("mutations", __doc__ or "", needs_data=False)
    if options.smoke:
        check_faults()
        finish("mutations", {"mutations": len(FAULTS)}, save=False)
        return

    survived = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in TREES:
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=LEFT_OUT)
        shutil.copy(ROOT / "pyproject.toml", tree)
        modules = [module_with(tree, fault.old) for fault in FAULTS]
        if not passes(tree, *sorted({fault.tests for fault in FAULTS})):
            raise SystemExit("the tests fail without any fault")

        for fault, module in zip(FAULTS, modules, strict=True):
            sound = module.read_text(encoding="utf-8")
            module.write_text(sound.replace(fault.old, fault.new), encoding="utf-8")
            if passes(tree, fault.tests):
                survived.append(fault.name)
            module.write_text(sound, encoding="utf-8")
            say(
                f"{fault.name:<28} {'survived' if fault.name in survived else 'caught'}  "
                f"{module.relative_to(tree)}"
            )

    result: dict[str, float | int | str] = {
        "mutations": len(FAULTS),
        "caught": len(FAULTS) - len(survived),
        "survived": " ".join(survived),
    }
    finish("mutations", result, options.save)


if __name__ == "__main__":
    main()
