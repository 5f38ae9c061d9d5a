"""`corpus-wiki` cut into passages, and BM25 over them, for several benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from answermill.indexing.shards.lucene import bm25, jvm
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES
from answermill.pipelines.steps import chain
from answermill.schemas.corpus import Document, Passage
from testing.harness import say
from testing.smoke_data import shared_place


@dataclass(frozen=True)
class Corpus:
    """Documents and passages of the run; row n of the index is passage n."""

    documents: dict[str, Document]
    passages: list[Passage]
    bm25: bm25.Bm25Index


def wiki(data: Path, folder: Path) -> Corpus:
    """Corpus of `run` and `bm25` in `folder`, which are made if missing; for a token copy of the data once
    for all benchmarks."""
    folder = shared_place(data) or folder
    job = Job.model_validate(
        {"ingest": {"input": [str(data / "corpus-wiki/documents.jsonl.gz")], "min_words": 1}}
    )
    for line in chain.run_steps(job, folder / "run", ["ingest"], ()):
        say(line)
    passages = list(PASSAGES.open(folder / "run").read())
    documents = {document.doc_id: document for document in DOCUMENTS.open(folder / "run").read()}
    jvm.start(jvm.find_java())
    if not (folder / "bm25").is_dir():
        bm25.build(((passage.title, passage.text) for passage in passages), folder / "bm25")
    return Corpus(documents, passages, bm25.Bm25Index(folder / "bm25"))
