"""The main job on the sample web, as a new user runs it: seconds, memory, and how many of its answers are right."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from benchmarks.harness import arguments, finish, seconds
from indexing.given import fold
from pipelines import sample


def right_answers(run: Path) -> tuple[int, int]:
    """(questions whose best sentence is gold, questions that the web answers)."""
    source = Path(sample.__file__).with_name("questions.toml")
    asked = tomllib.loads(source.read_text(encoding="utf-8"))["questions"]
    gold = {q["id"]: {fold(g["sentence"]) for g in q["gold"]} for q in asked if q["gold"]}
    answers = [json.loads(line) for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    right = sum(fold(a["answer"] or "") in gold.get(a["question_id"], ()) for a in answers)
    return right, len(gold)


def main() -> None:
    given = arguments("sample", __doc__ or "", needs_data=False)
    taken: list[float] = []
    peak = 0.0
    right = answerable = 0
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            with seconds(taken):
                child = subprocess.Popen([sys.executable, "-m", "pipelines", "sample", "--out", folder], stdout=sys.stderr)
                _, status, used = os.wait4(child.pid, 0)
            if status:
                raise RuntimeError(f"answermill sample ended with status {status}")
            peak = max(peak, used.ru_maxrss / 1e6)
            right, answerable = right_answers(Path(folder) / "run")
    result: dict[str, float | int | str] = {
        "seconds": statistics.median(taken),
        "peak_gb": peak,
        "right": right,
        "answerable": answerable,
        "p1": right / answerable,
    }
    finish("sample", result, given.save)


if __name__ == "__main__":
    main()
