"""The card of a published data set: its content, its making, its sources, and its limits.

Its head is YAML that `datasets` and the Hugging Face hub read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.pipelines.data.licences import hub_id
from answermill.pipelines.data.publish.left_out import count_in_words
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import counted
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.schemas.labels import LabelledPassage

_SHOWN_FILES, _SHOWN_CHARACTERS = 20, 240
_HEAD = ("Split", "Questions", "Documents", "QP pairs", "QP+", "QP-", "QA pairs", "QA+", "QA-")
_FILES = {
    "parquet": '`passages/` and `sentences/`: Parquet; `datasets.load_dataset(FOLDER, "passages")`, or '
    '`"sentences"`',
    "dpr": "`dpr/`: JSON of DPR's retriever training; all negatives are in `hard_negative_ctxs`",
    "beir": "`beir/`: corpus, queries and qrels of the windows; retrieved passages are in the corpus, not "
    "judged",
    "asnq": "`asnq/`: question, sentence, class 1 to 4: 4 correct; 3 another sentence of a positive "
    "passage; 2 in none, with "
    "the text of a correct one; 1 neither",
    "trec": "`trec/`: topics, and qrels of windows and of their sentences",
}


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """Counts by (split, kind), see `publish.Counting`; and counts of judged sentences, if they are known."""

    counts: Mapping[tuple[Split, str], int]
    documents: Mapping[str, int]
    """Number of distinct documents of each split, and in 'total'."""
    annotated: Mapping[tuple[Split, str], int] | None

    def rows(self) -> Iterator[tuple[str, ...]]:
        """WQA's Table 1: a row for each split, and the total. QA pairs are the judged ones, if they are
        known."""
        for name, splits in (*((name, (name,)) for name in SPLITS), ("total", SPLITS)):
            qp, positive = (self.total(splits, kind) for kind in ("passages", "passages_positive"))
            if self.annotated is None:
                qa, correct = (self.total(splits, kind) for kind in ("sentences", "sentences_positive"))
            else:
                correct = sum(self.annotated.get((split, "positive"), 0) for split in splits)
                qa = correct + sum(self.annotated.get((split, "negative"), 0) for split in splits)
            pairs = (qp, positive, qp - positive, qa, correct, qa - correct)
            yield name, *(f"{n:,}" for n in (self.total(splits, "questions"), self.documents[name], *pairs))

    def total(self, splits: Sequence[Split], kind: str) -> int:
        return sum(self.counts.get((split, kind), 0) for split in splits)

    def lines(self) -> Iterator[str]:
        """The table for a terminal."""
        rows = [_HEAD, *self.rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
        for name, *numbers in rows:
            yield "  ".join(
                [
                    name.ljust(widths[0]),
                    *(n.rjust(width) for n, width in zip(numbers, widths[1:], strict=True)),
                ]
            )


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a set: the manifests of a run, and the agreement that `answermill collect` measured."""

    documents: Manifest
    questions: Manifest | None
    tasks: Sequence[Manifest]
    """Of each batch that people were asked, the first batch first."""
    agreement: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Card:
    """The publisher's words for the set."""

    name: str
    licence: str
    sources: tuple[str, ...] = ()
    """Sources, each with its licence, as the card shows them."""

    def text(
        self,
        forms: Sequence[str],
        statistics: SplitCounts,
        summary: Mapping[str, Any],
        origin: Origin | None,
        *,
        digest: str,
        example: LabelledPassage | None = None,
    ) -> str:
        """The file. `summary` is the content of passages.json, `digest` its SHA-256, `example` a row to
        show."""
        parts = [
            f"---\n{self._head(forms, statistics, origin)}\n---",
            f"# {self.name}",
            "Questions, passages and sentences of web pages, labelled for answer sentence selection in the "
            "way of WQA (Zhang, Vu & Moschitti 2022, §3). Made by AnswerMill.",
            "## Statistics\n\n" + "\n".join(_table(_HEAD, statistics.rows())),
            _table_note(statistics),
            "## Files\n\n" + "\n".join(f"- {_FILES[form]}" for form in forms),
            *([f"## A row\n\n{_example(example)}"] if example is not None else []),
            _LABELS,
            "## How it was made\n\n" + "\n".join(_provenance(summary, origin, digest)),
            *(
                ["## Agreement\n\n" + "\n".join(_agreement(origin.agreement))]
                if origin and origin.agreement
                else []
            ),
            "## Sources and licences\n\n" + "\n".join(self._sources(origin)),
            "## Known limits\n\n" + "\n".join(_limits(statistics, summary, forms, origin)),
            _CITATION,
        ]

        return "\n\n".join(parts) + "\n"

    def _head(self, forms: Sequence[str], statistics: SplitCounts, origin: Origin | None) -> str:
        """The YAML that `datasets` and the hub read."""
        from huggingface_hub import DatasetCardData  # takes half a second, so not at the top

        language = origin.documents.settings.get("language") if origin else None
        languages = [language] if isinstance(language, str) else language or []
        files = [name for name in SPLITS if statistics.total((name,), "questions")]
        configs = [
            {
                "config_name": config,
                "data_files": [{"split": name, "path": f"{config}/{name}.parquet"} for name in files],
            }
            for config in ("passages", "sentences")
        ]
        known = hub_id(self.licence)
        head = DatasetCardData(
            pretty_name=self.name,
            license=known or "other",
            license_name=self.licence if known is None else None,
            language=list(filter(None, languages)) or None,
            task_categories=["question-answering", "text-ranking"],
            configs=configs if "parquet" in forms else None,
        )

        return head.to_yaml()

    def _sources(self, origin: Origin | None) -> Iterator[str]:
        yield f"The set itself: {self.licence}. What went into it keeps its own licence:"
        yield ""
        yield from (f"- {source}" for source in self.sources or ["not stated by the publisher of this set"])
        if origin:
            files = sorted(Path(name).name for name in origin.documents.inputs if name != "domain_list")
            rest = f" and {len(files) - _SHOWN_FILES:,} more" if len(files) > _SHOWN_FILES else ""
            yield ""
            count = f"{len(files):,} file{'s'[: len(files) != 1]}"
            yield (
                f"Pages were read from {count}: "
                f"{', '.join(f'`{name}`' for name in files[:_SHOWN_FILES])}{rest}."
            )


_LABELS = """## Labels

- A sentence is correct (1) if people judged that it answers the question; 0: it was judged not to, or was not judged.
- A passage is positive (1) if it holds at least one correct sentence. A window (`source` is `window`) is a run of whole
  sentences around a judged one, negative (0) if none of its sentences is correct. A passage that was `retrieved` for the
  question and holds no sentence that is known to be correct is a hard negative, which nobody judged."""


_CITATION = """## Citation

The sources above are to be cited for their texts, and for the way in which the set was made: Zhang, Vu and Moschitti,
*In Situ Answer Sentence Selection at Web-scale*, 2022."""


def _example(row: LabelledPassage) -> str:
    """A row for people: its first words, and its first sentence with a label."""
    shown = next((sentence for sentence in row.sentences if sentence.label), row.sentences[0])
    pairs = {
        "question": row.question,
        "passage": f"{_shortened(row.text)} (`{row.source}` of `{row.doc_id}`, label {row.label})",
        "one of its sentences": f"{_shortened(shown.text)} (label {shown.label})",
    }
    return "\n".join(f"- {name}: {' '.join(text.split())}" for name, text in pairs.items())


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS].rpartition(" ")[0] + " …"


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def _table_note(statistics: SplitCounts) -> str:
    judged = "sentences that were judged for these questions, also those that were left out of the set"
    pairs = judged if statistics.annotated is not None else "sentences of these windows, judged or not"
    retrieved, answered = statistics.total(SPLITS, "retrieved"), statistics.total(SPLITS, "answered")
    return (
        "The columns are those of WQA's Table 1: QP pairs are questions with windows around judged "
        "sentences, QA pairs with "
        f"{pairs}. Besides, {retrieved:,} retrieved passages are hard negatives; {answered:,} questions "
        "have a positive "
        "passage."
    )


def _provenance(summary: Mapping[str, Any], origin: Origin | None, digest: str) -> Iterator[str]:
    """Lines on the making of the set."""
    split = (
        "a given file"
        if summary.get("shares") is None
        else " / ".join(f"{share:g}" for share in summary["shares"])
    )
    apart = "no document stands" if summary.get("documents_apart", True) else "documents may stand"

    if origin:
        settings, counts = origin.documents.settings, origin.documents.counts
        domains = settings.get("domains")
        kept = f"; of the {domains:,} most frequent domains, or all if there are fewer" if domains else ""
        kept += "; a list of domains" if "domain_list" in origin.documents.inputs else ""
        yield (
            f"- Pages: {counts.get('pages', 0):,} read, {counts.get('documents', 0):,} kept (language "
            f"{_any_of(settings.get('language'))}, at least {settings.get('min_words')} words{kept})"
        )

        if origin.questions:
            questions = origin.questions
            total = questions.counts.get("questions_given", questions.rows)
            depth = questions.settings.get("depth")
            yield (
                f"- Questions: {questions.rows:,} of {total:,} asked; up to {depth} passages for each from each "
                "index"
            )

        for number, tasks in enumerate(origin.tasks, 1):
            batch = f", batch {number}" if len(origin.tasks) > 1 else ""
            yield f"- Judged sentences{batch}: {_sampling(tasks.settings, tasks.counts)}"

    yield (
        f"- Passages: windows of at most {summary.get('max_tokens')} tokens, group "
        f"`{summary.get('group')}`, the judged "
        f"sentence in places 1 to {summary.get('places')}; up to {summary.get('negatives')} retrieved "
        "passages for a question"
    )
    yield (
        f"- Splits by question: {split}, seed {summary.get('seed')}; questions whose words have a Jaccard "
        "similarity of "
        f"{summary.get('similar', 1)} or more stand together; {apart} in two splits"
    )

    left_out = [count_in_words(name, n) for name, n in summary.items() if "left_out" in name and n]
    yield f"- Left out: {', '.join(left_out) or 'nothing'}"
    yield f"- `passages.json` of the passages has the SHA-256 `{digest}`"


def _sampling(settings: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    """How the sentences that people judge were chosen, and how many they are."""
    top, random, control, tasks = (counts.get(name, 0) for name in ("top", "random", "control", "tasks"))
    people, share = settings.get("annotators", 1), settings.get("overlap_share", 1)
    by = (
        ""
        if people == 1
        else f"; {people} people judge each" + (f" of {share:.0%} of them" if share < 1 else "")
    )
    controls = f", and {control:,} with known labels, unseen" if control else ""
    chosen = f"the {settings.get('top')} best and, drawn from the others, {settings.get('random')}"
    drawn = f"{tasks:,} sentences, {top:,} of the best, {random:,} of the others{controls}"
    return f"of each question {chosen}; for {counted(counts.get('questions', 0), 'question')} {drawn}{by}"


def _agreement(agreement: Mapping[str, Any]) -> Iterator[str]:
    """Lines on the figures that have a value, and on the number of people; without their names."""
    for name, figure in agreement.items():
        if isinstance(figure, Mapping) and "value" in figure:
            basis = ", ".join(
                counted(n, key.removesuffix("s"))
                for key, n in figure.items()
                if key in ("tasks", "votes") and isinstance(n, int)
            )
            value = (
                f"{figure['value']:.3f}"
                if isinstance(figure["value"], float | int)
                else f"undefined ({figure.get('undefined')})"
            )
            known = {"krippendorff_alpha": "Krippendorff's alpha", "fleiss_kappa": "Fleiss' kappa"}
            yield f"- {known.get(name, _spaced(name))}: {value}" + (f" ({basis})" if basis else "")

    if isinstance(people := agreement.get("annotators"), Mapping):
        yield f"- people who judged: {len(people):,}"
        controls = [person.get("controls") or {} for person in people.values() if isinstance(person, Mapping)]
        right, judged = (sum(tally.get(key) or 0 for tally in controls) for key in ("right", "of"))
        if judged:
            yield f"- sentences whose label was known: {right:,} of {judged:,} were judged right"

    if isinstance(counts := agreement.get("counts"), Mapping):
        votes, conflicts = counts.get("votes", 0), counts.get("conflicts", 0)
        said = f"{counts.get('annotations', 0):,}, of which {votes:,} count"
        yield f"- judgements: {said}; they differ on {counted(conflicts, 'task')}"
        fates = counts.get("fates")
        if isinstance(fates, Mapping):
            yield f"- tasks: {', '.join(f'{n:,} {_spaced(fate)}' for fate, n in sorted(fates.items()))}"


def _limits(
    statistics: SplitCounts, summary: Mapping[str, Any], forms: Sequence[str], origin: Origin | None
) -> Iterator[str]:
    yield (
        "- A sentence that nobody judged counts as wrong: some of them answer. Retrieved negatives were not "
        "judged at all."
    )
    yield (
        "- Judged sentences are those that retrieval and rerankers ranked high: what these miss is missing "
        "here."
    )
    yield "- Windows around one sentence overlap; a metric over them rewards finding any of them."
    yield "- Pages are as they were crawled: what they say may be wrong, dated, or personal."
    if not summary.get("documents_apart", True):
        yield "- A document may stand in two splits: a model may have met test passages in training."
    if "asnq" in forms and (same := statistics.total(SPLITS, "same_text_as_before")):
        yield (
            f"- `asnq/` has no ids: {same:,} questions follow one of the same text, and read as one "
            "question with it."
        )
    if origin is None or origin.agreement is None:
        yield "- How far annotators agree is not known here."


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace(".", " ")


def _any_of(languages: object) -> str:
    """One code or several for people; 'any' if there is none."""
    codes = languages if isinstance(languages, list) else [languages]
    return " or ".join(str(code) for code in codes if code) or "any"
