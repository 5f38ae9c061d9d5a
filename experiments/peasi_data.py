"""Passages for training and measuring PEASI, of L-train, L-dev and L-test, as `long_lists` retrieves them.

The training data are QUESTIONS of L-train, drawn by hash. Two thirds of them have whole passages of the
index: the first retrieved one with a right sentence, and wrong ones. The other third has windows of up to
MAX_TOKENS (`answermill passages`): a random one around a right sentence, and windows that begin where wrong
passages do. Wrong passages are drawn among the best POOL, of the same document and of others. A wrong passage
that holds a short answer is left out, as is every passage that holds an answer to a test question.

Two sets of passages for each question serve for measuring. 'retrieved': the first DEPTH that BM25 finds.
'windows', the paper's: all windows around each of the best SENTENCES, by the default plan's first blend, as
if they had been annotated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.indexing.labels.windows import Group, SentenceRun, choose, passage, windows
from answermill.indexing.passages.text import holds
from answermill.pipelines.data.publish.cut_documents import cut, window_ends
from answermill.pipelines.data.publish.passage_set import PassageRules
from answermill.pipelines.data.publish.question_splits import LabelledQuestions
from answermill.pipelines.data.publish.training_passages import build, ingest_settings
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.schemas.corpus import Document, Passage
from answermill.schemas.labels import LabelledPassage, LabelledSentence, SentenceLabel
from answermill.schemas.ranked import Candidate, Hit
from experiments.long_lists import LongList
from experiments.question_sets.gold import Asked, canonical, drawn
from testing.harness import say

QUESTIONS, DEV_QUESTIONS = 4_000, 150
WINDOWED = 3
"""One question in this many has windows."""
POOL, DEPTH, SENTENCES = 20, 10, 15
SAME, OTHERS, SAME_WINDOWS, OTHER_WINDOWS = 1, 2, 1, 1
"""Numbers of wrong passages of a question, of the same document and of others; and of wrong windows."""
PLACES, MAX_TOKENS = 5, 200


def write_train(run: Path, asked: Sequence[Asked], test_answers: Set[str], file: Path) -> None:
    """Write the training data. `run` has retrieved passages and labels of these questions."""
    chosen = drawn((question.question_id for question in asked), QUESTIONS)
    windowed = {
        name.removeprefix("windows ")
        for name in drawn((f"windows {key}" for key in chosen), len(chosen) // WINDOWED)
    }
    by_id = {question.question_id: question for question in asked}
    right: dict[str, list[SentenceLabel]] = defaultdict(list)
    for label in SENTENCE_LABELS.open(run).where("question_id", chosen):
        right[label.question_id].append(label)

    hits: dict[str, list[Hit]] = defaultdict(list)
    for hit in RETRIEVED.open(run).where("question_id", chosen):
        hits[hit.question_id].append(hit)
    rows: dict[str, list[LabelledPassage]] = {}
    wrong_hits: list[Hit] = []

    for key in chosen:
        correct = frozenset(label.sentence_id for label in right[key])
        answering = [
            hit for hit in hits[key] if not correct.isdisjoint(s.sentence_id for s in hit.passage.sentences)
        ]
        others = [
            hit for hit in hits[key] if hit not in answering and not holds_answer(hit.passage, by_id[key])
        ]

        if key in windowed:
            wrong = wrong_passages(by_id[key], others, SAME_WINDOWS, OTHER_WINDOWS)
            wrong_hits += [replace(hit, rank=rank) for rank, hit in enumerate(wrong, 1)]
        elif answering:
            best = min(answering, key=lambda hit: hit.rank)
            shown = [best, *wrong_passages(by_id[key], others, SAME, OTHERS)]
            rows[key] = [passage_row(hit, correct) for hit in shown]

    documents = DOCUMENTS.open(run)
    labels = [label for key in windowed for label in right[key]]
    built = build(
        LabelledQuestions(
            labels, {key: by_id[key].text for key in windowed}, dict.fromkeys(windowed, "train")
        ),
        lambda ids: documents.where("doc_id", ids),
        lambda ids: (hit for hit in wrong_hits if hit.question_id in ids),
        PassageRules(
            "random", PLACES, MAX_TOKENS, negatives=SAME_WINDOWS + OTHER_WINDOWS, documents_apart=False
        ),
        ingest_settings(documents).passage_tokens,
    )
    rows |= {passages[0].question_id: passages for _, passages in built.rows()}
    all_rows = [row for key in sorted(rows) for row in rows[key]]
    kept = without_test_answers(all_rows, test_answers)
    say(
        f"{file.name}: {len(rows):,} questions, {len(kept):,} passages, {len(all_rows) - len(kept)} with a "
        "test answer left out"
    )

    write(file, kept)


def without_test_answers(rows: Sequence[LabelledPassage], answers: Set[str]) -> list[LabelledPassage]:
    """Passages without a sentence that is an answer to a test question."""
    return [row for row in rows if not any(canonical(s.text) in answers for s in row.sentences)]


def holds_answer(passage: Passage, asked: Asked) -> bool:
    return any(holds(canonical(passage.text), canonical(string)) for string in asked.strings)


def wrong_passages(asked: Asked, hits: Sequence[Hit], same: int, others: int) -> list[Hit]:
    """Passages drawn among the best POOL of the right documents, and of all others."""
    chosen: list[Hit] = []
    for number, own in ((same, True), (others, False)):
        best = sorted(
            (hit for hit in hits if (hit.passage.doc_id in asked.documents) is own), key=lambda hit: hit.rank
        )[:POOL]
        names = drawn((f"{asked.question_id} {hit.passage.passage_id}" for hit in best), number)
        chosen += [hit for hit in best if f"{asked.question_id} {hit.passage.passage_id}" in names]
    return chosen


def passage_row(hit: Hit, correct: Set[str]) -> LabelledPassage:
    return labelled(hit.question_id, hit.question, hit.passage, correct, "retrieved")


def labelled(question_id: str, question: str, p: Passage, correct: Set[str], source: str) -> LabelledPassage:
    sentences = tuple(
        LabelledSentence(s.sentence_id, s.text, int(s.sentence_id in correct)) for s in p.sentences
    )
    label = max((s.label for s in sentences), default=0)
    return LabelledPassage(
        question_id, question, p.passage_id, p.doc_id, p.title, p.text, label, source, sentences
    )


def retrieved(lists: Sequence[LongList]) -> list[list[LabelledPassage]]:
    """First DEPTH passages that BM25 finds for each question, in its order."""
    passages = []
    for question in lists:
        hits = [
            c.hit
            for c in question.passages.candidates
            if c.hit.bm25_rank is not None and c.hit.bm25_rank <= DEPTH
        ]
        hits.sort(key=lambda hit: hit.bm25_rank or 0)
        passages.append([passage_row(hit, question.gold) for hit in hits])
    return passages


def write_dev(lists: Sequence[LongList], file: Path) -> None:
    """Write the data of a training's dev score and calibration: DEV_QUESTIONS of L-dev, with an answer among
    their passages or without."""
    chosen = set(drawn((question.asked.question_id for question in lists), DEV_QUESTIONS))
    write(
        file,
        [
            row
            for rows in retrieved([question for question in lists if question.asked.question_id in chosen])
            for row in rows
        ],
    )


def in_windows(
    best: Sequence[tuple[Asked, Sequence[Candidate]]], documents: Folder[Document]
) -> dict[Group, list[list[LabelledPassage]]]:
    """Windows around each question's best sentences, by group: all, those with the sentence in the middle, or
    a random one for each sentence (WQA Table 3)."""
    wanted = {c.hit.passage.doc_id for _, candidates in best for c in candidates}
    texts = cut(documents.where("doc_id", wanted), ingest_settings(documents).passage_tokens)
    number = {
        (doc_id, s.sentence_id): n
        for doc_id, (_, sentences) in texts.items()
        for n, s in enumerate(sentences)
    }
    places = [[(c.hit.passage.doc_id, c.candidate_id) for c in candidates] for _, candidates in best]
    inside: dict[str, set[int]] = defaultdict(set)
    for place in chain.from_iterable(places):
        inside[place[0]].add(number[place])

    ends = window_ends(texts, inside, PLACES, MAX_TOKENS)
    result: dict[Group, list[list[LabelledPassage]]] = {group: [] for group in get_args(Group)}
    for (asked, _), question_places in zip(best, places, strict=True):
        for group, passages in result.items():
            runs: dict[tuple[str, SentenceRun], None] = {}
            for doc_id, sentence_id in question_places:
                n = number[doc_id, sentence_id]
                around = choose(
                    windows(n, ends[doc_id].__getitem__, PLACES),
                    n,
                    group,
                    f"{asked.question_id}:{sentence_id}",
                )
                runs |= dict.fromkeys((doc_id, run) for run in around)

            shown = [passage(*texts[doc_id], run) for doc_id, run in runs]
            right = {s.sentence_id for p in shown for s in p.sentences if asked.strict(p.doc_id, s.text)}
            passages.append([labelled(asked.question_id, asked.text, p, right, "window") for p in shown])

    return result


def write_sentences(lists: Path, passages: Path, file: Path) -> None:
    """Write the data of AS2's training: the lists of the questions in `passages`."""
    learnt = set(pq.read_table(passages, columns=["question_id"])["question_id"].to_pylist())
    rows = pq.read_table(lists)
    pq.write_table(rows.filter(pc.is_in(rows["question_id"], pa.array(sorted(learnt)))), file)


def write(path: Path, rows: Sequence[LabelledPassage]) -> None:
    pq.write_table(LabelledPassage.table(rows), path)
