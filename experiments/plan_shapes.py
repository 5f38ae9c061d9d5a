"""Shapes of the default plan: how many sentences its cascade reads, and how many leave at each exit,
with and without the stage `similarity`: chosen on L-dev.

For each shape the plan's weights are fitted again, stage by stage, as by `plan_weights`, and judged held out
in five folds. Nothing here reads L-test, and no weights file of the project is written.

The rule, set before the figures were seen: a shape takes the place of the one that ships if the 95 %
interval of its gain in MRR lies above 0, or if it is cheaper and the interval lies above -LOSS; of several
the cheapest does. The plan `fast` has the cheapest shape with `similarity` whose interval lies above
-FAST_LOSS, a rule set when those of 60, 40 and 25 sentences had been seen, and those of 15 had not.

Keys: `p1_keep25_drop2` and `mrr_…`, in percent of the `questions` that have an answer in their list, of which
a lost answer counts 0; `…_alone`, without `similarity`; `left_…`, the percentage of them whose answer
reaches the last blend; `layer_tokens_…`, layers × tokens of the cascade for a question, to which `similarity`
adds what it reads; `p1_gain_…` and `mrr_gain_…`, the difference to the shape that ships, with its 95 %
interval, and its p by paired randomisation; `chosen` and `fast`, the shapes by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch

from answermill.files.atomic_files import write_text
from answermill.pipelines.config.job_file import load
from answermill.ranking.evaluation.significance import compare
from answermill.schemas.arrays import Floats
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import ends
from experiments.plan_weights import Fitting
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = (
    "The default plan stays: no cheaper shape is shown to lose less than half a point of MRR. The plan "
    "`fast` reads 25 sentences, at two fifths of the cost, where L-dev shows no difference."
)
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
KEEP, DROP = "keep = 60", "drop = [0.2]"
"""Lines of the sample's job."""
KEEPS, DROPS = (60, 40, 25, 15), (0.2, 0.3)
"""Those of the plan that ships first."""
LOSS, FAST_LOSS = 0.5, 1.0
"""In MRR, percent."""
Result = dict[str, float]


def shaped(keep: int, alpha: float) -> str:
    """Text of the sample's job with another shape."""
    text = SAMPLE.read_text(encoding="utf-8")
    assert text.count(KEEP) == text.count(DROP) == 1, f"{SAMPLE} has another plan"
    return text.replace(KEEP, f"keep = {keep}").replace(DROP, f"drop = [{alpha}]")


@dataclass(frozen=True)
class Judged:
    """Figures of a plan of one shape, question by question [questions]."""

    p1: Floats
    mrr: Floats
    left: float
    layer_tokens: float


def fitted(job_text: str, folder: Path, lists: Sequence[LongList], work: Path) -> Fitting:
    """The plan of a job file's text, with its weights fitted. `folder`: folder for the job and its
    weights."""
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    write_text(folder / "job.toml", job_text)
    fitting = Fitting(load(folder / "job.toml"), lists, work)
    list(fitting.write(set()))
    return fitting


def judged(plan: Fitting, lists: Sequence[LongList], without: str | None = None) -> Judged:
    """Held-out figures of a plan. `without`: a score that its last blend does not weigh, as if the plan
    lacked that stage: one that keeps all candidates, and that no other stage reads."""
    number, stage, _ = list(plan.files())[-1]
    values = plan.held_out(number, stage, without)
    p1, mrr = (
        np.array([values[metric].get(question.asked.question_id, 0.0) for question in lists])
        for metric in ("P@1", "MRR")
    )
    return Judged(p1, mrr, len(values["MRR"]) / len(lists), plan.layer_tokens / len(lists))


def figures(name: str, plan: Judged, ships: Judged) -> Result:
    """Figures of one shape, and of its difference to the one that ships."""
    result: Result = {f"p1_{name}": 100 * float(plan.p1.mean()), f"mrr_{name}": 100 * float(plan.mrr.mean())}
    result |= {f"left_{name}": 100 * plan.left, f"layer_tokens_{name}": plan.layer_tokens}
    if plan is not ships:
        for metric, a, b in (("p1", ships.p1, plan.p1), ("mrr", ships.mrr, plan.mrr)):
            gain, key = compare(a, b), f"{metric}_gain_{name}"
            result |= {key: 100 * gain.difference, **ends(key, gain), f"{metric}_p_{name}": gain.p}
    say(", ".join(f"{key} {value:,.2f}" for key, value in result.items()))
    return result


def chosen(result: Mapping[str, float], names: Sequence[str]) -> str:
    """Name of the shape to ship, by the rule above; the first of `names` ships now.

    >>> cost = {"layer_tokens_a": 9.0, "layer_tokens_a_alone": 9.0, "layer_tokens_b": 5.0}
    >>> gain = {"mrr_gain_a_alone_low": -0.4, "mrr_gain_b_low": -0.9}
    >>> chosen(cost | gain, ["a", "a_alone", "b"])
    'a_alone'
    """
    ships, *others = names
    # What `similarity` reads breaks ties only.
    cost = {name: (result[f"layer_tokens_{name}"], not name.endswith("_alone")) for name in names}
    low = {name: result[f"mrr_gain_{name}_low"] for name in others}
    better = [name for name in others if low[name] > (-LOSS if cost[name] < cost[ships] else 0)]
    return min(better or [ships], key=cost.__getitem__)


def fast(result: Mapping[str, float], names: Sequence[str]) -> str:
    """Name of the shape of the plan `fast`, by the rule above; the first of `names` ships as the default.

    >>> cost = {"layer_tokens_a": 9.0, "layer_tokens_b": 5.0, "layer_tokens_c": 3.0}
    >>> fast(cost | {"mrr_gain_b_low": -0.9, "mrr_gain_c_low": -1.1}, ["a", "b", "c"])
    'b'
    """
    ships, *others = (name for name in names if not name.endswith("_alone"))
    near = [name for name in others if result[f"mrr_gain_{name}_low"] > -FAST_LOSS]
    return min([ships, *near], key=lambda name: result[f"layer_tokens_{name}"])


def main() -> None:
    options = arguments(
        "plan_shapes", __doc__ or "", paths={"work": "folder that keeps lists and scores; out/long_lists"}
    )
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=False), KEEPS=(4,), DROPS=(0.2,))

    torch.set_num_threads(1)
    plans: dict[str, Judged] = {}

    with work_folder(options, "long_lists") as work:
        lists = [question for question in read_lists(options.data.resolve(), work, "dev") if question.gold]
        for keep, alpha in product(KEEPS, DROPS):
            name = f"keep{keep}_drop{round(10 * alpha)}"
            fitting = fitted(shaped(keep, alpha), work / "plan_shapes" / name, lists, work)
            plans[name], plans[f"{name}_alone"] = judged(fitting, lists), judged(fitting, lists, "similarity")
            say(f"{name}: P@1 {100 * plans[name].p1.mean():.2f}, MRR {100 * plans[name].mrr.mean():.2f}")

    ships, *_ = plans.values()
    result: Result = {}
    for name, plan in plans.items():
        result |= figures(name, plan, ships)
    said: dict[str, float | int | str] = {
        "questions": len(lists),
        "chosen": chosen(result, [*plans]),
        "fast": fast(result, [*plans]),
    }
    finish("plan_shapes", said | result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
