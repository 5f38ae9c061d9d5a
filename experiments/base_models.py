"""Models of the papers' size beside those of six layers: quality without adapting, cost, and speed.

`cascade_base`, 12 layers of 768 on all-mpnet-base-v2, and `cascade`, the default plan's, on the answerable
questions of WikiQA's test set and of some of SelQA's, drawn by hash: `<set>_<metric>` of the former's last
exit, `.._a2` where a fifth leaves at each exit before it, `.._exitN` cut behind layer N, and `.._default` of
the latter.

With --on sample, which --save writes to `base_models_sample.json`: `right_base` questions of the sample, of
`questions`, whose best answer by the plan `base` is right, over the passages that the default plan
retrieves, and `right_default` by the default plan; `cost_over_default`: seconds of the former's stages over
the latter's, on these lists, one thread.

With --on speed, in `base_models_speed.json`: tokens a second of all-mpnet-base-v2 by the packed encoder over
those of the padded one, which served it before and keeps a text's values apart from its batch too
(`packed_over_padded`), and over transformers' own forward pass in batches of 16 sorted texts, which does not
(`packed_over_transformers`); PAIRS of WikiQA, interleaved, one thread, in this machine's fast precision.

The adapted model is measured by `python -m experiments.adaptation --body base`, and the plan on L-dev by
`plan_weights`, keys `.._base`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from answermill.files.model_files import load_pretrained
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.job_file import load
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.entry import SHIPPED
from answermill.ranking.plan import run_stages
from answermill.ranking.transformer.devices import fast
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.padded import PaddedTransformer
from answermill.ranking.transformer.text_vectors import PackedTransformer
from answermill.schemas.arrays import Precision
from answermill.schemas.ranked import RankedList
from benchmarks.sample import gold, right
from experiments.exit_rows import at_exit, exit_scores, figures, row
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, run_command, say, shrink
from testing.smoke_data import small_checkpoint, small_encoder

TAKES = "half an hour, beside pip install answermill[base]"
MEASURED_MODELS = {
    "base_models": ("cascade_base", "cascade"),
    "base_models_sample": ("cascade_base", "cascade", "cosinet"),
    "base_models_speed": (),
}
RESULTS = {"sets": "base_models", "sample": "base_models_sample", "speed": "base_models_speed"}
"""Value of --on → its saved result."""
DECIDED = "Nothing: on test sets nothing is chosen."
BODY, BASE, DEFAULT_MODEL = "all-mpnet-base-v2", SHIPPED / "cascade_base", SHIPPED / "cascade"
QUESTIONS, PAIRS = {"wikiqa": 243, "selqa": 100}, 400
SETS = {"wikiqa": "wikiqa/wikiqa-test.parquet", "selqa": "selqa/selqa-test.parquet"}
PLANS = {"base": "base.toml", "default": "job.toml"}
PADDED_ROWS = 16


def quality(name: str, lists: Questions) -> dict[str, float]:
    """Figures of both models on a test set."""
    result = {f"{name}_questions": float(len(lists))}
    for model, folder in (("", BASE), ("_default", DEFAULT_MODEL)):
        table = exit_scores(folder, lists)
        rows = {"": row(table), "_a2": row(table, 0.2)}
        rows |= {f"_exit{layer}": row(at_exit(table, n)) for n, layer in enumerate(table.exits[:-1])}
        for end, values in rows.items():
            result |= {key.rstrip("_"): value for key, value in figures(name, f"{model}{end}"[1:], [values])}
        say(f"{name}{model}: MAP {100 * float(rows[''].values['map'].mean()):.2f}")
    return result


def on_sample(folder: Path, inline: bool) -> dict[str, float]:
    """Right answers of both plans over one retrieval, and the seconds of the one over the other's."""
    run_command("sample", "--out", folder, inline=inline)
    lists = list(ranked_lists(RETRIEVED.open(folder / "run").read()))
    result, seconds = {"questions": float(len(gold()))}, {}
    for name, file in PLANS.items():
        best, seconds[name] = best_answers(lists, folder / file)
        result[f"right_{name}"] = float(right(best))
        say(f"{name}: {result[f'right_{name}']:.0f} right, {seconds[name]:.0f} s")
    return result | {"cost_over_default": seconds["base"] / seconds["default"]}


def best_answers(lists: Sequence[RankedList], job: Path) -> tuple[dict[str, str], float]:
    """Question id → best answer by a job's plan, and the seconds of its stages."""
    plan = load_plan(load(job))
    began = time.perf_counter()
    kept = [outcome.kept for outcome in run_stages(lists, plan)]
    taken = time.perf_counter() - began
    return {r.question.question_id: r.candidates[0].text for r in kept if r.candidates}, taken


def speed(lists: Questions, rounds: int) -> dict[str, float]:
    """Medians over the rounds of the other ways' seconds over the packed encoder's."""
    folder = find_model(BODY)
    tuples = [(r.question, r.text) for rows in lists for r in rows][:PAIRS]
    precision: Precision = "bf16" if fast("cpu") == torch.bfloat16 else "fp32"
    packed = PackedTransformer(folder, 512, "cpu", precision)
    padded = PaddedTransformer(folder, 512, "cpu", precision)
    model = load_pretrained("AutoModel", folder, use_safetensors=True, dtype=fast("cpu")).eval()
    pairs = Tokeniser(folder, 512).pairs(tuples)
    order = np.argsort(-pairs.lengths, kind="stable")

    def run_transformers() -> None:
        with torch.inference_mode():
            for first in range(0, len(order), PADDED_ROWS):
                tokens = pairs.pack(order[first : first + PADDED_ROWS])
                texts, longest = len(tokens.lengths), int(tokens.lengths.max())
                ids, mask = (torch.full((texts * longest,), value) for value in (1, 0))
                places = tokens.places(longest)
                ids[places], mask[places] = tokens.ids, 1
                model(input_ids=ids.view(texts, -1), attention_mask=mask.view(texts, -1))

    over_padded, over_transformers = [], []
    for _ in range(rounds):
        seconds = took(lambda: packed.encode(tuples, "mean"))
        over_padded.append(took(lambda: padded.encode(tuples, "mean")) / seconds)
        over_transformers.append(took(run_transformers) / seconds)
    return {
        "packed_over_padded": statistics.median(over_padded),
        "packed_over_transformers": statistics.median(over_transformers),
    }


def took(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def on_sets(data: Path) -> dict[str, float]:
    """Figures of both models on the test sets."""
    result: dict[str, float] = {}
    for name, file in SETS.items():
        result |= quality(name, answered(data / file, QUESTIONS[name]))
    return result


def main() -> None:
    options = arguments("base_models", __doc__ or "", choices={"on": tuple(RESULTS)})
    if options.smoke:
        model = Path(small_checkpoint("cascade"))
        few = dict.fromkeys(QUESTIONS, 5)
        shrink(globals(), BASE=model, DEFAULT_MODEL=model, BODY=small_encoder(), QUESTIONS=few, PAIRS=20)
    torch.set_num_threads(1)

    if options.on == "sets":
        result = on_sets(options.data)
    elif options.on == "speed":
        result = speed(answered(options.data / SETS["wikiqa"]), options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = on_sample(Path(folder), inline=options.smoke)
    name = RESULTS[options.on]
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
