"""The main job on the sample web, as a new user runs it: seconds, memory, and the number of right answers.

`..._full`: by the sample's full plan, with PEASI's two stages, over the same retrieved passages.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import load
from answermill.pipelines.data import sample
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import run_stages
from testing.harness import arguments, finish, run_command, seconds
from testing.smoke_data import small_encoder

MEASURED_MODELS = ("cascade", "cosinet", "peasi")


def gold() -> dict[str, set[str]]:
    """The correct sentences, folded, of each question that the web answers."""
    source = Path(__file__).parents[1] / "tools" / "sample_web" / "questions.toml"
    questions = tomllib.loads(source.read_text(encoding="utf-8"))["questions"]
    return {q["id"]: {fold(g["sentence"]) for g in q["gold"]} for q in questions if q["gold"]}


def right(best: Mapping[str, str]) -> int:
    """Number of questions whose best sentence is correct."""
    return sum(fold(best.get(key, "")) in correct for key, correct in gold().items())


def answers(run: Path) -> dict[str, str]:
    rows = (json.loads(line) for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["question_id"]: row["answer"] or "" for row in rows}


def answers_by(run: Path, name: str) -> dict[str, str]:
    """The best sentences that the sample's plan of this name finds in a run's retrieved/."""
    plan = load_plan(load(run.parent / sample.PLANS[name]))
    lists = list(ranked_lists(RETRIEVED.open(run).read()))
    kept = [outcome.kept for outcome in run_stages(lists, plan)]
    return {ranked.question.question_id: ranked.candidates[0].text for ranked in kept if ranked.candidates}


def write_small_job(folder: Path) -> None:
    """Write jobs for --smoke: two stages of `overlap`, few questions and passages. `answermill sample` leaves
    them alone."""
    from testing.tiny import ask_fewer

    text = sample.copy_to(folder).read_text(encoding="utf-8")
    ask_fewer(folder, every=15)
    before, _, stages = text.partition("[[rerank.stages]]")
    _, propagate, labels = stages.rpartition("[propagate]")
    stage = '[[rerank.stages]]\nreranker = "overlap"\nname = "{}"\n'
    index = f"[index]\nencoder = {json.dumps(small_encoder())}"
    small = (
        before.replace("[index]", index).replace("depth = 20", "depth = 2")
        + stage.format("first")
        + stage.format("peasi.pr")
        + propagate
        + labels
    )
    for name in sample.PLANS.values():
        (folder / name).write_text(small, encoding="utf-8")


def main() -> None:
    options = arguments("sample", __doc__ or "", needs_data=False)
    taken: list[float] = []
    peak = 0.0
    plans: list[dict[str, str]] = []

    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            if options.smoke:
                write_small_job(Path(folder))
            with seconds(taken):
                peak = max(peak, run_command("sample", "--out", folder, inline=options.smoke))
            run = Path(folder) / "run"
            plans = [answers(run), answers_by(run, "full")] if len(taken) == options.rounds else []

    result: dict[str, float | int | str] = {
        "seconds": statistics.median(taken),
        "peak_gb": peak,
        "answerable": len(gold()),
    }
    for name, best in zip(("", "_full"), plans, strict=True):
        result |= {f"right{name}": right(best), f"p1{name}": right(best) / len(gold())}
    finish("sample", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
