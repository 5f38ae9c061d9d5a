"""Retrieval and the untrained rerankers on a corpus with known gold, and BM25 on CACM against its published
figure.

Corpus: Wikipedia documents of WikiQA, SelQA and SQuAD (`corpus-wiki`). Questions: WikiQA dev and test with a
correct sentence, and as many of SQuAD v1.1 dev, chosen by a fixed seed. A passage is gold if it is of the
gold document and holds the gold sentence, white space and case folded. The rule for answer sentences is that
of all studies (`question_sets/gold.py`). recall@k is the share of questions with a gold passage among the
first k.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import pyarrow.parquet as pq
from ir_measures import AP, R

from answermill.indexing.passages.text import fold
from answermill.indexing.shards.dense import DEFAULT
from answermill.indexing.shards.lucene import bm25, jvm
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps import chain
from experiments.question_sets.gold import is_answer
from testing.harness import arguments, finish, peak_gb, say, shrink
from testing.smoke_data import small_encoder

TAKES = "ten minutes"
DECIDED = "Nothing ships by it."
SEED = 7
ENCODER, PROCESSES = DEFAULT, 2
KEEP = 20  # sentences that overlap leaves to similarity
Gold = dict[str, list[tuple[str, str]]]  # question id → (doc id, folded gold sentence)


def questions(data: Path) -> tuple[dict[str, str], Gold]:
    """Question id → text, and question id → gold."""
    texts: dict[str, str] = {}
    gold: Gold = defaultdict(list)
    for split in ("dev", "test"):
        for row in pq.read_table(data / f"wikiqa/wikiqa-{split}.parquet").to_pylist():
            if row["label"]:
                texts[f"wikiqa:{row['question_id']}"] = row["question"]
                gold[f"wikiqa:{row['question_id']}"].append(
                    (f"wikiqa:{row['document_id']}", fold(row["sentence"]))
                )

    squad = [row for row in pq.read_table(data / "squad/squad-sent-dev.parquet").to_pylist() if row["label"]]
    for row in random.Random(SEED).sample(sorted(squad, key=lambda row: row["question_id"]), len(texts)):
        texts[f"squad:{row['question_id']}"] = row["question"]
        gold[f"squad:{row['question_id']}"].append(
            (f"squad-dev:{row['document_title']}", fold(row["sentence"]))
        )

    return texts, gold


def corpus_job(data: Path, folder: Path, texts: Mapping[str, str]) -> Job:
    """The job on corpus-wiki; writes its questions."""
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"question_id": key, "text": text}) + "\n" for key, text in texts.items())
    return Job.model_validate(
        {
            "ingest": {"input": [str(data / "corpus-wiki/documents.jsonl.gz")], "min_words": 1},
            "index": {"shards": 2, "encoder": ENCODER},
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": 100},
            "workers": {"processes": PROCESSES},
            "rerank": {"stages": [{"reranker": "overlap", "keep": KEEP}, {"reranker": "similarity"}]},
        }
    )


def corpus_run(job: Job, folder: Path) -> dict[str, float]:
    """Run the job; returns the seconds of each step."""
    step_seconds = {}
    for step in chain.steps_of(job):
        began = time.perf_counter()
        for line in chain.run_steps(job, folder / "run", [step], ()):
            say(line)
        step_seconds[step] = time.perf_counter() - began

    return step_seconds


def first_ranks(run: Path, gold: Gold) -> dict[str, dict[str, int]]:
    """'bm25', 'dense' and 'fused' → question id → rank of the first gold passage; those without one are
    absent."""
    first: dict[str, dict[str, int]] = {source: {} for source in ("bm25", "dense", "fused")}
    for hit in RETRIEVED.open(run).read():
        text = fold(hit.passage.text)
        if any(
            hit.passage.doc_id == doc_id and sentence in text for doc_id, sentence in gold[hit.question_id]
        ):
            for source, rank in (("bm25", hit.bm25_rank), ("dense", hit.dense_rank), ("fused", hit.rank)):
                if rank is not None:
                    first[source][hit.question_id] = min(rank, first[source].get(hit.question_id, rank))
    return first


def recalls(run: Path, gold: Gold) -> dict[str, float]:
    """recall@1, @10, @100 of each source and of their fusion."""
    return {
        f"{source}_r{k}": sum(rank <= k for rank in ranks.values()) / len(gold)
        for source, ranks in first_ranks(run, gold).items()
        for k in (1, 10, 100)
    }


def answers(folder: Path, gold: Gold) -> dict[str, float]:
    """P@1 of the answer sentence after each stage; a question without candidates counts as wrong."""
    right: dict[str, set[str]] = defaultdict(set)
    scored = SCORED.open(folder / "run")
    for part in scored.parts:
        for batch in read_batches(scored.path, part, ["question_id", "doc_id", "text", "stages"], rows=4_096):
            for row in batch.to_pylist():
                for stage in row["stages"]:
                    if stage["rank"] == 1 and is_right(row["doc_id"], row["text"], gold[row["question_id"]]):
                        right[stage["stage"]].add(row["question_id"])

    scores = {}
    for stage in ("overlap", "similarity"):
        scores[f"{stage}_p1"] = len(right[stage]) / len(gold)
        for source in ("wikiqa", "squad"):
            ids = [key for key in gold if key.startswith(source)]
            scores[f"{stage}_p1_{source}"] = len(right[stage].intersection(ids)) / len(ids)

    return scores


def is_right(doc_id: str, text: str, gold: Iterable[tuple[str, str]]) -> bool:
    """True if a sentence of a document is an answer."""
    return is_answer(fold(text), (sentence for right, sentence in gold if right == doc_id))


def collection(folder: Path, work: Path) -> tuple[float, float]:
    """MAP over the best 1,000, and recall@1000, of BM25 on a collection of the folder `retrieval`."""
    with gzip.open(folder / "docs.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    with gzip.open(folder / "queries.jsonl.gz", "rt", encoding="utf-8") as file:
        queries = [json.loads(line) for line in file]
    bm25.build((("", document["text"]) for document in documents), work / folder.name)
    results = bm25.Bm25Index(work / folder.name).search([query["text"] for query in queries], 1_000, None)
    scored = [
        ir_measures.ScoredDoc(query["query_id"], documents[row]["doc_id"], score)
        for query, (rows, scores) in zip(queries, results, strict=True)
        for row, score in zip(rows, scores, strict=True)
    ]

    judged = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    measured: Mapping[Any, float] = ir_measures.calc_aggregate([AP @ 1000, R @ 1000], judged, scored)
    return measured[AP @ 1000], measured[R @ 1000]


def main() -> None:
    options = arguments("retrieval", __doc__ or "")
    if options.smoke:
        shrink(globals(), ENCODER=small_encoder(), PROCESSES=1)
    configure_logging()
    data = options.data.resolve()
    texts, gold = questions(data)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step_seconds = corpus_run(corpus_job(data, folder, texts), folder)
        counts = INDEX.counts_of(SHARDS.manifest(folder / "run"))
        result: dict[str, float | int | str] = {
            **recalls(folder / "run", gold),
            **answers(folder, gold),
            "questions": len(gold),
            "passages": counts.passages,
            "keep": KEEP,
            "questions_per_s": len(gold) / step_seconds["retrieve"],
            "bm25_index_passages_per_s": counts.passages / (counts.bm25_ms / 1000),
            "dense_index_passages_per_s": counts.passages / (counts.dense_ms / 1000),
            **{f"{step}_s": seconds for step, seconds in step_seconds.items()},
        }

        jvm.start(jvm.find_java())
        result["cacm_map"], result["cacm_r1000"] = collection(data / "retrieval/cacm", folder)
        result["cacm_map_published"] = 0.3123
        result["cranfield_map"], _ = collection(data / "retrieval/cranfield", folder)
        result["peak_gb"] = peak_gb()

    finish("retrieval", result, options.save)


if __name__ == "__main__":
    main()
