"""Publish: training data of passages -> the data set as other tools read it, with its card.

The folder holds the forms that were chosen and, written last, README.md: the card, whose head gives
`datasets` the paths of the Parquet files. The rows are read once, as a stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from answermill.files.atomic_files import WrongShape, read_json, recover_folder, sha256, write_text
from answermill.files.parquet_files import open_parquet
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.publish.card import Card, Origin, SplitCounts
from answermill.pipelines.data.publish.formats import FORMS, QuestionRows, judged, sentences
from answermill.pipelines.data.publish.training_passages import SUMMARY
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError, check_file
from answermill.pipelines.runs.manifests.manifest import read_manifest
from answermill.pipelines.runs.new_folder import new_folder
from answermill.pipelines.runs.parquet_folder import digest_of, read_batches
from answermill.pipelines.runs.spec import FolderSpec
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.annotate import ANNOTATE, TASKS
from answermill.pipelines.specs.collect import AGREEMENT, COLLECT, COLLECTED, LABELS
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.labels import LabelledPassage

CARD = "README.md"
COUNTED = ("questions", "passages", "positives")
"""Counts of each split in passages.json, beside others."""
MADE_OF: Mapping[str, FolderSpec[Any]] = {
    "labels": SENTENCE_LABELS,
    "documents": DOCUMENTS,
    "questions": QUESTIONS,
}
"""Key of `inputs` in passages.json → the folder of the run."""
AGAIN = "`answermill passages RUN --out OTHER` writes the data again, into another folder"


@dataclass(slots=True)
class Counting:
    """Adds up the figures of the card's table, and checks the rows."""

    counts: Counter[tuple[Split, str]] = field(default_factory=Counter)
    split_of: dict[str, Split] = field(default_factory=dict)
    """question_id → its split."""
    example: LabelledPassage | None = None
    """The first row with a correct sentence; the first row if no row has one."""
    _documents: dict[Split, set[str]] = field(default_factory=lambda: {name: set() for name in SPLITS})
    _previous: tuple[Split | None, str] = (None, "")
    """Split and folded text of the question before."""

    def take(self, split: Split, rows: QuestionRows) -> None:
        """Count the rows of a question. Raises JobError (65) if it occurs again."""
        question = rows[0].question_id
        if question in self.split_of:
            raise JobError(
                f"question {question!r} is in {split} and in {self.split_of[question]}, or twice", BAD_DATA
            )

        self.split_of[question] = split
        self._documents[split].update(row.doc_id for row in rows)

        if self.example is None or not self.example.label:
            self.example = next((row for row in rows if row.label), self.example or rows[0])

        windows, candidates = judged(rows), sentences(judged(rows))
        counts = {
            "questions": 1,
            "answered": any(row.label for row in rows),
            "passages": len(windows),
            "passages_positive": sum(row.label for row in windows),
            "retrieved": len(rows) - len(windows),
            "sentences": len(candidates),
            "sentences_positive": sum(candidate.label for candidate in candidates),
            "same_text_as_before": (split, fold(rows[0].question)) == self._previous,
        }

        self._previous = (split, fold(rows[0].question))
        self.counts.update({(split, name): int(n) for name, n in counts.items()})

    def statistics(self, annotated: Mapping[tuple[Split, str], int] | None) -> SplitCounts:
        documents: dict[str, int] = {name: len(ids) for name, ids in self._documents.items()}
        documents["total"] = len(set().union(*self._documents.values()))
        return SplitCounts(self.counts, documents, annotated)


def publish(
    data: Path,
    out: Path,
    forms: Sequence[str],
    card: Card,
    run: Path | None = None,
) -> Iterator[str]:
    """Write `forms` of the passages in `data` and the card into `out`; yields lines for people.

    Raises JobError: 2 if no form is named, 66 if `data` or a folder of `run` is missing, 65 if the files are
    not those that passages.json counts or those of `run`, 73 if `out` has files.
    """
    if not forms or set(forms) - FORMS.keys():
        raise JobError(f"--forms {' '.join(forms)}: give one or several of {', '.join(FORMS)}", USAGE)

    summary = _summary(data)
    origin = None
    if run is not None:
        _check_run(run, summary, data)
        origin = origin_of(run)

    counting, done = Counting(), 0
    questions = sum(summary[f"{name}_questions"] for name in SPLITS)

    with (
        new_folder(out),
        ExitStack() as files,
        progress("publish", questions, lambda: done, what="questions"),
    ):
        takers = [files.enter_context(FORMS[form](out, card.name)) for form in dict.fromkeys(forms)]
        for split, rows in read(data):
            counting.take(split, rows)
            for take in takers:
                take(split, rows)
            done += 1
        _check(counting, summary, data)
        files.close()

        annotated = _annotated(run, counting.split_of) if run is not None else None
        statistics = counting.statistics(annotated)
        digest = sha256(data / SUMMARY)
        written = list(dict.fromkeys(forms))
        text = card.text(written, statistics, summary, origin, digest=digest, example=counting.example)
        write_text(out / CARD, text)
    yield from statistics.lines()
    yield f"written: {out}"


def read(data: Path) -> Iterator[tuple[Split, list[LabelledPassage]]]:
    """Split and rows of each question, in the files' order. Raises JobError (66, 65)."""
    for split in SPLITS:
        path = data / f"{split}.parquet"
        check_file(path, advice=AGAIN)
        try:
            with open_parquet(path) as file:
                rows = (row for batch in file.iter_batches(512) for row in LabelledPassage.rows(batch))
                for _, group in groupby(rows, key=lambda row: row.question_id):
                    yield split, list(group)
        except (pa.ArrowInvalid, KeyError, TypeError, OSError) as e:
            raise JobError(f"{path}: no labelled passages ({e}); {AGAIN}", BAD_DATA) from e


def _summary(data: Path) -> dict[str, Any]:
    try:
        summary = read_json(data / SUMMARY, dict[str, Any])
        counts = {name: summary.get(name) for name in (f"{s}_{count}" for s in SPLITS for count in COUNTED)}
    except FileNotFoundError:
        raise JobError(
            f"{data / SUMMARY} does not exist; run `answermill passages RUN --out {data}` first",
            INPUT_MISSING,
        ) from None
    except WrongShape as e:
        raise JobError(f"not what `answermill passages` writes: {e}; {AGAIN}", BAD_DATA) from None

    for name, count in counts.items():
        if type(count) is not int:
            raise JobError(f"{data / SUMMARY}: {name} is {count!r}, and no count of rows; {AGAIN}", BAD_DATA)

    return summary


def _check(counting: Counting, summary: Mapping[str, Any], data: Path) -> None:
    """Raise JobError (65) unless the rows read are those written, by questions, passages and positives of
    each split."""
    for name in SPLITS:
        counts = {
            kind: counting.counts[name, kind]
            for kind in ("questions", "passages", "passages_positive", "retrieved")
        }
        in_files = (
            counts["questions"],
            counts["passages"] + counts["retrieved"],
            counts["passages_positive"],
        )

        in_summary = tuple(summary[f"{name}_{count}"] for count in COUNTED)
        if in_files != in_summary:
            raise JobError(
                f"{data / name}.parquet has {in_files} questions, passages, positives, but {SUMMARY} says "
                f"{in_summary}; "
                f"{AGAIN}",
                BAD_DATA,
            )


def _check_run(run: Path, summary: Mapping[str, Any], data: Path) -> None:
    """Raise JobError (65) unless the data are of this run, as far as passages.json says."""
    inputs = summary.get("inputs")
    known = inputs if isinstance(inputs, dict) else {}
    for name, folder in MADE_OF.items():
        manifest = read_manifest(folder.path(run))
        if name in known and manifest is not None and digest_of(manifest) != known[name]:
            problem = f"its {folder.name} is not what {data} was made of; name the run that it was"
            raise JobError(f"--run {run}: {problem}", BAD_DATA)


def origin_of(run: Path) -> Origin:
    """Origin of the data of a run, by its manifests. Raises JobError (66) if it is no run."""
    recover_folder(run / COLLECTED)
    documents, questions = (read_manifest(folder.path(run)) for folder in (DOCUMENTS, QUESTIONS))
    tasks = [TASKS.open(folder).manifest for folder in ANNOTATE.places(run)]
    if documents is None:
        problem = "does not exist or is not complete; --run takes the folder of a run"
        raise JobError(f"{DOCUMENTS.path(run)} {problem}", INPUT_MISSING)

    try:
        agreement = read_json(run / COLLECTED / AGREEMENT, dict[str, Any]) if _is_of_collected(run) else None
    except FileNotFoundError:
        agreement = None
    except WrongShape as e:
        raise JobError(
            f"not what `answermill collect` writes: {e}; {COLLECT.maker.again(run)}", BAD_DATA
        ) from None

    return Origin(documents, questions, tasks, agreement)


def _annotated(run: Path, split_of: Mapping[str, Split]) -> Counter[tuple[Split, str]] | None:
    """Number of judged sentences of the questions of each split: as people judged them, if the labels are
    theirs, else as they were propagated."""
    folder: FolderSpec[Any] = LABELS if _is_of_collected(run) else SENTENCE_LABELS
    manifest = read_manifest(folder.path(run))
    if manifest is None:
        return None

    sentences_judged: Counter[tuple[Split, str]] = Counter()
    for part in manifest.parts:
        for batch in read_batches(folder.path(run), part, ["question_id", "label"], rows=8_192):
            for row in batch.to_pylist():
                if (split := split_of.get(row["question_id"])) is not None:
                    sentences_judged[split, "positive" if row["label"] else "negative"] += 1
    return sentences_judged


def _is_of_collected(run: Path) -> bool:
    """True if the labels that were propagated are those that were collected, not a file's."""
    collected, propagated = (read_manifest(folder.path(run)) for folder in (LABELS, SENTENCE_LABELS))
    return (
        collected is not None
        and propagated is not None
        and propagated.inputs.get("labels") == digest_of(collected)
    )
