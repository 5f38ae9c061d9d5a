"""Numbers of sentences that the default plan's cascade reads, and that leave at its exits: chosen on L-dev.

For each number of KEEPS that the stage `first` keeps, and each α of DROPS that leaves at every exit but the
last, the plan's weights are fitted again, stage by stage, as by `plan_weights`, and judged held out in five
folds. Nothing here reads L-test, and no weights file of the project is written.

Keys: `p1_keep25_drop2` and `mrr_…`, in percent of the `questions` that have an answer in their list, of which
a lost answer counts 0; `left_…`, the percentage of them whose answer reaches the last blend;
`layer_tokens_…`, layers × tokens of transformers for a question; `p1_gain_…` and `mrr_gain_…`, the difference
to the first shape, with its 95 % interval, and its p by paired randomisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from answermill.files.atomic_files import write_text
from answermill.pipelines.config.job_file import load
from answermill.ranking.evaluation.significance import compare
from answermill.schemas.arrays import Floats
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.plan_weights import Fitting
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = (
    "The default plan's cascade reads 60 sentences: in place of 25 they raise MRR by more than chance "
    "explains, and 100 cost more and gain no more."
)
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
KEEP, DROP = "keep = 60", "drop = [0.2]"
"""Lines of the sample's job."""
KEEPS, DROPS = (25, 60, 100), (0.2, 0.3)


@dataclass(frozen=True)
class Shape:
    """Figures of a plan with another KEEP and DROP, question by question [questions]."""

    p1: Floats
    mrr: Floats
    left: float
    layer_tokens: float


def shaped(keep: int, alpha: float) -> str:
    """Text of the sample's job with another shape."""
    text = SAMPLE.read_text(encoding="utf-8")
    assert text.count(KEEP) == text.count(DROP) == 1, f"{SAMPLE} has another plan"
    return text.replace(KEEP, f"keep = {keep}").replace(DROP, f"drop = [{alpha}]")


def judged(plan_text: str, folder: Path, lists: Sequence[LongList], work: Path) -> Shape:
    """Figures of the plan in a job file's text, with its weights fitted and held out. `folder`: folder for
    the job and its weights."""
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    write_text(folder / "job.toml", plan_text)
    job = load(folder / "job.toml")
    fitting = Fitting(job, lists, work)
    list(fitting.write(set()))
    number, stage, _ = list(fitting.files())[-1]
    values = fitting.held_out(number, stage)
    p1, mrr = (
        np.array([values[metric].get(question.asked.question_id, 0.0) for question in lists])
        for metric in ("P@1", "MRR")
    )
    return Shape(p1, mrr, len(values["MRR"]) / len(lists), fitting.layer_tokens / len(lists))


def figures(name: str, shape: Shape, first: Shape) -> dict[str, float]:
    """Figures of one shape, and of its difference to the first."""
    result = {f"p1_{name}": 100 * float(shape.p1.mean()), f"mrr_{name}": 100 * float(shape.mrr.mean())}
    result |= {f"left_{name}": 100 * shape.left, f"layer_tokens_{name}": shape.layer_tokens}
    if shape is not first:
        for metric, a, b in (("p1", first.p1, shape.p1), ("mrr", first.mrr, shape.mrr)):
            gain = compare(a, b)
            result |= {f"{metric}_gain_{name}": 100 * gain.difference, f"{metric}_p_{name}": gain.p}
            result |= {
                f"{metric}_gain_{name}_low": 100 * gain.low,
                f"{metric}_gain_{name}_high": 100 * gain.high,
            }
    say(", ".join(f"{key} {value:,.2f}" for key, value in result.items()))
    return result


def main() -> None:
    options = arguments(
        "plan_shapes", __doc__ or "", paths={"work": "folder that keeps lists and scores; out/long_lists"}
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=False), KEEPS=(4,), DROPS=(0.2,))

    torch.set_num_threads(1)
    result: dict[str, float | int | str] = {}

    with work_folder(options, "long_lists") as work:
        lists = [question for question in read_lists(options.data.resolve(), work, "dev") if question.gold]
        result["questions"] = len(lists)
        first: Shape | None = None
        for keep in KEEPS:
            for alpha in DROPS:
                name = f"keep{keep}_drop{round(10 * alpha)}"
                shape = judged(shaped(keep, alpha), work / "plan_shapes" / name, lists, work)
                first = first or shape
                result |= figures(name, shape, first)

    finish("plan_shapes", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
