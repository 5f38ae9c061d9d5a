"""Ends of sentences: our rules against spaCy's sentencizer, pySBD, syntok and BlingFire, on documents with
known sentences.

Reference: the documents of WikiQA, whose sentences the data set lists one by one (cut by its authors' tool,
not by hand). They are joined by blanks and split again. A predicted end is right if a reference sentence ends
there; the end of the text does not count. Times are the median of the rounds, over the whole set.

--golden FILE: texts that people wrote to try splitters with, each with its sentences:
`benchmarks/english_golden_rules.py` of pySBD's source (MIT; `pip download pysbd --no-deps --no-binary
:all:`), which is read and not run. `<name>_golden_right` counts those of them that are split as they should
be; white space around a sentence does not count. They are odd cases, all of them, and pySBD was written to
pass them.

pySBD, syntok and BlingFire are no dependencies of AnswerMill: `pip install pysbd syntok blingfire`. Those
that cannot be imported are named and left out.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from pathlib import Path

import pyarrow.parquet as pq
import spacy

from answermill.indexing.passages.sentences import sentence_spans
from testing.harness import arguments, finish, installed, say, seconds

TAKES = "beside pip install pysbd syntok blingfire"
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


def golden_rules(file: Path) -> list[tuple[str, list[str]]]:
    """(text, its sentences) of the list in a Python file. Raises ValueError if the file has no such list."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign):
            rules: list[tuple[str, list[str]]] = ast.literal_eval(statement.value)
            return rules
    raise ValueError(f"{file}: no list of texts and their sentences")


def right_rules(split: SplitText, rules: Sequence[tuple[str, list[str]]]) -> int:
    """Number of texts that are split into just their sentences."""
    return sum(
        [sentence.strip() for sentence in split(text) if sentence.strip()]
        == [sentence.strip() for sentence in sentences]
        for text, sentences in rules
    )


def ends_of(sentences: list[str]) -> set[int]:
    """Number of characters, blanks not counted, before each inner end."""
    ends, characters = set(), 0
    for sentence in sentences[:-1]:
        characters += len("".join(sentence.split()))
        ends.add(characters)
    return ends


def rules() -> SplitText:
    return lambda text: [text[start:end] for start, end in sentence_spans(text)]


def sentencizer() -> SplitText:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def split(text: str) -> list[str]:
        with nlp.memory_zone():
            return [sentence.text for sentence in nlp(text).sents]

    return split


def pysbd() -> SplitText:
    import pysbd

    segmenter = pysbd.Segmenter(language="en", clean=False)
    return lambda text: list(segmenter.segment(text))


def syntok() -> SplitText:
    from syntok import segmenter

    def split(text: str) -> list[str]:
        starts = [sentence[0].offset for paragraph in segmenter.process(text) for sentence in paragraph]
        return [text[start:end] for start, end in pairwise([*starts, len(text)])]

    return split


def blingfire() -> SplitText:
    import blingfire

    return lambda text: str(blingfire.text_to_sentences(text)).split("\n")


LIBRARIES: dict[str, Callable[[], SplitText]] = {
    "rules": rules,
    "sentencizer": sentencizer,
    "pysbd": pysbd,
    "syntok": syntok,
    "blingfire": blingfire,
}


def main() -> None:
    options = arguments(
        "sentences", __doc__ or "", paths={"golden": "texts that people split, of pySBD's source"}
    )
    golden = golden_rules(options.golden) if options.golden else []
    reference = documents(options.data)
    texts = [" ".join(sentences) for sentences in reference]
    known = [ends_of(sentences) for sentences in reference]
    result: dict[str, float | int | str] = {
        "documents": len(reference),
        "sentences": sum(map(len, reference)),
    }

    splitters, missing = installed(LIBRARIES)
    if missing:
        result["not_installed"] = ", ".join(missing)
    for name, split in splitters.items():
        predicted = [ends_of(split(text)) for text in texts]
        right = sum(len(a & b) for a, b in zip(predicted, known, strict=True))
        all_predicted, all_known = sum(map(len, predicted)), sum(map(len, known))
        result |= {f"{name}_precision": right / all_predicted, f"{name}_recall": right / all_known}
        result[f"{name}_f1"] = 2 * right / (all_predicted + all_known)
        if golden:
            result |= {"golden_texts": len(golden), f"{name}_golden_right": right_rules(split, golden)}
        say(f"{name}: F1 {result[f'{name}_f1']:.4f}")

    times: dict[str, list[float]] = {name: [] for name in splitters}
    for _ in range(options.rounds):
        for name, split in splitters.items():
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
