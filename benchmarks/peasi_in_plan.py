"""What PEASI in place adds to the default plan: on L-dev, where plans are chosen.

`default` is the sample's plan, `peasi` the same with the stage `peasi` before its last blend, which then weighs one score
more. The weights of both are fitted as `plan_weights` fits them and judged held out in five folds. Nothing here reads L-test.

Keys: as those of `plan_shapes`, whose first shape is `default` here.
"""

from __future__ import annotations

import json

import torch

from benchmarks import plan_shapes
from benchmarks.harness import arguments, finish, shrink, work_folder
from benchmarks.long_lists import read_lists, small_lists
from benchmarks.plan_shapes import figures, judged
from benchmarks.smoke_data import small_checkpoint, small_plan

STAGE = '[[rerank.stages]]\nreranker = "peasi"\n'
BLEND = '[[rerank.stages]]\nreranker = "blend"'


def with_peasi(text: str, stage: str) -> str:
    """The job with this stage before its last blend."""
    before, blend, last = text.rpartition(BLEND)
    assert blend, "the sample's plan ends with another stage"
    return f"{before}{stage}\n{blend}{last}"


def main() -> None:
    options = arguments("peasi_in_plan", __doc__ or "", paths={"work": "folder that keeps lists and scores; out/long_lists"})
    stage = STAGE
    if options.smoke:
        small_lists()
        shrink(vars(plan_shapes), SAMPLE=small_plan(fitted=False))
        stage += f"checkpoint = {json.dumps(small_checkpoint('peasi'))}\n"
    torch.set_num_threads(1)
    text = plan_shapes.SAMPLE.read_text(encoding="utf-8")
    with work_folder(options, "long_lists") as work:
        lists = [each for each in read_lists(options.data.resolve(), work, "dev") if each.gold]
        result: dict[str, float | int | str] = {"questions": len(lists)}
        default = judged(text, work / "peasi_in_plan/default", lists, work)
        result |= figures("default", default, default)
        result |= figures("peasi", judged(with_peasi(text, stage), work / "peasi_in_plan/peasi", lists, work), default)
    finish("peasi_in_plan", result, options.save)


if __name__ == "__main__":
    main()
