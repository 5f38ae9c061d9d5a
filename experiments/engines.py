"""Cross-encoders on the processor beside the engines that a user could pick, in one run: pairs a second from
text to score, and what each engine's ranking loses.

Models: `minilm`, the shipped cascade to its last exit, 6 layers of 384; `mpnet`, the shipped cascade_base, 12
of 768, if its body is installed; `modernbert`, random weights of ModernBERT-base's shape, 22 of 768. Mixes of
`<model>_pairs` pairs of SQuAD-sent's test set: `alone`, sentences; `context`, a sentence between its
neighbours; `passage`, five sentences. Each engine scores the same pairs, on one thread and on all cores, at
the batch size that a trial finds fastest; rounds are interleaved, and ratios are medians of the rounds'
ratios.

Ours: `ours` is `pointwise` in the job's precision, `cascade` the same model at α = .3, `ours_int8` and
`cascade_int8` both with `precision = "int8"`, if it is exact on this processor. Peers: `torch_fp32` and
`torch_bf16`, sentence-transformers' `CrossEncoder.predict`; `onnx_fp32` and `onnx_int8`; `openvino_fp32`,
`openvino_bf16` and `openvino_int8` (`experiments/engine_peers.py`). bf16 is for processors that multiply it:
there --save writes `engines_bf16.json`, with AMX `engines_amx.json`, and `ours` is in bf16 too. Without
minilm the file's name ends with `_base`, of modernbert alone with `_modernbert`.

`<model>_<mix>_<threads>_<engine>_pairs_per_s`, threads `one` or `all`; `.._best_peer`, the fastest, and
`.._best_whole_peer`, the fastest that is not int8; `.._over_best_peer`, `.._over_best_whole_peer` and
`.._cascade_over_best_peer`, `.._int8_over_…`, `.._cascade_int8_over_…`. `best_peer`,
`best_peer_pairs_per_s`, `monolithic_over_best_peer` and `cascade_over_best_peer` repeat minilm's, alone, on
one thread. `<model>_map_<engine>`: MAP of WikiQA's test set, QUALITY questions drawn by hash, sentences
alone, in percent; `.._map_loss_<engine>`: that of torch_fp32 less the engine's, with its 95 % interval
(`_low`, `_high`).
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import transformers

from answermill.files.model_files import ModelMissing
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.entry import SHIPPED
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load, save
from answermill.ranking.rerankers.cascade.cross_encoder import export
from answermill.ranking.transformer.devices import fast
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Rotary, Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.arrays import Floats
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import Candidate, RankedList
from benchmarks.cascade_speed import SET, Ours, lists_of, name_of, over, scores, timed
from experiments.engine_peers import Pairs, Peer, peers
from experiments.exit_rows import values
from experiments.question_sets.learnable import Questions, answered, some_of
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_checkpoint

TAKES = "an hour, on a quiet machine, beside pip install onnx openvino nncf"
MEASURED_MODELS = {
    "engines": ("cascade", "cascade_base"),
    "engines_base": ("cascade_base",),
    "engines_bf16": ("cascade", "cascade_base"),
    "engines_bf16_base": ("cascade_base",),
    "engines_amx": ("cascade", "cascade_base"),
    "engines_amx_base": ("cascade_base",),
    "engines_modernbert": (),
    "engines_bf16_modernbert": (),
    "engines_amx_modernbert": (),
}
DECIDED = (
    "No other engine serves: in float32 none is faster by more than a tenth on one thread. On processors "
    "with VNNI, with AMX at base size alone, OpenVINO's int8 is the fastest without a cascade: ranges of "
    "layers on it are next."
)

CANDIDATES = 32
QUESTIONS = {"minilm": 4, "mpnet": 1, "modernbert": 1}
MIXES = ("alone", "context", "passage")
BATCHES, TRIAL = (4, 16, 32, 64), {"minilm": 48, "mpnet": 16, "modernbert": 16}
"""Batch sizes to try, and the pairs on which they are tried; none is greater than their number."""
CALIBRATION = 200
QUALITY = {"minilm": 243, "mpnet": 60}
MODERNBERT = Shape(
    layers=22,
    width=768,
    heads=12,
    inner=1152,
    vocabulary=50_368,
    family="modernbert",
    types=0,
    epsilon=1e-5,
    rotary=Rotary(160_000.0, 10_000.0, 64, 3),
)
MODELS = {"minilm": SHIPPED / "cascade", "mpnet": SHIPPED / "cascade_base", "modernbert": None}


class Measured(NamedTuple):
    """A model as ours, and the folder of its export."""

    model: CascadeModel
    tokeniser: Tokeniser
    exported: Path


def model_of(name: str, folder: Path) -> Measured:
    """Load a model, or draw it, and export it. Raises ModelMissing if its body is not installed."""
    checkpoint = MODELS[name]
    if checkpoint is None:
        torch.manual_seed(0)
        model, tokeniser = CascadeModel(LayeredEncoder(MODERNBERT), (4, 22)), Tokeniser(find_model(DEFAULT))
        checkpoint = folder / "checkpoint"
        save(checkpoint, "cascade", model, tokeniser)
    model, tokeniser = load(checkpoint, "cascade", find_model)
    export(checkpoint, folder / "exported", source=find_model)
    return Measured(model, tokeniser, folder / "exported")


def mixed(lists: Sequence[RankedList], mix: str) -> list[RankedList]:
    """The lists with longer candidates: `context` puts a sentence between the two beside it in the list,
    `passage` joins five."""
    reach = {"alone": 0, "context": 1, "passage": 2}[mix]

    def longer(candidates: Sequence[Candidate], n: int) -> Candidate:
        around, sentence = candidates[max(0, n - reach) : n + reach + 1], candidates[n].sentence
        assert sentence is not None
        text = " ".join(other.text for other in around)
        return replace(candidates[n], sentence=replace(sentence, text=text))

    return [
        RankedList(
            ranked.question, tuple(longer(ranked.candidates, n) for n in range(len(ranked.candidates)))
        )
        for ranked in lists
    ]


def pairs_of(lists: Sequence[RankedList]) -> list[tuple[str, str]]:
    return [(ranked.question.text, candidate.text) for ranked in lists for candidate in ranked.candidates]


def best_batch(peer: Peer, pairs: Pairs, trial: int) -> int:
    """The batch size at which a peer is fastest on some of the pairs, about `trial`."""
    part = list(pairs[:: max(1, len(pairs) // trial)])
    runs = {str(size): partial(peer, part, size) for size in BATCHES if size <= len(part)}
    taken = timed(runs, 2, says=False)
    return int(min(taken, key=lambda size: min(taken[size])))


def speeds(
    key: str,
    ours: Mapping[str, Ours],
    ways: Mapping[str, Peer],
    lists: Sequence[RankedList],
    trial: int,
    rounds: int,
) -> Iterator[tuple[str, float | int | str]]:
    """Figures of one model on one mix, with the threads that are set. `ours`: by the ends of their names;
    `trial`: pairs on which each peer's batch size is tried."""
    pairs = pairs_of(lists)
    sizes = {name: best_batch(peer, pairs, trial) for name, peer in ways.items()}
    runs: dict[str, Callable[[], object]] = {
        name: partial(peer, pairs, sizes[name]) for name, peer in ways.items()
    }
    for end, form in ours.items():
        own = form.runs(lists)
        runs |= {f"ours{end}": own["monolithic"], f"cascade{end}": own["cascade"]}
    taken = timed(runs, rounds)

    for name, times in taken.items():
        yield f"{key}_{name}_pairs_per_s", len(pairs) / statistics.median(times)
    for name, size in sizes.items():
        yield f"{key}_{name}_batch", size
    kinds = {"best_peer": list(ways), "best_whole_peer": [name for name in ways if "int8" not in name]}
    for kind, names in kinds.items():
        best = min(names, key=lambda name: statistics.median(taken[name]))
        yield f"{key}_{kind}", best
        for end in ours:
            yield f"{key}{end}_over_{kind}", over(taken[best], taken[f"ours{end}"])
            yield f"{key}_cascade{end}_over_{kind}", over(taken[best], taken[f"cascade{end}"])


def ranked_of(lists: Questions) -> list[RankedList]:
    return [ranked_list(rows) for rows in lists]


def average_precision(lists: Questions, scored: Floats) -> Floats:
    """[questions], in percent; `scored` are the candidates' scores, a question's one after the other."""
    question = np.repeat(np.arange(len(lists)), [len(rows) for rows in lists])
    label = np.array([row.label for rows in lists for row in rows])
    return 100 * values(question, label, scored)["map"]


def quality(
    key: str, ours: Mapping[str, Ours], ways: Mapping[str, Peer], lists: Questions
) -> Iterator[tuple[str, float | int | str]]:
    """MAP of each engine, and what it loses to sentence-transformers in fp32, with its interval."""
    ranked = ranked_of(lists)
    pairs = pairs_of(ranked)
    measured = {name: average_precision(lists, peer(pairs, 32)) for name, peer in ways.items()}
    for end, form in ours.items():
        scored = np.concatenate(scores(form.pointwise.rerank(ranked), ranked))
        measured[f"ours{end}"] = average_precision(lists, scored)
    for name, of_questions in measured.items():
        yield f"{key}_map_{name}", float(of_questions.mean())
        lost = compare(of_questions, measured["torch_fp32"])
        yield f"{key}_map_loss_{name}", lost.difference
        yield f"{key}_map_loss_{name}_low", lost.low
        yield f"{key}_map_loss_{name}_high", lost.high


def figures(name: str, data: Path, folder: Path, rounds: int) -> Iterator[tuple[str, float | int | str]]:
    """All figures of one model."""
    measured = model_of(name, folder)
    ours = {"": Ours.of(measured.model, measured.tokeniser)}
    try:
        ours["_int8"] = Ours.of(measured.model, measured.tokeniser, "int8")
    except ValueError as e:
        say(f"{name}: int8 is left out: {e}")
    lists = lists_of(data / SET, QUESTIONS[name], CANDIDATES)
    learnt = answered(data / "wikiqa/wikiqa-train.parquet")
    calibration = pairs_of(ranked_of(some_of(learnt, CALIBRATION // 5)))[:CALIBRATION]

    for threads, number in {"one": 1, "all": os.cpu_count() or 1}.items():
        torch.set_num_threads(number)
        ways = peers(measured.exported, folder, calibration, number)
        for mix in MIXES:
            say(f"{name}, {mix}, {threads}")
            key = f"{name}_{mix}_{threads}"
            yield f"{name}_pairs", sum(len(ranked.candidates) for ranked in lists)
            yield from speeds(key, ours, ways, mixed(lists, mix), TRIAL[name], rounds)
        if threads == "one" and name in QUALITY:
            test: list[list[LabelledCandidate]] = answered(data / "wikiqa/wikiqa-test.parquet")
            yield from quality(name, ours, ways, some_of(test, min(len(test), QUALITY[name])))


def results_file(precision: torch.dtype, can: Mapping[str, object], names: Sequence[str]) -> str:
    """Name of the file that --save writes, by what the processor multiplies and the models.

    >>> results_file(torch.bfloat16, {"avx512_bf16": True, "amx_bf16": True}, ["mpnet"])
    'engines_amx_base'
    """
    kind = "" if precision is torch.float32 else "_amx" if can.get("amx_bf16") else "_bf16"
    models = "" if "minilm" in names else "_base" if "mpnet" in names else "_modernbert"
    return f"engines{kind}{models}"


def main() -> None:
    options = arguments("engines", __doc__ or "", texts={"models": "those to measure, with commas between"})
    if options.smoke:
        shrink(globals(), CANDIDATES=4, MIXES=("alone",), BATCHES=(4,), CALIBRATION=5)
        shrink(globals(), MODELS={"minilm": Path(small_checkpoint("cascade"))})
        shrink(globals(), QUESTIONS={"minilm": 1}, TRIAL={"minilm": 4}, QUALITY={"minilm": 3})

    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # theirs and ours
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = options.models.split(",") if options.models else list(MODELS)
    result: dict[str, float | int | str] = {
        "cores": os.cpu_count() or 1,
        "precision": name_of(fast("cpu")),
    }
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                result |= dict(figures(name, options.data, Path(folder), options.rounds))
            except ModelMissing as e:
                say(f"{name} is left out: {e}")

    first = "minilm_alone_one"
    if (best := result.get(f"{first}_best_peer")) is not None:
        result |= {
            "best_peer": best,
            "best_peer_pairs_per_s": result[f"{first}_{best}_pairs_per_s"],
            "monolithic_over_best_peer": result[f"{first}_over_best_peer"],
            "cascade_over_best_peer": result[f"{first}_cascade_over_best_peer"],
        }
    name = results_file(fast("cpu"), torch.cpu.get_capabilities(), names)
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
