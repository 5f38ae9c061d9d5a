"""Ends of sentences: our rules against spaCy's sentencizer, pySBD, syntok, BlingFire and sentencex, on
documents with known sentences.

Reference: the documents of WikiQA, whose sentences the data set lists one by one (cut by its authors' tool,
not by hand). They are joined by blanks and split again. A predicted end is right if a reference sentence ends
there; the end of the text does not count. Times are the median of the rounds, over the whole set.

`python -m experiments.sentence_gold` has texts of other languages, and odd cases of English.

pySBD, syntok, BlingFire and sentencex are no dependencies: `pip install pysbd syntok blingfire sentencex`.
Those that cannot be imported are named and left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import pyarrow.parquet as pq
import spacy

from answermill.indexing.passages.sentences import sentence_spans
from testing.harness import arguments, finish, installed, say, seconds

TAKES = "beside pip install pysbd syntok blingfire sentencex"
DECIDED = "Nothing ships by it."

SplitText = Callable[[str], list[str]]
"""Text → its sentences."""


def documents(data: Path) -> list[list[str]]:
    """Sentences of each WikiQA document that has at least two."""
    by_document: dict[str, list[str]] = {}
    for split in ("train", "dev", "test"):
        rows = pq.read_table(data / f"wikiqa/wikiqa-{split}.parquet").to_pylist()
        for _, group in groupby(rows, key=lambda row: row["question_id"]):
            sentences = list(group)
            by_document[sentences[0]["document_id"]] = [
                " ".join(row["sentence"].split()) for row in sentences
            ]
    return [sentences for _, sentences in sorted(by_document.items()) if len(sentences) > 1]


def ends_of(sentences: list[str]) -> set[int]:
    """Number of characters, blanks not counted, before each inner end."""
    ends, characters = set(), 0
    for sentence in sentences[:-1]:
        characters += len("".join(sentence.split()))
        ends.add(characters)
    return ends


def rules(language: str) -> SplitText:
    return lambda text: [text[start:end] for start, end in sentence_spans(text, language)]


def sentencizer(language: str) -> SplitText:
    # Some languages' own tokenizers need more packages.
    nlp = spacy.blank("en" if language == "en" else "xx")
    nlp.add_pipe("sentencizer")

    def split(text: str) -> list[str]:
        with nlp.memory_zone():
            return [sentence.text for sentence in nlp(text).sents]

    return split


def pysbd(language: str) -> SplitText | None:
    import pysbd

    if language not in pysbd.languages.LANGUAGE_CODES:
        return None
    segmenter = pysbd.Segmenter(language=language, clean=False)
    return lambda text: list(segmenter.segment(text))


def syntok(language: str) -> SplitText | None:
    from syntok import segmenter

    def split(text: str) -> list[str]:
        starts = [sentence[0].offset for paragraph in segmenter.process(text) for sentence in paragraph]
        return [text[start:end] for start, end in pairwise([*starts, len(text)])]

    return split if language in ("de", "en", "es") else None


def blingfire(language: str) -> SplitText:
    import blingfire

    return lambda text: str(blingfire.text_to_sentences(text)).split("\n")


def sentencex(language: str) -> SplitText:
    import sentencex

    return lambda text: list(sentencex.segment(language, text))


LIBRARIES: dict[str, Callable[[str], SplitText | None]] = {
    "rules": rules,
    "sentencizer": sentencizer,
    "pysbd": pysbd,
    "syntok": syntok,
    "blingfire": blingfire,
    "sentencex": sentencex,
}
"""Name → from a language, an ISO 639 code, to its splitter; None if the library does not know it."""


def splitters(language: str) -> tuple[dict[str, SplitText], list[str]]:
    """(name → splitter of a language, for the libraries that are installed and know it; the names of those
    that are not installed)."""
    loaders = {name: partial(load, language) for name, load in LIBRARIES.items()}
    loaded, missing = installed(loaders)
    return {name: split for name, split in loaded.items() if split is not None}, missing


def main() -> None:
    options = arguments("sentences", __doc__ or "")
    reference = documents(options.data)
    texts = [" ".join(sentences) for sentences in reference]
    known = [ends_of(sentences) for sentences in reference]
    result: dict[str, float | int | str] = {
        "documents": len(reference),
        "sentences": sum(map(len, reference)),
    }

    by_name, missing = splitters("en")
    if missing:
        result["not_installed"] = ", ".join(missing)
    for name, split in by_name.items():
        predicted = [ends_of(split(text)) for text in texts]
        right = sum(len(a & b) for a, b in zip(predicted, known, strict=True))
        all_predicted, all_known = sum(map(len, predicted)), sum(map(len, known))
        result |= {f"{name}_precision": right / all_predicted, f"{name}_recall": right / all_known}
        result[f"{name}_f1"] = 2 * right / (all_predicted + all_known)
        say(f"{name}: F1 {result[f'{name}_f1']:.4f}")

    times: dict[str, list[float]] = {name: [] for name in by_name}
    for _ in range(options.rounds):
        for name, split in by_name.items():
            with seconds(times[name]):
                for text in texts:
                    split(text)
            say(f"{name}: {times[name][-1]:.2f} s")

    size, count = sum(map(len, texts)) / 1e6, sum(map(len, reference))
    result |= {f"{name}_mb_per_s": size / statistics.median(values) for name, values in times.items()}
    result |= {
        f"{name}_sentences_per_s": round(count / statistics.median(values)) for name, values in times.items()
    }
    finish("sentences", result, options.save)


if __name__ == "__main__":
    main()
