"""The main job on the sample web, as a new user runs it: seconds, memory, and the number of right answers.

`right` of the `answerable` questions have a correct sentence first, `p1` is their share, and `unjudged` is
the number of sentences without a label among the first ten of every question. `..._fast` and `..._full`: by
the sample's plans of these names, over the same retrieved passages. `judged` sentences have two readings by a
language model (`testing/judgements.py`), `judged_correct` of them are correct, and `kappa` is Cohen's.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import load
from answermill.pipelines.data import sample
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import run_stages
from answermill.schemas.ranked import ScoredCandidate
from testing.harness import arguments, finish, run_command, seconds
from testing.judgements import agreement, read_judgements
from testing.smoke_data import small_encoder
from tools.sample_web.build import PLACE, SHEET, SOURCES

MEASURED_MODELS = ("cascade", "cosinet", "peasi")
DEPTH = 10


@cache
def labels() -> dict[str, dict[str, bool]]:
    """Question id → folded sentence → True if it is correct; of all questions, as the sample ships them."""
    folder = Path(sample.__file__).parent
    asked = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    known: dict[str, dict[str, bool]] = {json.loads(line)["question_id"]: {} for line in asked}
    for line in (folder / "labels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        key, sentence, label = line.split("\t")
        known[key][fold(sentence)] = label == "1"
    return known


def gold() -> dict[str, set[str]]:
    """The correct sentences, folded, of each question that the web answers."""
    correct = {key: {text for text in judged if judged[text]} for key, judged in labels().items()}
    return {key: texts for key, texts in correct.items() if texts}


def right(best: Mapping[str, str]) -> int:
    """Number of questions whose best sentence is correct."""
    return sum(fold(best.get(key, "")) in correct for key, correct in gold().items())


def rows_by(run: Path, name: str) -> list[ScoredCandidate]:
    """What the sample's plan of this name makes of a run's retrieved/."""
    plan = load_plan(load(run.parent / sample.PLANS[name]))
    lists = list(ranked_lists(RETRIEVED.open(run).read()))
    return [row for outcome in run_stages(lists, plan) for row in outcome.rows()]


def answers(rows: Iterable[ScoredCandidate]) -> dict[str, str]:
    """Question id → best sentence."""
    return {row.question_id: row.text for row in rows if row.rank == 1}


def figures(rows: Sequence[ScoredCandidate], end: str) -> dict[str, float | int | str]:
    """Figures of a plan, whose keys end in `end`."""
    kept = [row for row in rows if row.rank is not None and row.rank <= DEPTH]
    count = right(answers(kept))
    missing = sum(fold(row.text) not in labels()[row.question_id] for row in kept)
    return {f"right{end}": count, f"p1{end}": count / len(gold()), f"unjudged{end}": missing}


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
    result: dict[str, float | int | str] = {}

    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            if options.smoke:
                write_small_job(Path(folder))
            with seconds(taken):
                peak = max(peak, run_command("sample", "--out", folder, inline=options.smoke))
            if len(taken) == options.rounds:
                run = Path(folder) / "run"
                result = figures(list(SCORED.open(run).read()), "")
                for name in ("fast", "full"):
                    result |= figures(rows_by(run, name), f"_{name}")

    judged = read_judgements(SOURCES / SHEET, PLACE)
    result |= {"seconds": statistics.median(taken), "peak_gb": peak, "answerable": len(gold())}
    result |= {"judged": len(judged), "judged_correct": sum(row.label for row in judged)}
    result["kappa"] = agreement(judged).value or 0.0
    finish("sample", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
