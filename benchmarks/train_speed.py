"""Training of a cross-encoder on the processor beside sentence-transformers' trainer: the same weights, pairs
and loss.

Drawn questions of WikiQA's training set, in two mixes: `alone`, sentences; `passage`, each between the two
before it and the two after it. In turns, an epoch each, from texts to changed weights, with AdamW, dropout
and binary cross-entropy: `trainer`, `CrossEncoderTrainer` with its defaults, 8 pairs a step; `trainer_best`,
in bf16 where the processor multiplies it, with the number of pairs a step that a trial finds fastest; `ours`,
steps as `answermill train` has them by default, of 2,000 tokens; `cascade`, the same with all five exits in
each step. The model is the shipped cascade to its last exit, 6 layers of 384.

`<mix>_<threads>_<way>_pairs_per_s`, threads `one` or `all`; `.._over_trainer` and `.._over_trainer_best`,
ours, and `.._cascade_over_ours`, its speed: medians of the rounds' ratios. `.._tokens_per_s`, of ours, and
`.._share_of_peak`, its products with the layers' weights, three times for loss and gradients, over what large
square matrices reach in the same precision.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from datasets import Dataset  # type: ignore[import-untyped]
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from transformers import PrinterCallback

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.entry import SHIPPED
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load
from answermill.ranking.rerankers.cascade.cross_encoder import export
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.transformer.devices import fast, native_precision, peak_flops
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.labels import LabelledCandidate
from benchmarks.cascade_speed import name_of, over, timed
from benchmarks.gpu_speed import RATE, layer_weights, stepped
from testing.harness import arguments, finish, installed, say, shrink
from testing.smoke_data import small_checkpoint

TAKES = "a quarter of an hour, on a quiet machine, beside pip install accelerate"
MEASURED_MODELS = ("cascade",)

CHECKPOINT = SHIPPED / "cascade"
SET, QUESTIONS = "wikiqa/wikiqa-train.parquet", 15
MIXES = {"alone": 0, "passage": 2}
"""Mix → sentences on each side of a candidate that it reads too."""
BATCHES, TRIAL = (8, 16, 32, 64), 5
"""Pairs a step to try, on TRIAL questions."""
ROWS, PRODUCTS = 2_048, 20
"""Of the square matrices that are multiplied for the peak."""

Lists = Sequence[Sequence[LabelledCandidate]]


def drawn(path: Path, mix: str) -> list[list[LabelledCandidate]]:
    """Answered questions of the set, always the same, with candidates as the mix has them."""
    answered = [rows for rows in by_question(read_dataset(path)) if any(row.label for row in rows)]
    chosen = np.random.default_rng(0).permutation(len(answered))[:QUESTIONS]
    reach = MIXES[mix]
    return [
        [
            replace(row, text=" ".join(other.text for other in rows[max(0, n - reach) : n + reach + 1]))
            for n, row in enumerate(rows)
        ]
        for rows in (answered[number] for number in sorted(chosen.tolist()))
    ]


class Ours:
    """A model that learns from texts."""

    def __init__(self, model: CascadeModel, tokeniser: Tokeniser, options: PairOptions) -> None:
        self._model, self._tokeniser, self._options = copy.deepcopy(model), tokeniser, options
        self._model.reading = replace(model.reading, context=("sentence",))

    def task(self, lists: Lists) -> PairTask:
        return PairTask(self._model, self._tokeniser, lists, lambda *_: None, self._options)

    def epoch(self, lists: Lists) -> None:
        task = self.task(lists)
        for _ in stepped(task, native_precision("cpu"), task.steps):
            pass


class Trainer:
    """The same model in sentence-transformers, by its own trainer."""

    def __init__(self, exported: Path, work: Path) -> None:
        self._work = work
        self._encoder: CrossEncoder = CrossEncoder(
            str(exported), device="cpu", local_files_only=True, trust_remote_code=False
        )

    def epoch(self, lists: Lists, pairs: int, bf16: bool) -> Callable[[], object]:
        """An epoch, ready to begin. `pairs`: of a step."""
        rows = [row for candidates in lists for row in candidates]
        columns = {
            "question": [row.question for row in rows],
            "sentence": [row.text for row in rows],
            "label": [float(row.label) for row in rows],
        }
        settings = CrossEncoderTrainingArguments(
            output_dir=str(self._work),
            num_train_epochs=1,
            per_device_train_batch_size=pairs,
            learning_rate=RATE,
            bf16=bf16,
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
        )
        trainer = CrossEncoderTrainer(
            model=self._encoder,
            args=settings,
            train_dataset=Dataset.from_dict(columns),
            loss=BinaryCrossEntropyLoss(self._encoder),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer.train

    def best(self, lists: Lists, bf16: bool) -> int:
        """The number of pairs a step at which it is fastest."""
        ways = {str(size): self.epoch(lists[:TRIAL], size, bf16) for size in BATCHES}
        taken = timed(ways, 2, says=False)
        return int(min(taken, key=lambda size: min(taken[size])))


def figures(
    key: str, model: CascadeModel, tokeniser: Tokeniser, trainer: Trainer | None, lists: Lists, rounds: int
) -> Iterator[tuple[str, float | int]]:
    """Figures of one mix, with the threads that are set."""
    runs: dict[str, Callable[[], object]] = {}
    if trainer is not None:
        bf16 = native_precision("cpu") == "bf16"
        best = trainer.best(lists, bf16)
        yield f"{key}_trainer_best_batch", best
        runs["trainer"] = trainer.epoch(lists, 8, False)
        runs["trainer_best"] = trainer.epoch(lists, best, bf16)

    whole = CascadeModel(model.encoder, model.exits[-1:])
    ours = Ours(whole, tokeniser, PairOptions())
    cascade = Ours(model, tokeniser, PairOptions(sampling="all"))
    runs |= {"ours": partial(ours.epoch, lists), "cascade": partial(cascade.epoch, lists)}
    taken = timed(runs, rounds)

    pairs, task = sum(map(len, lists)), ours.task(lists)
    for name, times in taken.items():
        yield f"{key}_{name}_pairs_per_s", pairs / statistics.median(times)
    for name in sorted(taken.keys() - {"ours", "cascade"}):
        yield f"{key}_over_{name}", over(taken[name], taken["ours"])
    yield f"{key}_cascade_over_ours", over(taken["ours"], taken["cascade"])

    tokens_per_s = task.tokens * task.steps / statistics.median(taken["ours"])
    peak = peak_flops("cpu", fast("cpu"), ROWS, PRODUCTS)
    yield f"{key}_tokens_per_s", tokens_per_s
    yield f"{key}_share_of_peak", 3 * 2 * layer_weights(whole) * tokens_per_s / peak


def main() -> None:
    options = arguments("train_speed", __doc__ or "")
    if options.smoke:
        shrink(globals(), QUESTIONS=2, MIXES={"alone": 0}, BATCHES=(4,), TRIAL=1, ROWS=64, PRODUCTS=2)
        shrink(globals(), CHECKPOINT=Path(small_checkpoint("cascade")))

    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # theirs and ours
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    cores = os.cpu_count() or 1
    result: dict[str, float | int | str] = {"cores": cores, "precision": name_of(fast("cpu"))}
    with tempfile.TemporaryDirectory() as folder:
        model, tokeniser = load(CHECKPOINT, "cascade", find_model)
        export(CHECKPOINT, Path(folder) / "exported", source=find_model)
        peer, _ = installed({"accelerate": lambda: __import__("accelerate")})
        trainer = Trainer(Path(folder) / "exported", Path(folder) / "trainer") if peer else None
        for mix in MIXES:
            lists = drawn(options.data / SET, mix)
            result["pairs"] = sum(map(len, lists))
            for threads, number in {"one": 1, "all": cores}.items():
                torch.set_num_threads(number)
                say(f"{mix}, {threads}")
                result |= figures(f"{mix}_{threads}", model, tokeniser, trainer, lists, options.rounds)
    finish("train_speed", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
