"""Passages: labels of a run's sentences -> training data of passages, in train, dev and test (WQA §3.3).

A row is a question and a passage: the windows around the question's labelled sentences, positive if they hold
a correct one, and hard negatives (`hard_negatives`). Questions that are nearly the same are in one split, and
so is a document, unless `documents_apart` is off (`question_splits`). The folder holds train.parquet,
dev.parquet, test.parquet and, written last, passages.json.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.indexing.labels.windows import choose, windows
from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.tables import read_splits
from answermill.pipelines.data.publish import hard_negatives
from answermill.pipelines.data.publish.cut_documents import ReadDocuments, cut, read_only, window_ends
from answermill.pipelines.data.publish.hard_negatives import ReadHits
from answermill.pipelines.data.publish.left_out import Reason, left_out_counts
from answermill.pipelines.data.publish.passage_set import CutDocument, PassageRules, QuestionPassages
from answermill.pipelines.data.publish.question_splits import LabelledQuestions, QuestionSplits
from answermill.pipelines.data.publish.training_set import SetFiles, digests
from answermill.pipelines.data.splits import Split
from answermill.pipelines.runs.new_folder import new_folder
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.schemas.corpus import Document, Question
from answermill.schemas.labels import LabelledPassage, SentenceLabel

SUMMARY = "passages.json"


@dataclass(frozen=True, slots=True)
class TrainingPassages:
    """Training data, a question at a time."""

    questions: tuple[QuestionPassages, ...]
    """By id; questions without a window are left out."""
    documents: Mapping[str, CutDocument]
    counts: Mapping[str, int]
    """Numbers of inputs, of those used, and of those left out."""

    def rows(self) -> Iterator[tuple[Split, list[LabelledPassage]]]:
        """The split and the rows of each question."""
        for question in self.questions:
            yield question.split, list(question.rows(self.documents))


def build(
    labelled: LabelledQuestions,
    documents: ReadDocuments,
    hits: ReadHits,
    rules: PassageRules | None = None,
    sentence_tokens: int = 200,
) -> TrainingPassages:
    """Training data of passages; nothing depends on the order of the inputs.

    `documents` is called at most twice; `sentence_tokens` is the limit under which the documents' sentences
    were cut.

    Raises JobError (65) if no label can be used, or if the hits are not of these documents.
    """
    rules = rules or PassageRules()
    splits = QuestionSplits.make(labelled, rules)
    refusals = [splits.refusal(label) for label in labelled.labels]
    usable = [label for label, reason in zip(labelled.labels, refusals, strict=True) if reason is None]
    left_out = Counter(reason for reason in refusals if reason is not None)

    cut_documents = cut(read_only({label.doc_id for label in usable}, documents), sentence_tokens)
    numbers = {
        (doc_id, sentence.sentence_id): n
        for doc_id, (_, sentences) in cut_documents.items()
        for n, sentence in enumerate(sentences)
    }
    located = [
        (label, n) for label in usable if (n := numbers.get((label.doc_id, label.sentence_id))) is not None
    ]
    if missing := len(usable) - len(located):
        left_out[Reason.UNKNOWN_SENTENCE] = missing

    questions = _with_windows(located, splits, cut_documents, rules)
    copies = sum(_leave_out_copies(question, cut_documents) for question in questions.values())
    questions = {q: question for q, question in questions.items() if question.windows}
    counts = {"labels": len(refusals), "labels_used": len(located), **left_out_counts("labels", left_out)}
    account = splits.account(
        len(questions), counts | left_out_counts("windows", {Reason.LOOKS_CORRECT: copies})
    )

    if rules.negatives:
        starts, left_out = hard_negatives.choose(questions, cut_documents, hits, splits, rules)
        every_start = {start for own_starts in starts.values() for start in own_starts}
        passages = hard_negatives.cut_windows(every_start, cut_documents, documents, rules, sentence_tokens)

        for q, question in questions.items():
            # A window is longer than the passage that was retrieved, and may look correct where that does
            # not.
            own = [passages[start] for start in starts[q]]
            question.negatives = [window for window in own if not question.refusal(window.sentences)]
            left_out[Reason.LOOKS_CORRECT] += len(starts[q]) - len(question.negatives)

        account["questions_short_of_negatives"] = sum(
            len(question.negatives) < rules.negatives for question in questions.values()
        )
        account.update(left_out_counts("retrieved", left_out))

    return TrainingPassages(tuple(questions.values()), cut_documents, account)


def _with_windows(
    labels: Sequence[tuple[SentenceLabel, int]],
    splits: QuestionSplits,
    documents: Mapping[str, CutDocument],
    rules: PassageRules,
) -> dict[str, QuestionPassages]:
    """question_id → the question with the windows around its labelled sentences, whose numbers in their
    documents are given."""
    judged: dict[str, set[str]] = defaultdict(set)
    correct: dict[str, set[str]] = defaultdict(set)
    for label in splits.labelled.labels:  # also those that are left out
        judged[label.question_id].add(label.sentence_id)
        if label.label:
            correct[label.question_id].add(label.sentence_id)

    labelled: dict[str, set[int]] = defaultdict(set)
    for label, n in labels:
        labelled[label.doc_id].add(n)
    ends = window_ends(documents, labelled, rules.places, rules.max_tokens)

    questions: dict[str, QuestionPassages] = {}
    for label, n in sorted(labels, key=lambda pair: pair[0].question_id):
        q, doc_id, near = label.question_id, label.doc_id, splits.right_for_near(label.question_id)
        if label.label:
            near.texts.add(fold(documents[doc_id][1][n].text))
        if q not in questions:
            question = Question(q, splits.labelled.questions[q])
            questions[q] = QuestionPassages(question, splits.split_of[q], correct[q], judged[q], near)
        runs = windows(n, ends[doc_id].__getitem__, rules.places)
        chosen = choose(runs, n, rules.group, f"{rules.seed}:{q}:{label.sentence_id}")
        questions[q].windows.setdefault(doc_id, set()).update(chosen)

    return questions


def _leave_out_copies(question: QuestionPassages, documents: Mapping[str, CutDocument]) -> int:
    """Drop the windows without a correct sentence that may hold one all the same: neither right nor wrong;
    returns their number."""
    candidates = [
        (doc_id, run, documents[doc_id][1][slice(*run)])
        for doc_id, runs in question.windows.items()
        for run in runs
    ]
    copies = [
        (doc_id, run)
        for doc_id, run, sentences in candidates
        if question.refusal(sentences) is Reason.LOOKS_CORRECT
    ]
    for doc_id, run in copies:
        question.windows[doc_id].remove(run)
    question.windows = {doc_id: runs for doc_id, runs in question.windows.items() if runs}

    return len(copies)


def write_passages(
    run: Path,
    out: Path,
    rules: PassageRules,
    split_file: Path | None = None,
    columns: Columns = AS_NAMED,
) -> str:
    """Build the training data of a run and write the folder; returns a line for people.

    Raises JobError: 66 if the run lacks a folder or the split file is missing, 65 if one is wrong or no label
    can be used, 73 if `out` has files.
    """
    with new_folder(out):
        return _written(run, SetFiles(out, "passages", LabelledPassage, _tally), rules, split_file, columns)


def _written(
    run: Path,
    files: SetFiles[LabelledPassage],
    rules: PassageRules,
    split_file: Path | None,
    columns: Columns,
) -> str:
    splits = read_splits(split_file, columns) if split_file is not None else None
    labels = SENTENCE_LABELS.open(run)
    documents = DOCUMENTS.open(run)
    questions = QUESTIONS.open(run)
    retrieved = RETRIEVED.open(run) if rules.negatives else None

    all_labels = list(labels.read())
    labelled = questions.where("question_id", {label.question_id for label in all_labels})
    training = build(
        LabelledQuestions(all_labels, {question.question_id: question.text for question in labelled}, splits),
        lambda ids: documents.where("doc_id", ids),
        lambda ids: retrieved.where("question_id", ids) if retrieved else (),
        rules,
        ingest_settings(documents).passage_tokens,
    )

    rows = files.write_splits(training.rows(), len(training.questions))
    folders: dict[str, Folder[Any] | None] = {
        "labels": labels,
        "documents": documents,
        "questions": questions,
        "retrieved": retrieved,
    }
    content = rules.settings(drawn=splits is None) | dict(sorted(training.counts.items())) | rows

    return files.write_summary({**content, "inputs": digests(folders, {"split_file": split_file})})


def ingest_settings(documents: Folder[Document]) -> Ingest:
    """The settings under which `ingest` wrote the documents, from their manifest."""
    known = {
        name: value for name, value in documents.manifest.settings.items() if name in Ingest.model_fields
    }
    return Ingest.model_validate({"input": list(documents.manifest.inputs), **known})


def _tally(rows: Sequence[LabelledPassage]) -> dict[str, int]:
    """Counts of a question's rows."""
    positives = sum(row.label for row in rows)
    retrieved = sum(row.source == "retrieved" for row in rows)
    return {
        "passages": len(rows),
        "positives": positives,
        "negatives": len(rows) - positives,
        "retrieved": retrieved,
    }
