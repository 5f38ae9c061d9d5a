"""Cosinet's speed: scoring from text by look-up beside the plain model, and training on WikiQA.

Scoring: SQuAD-sent's test set (63,958 pairs; 5 candidates a question) and WikiQA's (6,165; 10 a question),
from raw text to ranked lists, by two processes with one thread each, half of the questions each;
`pairs_per_s` is SQuAD-sent's, every text met for the first time, model loaded before. `job_pairs_per_s`: the
same texts in lists as long as a job's, a question with the candidates of 80. The plain model encodes each
pair by its own convolutions, over the first lists alone; `over_plain` compares the two on those. Training: 3
epochs on WikiQA with the paper's settings, matrix products in bf16 where the processor has it, one dev
evaluation at the end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cosinet.cosinet import Cosinet, CosinetModel
from answermill.ranking.rerankers.cosinet.heads import collate
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model as load_model
from answermill.ranking.rerankers.cosinet.table_lookup import LookUp
from answermill.ranking.training.list_models import ListOptions, ListTask, vocabulary
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.transformer.devices import native_precision
from answermill.ranking.word_vectors.embeddings import Embeddings, derive
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.ranked import RankedList
from testing.harness import arguments, finish, processes, say, seconds, shrink

TAKES = "on a quiet machine"
MEASURED_MODELS = ("cosinet",)

PLAIN_LISTS, BLOCK, PROCESSES, EPOCHS = 200, 64, 2, 3
SQUAD, WIKIQA = "squad/squad-sent-test.parquet", "wikiqa/wikiqa-test.parquet"
SETS = {"squad": (SQUAD, 1), "job": (SQUAD, 80), "wikiqa": (WIKIQA, 1)}
"""Name → its lists, and of how many questions a list has the candidates."""


@cache
def load() -> tuple[CosinetModel, Embeddings]:
    return load_model(SHIPPED / "cosinet", CosinetModel, find_model)


def lists_of(path: Path, joined: int = 1) -> list[RankedList]:
    """Lists of a data set; with `joined` > 1 a question has the candidates of the next ones too."""
    lists = [ranked_list(rows) for rows in by_question(read_dataset(path))]
    return [in_one(lists[first : first + joined]) for first in range(0, len(lists), joined)]


def in_one(lists: Sequence[RankedList]) -> RankedList:
    """The first list's question with the candidates of all."""
    candidates = [candidate for ranked in lists for candidate in ranked.candidates]
    places = (replace(candidate, position=n) for n, candidate in enumerate(candidates))
    return RankedList(lists[0].question, tuple(places))


def score_part(path: Path, joined: int, part: int, start: float) -> tuple[int, float]:
    """(pairs, seconds) of one process's share of the lists, started at a common moment."""
    torch.set_num_threads(1)
    lists = lists_of(path, joined)[part::PROCESSES]
    reranker = Cosinet(*load())
    reranker.rerank(lists[:1])
    time.sleep(max(0.0, start - time.time()))
    began = time.perf_counter()
    for first in range(0, len(lists), BLOCK):
        reranker.rerank(lists[first : first + BLOCK])
    return sum(len(r.candidates) for r in lists), time.perf_counter() - began


def beside_the_plain(path: Path, rounds: int) -> tuple[float, float, float]:
    """(pairs/s by look-up, pairs/s of the plain model, largest difference), one thread, from rows of words,
    and features of 0 if the model reads some."""
    torch.set_num_threads(1)
    model, embeddings = load()
    lexicon = Lexicon(embeddings)
    numbered = []
    for ranked in lists_of(path)[:PLAIN_LISTS]:
        question, *candidates = lexicon.rows([ranked.question.text, *(c.text for c in ranked.candidates)])
        numbered.append((question, candidates))

    pairs = sum(len(candidates) for _, candidates in numbered)
    zeros = (
        [np.zeros((len(candidates), len(model.features))) for _, candidates in numbered]
        if model.features
        else None
    )
    look_up = LookUp(model.vectors, model.question, model.candidate, model.head)
    fast: list[float] = []
    plain: list[float] = []

    for _ in range(rounds):
        with seconds(fast):
            quick = look_up.scores(numbered, zeros)
        with seconds(plain), torch.inference_mode():
            slow = [
                model(
                    collate([(question, candidates, [0.0] * len(candidates))], zeros and zeros[n : n + 1])
                ).numpy()
                for n, (question, candidates) in enumerate(numbered)
            ]

    difference = max(float(np.abs(q - s).max()) for q, s in zip(quick, slow, strict=True))
    return pairs / statistics.median(fast), pairs / statistics.median(plain), difference


def train_seconds(data: Path, threads: int) -> float:
    """Wall seconds of EPOCHS epochs on WikiQA, texts to rows included, word vectors not."""
    torch.set_num_threads(threads)
    learn, dev = (
        list(by_question(read_dataset(data / f"wikiqa/wikiqa-{split}.parquet"))) for split in ("train", "dev")
    )
    embeddings = derive(vocabulary([*learn, *dev]), find_model("all-MiniLM-L6-v2"), "all-MiniLM-L6-v2")
    torch.manual_seed(0)
    began = time.perf_counter()
    task = ListTask(embeddings, learn, lambda folder, *_: folder.mkdir(parents=True), ListOptions(batch=4))
    recipe = Recipe(epochs=EPOCHS, precision=native_precision("cpu"), evaluate_every=EPOCHS * task.steps)
    with tempfile.TemporaryDirectory() as folder:
        train(task, Dev(dev), recipe, Output(Path(folder), "benchmark"))
    return time.perf_counter() - began


def main() -> None:
    options = arguments("cosinet_speed", __doc__ or "")
    if options.smoke:
        shrink(globals(), EPOCHS=1, PROCESSES=1)
    result: dict[str, float | int | str] = {"form": load()[0].form}
    rates: dict[str, list[float]] = {name: [] for name in SETS}

    for _ in range(options.rounds):
        for name, (path, joined) in SETS.items():
            with processes(PROCESSES, inline=options.smoke) as pool:
                start = 0.0 if options.smoke else time.time() + 25  # both have loaded by then
                part = partial(score_part, options.data / path, joined, start=start)
                parts = list(pool.map(part, range(PROCESSES)))
            rates[name].append(sum(pairs for pairs, _ in parts) / max(taken for _, taken in parts))
            say(f"{name}: {rates[name][-1]:,.0f} pairs/s from text, {PROCESSES} processes")

    fast, plain, difference = beside_the_plain(options.data / WIKIQA, options.rounds)
    taken = {
        threads: [train_seconds(options.data, threads) for _ in range(options.rounds)] for threads in (1, 2)
    }
    say(f"training: {taken}")
    result |= {
        "pairs_per_s": statistics.median(rates["squad"]),
        "job_pairs_per_s": statistics.median(rates["job"]),
        "wikiqa_pairs_per_s": statistics.median(rates["wikiqa"]),
        "rows_pairs_per_s": fast,
        "plain_pairs_per_s": plain,
        "over_plain": fast / plain,
        "max_difference": f"{difference:.1e}",
        "train_seconds": min(statistics.median(times) for times in taken.values()),
        "train_seconds_1_thread": statistics.median(taken[1]),
        "train_seconds_2_threads": statistics.median(taken[2]),
    }
    finish("cosinet_speed", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
