"""BM25 search beside Lucene's own, over one index and over many shards of the same passages; one thread.

PASSAGES passages of four sentences of `corpus-wiki`, drawn anew (the corpus has fewer), are indexed once as a
whole and once in each number of SHARDS; QUESTIONS of Natural Questions ask for the best DEPTH. In turns,
medians over the rounds:

`questions_per_s`: `Bm25Index.search` of one batch, statistics of the corpus known, from text to arrays.
`lucene_questions_per_s`: Lucene's search alone, a call for each question, its query ready and its hits left
where they are; `share_of_lucene` is the former over the latter, the median of the rounds' ratios. Keys
`.._N_shards` are of N shards, each of which answers all questions. `over_pyserini`: our questions a second
over those of pyserini's batch search by one thread, in an index of the same passages that it has built, its
hits left in Java. `rankings_differ` counts the questions whose best DEPTH, merged over shards, are not those
of the one index, scores included. `passages_per_s` is the speed of building the one index.
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from answermill.indexing.shards.lucene import jvm
from answermill.indexing.shards.lucene.bm25 import Bm25Index, build
from answermill.indexing.shards.lucene.statistics import USUAL, GlobalStatistics
from testing.drawn_text import drawn, wiki
from testing.harness import arguments, finish, say, shrink

TAKES = "ten minutes, on a quiet machine"

PASSAGES, SENTENCES, QUESTIONS, DEPTH = 1_000_000, 4, 1_000, 100
SHARDS = (10, 50)
ASKED = "questions/nq-open-dev.jsonl.gz"


def passages(data: Path, number: int) -> Iterator[tuple[str, str]]:
    """(title, text) of passages of drawn sentences, always the same."""
    for title, sentences in islice(drawn(wiki(data), SENTENCES), number):
        yield title, " ".join(sentences)


def questions(data: Path, number: int) -> list[str]:
    with gzip.open(data / ASKED, "rt", encoding="utf-8") as file:
        return [json.loads(line)["question"] for line in file][:number]


def lucene(indexes: Sequence[Bm25Index], asked: Sequence[str]) -> Callable[[], object]:
    """Lucene's own search of all questions in each index, with what a shard alone knows."""
    from jnius import autoclass

    search = "org.apache.lucene.search."
    searcher_of, similarity = (
        autoclass(f"{search}IndexSearcher"),
        autoclass(f"{search}similarities.BM25Similarity"),
    )
    term_query, term = autoclass(f"{search}TermQuery"), autoclass("org.apache.lucene.index.Term")
    clause, should = autoclass(f"{search}BooleanClause"), autoclass(f"{search}BooleanClause$Occur").SHOULD
    builder_of = autoclass(f"{search}BooleanQuery$Builder")

    def query(question: str) -> Any:
        builder = builder_of()
        for word in indexes[0].document_frequencies([question]):
            builder.add(clause(term_query(term("contents", word)), should))
        return builder.build()

    queries = [query(question) for question in asked]
    searchers = []
    for index in indexes:
        searcher = searcher_of(index._reader, signature="(Lorg/apache/lucene/index/IndexReader;)V")
        searcher.setQueryCache(None)
        searcher.setSimilarity(similarity(USUAL.k1, USUAL.b))
        searchers.append(searcher)
    return lambda: [searcher.search(each, DEPTH) for searcher in searchers for each in queries]


def pyserini(texts: Sequence[tuple[str, str]], folder: Path, asked: Sequence[str]) -> Callable[[], object]:
    """pyserini's batch search of all questions, in an index that it builds in the folder."""
    from jnius import autoclass

    (folder / "texts").mkdir(parents=True)
    with (folder / "texts" / "all.jsonl").open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": str(number), "contents": "\n".join(text)}) + "\n")
    options = {"-collection": "JsonCollection", "-generator": "DefaultLuceneDocumentGenerator"}
    options |= {"-input": f"{folder}/texts", "-index": f"{folder}/index", "-threads": "1"}
    java, jar = jvm.find_java().home / "bin" / "java", jvm.anserini_jar()
    command = [
        str(java),
        "-cp",
        str(jar),
        "io.anserini.index.IndexCollection",
        *chain.from_iterable(options.items()),
    ]
    subprocess.run(command, check=True, capture_output=True)

    searcher = autoclass("io.anserini.search.SimpleSearcher")(str(folder / "index"))
    searcher.set_bm25(USUAL.k1, USUAL.b)
    queries, ids = autoclass("java.util.ArrayList")(), autoclass("java.util.ArrayList")()
    for number, question in enumerate(asked):
        queries.add(question)
        ids.add(str(number))
    return lambda: searcher.batch_search(queries, ids, DEPTH, 1)


def ours(indexes: Sequence[Bm25Index], asked: Sequence[str]) -> Callable[[], list[Any]]:
    """Search of the batch in each index, with the statistics of all of them."""
    total = sum((index.share(asked) for index in indexes), GlobalStatistics())
    return lambda: [index.search(asked, DEPTH, total) for index in indexes]


def ranking(by_shard: Sequence[Any], question: int) -> list[tuple[float, int]]:
    """(score, number of the passage) of a question's best, over shards that have every n-th passage."""
    hits = [
        (-float(score), int(row) * len(by_shard) + shard)
        for shard, lists in enumerate(by_shard)
        for row, score in zip(*lists[question], strict=True)
    ]
    return sorted(hits)[:DEPTH]


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    options = arguments("bm25_speed", __doc__ or "")
    if options.smoke:
        shrink(globals(), PASSAGES=60, QUESTIONS=5, SHARDS=(3,), DEPTH=5)
    jvm.start(jvm.find_java(), "1g" if options.smoke else "2g")  # the tests share a JVM
    asked = questions(options.data, QUESTIONS)
    result: dict[str, float | int | str] = {"passages": PASSAGES, "questions": len(asked), "depth": DEPTH}

    with tempfile.TemporaryDirectory() as name:
        folder, texts = Path(name), list(passages(options.data, PASSAGES))
        began = time.perf_counter()
        build(texts, folder / "1-0")
        result["passages_per_s"] = len(texts) / (time.perf_counter() - began)
        indexes = {1: [Bm25Index(folder / "1-0")]}
        for shards in SHARDS:
            for n in range(shards):
                build(texts[n::shards], folder / f"{shards}-{n}")
            indexes[shards] = [Bm25Index(folder / f"{shards}-{n}") for n in range(shards)]
        runs = {number: (ours(shards, asked), lucene(shards, asked)) for number, shards in indexes.items()}
        theirs_whole, over = pyserini(texts, folder / "pyserini", asked), list[float]()
        theirs_whole()
        whole, differ = runs[1][0](), set[int]()
        times: dict[int, list[tuple[float, float]]] = {number: [] for number in runs}
        for search, _ in runs.values():
            hits = search()
            differ |= {n for n in range(len(asked)) if ranking(hits, n) != ranking(whole, n)}
        for _ in range(options.rounds):
            for number, (search, theirs) in runs.items():
                times[number].append((took(search), took(theirs)))
            over.append(took(theirs_whole) / times[1][-1][0])

    for number, taken in times.items():
        end = "" if number == 1 else f"_{number}_shards"
        result |= {
            f"questions_per_s{end}": len(asked) / statistics.median(own for own, _ in taken),
            f"lucene_questions_per_s{end}": len(asked) / statistics.median(theirs for _, theirs in taken),
            f"share_of_lucene{end}": statistics.median(theirs / own for own, theirs in taken),
        }
        say(f"{number} shards: {result[f'questions_per_s{end}']:,.0f} questions/s")
    result["over_pyserini"] = statistics.median(over)
    finish("bm25_speed", result | {"rankings_differ": len(differ)}, options.save)


if __name__ == "__main__":
    main()
