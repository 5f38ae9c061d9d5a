"""Where sentences end: our rules against spaCy's sentencizer, on Wikipedia documents whose sentences are known.

Gold: the documents of WikiQA, whose sentences the data set lists one by one (cut by its authors' tool, not by hand). They
are joined by blanks and split again. An end is right if a gold sentence ends there; the end of the text does not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import spacy

from benchmarks.harness import arguments, finish, say, seconds
from indexing.passages.sentences import sentence_spans


def documents(data: Path) -> list[list[str]]:
    """The sentences of each WikiQA document of at least two."""
    found: dict[str, list[str]] = {}
    for split in ("train", "dev", "test"):
        rows = pq.read_table(data / f"wikiqa/wikiqa-{split}.parquet").to_pylist()
        for _, group in groupby(rows, key=lambda row: row["question_id"]):
            sentences = list(group)
            found[sentences[0]["document_id"]] = [" ".join(row["sentence"].split()) for row in sentences]
    return [sentences for _, sentences in sorted(found.items()) if len(sentences) > 1]


def ends_of(sentences: list[str]) -> set[int]:
    """How many characters that are no blank stand before each inner end."""
    ends, at = set(), 0
    for sentence in sentences[:-1]:
        at += len("".join(sentence.split()))
        ends.add(at)
    return ends


def main() -> None:
    given = arguments("sentences", __doc__ or "")
    gold = documents(given.data)
    texts = [" ".join(sentences) for sentences in gold]
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def rules(batch: list[str]) -> list[list[str]]:
        return [[text[start:end] for start, end in sentence_spans(text)] for text in batch]

    def sentencizer(batch: list[str]) -> list[list[str]]:
        with nlp.memory_zone():
            return [[sentence.text for sentence in nlp(text).sents] for text in batch]

    splitters: dict[str, Callable[[list[str]], list[list[str]]]] = {"rules": rules, "sentencizer": sentencizer}
    result: dict[str, float | int | str] = {"documents": len(gold), "sentences": sum(map(len, gold))}
    taken: dict[str, list[float]] = {name: [] for name in splitters}
    for name, split in splitters.items():
        right = made = wanted = 0
        for sentences, cut in zip(gold, split(texts), strict=True):
            found, known = ends_of(cut), ends_of(sentences)
            right, made, wanted = right + len(found & known), made + len(found), wanted + len(known)
        result |= {f"{name}_precision": right / made, f"{name}_recall": right / wanted}
        result[f"{name}_f1"] = 2 * right / (made + wanted)
    for _ in range(given.rounds):
        for name, split in splitters.items():
            with seconds(taken[name]):
                split(texts)
            say(f"{name}: {taken[name][-1]:.2f} s")
    size = sum(map(len, texts)) / 1e6
    result |= {f"{name}_mb_per_s": size / statistics.median(times) for name, times in taken.items()}
    finish("sentences", result, given.save)


if __name__ == "__main__":
    main()
