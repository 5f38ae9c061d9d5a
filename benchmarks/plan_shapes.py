"""How many sentences the default plan's cascade should read, and how many may leave at its exits: chosen on L-dev.

For each number of KEEPS that the stage `first` keeps, and each α of DROPS that leaves at every exit but the last, the plan's
weights are fitted anew, stage by stage, as `plan_weights` does, and judged held out in five folds. Nothing here reads L-test,
and no weights file of the project is written.

Keys: `p1_keep25_drop2` and `mrr_…`, in percent of the `questions` that have an answer in their list, of which a lost answer
counts 0; `left_…`, the percentage of them whose answer comes to the last blend; `layer_tokens_…`, of transformers, a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.chain import layer_tokens
from benchmarks.harness import arguments, finish, say, shrink, work_folder
from benchmarks.long_lists import LongList, read_lists, small_lists
from benchmarks.plan_weights import Fitting
from benchmarks.question_sets.memory import RememberedEncoder, remember
from benchmarks.smoke_data import small_plan
from pipelines.config.job_file import load
from pipelines.steps.job_plan import load_stages
from pipelines.steps.models import passage_encoder
from ranking.plan import run_stages
from schemas.atomic_files import write_text

SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/sample/job.toml"
KEEP, DROP = "keep = 25", "drop = [0.2]"
"""As the sample's job has them."""
KEEPS, DROPS = (25, 40, 60), (0.2, 0.3, 0.4)


def figures(keep: int, alpha: float, lists: Sequence[LongList], work: Path) -> dict[str, float]:
    """The keys of one shape."""
    name = f"keep{keep}_drop{round(10 * alpha)}"
    folder = work / "plan_shapes" / name
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    text = SAMPLE.read_text(encoding="utf-8")
    assert text.count(KEEP) == text.count(DROP) == 1, f"{SAMPLE} has another plan"
    write_text(folder / "job.toml", text.replace(KEEP, f"keep = {keep}").replace(DROP, f"drop = [{alpha}]"))
    job = load(folder / "job.toml")
    (last,) = [fits[-1] for key, fits in Fitting(job, lists, work).write(set()) if key == "last"]
    encoder = RememberedEncoder(passage_encoder(job), work)
    plan = remember(load_stages(job, lambda: encoder), work)
    layer_tokens(plan)
    run_stages([each.passages for each in lists], plan)
    left = last.questions / len(lists)
    p1, mrr = (100 * left * last.blend[metric].value for metric in ("P@1", "MRR"))
    spent = layer_tokens(plan) / len(lists)
    say(f"{name}: P@1 {p1:.2f}, MRR {mrr:.2f}, answers left for {100 * left:.2f} %, {spent:,.0f} layers × tokens a question")
    return {f"p1_{name}": p1, f"mrr_{name}": mrr, f"left_{name}": 100 * left, f"layer_tokens_{name}": spent}


def main() -> None:
    options = arguments("plan_shapes", __doc__ or "", paths={"work": "folder that keeps lists and scores; out/long_lists"})
    if options.smoke:
        small_lists()
        shrink(globals(), SAMPLE=small_plan(fitted=False), KEEPS=(4,), DROPS=(0.2,))
    torch.set_num_threads(1)
    result: dict[str, float | int | str] = {}
    with work_folder(options, "long_lists") as work:
        lists = [each for each in read_lists(options.data.resolve(), work, "dev") if each.gold]
        result["questions"] = len(lists)
        for keep in KEEPS:
            for alpha in DROPS:
                result |= figures(keep, alpha, lists, work)
    finish("plan_shapes", result, options.save)


if __name__ == "__main__":
    main()
