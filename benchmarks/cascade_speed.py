"""The cross-encoder's speed beside sentence-transformers', and the cascade's beside its theory: one thread,
the same weights.

32 questions of SQuAD-sent's test set in flight, each with 100 candidates: its own sentences, filled up with
others'. In turns, from text to scores: (a) `CrossEncoder.predict` with its defaults on the exported model;
(b) at its best: weights in bfloat16 where the processor multiplies it natively, the head computed in float32,
and the batch size that a trial finds fastest (`predict` sorts by length on its own); (c) `pointwise`; (d)
`cascade` at α = .3. Times are medians over the rounds; a ratio is the median of the rounds' ratios.
`kendall_tau` and `top1_agreement` hold (a)'s order of a question's candidates against (c)'s.

`cascade_share_of_theory` is (c)'s time over (d)'s, relative to layers × candidates; `.._of_token_theory` to
layers × tokens, which knows that those that stay may be longer or shorter. `roberta_` is the same with
RoBERTa-base's shapes (12 × 768, exits at 4, 6, 8, 10, 12), random weights, the same tokenizer, and fewer and
shorter lists.

The weights are the shipped cascade's, or another's with --checkpoint.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import transformers
from sentence_transformers import CrossEncoder

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load, save
from answermill.ranking.rerankers.cascade.cross_encoder import export
from answermill.ranking.rerankers.cascade.pointwise import Pointwise
from answermill.ranking.rerankers.cascade.schedule import relative_cost
from answermill.ranking.transformer.devices import fast
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.arrays import StagePrecision
from answermill.schemas.ranked import RankedList
from testing.harness import arguments, finish, peak_gb, say, seconds, shrink
from testing.smoke_data import small_checkpoint

TAKES = "[--checkpoint FOLDER], on a quiet machine"
MEASURED_MODELS = ("cascade",)

SET = "squad/squad-sent-test.parquet"
QUESTIONS, CANDIDATES = 32, 100
ALPHA = 0.3
BATCHES, TRIAL = (16, 32, 64, 128), 200  # batch sizes to try for `predict`, on TRIAL pairs
CARD_BATCHES, CARD_TRIAL = (128, 256, 512, 1_024), 4_096
ROBERTA = Shape(
    layers=12,
    width=768,
    heads=12,
    inner=3072,
    vocabulary=50_265,
    family="roberta",
    offset=2,
    types=1,
    epsilon=1e-5,
)
ROBERTA_EXITS, ROBERTA_QUESTIONS, ROBERTA_CANDIDATES = (4, 6, 8, 10, 12), 16, 30

Floats = npt.NDArray[np.float64]
Runs = dict[str, Callable[[], object]]


def lists_of(path: Path, questions: int, candidates: int) -> list[RankedList]:
    """Drawn questions of the set, always the same, each with its own sentences and, up to `candidates`, those
    of others."""
    random = np.random.default_rng(0)
    everyone = list(by_question(read_dataset(path)))
    pool = [row for rows in everyone for row in rows]
    lists = []

    for number in sorted(random.choice(len(everyone), questions, replace=False).tolist()):
        own = everyone[number][:candidates]
        others = [pool[n] for n in random.choice(len(pool), candidates - len(own), replace=False)]
        rows = [
            replace(
                row,
                question_id=own[0].question_id,
                question=own[0].question,
                doc_id="",
                candidate_id=f"{number}-{n}",
            )
            for n, row in enumerate([*own, *others])
        ]
        lists.append(ranked_list(rows))

    return lists


def timed(runs: Mapping[str, Callable[[], object]], rounds: int, says: bool = True) -> dict[str, list[float]]:
    """Seconds of each run, in turns; `says` prints a line for each round."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for n in range(rounds):
        for name, run in runs.items():
            with seconds(taken[name]):
                run()
        if says:
            say(f"round {n + 1}: " + ", ".join(f"{name} {times[-1]:.2f} s" for name, times in taken.items()))
    return taken


def over(slow: Sequence[float], quick: Sequence[float]) -> float:
    """Factor of speed: the median over rounds."""
    return statistics.median(a / b for a, b in zip(slow, quick, strict=True))


def scores(ranked: Sequence[RankedList], before: Sequence[RankedList]) -> list[Floats]:
    """Scores per question, in the order of the incoming candidates."""
    values = []
    for outgoing, incoming in zip(ranked, before, strict=True):
        by_id = {c.candidate_id: c.score for c in outgoing.candidates}
        values.append(np.array([by_id[c.candidate_id] for c in incoming.candidates]))
    return values


def kendall_tau(a: Floats, b: Floats) -> float:
    """Share of pairs in the same order less the share in the other order; ties are neither."""
    upper = np.triu_indices(len(a), 1)
    return float((np.sign(a[:, None] - a) * np.sign(b[:, None] - b))[upper].mean())


def agreement(theirs: Sequence[Floats], ours: Sequence[Floats]) -> tuple[float, float]:
    """(share of questions with the same best candidate, mean Kendall τ)."""
    pairs = list(zip(theirs, ours, strict=True))
    top = statistics.fmean(float(a.argmax() == b.argmax()) for a, b in pairs)
    return top, statistics.fmean(kendall_tau(a, b) for a, b in pairs)


class Ours(NamedTuple):
    pointwise: Pointwise
    cascade: Cascade
    tokeniser: Tokeniser

    @classmethod
    def of(cls, model: CascadeModel, tokeniser: Tokeniser, precision: StagePrecision = "auto") -> Ours:
        """The cascade, and the monolithic model that ends with its last classifier. Both read the sentence
        alone, as `predict` does, whatever else the checkpoint reads."""
        alone, whole = copy.copy(model), CascadeModel(model.encoder, model.exits[-1:])
        alone.reading = whole.reading = replace(model.reading, context=("sentence",))
        whole.classifiers[0] = model.classifiers[-1]
        drops = (ALPHA,) * (len(model.exits) - 1)
        cascade = Cascade(alone, tokeniser, drops, precision=precision)
        return cls(Pointwise(whole, tokeniser, precision=precision), cascade, tokeniser)

    def runs(self, lists: Sequence[RankedList]) -> Runs:
        texts = [
            (ranked.question.text, candidate.text) for ranked in lists for candidate in ranked.candidates
        ]
        runs: Runs = {
            "monolithic": lambda: self.pointwise.rerank(lists),
            "cascade": lambda: self.cascade.rerank(lists),
            "tokenise": lambda: self.tokeniser.pairs(texts),
        }
        for reranker in (self.pointwise, self.cascade):
            reranker.rerank(lists[:1])
            reranker.costs()
        return runs

    def figures(
        self, lists: Sequence[RankedList], taken: dict[str, list[float]]
    ) -> dict[str, float | int | str]:
        """Speed beside theory; the costs are those of the rounds just run."""
        count = sum(len(ranked.candidates) for ranked in lists)
        depth, exits, drops = self.cascade.depth, self.cascade.exits, self.cascade.drops
        costs = self.cascade.costs()
        tokens, candidates = (
            costs["tokens"] * depth / costs["layer_tokens"],
            1 / relative(exits, drops, lists),
        )
        gain = over(taken["monolithic"], taken["cascade"])

        return {
            "pairs": count,
            "questions": len(lists),
            "tokens_per_pair": costs["tokens"] / costs["candidates"],
            "monolithic_pairs_per_s": count / statistics.median(taken["monolithic"]),
            "cascade_pairs_per_s": count / statistics.median(taken["cascade"]),
            "cascade_over_monolithic": gain,
            "theory": candidates,
            "token_theory": tokens,
            "cascade_share_of_theory": gain / candidates,
            "cascade_share_of_token_theory": gain / tokens,
            "tokenise_share": 1 / over(taken["monolithic"], taken["tokenise"]),
        }


def relative(exits: Sequence[int], drops: Sequence[float], lists: Sequence[RankedList]) -> float:
    """Layers × candidates over the monolithic model's, for lists of these sizes."""
    sizes = [len(ranked.candidates) for ranked in lists]
    return sum(k * relative_cost(exits, drops, exits[-1], k) for k in sizes) / sum(sizes)


def best_batch(encoder: CrossEncoder, pairs: Sequence[tuple[str, str]]) -> int:
    """The batch size at which `predict` is fastest on some pairs."""
    batches, trial = (BATCHES, TRIAL) if encoder.device.type == "cpu" else (CARD_BATCHES, CARD_TRIAL)
    some = list(pairs[:: max(1, len(pairs) // trial)])
    tries: dict[int, list[float]] = {size: [] for size in batches}
    for _ in range(2):
        for size, taken in tries.items():
            with seconds(taken):
                encoder.predict(some, batch_size=size, show_progress_bar=False)
    return min(batches, key=lambda size: min(tries[size]))


def beside_predict(
    model: CascadeModel,
    tokeniser: Tokeniser,
    lists: Sequence[RankedList],
    rounds: int,
    device: str = "cpu",
    attention: str | None = None,
) -> dict[str, float | int | str]:
    """Ours and theirs on the device. `attention`: implementation of attention for theirs at its best; None =
    transformers' choice."""
    precision, model = fast(device), model.to(device)
    pairs = [(ranked.question.text, candidate.text) for ranked in lists for candidate in ranked.candidates]

    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "checkpoint", "cascade", model, tokeniser)
        export(Path(folder) / "checkpoint", Path(folder) / "exported")
        exported = str(Path(folder) / "exported")
        plain = CrossEncoder(exported, device=device, local_files_only=True, trust_remote_code=False)
        head = [f"{n}.linear" for n in (2, 3, 4)] if precision != torch.float32 else []
        best = CrossEncoder(
            exported,
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs=None if attention is None else {"attn_implementation": attention},
            keep_in_fp32_modules=head,
        ).to(precision)

        ours = Ours.of(model, tokeniser)
        batch = best_batch(best, pairs)
        plain.predict(pairs[:64], show_progress_bar=False)
        predicted: dict[str, Floats] = {}

        def predict(name: str, encoder: CrossEncoder, size: int) -> Callable[[], object]:
            def run() -> None:
                predicted[name] = encoder.predict(pairs, batch_size=size, show_progress_bar=False).astype(
                    np.float64
                )

            return run

        runs = {
            "predict": predict("predict", plain, 32),
            "predict_best": predict("predict_best", best, batch),
        }
        taken = timed(runs | ours.runs(lists), rounds)

    costs = ours.figures(lists, taken)
    our_scores = scores(ours.pointwise.rerank(lists), lists)
    edges = np.cumsum([len(ranked.candidates) for ranked in lists])[:-1]
    their_scores = {name: np.split(values, edges) for name, values in predicted.items()}
    top, tau = agreement(their_scores["predict"], our_scores)
    best_top, best_tau = agreement(their_scores["predict"], their_scores["predict_best"])
    beside: dict[str, float | int | str] = {
        "predict_pairs_per_s": len(pairs) / statistics.median(taken["predict"]),
        "predict_best_pairs_per_s": len(pairs) / statistics.median(taken["predict_best"]),
        "monolithic_over_predict": over(taken["predict"], taken["monolithic"]),
        "monolithic_over_predict_best": over(taken["predict_best"], taken["monolithic"]),
        "cascade_over_predict": over(taken["predict"], taken["cascade"]),
        "top1_agreement": top,
        "kendall_tau": tau,
        "predict_best_top1_agreement": best_top,
        "predict_best_kendall_tau": best_tau,
        "predict_best_batch": batch,
        "precision_predict": name_of(torch.float32),
        "precision_predict_best": name_of(precision),
        "precision": name_of(precision),
    }

    return beside | costs


def roberta(tokeniser: Tokeniser, lists: Sequence[RankedList], rounds: int) -> dict[str, float | int | str]:
    """Random weights, in the shapes of RoBERTa-base."""
    torch.manual_seed(0)
    ours = Ours.of(CascadeModel(LayeredEncoder(ROBERTA), ROBERTA_EXITS), tokeniser)
    taken = timed(ours.runs(lists), rounds)
    return {f"roberta_{key}": value for key, value in ours.figures(lists, taken).items()}


def name_of(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def main() -> None:
    options = arguments(
        "cascade_speed", __doc__ or "", paths={"checkpoint": "a trained cascade; the shipped one"}
    )
    if options.smoke:
        shrink(
            globals(),
            QUESTIONS=4,
            CANDIDATES=10,
            BATCHES=(16, 32),
            TRIAL=10,
            ROBERTA_QUESTIONS=1,
            ROBERTA_CANDIDATES=6,
        )
        shrink(globals(), ROBERTA=replace(ROBERTA, width=96, inner=192, vocabulary=31_000))
        options.checkpoint = options.checkpoint or Path(small_checkpoint("cascade"))

    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # theirs and ours
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, tokeniser = load(options.checkpoint or SHIPPED / "cascade", "cascade", find_model)
    lists = lists_of(options.data / SET, QUESTIONS, CANDIDATES)
    result = beside_predict(model, tokeniser, lists, options.rounds)
    few = [
        RankedList(ranked.question, ranked.candidates[:ROBERTA_CANDIDATES])
        for ranked in lists[:ROBERTA_QUESTIONS]
    ]
    result |= roberta(Tokeniser(find_model(DEFAULT)), few, options.rounds)
    finish(
        "cascade_speed",
        result | {"peak_gb": peak_gb()},
        options.save,
        () if options.checkpoint else MEASURED_MODELS,
    )


if __name__ == "__main__":
    main()
