"""The main job on the sample web, as a new user runs it: seconds, memory, and how many of its answers are right.

`..._without_peasi`: with both of PEASI's stages left out of the plan.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import arguments, finish, seconds
from indexing.passages.text import fold
from pipelines import sample
from pipelines.config.job_file import load
from pipelines.execution.parquet_folder import Folder
from pipelines.steps.rerank import load_plan, ranked_lists
from ranking.plan import run_stages
from schemas.ranked import Hit


def gold() -> dict[str, set[str]]:
    """The correct sentences, folded, of each question that the web answers."""
    source = Path(sample.__file__).with_name("questions.toml")
    asked = tomllib.loads(source.read_text(encoding="utf-8"))["questions"]
    return {q["id"]: {fold(g["sentence"]) for g in q["gold"]} for q in asked if q["gold"]}


def right(best: Mapping[str, str]) -> int:
    """How many questions' best sentence is correct."""
    return sum(fold(best.get(key, "")) in correct for key, correct in gold().items())


def answers(run: Path) -> dict[str, str]:
    rows = (json.loads(line) for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["question_id"]: row["answer"] or "" for row in rows}


def without_peasi(run: Path) -> dict[str, str]:
    """The best sentences that the plan finds if both of PEASI's stages are left out."""
    plan = [stage for stage in load_plan(load(run.parent / "job.toml")) if not stage.name.startswith("peasi.")]
    lists = list(ranked_lists(Folder.open(run / "retrieved", Hit, "retrieve").read()))
    kept = [outcome.kept for outcome in run_stages(lists, plan)]
    return {ranked.question.question_id: ranked.candidates[0].text for ranked in kept if ranked.candidates}


def main() -> None:
    options = arguments("sample", __doc__ or "", needs_data=False, smoke=False)
    taken: list[float] = []
    peak = 0.0
    found: list[dict[str, str]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            with seconds(taken):
                child = subprocess.Popen([sys.executable, "-m", "pipelines", "sample", "--out", folder], stdout=sys.stderr)
                _, status, used = os.wait4(child.pid, 0)
            if status:
                raise RuntimeError(f"answermill sample ended with status {status}")
            peak = max(peak, used.ru_maxrss / 1e6)
            run = Path(folder) / "run"
            found = [answers(run), without_peasi(run)] if len(taken) == options.rounds else []
    result: dict[str, float | int | str] = {
        "seconds": statistics.median(taken),
        "peak_gb": peak,
        "answerable": len(gold()),
    }
    for name, best in zip(("", "_without_peasi"), found, strict=True):
        result |= {f"right{name}": right(best), f"p1{name}": right(best) / len(gold())}
    finish("sample", result, options.save)


if __name__ == "__main__":
    main()
