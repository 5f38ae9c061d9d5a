"""Passages: labels of a run's sentences in; training data of passages, in train, dev and test, out (WQA §3.3).

A row is a question and a passage: the windows around the question's labelled sentences, positive if they hold a correct one,
and hard negatives (`hard_negatives`). Questions that are nearly the same are in one split, and so is a document, unless
`documents_apart` is off (`split_plan`). The folder holds train.parquet, dev.parquet, test.parquet and, written last,
passages.json.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from answermill.files.atomic_files import sha256, write_text
from answermill.indexing.labels.windows import choose, windows
from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import Ingest
from answermill.pipelines.data.inputs.tables import read_splits
from answermill.pipelines.data.publish import hard_negatives
from answermill.pipelines.data.publish.cut_documents import ReadDocuments, cut, read_only, window_ends
from answermill.pipelines.data.publish.hard_negatives import ReadHits, correct_in
from answermill.pipelines.data.publish.passage_set import CutDocument, PassageRules, QuestionPassages, TrainingPassages
from answermill.pipelines.data.publish.split_plan import SplitPlan
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.parquet_folder import Folder, whole_file
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.schemas.corpus import Document, Question
from answermill.schemas.labels import LabelledPassage, SentenceLabel

SUMMARY = "passages.json"


def build(
    labels: Iterable[SentenceLabel],
    questions: Mapping[str, str],
    documents: ReadDocuments,
    hits: ReadHits,
    rules: PassageRules | None = None,
    splits: Mapping[str, Split] | None = None,
    sentence_tokens: int = 200,
) -> TrainingPassages:
    """Training data of passages; nothing depends on the order of what comes in.

    `questions` maps ids to texts; `documents` is called at most twice. `splits` (question_id → split), if there are some,
    take the place of `rules.shares`; `sentence_tokens` is the limit under which the documents' sentences were cut.

    Raises JobError (65) if no label can be used, or if the hits are not of these documents.
    """
    rules, all_labels = rules or PassageRules(), list(labels)
    counts = Counter(labels=len(all_labels), questions=len({label.question_id for label in all_labels}))
    plan = SplitPlan.make(all_labels, questions, rules, splits)
    counts["questions_near_duplicates"] = plan.near_duplicate_count
    usable: list[SentenceLabel] = []
    judged: dict[str, dict[str, bool]] = {}  # question → its labelled sentences, and whether they are correct
    for label in all_labels:
        known = judged.setdefault(label.question_id, {})
        known[label.sentence_id] = known.get(label.sentence_id, False) or bool(label.label)
        if reason := plan.refusal(label):
            counts[f"labels_left_out_{reason}"] += 1
        else:
            usable.append(label)
    labelled_documents = cut(read_only({label.doc_id for label in usable}, documents), sentence_tokens)
    by_question = _with_windows(usable, labelled_documents, plan, judged, rules, counts)
    left_out = sum(n for name, n in counts.items() if name.startswith("labels_left_out_"))
    if counts["labels"] != counts["labels_used"] + left_out:
        raise RuntimeError(f"{counts['labels']} labels came in, {counts['labels_used']} were used and {left_out} left out")
    if not by_question:
        raise JobError(f"no label can be used: {json.dumps(counts)}", BAD_DATA)
    counts["questions_left_out"] = counts["questions"] - len(by_question)
    if splits is not None:
        counts["split_file_questions_without_labels"] = len(splits.keys() - judged.keys())
    if rules.negatives:
        owner = plan.owner if rules.documents_apart else None
        starts = hard_negatives.choose(by_question, labelled_documents, hits, owner, rules, counts)
        every_start = {start for of_question in starts.values() for start in of_question}
        passages = hard_negatives.cut_windows(every_start, labelled_documents, documents, rules, sentence_tokens)
        for q, of_question in starts.items():
            question, windows_of = by_question[q], [passages[start] for start in of_question]
            # a window is longer than the passage that was retrieved
            question.negatives.extend(each for each in windows_of if not correct_in(question, each.sentences))
            counts["retrieved_left_out_looks_correct"] += len(windows_of) - len(question.negatives)
            counts["questions_short_of_negatives"] += len(question.negatives) < len(windows_of) == rules.negatives
    return TrainingPassages(tuple(by_question.values()), labelled_documents, counts)


def _with_windows(
    labels: Sequence[SentenceLabel],
    documents: Mapping[str, CutDocument],
    plan: SplitPlan,
    judged: Mapping[str, Mapping[str, bool]],
    rules: PassageRules,
    counts: Counter[str],
) -> dict[str, QuestionPassages]:
    """question_id → the question with the windows around its labelled sentences; counts labels used and left out."""
    number = {(doc_id, s.sentence_id): n for doc_id, (_, sentences) in documents.items() for n, s in enumerate(sentences)}
    labelled: dict[str, set[int]] = {}
    for label in labels:
        if (n := number.get((label.doc_id, label.sentence_id))) is not None:
            labelled.setdefault(label.doc_id, set()).add(n)
    ends = window_ends(documents, labelled, rules.places, rules.max_tokens)
    by_question: dict[str, QuestionPassages] = {}
    for label in sorted(labels, key=lambda label: label.question_id):
        q, doc_id = label.question_id, label.doc_id
        if (n := number.get((doc_id, label.sentence_id))) is None:
            counts["labels_left_out_unknown_sentence"] += 1
            continue
        counts["labels_used"] += 1
        if label.label:
            plan.right_for_near(q).texts.add(fold(documents[doc_id][1][n].text))
        if q not in by_question:
            correct = frozenset(sentence_id for sentence_id, is_correct in judged[q].items() if is_correct)
            question = Question(q, plan.questions[q])
            by_question[q] = QuestionPassages(question, plan.split_of[q], correct, frozenset(judged[q]), plan.right_for_near(q))
        runs = windows(n, ends[doc_id].__getitem__, rules.places)
        chosen = choose(runs, n, rules.group, f"{rules.seed}:{q}:{label.sentence_id}")
        by_question[q].windows.setdefault(doc_id, set()).update(chosen)
    for each in by_question.values():
        _leave_out_copies(each, documents, counts)
    return {q: each for q, each in by_question.items() if each.windows}


def _leave_out_copies(question: QuestionPassages, documents: Mapping[str, CutDocument], counts: Counter[str]) -> None:
    """Drop the windows without a correct sentence that may hold one all the same: neither right nor wrong."""
    for doc_id, runs in list(question.windows.items()):
        shown = {run: documents[doc_id][1][slice(*run)] for run in runs}
        kept = {run for run, sentences in shown.items() if correct_in(question, sentences) != "looks_correct"}
        counts["windows_left_out_looks_correct"] += len(runs) - len(kept)
        question.windows[doc_id] = kept
        if not kept:
            del question.windows[doc_id]


def write_passages(run: Path, out: Path, rules: PassageRules, split_file: Path | None = None) -> str:
    """Build the training data of a run and write the folder; returns the content of its passages.json.

    Raises JobError: 66 if the run lacks a folder or the split file is missing, 65 if one is wrong or no label can be used,
    73 if `out` is complete already.
    """
    if (out / SUMMARY).exists():
        raise JobError(f"{out} is written already; name another --out", OUTPUT_EXISTS)
    splits = read_splits(split_file) if split_file is not None else None
    labels = SENTENCE_LABELS.open(run)
    documents = DOCUMENTS.open(run)
    questions = QUESTIONS.open(run)
    retrieved = RETRIEVED.open(run) if rules.negatives else None
    all_labels = list(labels.read())
    asked = questions.where("question_id", {label.question_id for label in all_labels})
    training = build(
        all_labels,
        {question.question_id: question.text for question in asked},
        lambda ids: documents.where("doc_id", ids),
        lambda ids: retrieved.where("question_id", ids) if retrieved else (),
        rules,
        splits,
        ingest_settings(documents).passage_tokens,
    )
    inputs = {"labels": labels.digest(), "documents": documents.digest(), "questions": questions.digest()}
    if retrieved is not None:
        inputs["retrieved"] = retrieved.digest()
    if split_file is not None:
        inputs["split_file"] = sha256(split_file)
    counts = _write_splits(training, out)
    settings = asdict(rules) | ({} if splits is None else {"shares": None})
    summary = json.dumps({**settings, **counts, "inputs": inputs}, indent=1, ensure_ascii=False) + "\n"
    write_text(out / SUMMARY, summary)
    return summary


def ingest_settings(documents: Folder[Document]) -> Ingest:
    """The settings under which `ingest` wrote the documents, from their manifest."""
    known = {name: value for name, value in documents.manifest.settings.items() if name in Ingest.model_fields}
    return Ingest.model_validate({"input": list(documents.manifest.inputs), **known})


def _write_splits(training: TrainingPassages, out: Path) -> dict[str, int]:
    """Write train, dev and test; returns the counts of `training`, and the rows of each split by kind."""
    rows = {f"{name}_{what}": 0 for name in SPLITS for what in ("questions", "passages", "positives", "negatives", "retrieved")}
    done = 0
    with ExitStack() as files, progress("passages", len(training.questions), lambda: done, what="questions"):
        writers = {name: files.enter_context(whole_file(out / f"{name}.parquet", LabelledPassage)) for name in SPLITS}
        for name, of_question in training.rows():
            writers[name](of_question)
            positives = sum(row.label for row in of_question)
            rows[f"{name}_questions"] += 1
            rows[f"{name}_passages"] += len(of_question)
            rows[f"{name}_positives"] += positives
            rows[f"{name}_negatives"] += len(of_question) - positives
            rows[f"{name}_retrieved"] += sum(row.source == "retrieved" for row in of_question)
            done += 1
    return dict(sorted(training.counts.items())) | rows
