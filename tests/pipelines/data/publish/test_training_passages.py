"""Training data of passages: nothing leaks between splits, nothing is lost uncounted, no order matters."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.indexing.labels.windows import last_that_fits
from answermill.indexing.passages.passages import Splitter
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.publish.passage_set import PassageRules
from answermill.pipelines.data.publish.question_splits import LabelledQuestions
from answermill.pipelines.data.publish.training_passages import build, ingest_settings
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.schemas.corpus import Document, Question
from answermill.schemas.labels import LabelledPassage, SentenceLabel
from answermill.schemas.ranked import Hit
from testing import command
from tests.documents import document_of
from tests.made_steps import Rows, made_step, report

call = partial(command.call, "passages")


SPLITTER = Splitter(words=12)


class World:
    """Documents of some sentences, questions with labels in them, and hits."""

    def __init__(self, documents: int = 40, questions: int = 20, seed: int = 0) -> None:
        generator = random.Random(seed)
        self.documents = [document(n, generator.randrange(1, 12)) for n in range(documents)]
        # Two ask the same.
        self.questions = {f"q{n:02d}": f"What is {n % (questions - 2)}?" for n in range(questions)}
        passages = [passage for page in self.documents for passage in SPLITTER.split(page)]
        self.labels: list[SentenceLabel] = []
        self.hits: list[Hit] = []

        for q, text in self.questions.items():
            seen = generator.sample(passages, generator.randrange(1, 4))
            for sentence, doc_id in sorted({(s.sentence_id, p.doc_id) for p in seen for s in p.sentences}):
                if generator.random() < 0.7:
                    self.labels.append(SentenceLabel(q, sentence, doc_id, "", generator.randrange(2)))
            retrieved = generator.sample(passages, 15)
            self.hits += [
                Hit(q, text, n, 1 / n, None, None, None, None, p) for n, p in enumerate(retrieved, 1)
            ]

    def build(self, rules: PassageRules | None = None, splits: Mapping[str, Split] | None = None):
        labelled = LabelledQuestions(self.labels, self.questions, splits)
        return build(labelled, lambda ids: self.documents, lambda ids: self.hits, rules)


def document(number: int, sentences: int) -> Document:
    text = " ".join(f"Sentence {n} of document {number} has some words." for n in range(sentences))
    return document_of(text, doc_id=f"d{number:02d}", title=f"Title {number}", source_offset=number)


def by_split(built) -> dict[Split, list[LabelledPassage]]:
    splits: dict[Split, list[LabelledPassage]] = {name: [] for name in SPLITS}
    for name, rows in built.rows():
        splits[name] += rows
    return splits


def check_no_leaks(world: World, splits: Mapping[Split, list[LabelledPassage]]) -> None:
    for key in (lambda row: row.question_id, lambda row: row.doc_id, lambda row: fold(row.question)):
        held = [{key(row) for row in rows} for rows in splits.values()]
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])


def check_accounts(built) -> None:
    left = sum(count for name, count in built.counts.items() if name.startswith("labels_left_out_"))
    assert built.counts["labels"] == built.counts["labels_used"] + left
    assert built.counts["questions"] == len(built.questions) + built.counts["questions_left_out"]


@pytest.mark.parametrize("seed", range(12))
def test_neither_question_nor_document_stands_in_two_splits(seed: int) -> None:
    world = World(seed=seed, documents=60 + 20 * (seed % 3))
    built = world.build(PassageRules(shares=(0.4, 0.3, 0.3), seed=seed))
    rows_by_split = by_split(built)
    assert len({name for name, rows in rows_by_split.items() if rows}) >= 2
    held = {
        (row.question_id, s.sentence_id)
        for rows in rows_by_split.values()
        for row in rows
        for s in row.sentences
        if s.label
    }

    # None is lost.
    assert held == {(label.question_id, label.sentence_id) for label in world.labels if label.label}
    check_no_leaks(world, rows_by_split)
    check_accounts(built)


@pytest.mark.parametrize("seed", range(12))
def test_nor_with_a_split_file_that_cuts_through_documents(seed: int) -> None:
    world = World(seed=seed, documents=20)
    splits = {q: SPLITS[n % 3] for n, q in enumerate(world.questions) if n != 4}
    built = world.build(splits=splits)
    rows_by_split = by_split(built)
    check_no_leaks(world, rows_by_split)
    check_accounts(built)
    assert built.counts["labels_left_out_document_of_another_split"] > 0
    assert built.counts["labels_left_out_not_in_split_file"] == sum(
        label.question_id == "q04" for label in world.labels
    )
    in_test = {
        label.doc_id for label in world.labels if splits.get(label.question_id) == "test" and label.label
    }

    # Test has all its answers.
    assert {row.doc_id for row in rows_by_split["test"] if row.source == "window"} >= in_test


def test_documents_that_answer_neither_question_do_not_tie_them() -> None:
    world = World(documents=21)
    first = {page.doc_id: SPLITTER.split(page)[0].sentences[0] for page in world.documents}
    world.labels = [SentenceLabel(q, first["d20"].sentence_id, "d20", "", 0) for q in world.questions]
    for q, page in zip(world.questions, world.documents, strict=False):
        world.labels.append(SentenceLabel(q, first[page.doc_id].sentence_id, page.doc_id, "", 1))
    built = world.build(PassageRules(shares=(0.4, 0.3, 0.3), negatives=0))
    rows_by_split = by_split(built)
    assert all(rows_by_split.values()) and len(built.questions) == 20
    check_no_leaks(world, rows_by_split)
    shared = {name for name, rows in rows_by_split.items() for row in rows if row.doc_id == "d20"}
    assert shared == {"test"} and built.counts["labels_left_out_document_of_another_split"] > 5
    check_accounts(built)


def test_questions_that_are_nearly_the_same_stand_in_one_split() -> None:
    world = World(seed=4, documents=80)
    world.questions = {
        q: f"Which plant number {n // 4} grows best where it rains?" for n, q in enumerate(world.questions)
    }
    world.questions |= {q: text.replace("best", "") for q, text in world.questions.items() if int(q[1:]) % 2}
    built = world.build(PassageRules(shares=(0.4, 0.3, 0.3), documents_apart=False))
    assert len({name for name, rows in built.rows() if rows}) == 3
    split_of = {question.question.question_id: question.split for question in built.questions}
    together = [{split_of[f"q{n:02d}"] for n in range(first, first + 4)} for first in range(0, 20, 4)]
    assert all(len(names) == 1 for names in together)

    assert built.counts["questions_near_duplicates"] == 15
    apart = world.build(PassageRules(shares=(0.4, 0.3, 0.3), documents_apart=False, similar=1.0))
    assert apart.counts["questions_near_duplicates"] == 10


def test_a_document_may_stand_in_two_splits_where_that_is_allowed() -> None:
    world = World(seed=1, documents=8)
    kept = world.build(PassageRules(shares=(0.4, 0.3, 0.3)))
    built = world.build(PassageRules(shares=(0.4, 0.3, 0.3), documents_apart=False))
    check_no_leaks(world, by_split(kept))
    held = [{row.doc_id for row in rows} for rows in by_split(built).values()]
    assert all(held) and held[0] & held[1] and held[0] & held[2]
    assert built.counts["labels_used"] == len(world.labels)
    asked = [{fold(row.question) for row in rows} for rows in by_split(built).values()]
    assert not (asked[0] & asked[1] or asked[0] & asked[2] or asked[1] & asked[2])
    check_accounts(built)


@pytest.mark.parametrize("group", ["all", "center", "random"])
def test_the_order_of_what_comes_in_does_not_matter(group) -> None:
    world = World(seed=3, documents=80)
    first = world.build(PassageRules(group=group))
    generator = random.Random(1)
    for rows in (world.labels, world.hits, world.documents):
        generator.shuffle(rows)
    world.questions = dict(reversed(world.questions.items()))
    again = world.build(PassageRules(group=group))
    assert list(again.rows()) == list(first.rows()) and again.counts == first.counts


def test_a_passage_is_positive_if_it_holds_a_correct_sentence_and_others_count_nothing() -> None:
    world = World(seed=5, documents=80)
    correct = {(label.question_id, label.sentence_id) for label in world.labels if label.label}
    rows = [row for rows in by_split(world.build()).values() for row in rows]
    assert {row.label for row in rows if row.source == "window"} == {0, 1}
    for row in rows:
        assert row.label == max(s.label for s in row.sentences)
        assert all(s.label == ((row.question_id, s.sentence_id) in correct) for s in row.sentences)
        assert row.source == "window" or row.label == 0


def test_rows_stand_by_question_windows_first_then_negatives_by_rank() -> None:
    world = World(seed=5, documents=80)
    rank = {(hit.question_id, hit.passage.doc_id, hit.passage.start): hit.rank for hit in world.hits}
    for rows in by_split(world.build()).values():
        keys = [
            (
                row.question_id,
                *((0, 0, *place_of(row)) if row.source == "window" else (1, rank[begin_of(row)])),
            )
            for row in rows
        ]
        assert keys == sorted(keys) and len(set(keys)) == len(keys)
        assert max(Counter(row.question_id for row in rows if row.source == "retrieved").values()) == 5


def begin_of(row: LabelledPassage) -> tuple[str, str, int]:
    return row.question_id, row.doc_id, place_of(row)[1]


def place_of(row: LabelledPassage) -> tuple[str, int, int]:
    start, end = row.passage_id.split(":")[1].split("-")
    return row.doc_id, int(start), int(end)


def test_what_may_be_correct_is_no_negative_though_nobody_judged_it() -> None:
    """A copy of a correct sentence, and one that is correct for the same question under another id."""
    right, other, copy, wrong = (
        "It was built in 1784 by a baker.",
        "A baker built it.",
        "In the mirror.",
        "No one knows it.",
    )
    texts = [
        document_of(text, doc_id=f"d{n}", title="T", source_offset=n)
        for n, text in enumerate(
            (
                f"{right} So it is.",
                f"{other} So they say.",
                f"{copy} {right.upper()}",
                f"{wrong} Or not.",
                f"{wrong} {right}",
            )
        )
    ]
    passages = [Splitter(words=100).split(page)[0] for page in texts]
    of_copy = passages[4].sentences[0].sentence_id
    labels = [
        SentenceLabel("a", passages[0].sentences[0].sentence_id, "d0", "", 1),
        SentenceLabel("a", of_copy, "d4", "", 0),
    ]
    labels.append(SentenceLabel("b", passages[1].sentences[0].sentence_id, "d1", "", 1))

    questions = {"a": "Who built the tower?", "b": "who built the tower"}
    hits = [
        Hit(q, text, n, 1.0, None, None, None, None, passage)
        for q, text in questions.items()
        for n, passage in enumerate(passages[:4], 1)
    ]
    built = build(
        LabelledQuestions(labels, questions),
        lambda ids: texts,
        lambda ids: hits,
        PassageRules(shares=(1, 0, 0)),
    )
    rows = by_split(built)["train"]
    assert [(row.question_id, row.doc_id, row.label) for row in rows] == [
        ("a", "d0", 1),
        ("a", "d3", 0),
        ("b", "d1", 1),
        ("b", "d3", 0),
    ]

    assert (
        built.counts["retrieved_left_out_looks_correct"] == 4
        and built.counts["windows_left_out_looks_correct"] == 1
    )
    check_accounts(built)


def test_negatives_are_windows_that_begin_with_the_first_retrieved_without_a_correct_sentence() -> None:
    texts = [document(n, 4) for n in range(4)]
    passages = [Splitter(words=n).split(page)[0] for page, n in zip(texts, (100, 100, 10, 100), strict=True)]
    labels = [SentenceLabel("q", passages[0].sentences[1].sentence_id, "d00", "", 1)]
    labels += [SentenceLabel("q", passages[1].sentences[0].sentence_id, "d01", "", 0)]
    hits = [Hit("q", "Why?", n, 1.0, None, None, None, None, p) for n, p in enumerate(passages, 1)]
    other = Hit("other", "How?", 1, 1.0, None, None, None, None, passages[3])

    def built_with(negatives: int):
        rules = PassageRules(negatives=negatives, shares=(1, 0, 0))
        return build(
            LabelledQuestions(labels, {"q": "Why?"}), lambda ids: texts, lambda ids: [other, *hits], rules
        )

    rows = by_split(built_with(1))["train"]
    second, end = passages[0].sentences[1].start, len(texts[0].text)
    windows = [(f"d00:0-{end}", 1), (f"d00:{second}-{end}", 1), (f"d01:0-{end}", 0)]
    assert [(row.passage_id, row.label) for row in rows] == [*windows, (f"d02:0-{end}", 0)]
    assert (
        built_with(1).counts["retrieved_left_out_correct"]
        == built_with(1).counts["retrieved_left_out_same_as_window"]
        == 1
    )

    built = built_with(3)
    assert [row.passage_id for row in by_split(built)["train"]][3:] == [f"d02:0-{end}", f"d03:0-{end}"]
    assert built.counts["questions_short_of_negatives"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_negative_is_as_long_as_a_window_that_begins_where_it_does(seed: int) -> None:
    world = World(seed=seed, documents=80)
    rules = PassageRules(max_tokens=40)
    correct = {(label.question_id, label.sentence_id) for label in world.labels if label.label}
    texts = {page.doc_id: page.text for page in world.documents}
    sentences = {
        page.doc_id: [s for passage in SPLITTER.split(page) for s in passage.sentences]
        for page in world.documents
    }
    short = {(hit.question_id, hit.passage.doc_id, hit.passage.start): hit.passage for hit in world.hits}

    fits, longer = Splitter(rules.max_tokens).fits, 0
    for rows in by_split(world.build(rules)).values():
        for row in (row for row in rows if row.source == "retrieved"):
            begin, there = begin_of(row)[2], sentences[row.doc_id]
            place = next(n for n, s in enumerate(there) if s.start == begin)
            last = last_that_fits(texts[row.doc_id], there, place, fits)
            assert [s.sentence_id for s in row.sentences] == [s.sentence_id for s in there[place:last]]
            assert not any((row.question_id, s.sentence_id) in correct for s in row.sentences)
            longer += len(row.sentences) > len(short[row.question_id, row.doc_id, begin].sentences)

    assert longer > 10


def test_a_document_is_read_once() -> None:
    world, asked = World(seed=1, documents=80), []

    def documents(ids):
        asked.append(set(ids))
        return [each for each in world.documents if each.doc_id in ids]

    built = build(
        LabelledQuestions(world.labels, world.questions),
        documents,
        lambda ids: world.hits,
        PassageRules(documents_apart=False),
    )
    for_labels, for_negatives = asked
    retrieved = {row.doc_id for _, rows in built.rows() for row in rows if row.source == "retrieved"}
    assert retrieved & for_labels and retrieved - for_labels == for_negatives

    assert by_split(built) == by_split(world.build(PassageRules(documents_apart=False)))


def test_documents_are_not_asked_for_again_where_all_negatives_are_in_those_read() -> None:
    world, asked = World(seed=1), []

    def documents(ids):
        asked.append(set(ids))
        return world.documents

    labelled = {label.doc_id for label in world.labels if label.label}
    hits = [hit for hit in world.hits if hit.passage.doc_id in labelled]
    built = build(
        LabelledQuestions(world.labels, world.questions),
        documents,
        lambda ids: hits,
        PassageRules(documents_apart=False),
    )
    assert any(row.source == "retrieved" for _, rows in built.rows() for row in rows)

    assert len(asked) == 1 and labelled <= asked[0]


def test_a_passage_whose_window_reaches_a_correct_sentence_is_no_negative() -> None:
    texts = [document(n, 4) for n in range(2)]
    passages = [cut for text in texts for cut in Splitter(words=5).split(text)]
    assert [len(cut.sentences) for cut in passages] == [1] * 8
    labels = [SentenceLabel("q", passages[2].sentences[0].sentence_id, "d00", "", 1)]
    hits = [Hit("q", "Why?", n, 1.0, None, None, None, None, p) for n, p in enumerate(passages, 1)]
    built = build(
        LabelledQuestions(labels, {"q": "Why?"}),
        lambda ids: texts,
        lambda ids: hits,
        PassageRules(negatives=3, shares=(1, 0, 0)),
    )
    rows = [row for row in by_split(built)["train"] if row.source == "retrieved"]
    assert [(row.doc_id, begin_of(row)[2]) for row in rows] == [
        (p.doc_id, p.start) for p in (passages[3], *passages[4:6])
    ]

    assert built.counts["retrieved_left_out_correct"] == 3


def test_hits_of_other_documents_than_these_are_refused() -> None:
    world = World(seed=5, documents=80)
    last = world.documents.pop()
    (gone, *_) = SPLITTER.split(last)
    world.labels = [label for label in world.labels if label.doc_id != last.doc_id]
    world.hits = [hit for hit in world.hits if hit.passage.doc_id != last.doc_id]
    world.hits += [Hit(q, text, 0, 2.0, None, None, None, None, gone) for q, text in world.questions.items()]
    with pytest.raises(
        JobError, match=r"begins with sentence 'd79@0'.* retrieve again from these documents"
    ) as e:
        world.build(PassageRules(documents_apart=False))
    assert e.value.code == BAD_DATA


def test_test_takes_its_negatives_first() -> None:
    texts = [document(n, 3) for n in range(4)]
    passages = [SPLITTER.split(text)[0] for text in texts]
    labels = [SentenceLabel(f"q{n}", passages[n].sentences[0].sentence_id, f"d0{n}", "", 1) for n in range(3)]
    hits = [
        Hit(f"q{n}", "", 1 + i, 1.0, None, None, None, None, passages[i]) for n in range(3) for i in range(4)
    ]
    splits: dict[str, Split] = {"q0": "train", "q1": "dev", "q2": "test"}
    questions = {f"q{n}": f"{n}?" for n in range(3)}
    built = build(LabelledQuestions(labels, questions, splits), lambda ids: texts, lambda ids: hits)
    rows_by_split = by_split(built)
    negatives = {
        name: [row.doc_id for row in rows if row.source == "retrieved"]
        for name, rows in rows_by_split.items()
    }
    assert negatives == {"train": [], "dev": [], "test": ["d03"]}

    assert built.counts["retrieved_left_out_document_of_another_split"] == 8


def test_groups_make_fewer_windows_of_the_same() -> None:
    world = World(seed=7, documents=80)
    windows = {
        group: {
            (row.question_id, row.passage_id)
            for rows in by_split(world.build(PassageRules(group, negatives=0))).values()
            for row in rows
        }
        for group in ("all", "center", "random")
    }
    assert windows["center"] < windows["all"] and windows["random"] < windows["all"]
    assert max(len(windows["center"]), len(windows["random"])) <= len(world.labels) < len(windows["all"])
    assert world.build(PassageRules("random", seed=1, negatives=0)).counts["labels_used"] == len(world.labels)


def test_what_cannot_be_found_is_counted_with_its_reason() -> None:
    world = World(seed=2, documents=80)
    labels, q = len(world.labels), world.labels[0].question_id
    world.labels += [
        SentenceLabel(q, "d00@1", "d00", "", 1),  # no sentence begins there
        SentenceLabel(q, "gone@0", "gone", "", 1),
        SentenceLabel("absent", "d00@0", "d00", "", 1),
        SentenceLabel("q-empty", "gone@0", "gone", "", 1),
    ]
    world.questions["q-empty"] = "Nothing?"

    built = world.build(PassageRules(documents_apart=False))
    assert built.counts["labels_used"] == labels and built.counts["questions_left_out"] == 2
    assert (
        built.counts["labels_left_out_unknown_sentence"] == 3
        and built.counts["labels_left_out_unknown_question"] == 1
    )
    check_accounts(built)


def test_without_any_label_of_use_it_is_refused() -> None:
    world = World()
    world.documents = []
    with pytest.raises(JobError, match=r"no label can be used: .*labels_left_out_unknown_sentence") as e:
        world.build()
    assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"shares": (0.8, 0.1)}, "--split 0.8 0.1: give shares of train, dev and test that add up to 1"),
        ({"shares": (0.8, 0.3, 0.1)}, "--split 0.8 0.3 0.1"),
        ({"shares": (1.2, -0.1, -0.1)}, "--split 1.2 -0.1 -0.1"),
        ({"shares": (float("nan"), 0.5, 0.5)}, "--split nan"),
        ({"places": 0}, "--places 0: give at least 1"),
        ({"max_tokens": 5}, "--max-tokens 5: give at least 10"),
        ({"negatives": -1}, "--negatives -1: give at least 0"),
        ({"similar": 0}, "--similar 0: give a similarity above 0"),
        ({"similar": float("nan")}, "--similar nan"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(rules, says: str) -> None:
    with pytest.raises(JobError) as e:
        PassageRules(**rules)
    assert says in str(e.value) and e.value.code == USAGE


def test_a_retrieved_passage_in_which_no_sentence_begins_is_left_out_and_counted() -> None:
    world = World(documents=30)
    blocks = [passage for page in world.documents for passage in Splitter(words=4, mode="dpr").split(page)]
    bare = [passage for passage in blocks if not passage.sentences]
    assert len(bare) > 30  # sentences have eight words
    retrieved = [*bare[:3], *(passage for passage in blocks if passage.sentences)]
    world.hits = [
        Hit(q, text, n, 1 / n, None, None, None, None, each)
        for q, text in world.questions.items()
        for n, each in enumerate(retrieved, 1)
    ]

    built = world.build(PassageRules(negatives=4, documents_apart=False))
    assert built.counts["retrieved_left_out_without_sentence"] == 3 * len(built.questions) > 30
    assert all(len(question.negatives) == 4 for question in built.questions)
    check_accounts(built)


# On a run.


def dpr_run(folder: Path) -> Path:
    """A run whose documents are ingested as passages of exactly five words, each retrieved for each of four
    questions."""
    pages = [
        {"id": page.doc_id, "url": f"https://a.example/{page.doc_id}", "title": page.title, "text": page.text}
        for page in LONG
    ]
    (folder / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    settings = 'passages = "dpr"\npassage_words = 5\nmin_words = 5\npassage_tokens = 60\nlanguage = ""'
    (folder / "job.toml").write_text(f'[ingest]\ninput = ["pages.jsonl"]\n{settings}\n')
    with pytest.raises(SystemExit) as e:
        main(["ingest", str(folder / "job.toml"), "--out", str(folder / "run")])
    assert e.value.code == 0

    run = folder / "run"
    passages = list(PASSAGES.open(run).read())
    questions = [Question(f"q{n}", f"Which is number {n}?") for n in range(4)]
    hits = [
        Hit(question.question_id, question.text, n, 1 / n, None, None, None, None, each)
        for question in questions
        for n, each in enumerate(passages, 1)
    ]
    firsts = {each.doc_id: each.sentences[0] for each in reversed(passages) if each.sentences}
    labels = [
        SentenceLabel(question.question_id, first.sentence_id, doc_id, "", 1)
        for question, (doc_id, first) in zip(questions, sorted(firsts.items()), strict=False)
    ]

    for step, name, record, rows in (
        ("retrieve", "questions", Question, questions),
        ("retrieve", "retrieved", Hit, hits),
        ("propagate", "labels/sentences", SentenceLabel, labels),
    ):
        writing = made_step(run, f"{step}-{name.replace('/', '-')}", {name: record})
        Commit(writing).begin()
        with PartWriter(run / name, record, 0) as writer:
            writer.write(rows)
        Commit(writing).finish(Outcome.of(Rows(), [report(0, {name: writer.parts})]))

    return run


LONG = [document(n, 4) for n in range(8)]


def test_the_command_reads_a_run_of_dpr_passages(tmp_path: Path, capsys) -> None:
    run = dpr_run(tmp_path)
    passages = list(PASSAGES.open(run).read())
    assert 0 < sum(not each.sentences for each in passages) < len(passages)
    assert call(run, "--out", tmp_path / "out", "--negatives", "3", "--split", "1", "0", "0") == 0
    counts = json.loads((tmp_path / "out/passages.json").read_text())
    assert counts["retrieved_left_out_without_sentence"] > 0 and counts["train_questions"] == 4
    rows = LabelledPassage.rows(pq.read_table(tmp_path / "out/train.parquet"))
    assert {row.question_id for row in rows if row.source == "retrieved"} == {"q0", "q1", "q2", "q3"}
    assert ingest_settings(DOCUMENTS.open(run)).passage_tokens == 60


def test_the_command_writes_three_files_and_says_what_is_in_them(sample_run, tmp_path: Path, capsys) -> None:
    assert call(sample_run, "--out", tmp_path / "a", "--max-tokens", "120") == 0
    counts = json.loads((tmp_path / "a/passages.json").read_text())
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"passages   train {counts['train_questions']} questions, ")
    assert f"; test {counts['test_questions']} questions, " in line and "passages.json has all counts" in line
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "dev.parquet",
        "passages.json",
        "test.parquet",
        "train.parquet",
    ]

    rows_by_split = {
        name: LabelledPassage.rows(pq.read_table(tmp_path / f"a/{name}.parquet")) for name in SPLITS
    }
    check_no_leaks(World(), rows_by_split)
    for name, rows in rows_by_split.items():
        assert (counts[f"{name}_passages"], counts[f"{name}_positives"]) == (
            len(rows),
            sum(row.label for row in rows),
        )
        assert counts[f"{name}_questions"] == len({row.question_id for row in rows}) > 0
        assert counts[f"{name}_retrieved"] == sum(row.source == "retrieved" for row in rows) > 0

    labelled = SENTENCE_LABELS.manifest(sample_run)
    assert labelled is not None and counts["labels"] == labelled.rows
    assert counts["labels"] == counts["labels_used"] + counts["labels_left_out_document_of_another_split"]
    assert counts["labels_used"] > 1_400 and counts["questions"] == 90
    assert sum(counts[f"{name}_questions"] for name in SPLITS) == 90 - counts["questions_left_out"] > 80
    assert call(sample_run, "--out", tmp_path / "b", "--max-tokens", "120") == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    capsys.readouterr()
    assert call(sample_run, "--out", tmp_path / "a") == OUTPUT_EXISTS
    assert "a exists already, and has files; name another folder" in capsys.readouterr().err


def test_the_command_takes_a_split_file(sample_run, tmp_path: Path) -> None:
    (tmp_path / "split.tsv").write_text("q01\ttest\nq02\ttrain\nnobody\tdev\n")
    assert (
        call(
            sample_run, "--out", tmp_path / "out", "--split-file", tmp_path / "split.tsv", "--group", "center"
        )
        == 0
    )
    counts = json.loads((tmp_path / "out/passages.json").read_text())
    assert counts["test_questions"] == 1 and counts["dev_questions"] == 0 and counts["shares"] is None

    assert counts["labels"] == counts["labels_used"] + sum(
        v for k, v in counts.items() if k.startswith("labels_left_out")
    )
    assert (
        counts["labels_left_out_not_in_split_file"] > 100
        and counts["split_file_questions_without_labels"] == 1
    )
    assert len(pq.read_table(tmp_path / "out/dev.parquet")) == 0


@pytest.mark.parametrize(
    ("missing", "arguments", "code", "says"),
    [
        ("labels", (), INPUT_MISSING, "run `answermill propagate JOB.toml --out "),
        ("retrieved", (), INPUT_MISSING, "run `answermill retrieve JOB.toml --out "),
        ("documents", (), INPUT_MISSING, "run `answermill ingest JOB.toml --out "),
        ("retrieved", ("--negatives", "0"), 0, ""),
        ("", ("--split", "0.8", "0.3", "0.1"), USAGE, "--split 0.8 0.3 0.1"),
        ("", ("--split-file", "absent.tsv"), INPUT_MISSING, "absent.tsv: no such file"),
        (
            "",
            ("--split-file", "wrong.tsv"),
            BAD_DATA,
            "wrong.tsv:2: split 'valid' of question 'q02'; give train, dev, test",
        ),
        (
            "",
            ("--split-file", "twice.tsv"),
            BAD_DATA,
            "twice.tsv:2: question id 'q01' is in test already, dev here",
        ),
    ],
)
def test_the_command_refuses_with_what_to_type(
    sample_run, tmp_path, monkeypatch, capsys, missing, arguments, code, says
) -> None:
    for folder in ("labels", "documents", "questions", "retrieved"):
        if folder != missing:
            shutil.copytree(sample_run / folder, tmp_path / "run" / folder)
    (tmp_path / "wrong.tsv").write_text("q01\ttest\nq02\tvalid\n")
    (tmp_path / "twice.tsv").write_text("q01\ttest\nq01\tdev\n")
    monkeypatch.chdir(tmp_path)
    assert (call("run", "--out", "out", *arguments), says in capsys.readouterr().err) == (code, True)
    assert Path("out").exists() == (code == 0)
