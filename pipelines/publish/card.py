"""The card of a published data set: what is in it, how it was made, from what, and what it is not good for.

Its head is YAML that `datasets` reads; JSON values are YAML's as well, so strings are written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexing.annotation.splits import SPLITS, Split
from pipelines.execution.parquet_folder import Manifest

_SHOWN_FILES = 20
_HEAD = ("Split", "Questions", "Documents", "QP pairs", "QP+", "QP-", "QA pairs", "QA+", "QA-")
_WRITTEN = {
    "parquet": '`passages/` and `sentences/`: Parquet; `datasets.load_dataset(FOLDER, "passages")`, or `"sentences"`',
    "dpr": "`dpr/`: JSON of DPR's retriever training; all negatives are in `hard_negative_ctxs`",
    "beir": "`beir/`: corpus, queries and qrels of the windows; retrieved passages are in the corpus, not judged",
    "asnq": "`asnq/`: question, sentence, class 1 to 4: 4 correct; 3 another sentence of a positive passage; 2 in none, with "
    "the text of a correct one; 1 neither",
    "trec": "`trec/`: topics, and qrels of windows and of their sentences",
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts by (split, what): see `publish.Counting`; and of sentences that were judged, where that is known."""

    counts: Mapping[tuple[Split, str], int]
    documents: Mapping[str, int]
    """Distinct ones of each split, and in 'total'."""
    annotated: Mapping[tuple[Split, str], int] | None

    def rows(self) -> Iterator[tuple[str, ...]]:
        """WQA's Table 1: a row for each split, and the total. QA pairs are the judged ones, where that is known."""
        for name, splits in (*((name, (name,)) for name in SPLITS), ("total", SPLITS)):
            qp, positive = (self.of(splits, what) for what in ("passages", "passages_positive"))
            if self.annotated is None:
                qa, correct = (self.of(splits, what) for what in ("sentences", "sentences_positive"))
            else:
                correct = sum(self.annotated.get((each, "positive"), 0) for each in splits)
                qa = correct + sum(self.annotated.get((each, "negative"), 0) for each in splits)
            numbers = (
                self.of(splits, "questions"),
                self.documents[name],
                qp,
                positive,
                qp - positive,
                qa,
                correct,
                qa - correct,
            )
            yield name, *(f"{number:,}" for number in numbers)

    def of(self, splits: Sequence[Split], what: str) -> int:
        return sum(self.counts.get((each, what), 0) for each in splits)

    def lines(self) -> Iterator[str]:
        """The table for a terminal."""
        rows = [_HEAD, *self.rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
        for name, *numbers in rows:
            yield "  ".join([name.ljust(widths[0]), *(n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True))])


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a set comes from: the manifests of a run, and what `answermill collect` found of agreement."""

    documents: Manifest
    questions: Manifest | None
    tasks: Manifest | None
    agreement: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Card:
    """What people say of the set."""

    name: str
    licence: str
    sources: tuple[str, ...] = ()
    """What went in, each with its licence, as it is to be read."""

    def text(
        self, forms: Sequence[str], statistics: Statistics, made: Mapping[str, Any], origin: Origin | None, digest: str
    ) -> str:
        """The file. `made` is what passages.json holds, `digest` its SHA-256."""
        parts = [
            "\n".join(["---", *self._head(forms, statistics, origin), "---"]),
            f"# {self.name}",
            "Questions, passages and sentences of web pages, labelled for answer sentence selection in the way of WQA (Zhang, "
            "Vu & Moschitti 2021, §3). Made by AnswerMill.",
            "## Statistics\n\n" + "\n".join(_table(_HEAD, statistics.rows())),
            _told_of_table(statistics),
            "## Files\n\n" + "\n".join(f"- {_WRITTEN[form]}" for form in forms),
            _LABELS,
            "## How it was made\n\n" + "\n".join(_making(made, origin, digest)),
            *(["## Agreement\n\n" + "\n".join(_agreement(origin.agreement))] if origin and origin.agreement else []),
            "## Sources and licences\n\n" + "\n".join(self._sources(origin)),
            "## Known limits\n\n" + "\n".join(_limits(statistics, made, forms, origin)),
        ]
        return "\n\n".join(parts) + "\n"

    def _head(self, forms: Sequence[str], statistics: Statistics, origin: Origin | None) -> Iterator[str]:
        yield f"pretty_name: {json.dumps(self.name, ensure_ascii=False)}"
        yield "license: other"
        yield f"license_name: {json.dumps(self.licence, ensure_ascii=False)}"
        if origin and (language := origin.documents.settings.get("language")):
            yield f"language: [{json.dumps(language)}]"
        yield "task_categories: [question-answering, text-ranking]"
        filled = [name for name in SPLITS if statistics.of((name,), "questions")]
        if "parquet" in forms:
            yield "configs:"
            for config in ("passages", "sentences"):
                yield f"- config_name: {config}"
                yield "  data_files:"
                for name in filled:
                    yield f"  - split: {name}"
                    yield f"    path: {config}/{name}.parquet"

    def _sources(self, origin: Origin | None) -> Iterator[str]:
        yield f"The set itself: {self.licence}. What went into it keeps its own licence:"
        yield ""
        yield from (f"- {source}" for source in self.sources or ["not stated by whoever published this set"])
        if origin:
            files = sorted(Path(name).name for name in origin.documents.inputs if name != "domain_list")
            more = f" and {len(files) - _SHOWN_FILES:,} more" if len(files) > _SHOWN_FILES else ""
            yield ""
            count = f"{len(files):,} file{'s'[: len(files) != 1]}"
            yield f"Pages were read from {count}: {', '.join(f'`{name}`' for name in files[:_SHOWN_FILES])}{more}."


_LABELS = """## Labels

- A sentence is correct (1) if people judged that it answers the question; 0: it was judged not to, or was not judged.
- A passage is positive (1) if it holds at least one correct sentence. A window (`source` is `window`) is a run of whole
  sentences around a judged one, negative (0) if none of its sentences is correct. A passage that was `retrieved` for the
  question and holds no sentence that is known to be correct is a hard negative, which nobody judged."""


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def _told_of_table(statistics: Statistics) -> str:
    of = "sentences that were judged" if statistics.annotated is not None else "sentences of these windows, judged or not"
    retrieved, answered = statistics.of(SPLITS, "retrieved"), statistics.of(SPLITS, "answered")
    return (
        "The columns are those of WQA's Table 1: QP pairs are questions with windows around judged sentences, QA pairs with "
        f"{of}. Besides, {retrieved:,} retrieved passages are hard negatives; {answered:,} questions have a positive passage."
    )


def _making(made: Mapping[str, Any], origin: Origin | None, digest: str) -> Iterator[str]:
    split = "a given file" if made.get("shares") is None else " / ".join(f"{share:g}" for share in made["shares"])
    apart = "no document stands" if made.get("documents_apart", True) else "documents may stand"
    if origin:
        settings, counts = origin.documents.settings, origin.documents.counts
        kept = f"; {settings['domains']:,} domains" if settings.get("domains") else ""
        kept += "; a list of domains" if "domain_list" in origin.documents.inputs else ""
        yield (
            f"- Pages: {counts.get('pages', 0):,} read, {counts.get('documents', 0):,} kept (language "
            f"{settings.get('language') or 'any'}, at least {settings.get('min_words')} words{kept})"
        )
        if origin.questions:
            asked = origin.questions
            given = asked.counts.get("questions_given", asked.rows)
            depth = asked.settings.get("depth")
            yield f"- Questions: {asked.rows:,} of {given:,} asked; up to {depth} passages for each from each index"
        if origin.tasks:
            yield f"- Judged sentences were chosen so: {_flat(origin.tasks.settings)}; tasks: {_flat(origin.tasks.counts)}"
    yield (
        f"- Passages: windows of at most {made.get('max_tokens')} tokens, group `{made.get('group')}`, the judged sentence in "
        f"places 1 to {made.get('places')}; up to {made.get('negatives')} retrieved passages for a question"
    )
    yield (
        f"- Splits by question: {split}, seed {made.get('seed')}; questions whose words have a Jaccard similarity of "
        f"{made.get('similar', 1)} or more stand together; {apart} in two splits"
    )
    left = {name: n for name, n in made.items() if "left_out" in name and n}
    yield f"- Left out: {_flat(left) or 'nothing'}"
    yield f"- `passages.json` of the passages has the SHA-256 `{digest}`"


def _agreement(agreed: Mapping[str, Any]) -> Iterator[str]:
    """The figures that have a value, and how many people there were; names stay out."""
    for name, told in agreed.items():
        if isinstance(told, Mapping) and "value" in told:
            of = ", ".join(f"{what} {n:,}" for what, n in told.items() if what != "value" and isinstance(n, int))
            value = f"{told['value']:.3f}" if isinstance(told["value"], float | int) else f"undefined ({told.get('undefined')})"
            yield f"- {_words(name)}: {value}" + (f" ({of})" if of else "")
    if isinstance(people := agreed.get("annotators"), Mapping):
        yield f"- annotators: {len(people):,}"
        controls = [of.get("controls") or {} for of in people.values() if isinstance(of, Mapping)]
        right, shown = (sum(each.get(key) or 0 for each in controls) for key in ("right", "of"))
        if shown:
            yield f"- controls, whose label is known: {right:,} of {shown:,} judged right"
    if isinstance(counts := agreed.get("counts"), Mapping):
        yield f"- counts: {_flat(counts)}"


def _limits(statistics: Statistics, made: Mapping[str, Any], forms: Sequence[str], origin: Origin | None) -> Iterator[str]:
    yield "- A sentence that nobody judged counts as wrong: some of them answer. Retrieved negatives were not judged at all."
    yield "- Judged sentences are those that retrieval and rerankers ranked high: what these miss is missing here."
    yield "- Windows around one sentence overlap; a metric over them rewards finding any of them."
    yield "- Pages are as they were crawled: what they say may be wrong, dated, or personal."
    if not made.get("documents_apart", True):
        yield "- A document may stand in two splits: a model may have met test passages in training."
    if "asnq" in forms and (same := statistics.of(SPLITS, "same_text_as_before")):
        yield f"- `asnq/` has no ids: {same:,} questions follow one of the same text, and read as one question with it."
    if origin is None or origin.agreement is None:
        yield "- How far annotators agree is not known here."


def _flat(values: Mapping[str, Any]) -> str:
    shown = ((name, n) for name, n in values.items() if isinstance(n, int | float | str) and n != "")
    return ", ".join(f"{_words(name)} {n:,}" if isinstance(n, int) else f"{_words(name)} {n}" for name, n in shown)


def _words(name: str) -> str:
    return name.replace("_", " ").replace(".", " ")
