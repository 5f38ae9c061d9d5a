"""Gain of one more model in the default plan, on L-dev, where plans are chosen.

`default` is the sample's plan without `hashing`; `hashing` and `peasi`, in place, are the same with that
stage before its last blend, which then weighs one score more. The weights of all are fitted as `plan_weights`
fits them and judged held out in five folds. Nothing here reads L-test.

Keys: those of `plan_shapes`; the gains are over `default`. --hashing is a checkpoint in the shipped
one's place.
"""

from __future__ import annotations

import json

import torch

from experiments import plan_shapes
from experiments.long_lists import read_lists, small_lists
from experiments.plan_shapes import figures, fitted, judged
from testing.harness import arguments, finish, shrink, work_folder
from testing.smoke_data import small_checkpoint, small_plan

MEASURED_MODELS = ("cascade", "cosinet", "hashing", "peasi")
DECIDED = "The default plan leaves `hashing` and `peasi` out: neither is shown to add anything to it."
MODELS = ("hashing", "peasi")
CHECKPOINTS: dict[str, str] = {}
"""Model → its checkpoint, where that is not the shipped one."""
STAGE = "[[rerank.stages]]\n"


def without(text: str, reranker: str) -> str:
    """The job without the stage of this reranker."""
    return "".join(part for part in cut(text) if f'reranker = "{reranker}"' not in part)


def with_stage(text: str, reranker: str) -> str:
    """The job with a stage of this reranker before its last blend."""
    parts = cut(text)
    last = max(n for n, part in enumerate(parts) if 'reranker = "blend"' in part)
    checkpoint = f"checkpoint = {json.dumps(CHECKPOINTS[reranker])}\n" if reranker in CHECKPOINTS else ""
    return "".join([*parts[:last], f'{STAGE}reranker = "{reranker}"\n{checkpoint}\n', *parts[last:]])


def cut(text: str) -> list[str]:
    """Parts of a job's text: what precedes the stages, and each stage."""
    first, *stages = text.split(STAGE)
    return [first, *(STAGE + stage for stage in stages)]


def main() -> None:
    paths = {
        "work": "folder that keeps lists and scores; out/long_lists",
        "hashing": "checkpoint of HAS; the shipped one",
    }
    options = arguments("stages_in_plan", __doc__ or "", paths=paths)
    if options.smoke:
        small_lists()
        shrink(vars(plan_shapes), SAMPLE=small_plan(fitted=False))
        shrink(globals(), CHECKPOINTS={name: small_checkpoint(name) for name in MODELS})

    if options.hashing:
        CHECKPOINTS["hashing"] = str(options.hashing.resolve())
    torch.set_num_threads(1)
    text = without(plan_shapes.SAMPLE.read_text(encoding="utf-8"), "hashing")

    with work_folder(options, "long_lists") as work:
        lists = [ranked for ranked in read_lists(options.data.resolve(), work, "dev") if ranked.gold]
        result: dict[str, float | int | str] = {"questions": len(lists)}
        folder = work / "stages_in_plan"
        default = judged(fitted(text, folder / "default", lists, work), lists)
        result |= figures("default", default, default)
        for name in MODELS:
            longer = fitted(with_stage(text, name), folder / name, lists, work)
            result |= figures(name, judged(longer, lists), default)

    models = [name for name in MEASURED_MODELS if name not in CHECKPOINTS]
    finish("stages_in_plan", result, options.save, models)


if __name__ == "__main__":
    main()
