"""Costs of PEASI beside plain AS2 (PEASI Table 4), on one engine in one run: the same body, processor, thread
and precision.

Questions of WikiQA and SQuAD, each with the DEPTH passages of `corpus-wiki` that BM25 finds, as many as the
paper's 43. AS2 scores every sentence (the shipped cascade with no drops, which is a monolithic model); PEASI
scores every passage and reads the best one again, as the paper's does. A checkpoint that does both at once,
like the one that ships, needs PR's pass alone. Predictions, tokens and milliseconds are per question; times
are medians of interleaved rounds.

A transformer's time follows its tokens, not its predictions: a passage has as many tokens as its sentences,
and what AS2 reads again with every sentence is saved, the question, the title and the neighbours.
`token_ratio` and `time_ratio` are AS2's over PEASI's.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.steps.models import device_of
from answermill.ranking.plan import to_passages
from answermill.ranking.reranker import Costed
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.ranked import RankedList
from experiments.first_stage import job
from testing.harness import arguments, finish, say, seconds, shrink
from testing.smoke_data import small_checkpoint

TAKES = "on a quiet machine"
MEASURED_MODELS = ("cascade", "peasi")
DECIDED = "Nothing ships by it."

DEPTH, QUESTIONS = 43, 20
AS2: Path | None = None  # None: the shipped cascade


def main() -> None:
    options = arguments(
        "peasi_cost", __doc__ or "", paths={"checkpoint": "of peasi, as peasi_quality trains it"}
    )
    if options.smoke:
        shrink(globals(), DEPTH=3, QUESTIONS=2, AS2=Path(small_checkpoint("cascade")))
        options.checkpoint = Path(small_checkpoint("peasi"))

    torch.set_num_threads(1)
    device = device_of("auto")
    as2, pr, easi = (
        load_reranker(name, checkpoint, model=find_model, device=device)
        for name, checkpoint in (
            ("cascade", AS2),
            ("peasi.pr", options.checkpoint),
            ("peasi.easi", options.checkpoint),
        )
    )

    with tempfile.TemporaryDirectory() as folder:
        sentences = [ranked for ranked, _ in job(options.data.resolve(), Path(folder), DEPTH, QUESTIONS)]
    assert isinstance(as2, Costed) and isinstance(pr, Costed) and isinstance(easi, Costed)
    passages = [to_passages(ranked) for ranked in sentences]
    best = [RankedList(ranked.question, ranked.candidates[:1]) for ranked in pr.rerank(passages)]
    stages: dict[str, tuple[Callable[[], object], Callable[[], Counter[str]]]] = {
        "as2": (lambda: as2.rerank(sentences), as2.costs),
        "pr": (lambda: pr.rerank(passages), pr.costs),
        "easi": (lambda: easi.rerank(best), easi.costs),
    }
    times: dict[str, list[float]] = {name: [] for name in stages}

    result: dict[str, float | int | str] = {"questions": len(sentences)}
    for _, costs in stages.values():
        costs()
    for n in range(options.rounds):
        for name, (work, costs) in stages.items():
            with seconds(times[name]):
                work()
            counted = costs()
            if not n:
                result[f"predictions_{name}"] = counted.get("predictions", counted["candidates"]) / len(
                    sentences
                )
                result[f"tokens_{name}"] = counted["tokens"] / len(sentences)

    for name, taken in times.items():
        result[f"ms_{name}"] = 1000 * statistics.median(taken) / len(sentences)
    for what in ("predictions", "tokens", "ms"):
        result[f"{what}_all"] = float(result[f"{what}_pr"]) + float(result[f"{what}_easi"])
        say(
            f"{what:<12}"
            + "".join(
                f"{name:>7} {result[f'{what}_{name}']:>10,.1f}" for name in ("as2", "pr", "easi", "all")
            )
        )

    result["predictions_ratio"] = float(result["predictions_all"]) / float(result["predictions_as2"])
    result["token_ratio"] = float(result["tokens_as2"]) / float(result["tokens_all"])
    result["time_ratio"] = float(result["ms_as2"]) / float(result["ms_all"])
    finish("peasi_cost", result, options.save, MEASURED_MODELS[:1] if options.checkpoint else MEASURED_MODELS)


if __name__ == "__main__":
    main()
