"""Recall and cost of retrieval by its depth, `retrieve.depth`: how many passages each index returns.

Corpus, questions and gold are those of `experiments.retrieval`; the same shards are searched at each depth D.
`bm25_recall_D`, `dense_recall_D`: share of questions with a gold passage among the D of one index;
`recall_D`: among those of both, which is what reranking can find at all. `passages_D` and `sentences_D` are
what reranking has to read, and `kb_D` the size of retrieved/, a question; `bm25_ms_D`, `dense_ms_D` and
`lists_ms_D` are milliseconds of a worker a question: for the two indexes, and to merge, fuse, fetch and
write.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.retrieve.asked_questions import settings_of
from experiments import retrieval
from testing.harness import arguments, finish, peak_gb, say, shrink
from testing.smoke_data import small_encoder

TAKES = "fifteen minutes"
DECIDED = "Nothing ships by it."
DEPTHS = (5, 10, 20, 50, 100, 200, 500, 1_000)


def retrieve_at(job: Job, run: Path, depth: int) -> None:
    """Search the shards of a run at this depth, in place of an earlier one."""
    for folder in RETRIEVE:
        shutil.rmtree(run / folder.name, ignore_errors=True)
    section = settings_of(job).model_copy(update={"depth": depth})
    for line in run_steps(job.model_copy(update={"retrieve": section}), run, ["retrieve"], ()):
        say(f"depth {depth}: {line}")


def figures(run: Path, gold: retrieval.Gold, depth: int) -> dict[str, float]:
    """Keys of the result for one depth."""
    retrieved, counts = RETRIEVED.open(run), RETRIEVE.counts_of(RETRIEVED.open(run).manifest)
    first = retrieval.first_ranks(run, gold)
    recall = {source: len(ranks) / len(gold) for source, ranks in first.items()}
    sentences = sum(len(hit.passage.sentences) for hit in retrieved.read())
    a_question = {
        "passages": counts.hits,
        "sentences": sentences,
        "kb": sum(part.bytes for part in retrieved.parts) / 1000,
        "bm25_ms": counts.bm25_ms,
        "dense_ms": counts.dense_ms,
        "lists_ms": counts.lists_ms,
    }
    named = {
        "bm25_recall": recall["bm25"],
        "dense_recall": recall["dense"],
        "recall": recall["fused"],
        **{name: total / counts.questions for name, total in a_question.items()},
    }
    return {f"{name}_{depth}": value for name, value in named.items()}


def main() -> None:
    options = arguments("retrieval_depth", __doc__ or "")
    if options.smoke:
        shrink(globals(), DEPTHS=(1, 5))
        shrink(vars(retrieval), ENCODER=small_encoder(), PROCESSES=1)
    configure_logging()
    data = options.data.resolve()
    texts, gold = retrieval.questions(data)

    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        job = retrieval.corpus_job(data, Path(name), texts)
        for line in run_steps(job, run, ["ingest", "index"], ()):
            say(line)
        result: dict[str, float | int | str] = {
            "questions": len(gold),
            "passages": INDEX.counts_of(SHARDS.manifest(run)).passages,
        }
        for depth in DEPTHS:
            retrieve_at(job, run, depth)
            result |= figures(run, gold, depth)
        result["peak_gb"] = peak_gb()

    finish("retrieval_depth", result, options.save)


if __name__ == "__main__":
    main()
