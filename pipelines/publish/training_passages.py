"""Passages: labels of a run's sentences in; training data of passages, in train, dev and test, out (WQA §3.3).

A row is a question and a passage: the windows around the question's labelled sentences, positive if they hold a correct
one, and hard negatives, the windows that begin where the first passages that retrieval found begin, and hold none. So
length does not tell the two apart: a window is longer than a passage cut for retrieval, and a model would learn that.
(Where they begin still could: a negative begins as a retrieved passage does, a positive at any sentence.) Questions that
are nearly the same stand in one split, and so does a document, unless `documents_apart` is off: questions that one document
answers stay together, and of a document that answers neither only one split has the labels. (By such documents most
questions of a crawl hang together; to keep those in one split would leave one split.) The folder holds train.parquet,
dev.parquet, test.parquet and, written last, passages.json.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from indexing.annotation.splits import CLAIMS, SPLITS, Split, near_duplicates, owners, split
from indexing.labels.windows import Group, Line, Run, choose, least_tokens, passage, windows
from indexing.passages.passages import Splitter
from pipelines.errors import BAD_DATA, OUTPUT_EXISTS, USAGE, JobError
from pipelines.execution.parquet_folder import Folder, whole_file
from pipelines.execution.progress import progress
from pipelines.inputs.tables import read_splits
from schemas.atomic_files import sha256, write_text
from schemas.corpus import Document, Passage, Question, Sentence
from schemas.labels import LabelledPassage, LabelledSentence, SentenceLabel
from schemas.ranked import Hit

SUMMARY = "passages.json"
Key: TypeAlias = tuple[str, str]
"""What two questions can share: ('document', doc_id) or ('question', the first of those that are nearly the same)."""
Cut: TypeAlias = tuple[Document, list[Sentence]]
Place: TypeAlias = tuple[str, str]
"""Where a window begins: (doc_id, sentence_id)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is made."""

    group: Group = "all"
    places: int = 5
    max_tokens: int = 200
    negatives: int = 5
    shares: tuple[float, ...] = (0.8, 0.1, 0.1)
    """Of the questions, in the order of SPLITS."""
    seed: int = 0
    similar: float = 0.8
    """Jaccard similarity of their words from which two questions are nearly the same."""
    documents_apart: bool = True
    """Whether no document may stand in two splits."""

    def __post_init__(self) -> None:
        least = {"places": 1, "max_tokens": 10, "negatives": 0}
        for name, bound in least.items():
            if (value := getattr(self, name)) < bound:
                raise JobError(f"--{name.replace('_', '-')} {value}: give at least {bound}", USAGE)
        if not 0 < self.similar <= 1:
            raise JobError(f"--similar {self.similar:g}: give a similarity above 0 and at most 1, e.g. 0.8", USAGE)
        if len(self.shares) != 3 or not all(share >= 0 for share in self.shares) or abs(sum(self.shares) - 1) > 1e-6:
            told = " ".join(f"{share:g}" for share in self.shares)
            raise JobError(f"--split {told}: give shares of train, dev and test that add up to 1, e.g. 0.8 0.1 0.1", USAGE)


@dataclass(slots=True)
class Labelled:
    """A question, and what will be its rows."""

    question: Question
    split: Split
    correct: frozenset[str]
    """Ids of its correct sentences, those left out too."""
    windows: dict[str, set[Run]] = field(default_factory=dict)
    """Document → its windows."""
    negatives: list[Passage] = field(default_factory=list)
    """Best first."""

    def rows(self, documents: Mapping[str, Cut]) -> Iterator[LabelledPassage]:
        """The windows by passage id, then the hard negatives by rank."""
        made = (passage(*documents[doc_id], run) for doc_id, runs in self.windows.items() for run in runs)
        yield from (self._row(each, "window") for each in sorted(made, key=lambda each: each.passage_id))
        yield from (self._row(each, "retrieved") for each in self.negatives)

    def _row(self, of: Passage, source: str) -> LabelledPassage:
        inside = tuple(LabelledSentence(s.sentence_id, s.text, int(s.sentence_id in self.correct)) for s in of.sentences)
        label = max((sentence.label for sentence in inside), default=0)
        asked = self.question
        return LabelledPassage(
            asked.question_id, asked.text, of.passage_id, of.doc_id, of.title, of.text, label, source, inside
        )


@dataclass(frozen=True, slots=True)
class Built:
    """Training data, a question at a time."""

    questions: tuple[Labelled, ...]
    """By id; those without a window are not among them."""
    documents: Mapping[str, Cut]
    counts: Mapping[str, int]
    """Of what came in, was used and was left out."""

    def rows(self) -> Iterator[tuple[Split, list[LabelledPassage]]]:
        """Each question's split and rows."""
        for question in self.questions:
            yield question.split, list(question.rows(self.documents))


def build(
    labels: Iterable[SentenceLabel],
    questions: Mapping[str, str],
    documents: Callable[[Set[str]], Iterable[Document]],
    hits: Callable[[Set[str]], Iterable[Hit]],
    rules: Rules | None = None,
    splits: Mapping[str, Split] | None = None,
    sentence_tokens: int = 200,
) -> Built:
    """Training data of passages; nothing depends on the order of what comes in.

    `questions` maps ids to texts; `documents` gives those of some ids (asked at most twice), `hits` those of some questions,
    and either may give more. `splits`, where given, stands in the place of `rules.shares`; `sentence_tokens` is the limit
    under which the documents' sentences were cut. Raises JobError (65) where no label can be used, or where the hits are
    not of these documents.
    """
    rules, given = rules or Rules(), list(labels)
    counts = Counter(labels=len(given), questions=len({label.question_id for label in given}))
    asked = {label.question_id for label in given if splits is None or label.question_id in splits}
    near = near_duplicates({q: questions[q] for q in asked if q in questions}, rules.similar)
    counts["questions_near_duplicates"] = len(near) - len(set(near.values()))
    known = [label for label in given if label.question_id in near]
    apart = rules.documents_apart
    together = _links(known, near, lambda label: apart and label.label == 1)
    found = split(together, rules.shares, rules.seed) if splits is None else splits
    owner = owners(_links(known, near, lambda label: apart), found) | owners(together, found)
    usable: list[SentenceLabel] = []
    correct: dict[str, set[str]] = {}
    for label in given:
        correct.setdefault(label.question_id, set()).update([label.sentence_id] if label.label else [])
        if reason := _refusal(label, questions, near, owner, found):
            counts[f"labels_left_out_{reason}"] += 1
        else:
            usable.append(label)
    wanted = {label.doc_id for label in usable}
    cut = _cut(_only(wanted, documents), sentence_tokens)
    place = {(doc_id, s.sentence_id): n for doc_id, (_, sentences) in cut.items() for n, s in enumerate(sentences)}
    of_documents: dict[str, set[int]] = {}
    for label in usable:
        if (n := place.get((label.doc_id, label.sentence_id))) is not None:
            of_documents.setdefault(label.doc_id, set()).add(n)
    lasts = _lasts(cut, of_documents, rules.places, rules.max_tokens)
    made: dict[str, Labelled] = {}
    for label in sorted(usable, key=lambda label: label.question_id):
        q, doc_id = label.question_id, label.doc_id
        if (n := place.get((doc_id, label.sentence_id))) is None:
            counts["labels_left_out_unknown_sentence"] += 1
            continue
        counts["labels_used"] += 1
        runs = windows(n, lasts[doc_id].__getitem__, rules.places)
        chosen = choose(runs, n, rules.group, f"{rules.seed}:{q}:{label.sentence_id}")
        this = made.setdefault(q, Labelled(Question(q, questions[q]), found[q], frozenset(correct[q])))
        this.windows.setdefault(doc_id, set()).update(chosen)
    left_out = sum(n for name, n in counts.items() if name.startswith("labels_left_out_"))
    if counts["labels"] != counts["labels_used"] + left_out:
        raise RuntimeError(f"{counts['labels']} labels came in, {counts['labels_used']} were used and {left_out} left out")
    if not made:
        raise JobError(f"no label can be used: {json.dumps(counts)}", BAD_DATA)
    counts["questions_left_out"] = counts["questions"] - len(made)
    if splits is not None:
        counts["split_file_questions_without_labels"] = len(splits.keys() - correct.keys())
    if rules.negatives:
        begins = _negatives(made, cut, hits, owner if rules.documents_apart else None, rules, counts)
        every = {place for places in begins.values() for place in places}
        found_there = _windows_from(every, cut, documents, rules, sentence_tokens)
        for q, places in begins.items():
            made[q].negatives.extend(found_there[at] for at in places)
    return Built(tuple(made.values()), cut, counts)


def _links(
    labels: Iterable[SentenceLabel], near: Mapping[str, str], by_document: Callable[[SentenceLabel], bool]
) -> dict[str, set[Key]]:
    """What each question shares with others, or could: its text, or one near it, and the documents of some of its labels."""
    links: dict[str, set[Key]] = {}
    for label in labels:
        keys = links.setdefault(label.question_id, {("question", near[label.question_id])})
        if by_document(label):
            keys.add(("document", label.doc_id))
    return links


def _refusal(
    label: SentenceLabel,
    questions: Mapping[str, str],
    near: Mapping[str, str],
    owner: Mapping[Key, Split],
    splits: Mapping[str, Split],
) -> str | None:
    """Why a label is left out, by its ids; None where it is not."""
    q = label.question_id
    if q not in near:
        return "not_in_split_file" if q in questions else "unknown_question"
    keys = {"question": near[q], "document": label.doc_id}
    return next(
        (f"{kind}_of_another_split" for kind, name in keys.items() if owner.get((kind, name), splits[q]) != splits[q]), None
    )


def _only(wanted: Set[str], documents: Callable[[Set[str]], Iterable[Document]]) -> Iterator[Document]:
    """Those of the ids `wanted`; nothing is read where none is."""
    return (document for document in documents(wanted) if document.doc_id in wanted) if wanted else iter(())


def _cut(documents: Iterable[Document], sentence_tokens: int) -> dict[str, Cut]:
    splitter = Splitter(sentence_tokens)
    return {d.doc_id: (d, splitter.sentences(d.doc_id, d.text)) for d in documents}


def _lasts(
    documents: Mapping[str, Cut], labelled: Mapping[str, Set[int]], places: int, max_tokens: int
) -> dict[str, list[int]]:
    """Of each document with labelled sentences, the end of the window that begins with each sentence: see `Line.lasts`."""
    if not labelled:
        return {}
    cut = [(*documents[doc_id], numbers) for doc_id, numbers in labelled.items()]
    sentences = [sentence for _, inside, _ in cut for sentence in inside]
    sizes = np.array([len(inside) for _, inside, _ in cut], np.int64)
    begin = np.cumsum(sizes) - sizes
    line = Line(
        np.repeat(np.arange(len(cut)), sizes),
        np.array([sentence.start for sentence in sentences], np.int64),
        np.array([sentence.end for sentence in sentences], np.int64),
        least_tokens(pa.array([sentence.text for sentence in sentences], pa.string())),
        [document.text for document, _, _ in cut],
    )
    at = np.array([first + n for first, (_, _, numbers) in zip(begin, cut, strict=True) for n in sorted(numbers)], np.int64)
    lasts = line.lasts(at, places, Splitter(max_tokens)) - np.repeat(begin, sizes)
    return {doc_id: part.tolist() for doc_id, part in zip(labelled, np.split(lasts, begin[1:]), strict=True)}


def _negatives(
    made: Mapping[str, Labelled],
    cut: Mapping[str, Cut],
    hits: Callable[[Set[str]], Iterable[Hit]],
    owner: dict[Key, Split] | None,
    rules: Rules,
    counts: Counter[str],
) -> dict[str, list[Place]]:
    """Where each question's hard negatives begin, best first.

    The document of a negative belongs to the split that takes it first, where documents have an `owner`. `cut` holds the
    documents with labels: in no other can a window hold a correct sentence, or be one of the question's own.
    """
    ranked: dict[str, list[tuple[int, str, Place, bool]]] = {q: [] for q in made}  # rank, passage, place, holds a correct one
    for hit in hits(made.keys()):
        if (question := made.get(hit.question_id)) is not None:
            holds = any(sentence.sentence_id in question.correct for sentence in hit.passage.sentences)
            place = hit.passage.doc_id, hit.passage.sentences[0].sentence_id
            ranked[hit.question_id].append((hit.rank, hit.passage.passage_id, place, holds))
    own = {place for q, found in ranked.items() for _, _, place, _ in found if place[0] in made[q].windows}
    runs = dict(_runs(_by_document(own), cut, rules.max_tokens))
    chosen: dict[str, list[Place]] = {q: [] for q in made}

    def refusal(q: str, place: Place, holds: bool) -> str | None:
        doc_id, run = place[0], runs.get(place)
        if holds or (run and any(s.sentence_id in made[q].correct for s in cut[doc_id][1][slice(*run)])):
            return "correct"
        if run in made[q].windows.get(doc_id, ()):
            return "same_as_window"
        if owner is not None and owner.setdefault(("document", doc_id), made[q].split) != made[q].split:
            return "document_of_another_split"
        return None

    for name in CLAIMS:
        for q in (q for q, question in made.items() if question.split == name):
            for _, _, place, holds in sorted(ranked[q]):
                if len(chosen[q]) == rules.negatives:
                    break
                if reason := refusal(q, place, holds):
                    counts[f"retrieved_left_out_{reason}"] += 1
                else:
                    chosen[q].append(place)
            counts["questions_short_of_negatives"] += len(chosen[q]) < rules.negatives
    return chosen


def _windows_from(
    places: Set[Place],
    cut: Mapping[str, Cut],
    documents: Callable[[Set[str]], Iterable[Document]],
    rules: Rules,
    sentence_tokens: int,
) -> dict[Place, Passage]:
    """The window that begins at each place. `cut` holds some of the documents, which are not read and cut again.

    Raises JobError (65) where a document has no such sentence.
    """
    begins = _by_document(places)
    others = _only(begins.keys() - cut.keys(), documents)
    made: dict[Place, Passage] = {}
    for part in chain([cut], iter(lambda: _cut(islice(others, 1_000), sentence_tokens), {})):  # not all are held cut at once
        made |= {place: passage(*part[place[0]], run) for place, run in _runs(begins, part, rules.max_tokens)}
    if missing := sorted(places - made.keys()):
        raise JobError(
            f"a retrieved passage begins with sentence {missing[0][1]!r}, which is not in the documents "
            f"({len(missing)} such passages); retrieve again from these documents, or give --negatives 0",
            BAD_DATA,
        )
    return made


def _by_document(places: Set[Place]) -> dict[str, set[str]]:
    """doc_id → the sentence_ids."""
    found: dict[str, set[str]] = {}
    for doc_id, sentence_id in places:
        found.setdefault(doc_id, set()).add(sentence_id)
    return found


def _runs(begins: Mapping[str, Set[str]], cut: Mapping[str, Cut], max_tokens: int) -> Iterator[tuple[Place, Run]]:
    """The window that begins at each sentence (of doc_id → sentence_ids) that is there."""
    numbers = {
        doc_id: {n for n, sentence in enumerate(sentences) if sentence.sentence_id in begins[doc_id]}
        for doc_id, (_, sentences) in cut.items()
        if doc_id in begins
    }
    for doc_id, lasts in _lasts(cut, numbers, 1, max_tokens).items():
        yield from (((doc_id, cut[doc_id][1][n].sentence_id), (n, lasts[n])) for n in numbers[doc_id])


def write_passages(run: Path, out: Path, rules: Rules, split_file: Path | None = None) -> str:
    """Build the training data of a run and write the folder; returns what its passages.json holds.

    Raises JobError: 66 where the run lacks a folder or the split file is missing, 65 where one is wrong or no label can be
    used, 73 where `out` is complete already.
    """
    if (out / SUMMARY).exists():
        raise JobError(f"{out} is written already; name another --out", OUTPUT_EXISTS)
    splits = read_splits(split_file) if split_file is not None else None
    labels = Folder.open(run / "labels/sentences", SentenceLabel, "propagate")
    documents = Folder.open(run / "documents", Document, "ingest")
    questions = Folder.open(run / "questions", Question, "retrieve")
    retrieved = Folder.open(run / "retrieved", Hit, "retrieve") if rules.negatives else None
    given = list(labels.read())
    built = build(
        given,
        {q.question_id: q.text for q in questions.where("question_id", {label.question_id for label in given})},
        lambda ids: documents.where("doc_id", ids),
        lambda ids: retrieved.where("question_id", ids) if retrieved else (),
        rules,
        splits,
        documents.manifest.settings["passage_tokens"],
    )
    inputs = {"labels": labels.digest(), "documents": documents.digest(), "questions": questions.digest()}
    if retrieved is not None:
        inputs["retrieved"] = retrieved.digest()
    if split_file is not None:
        inputs["split_file"] = sha256(split_file)
    counts = _write(built, out)
    settings = asdict(rules) | ({} if splits is None else {"shares": None})
    told = json.dumps({**settings, **counts, "inputs": inputs}, indent=1, ensure_ascii=False) + "\n"
    write_text(out / SUMMARY, told)
    return told


def _write(built: Built, out: Path) -> dict[str, int]:
    """Write the files; what was counted before, and rows, of each split."""
    rows = {f"{name}_{what}": 0 for name in SPLITS for what in ("questions", "passages", "positives", "negatives", "retrieved")}
    done = 0
    with ExitStack() as files, progress("passages", len(built.questions), lambda: done):
        writers = {name: files.enter_context(whole_file(out / f"{name}.parquet", LabelledPassage)) for name in SPLITS}
        for name, of_question in built.rows():
            writers[name](of_question)
            positives = sum(row.label for row in of_question)
            rows[f"{name}_questions"] += 1
            rows[f"{name}_passages"] += len(of_question)
            rows[f"{name}_positives"] += positives
            rows[f"{name}_negatives"] += len(of_question) - positives
            rows[f"{name}_retrieved"] += sum(row.source == "retrieved" for row in of_question)
            done += 1
    return dict(sorted(built.counts.items())) | rows
