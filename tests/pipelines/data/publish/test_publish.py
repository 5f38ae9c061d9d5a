"""A published set: every form is read back, by our own readers and by those of others, and holds the same."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from answermill.__main__ import main
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.formats import read_dataset
from answermill.pipelines.data.inputs.tables import read_questions
from answermill.pipelines.data.publish.card import Card, _sampling
from answermill.pipelines.data.publish.formats import asnq_classes
from answermill.pipelines.data.publish.passage_set import PassageRules
from answermill.pipelines.data.publish.publish import publish
from answermill.pipelines.data.publish.training_passages import write_passages
from answermill.pipelines.data.splits import SPLITS
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.runs.manifests.manifest import read_manifest
from answermill.pipelines.runs.parquet_folder import digest_of, whole_file
from answermill.schemas.labels import LabelledCandidate, LabelledPassage, LabelledSentence

CARD = Card('A "set": ours', "CC BY 4.0", ("pages of a.example: CC BY-SA 4.0",))
S = LabelledSentence


def row(
    q: str, passage: str, sentences: tuple[LabelledSentence, ...], source: str = "window"
) -> LabelledPassage:
    label = max(sentence.label for sentence in sentences)
    text = " ".join(sentence.text for sentence in sentences)
    doc_id = passage.partition(":")[0].partition("#")[0]
    return LabelledPassage(
        q, f"What\tis {q}?", passage, doc_id, f"About {doc_id}", text, label, source, sentences
    )


def question_rows(q: str, d: str) -> list[LabelledPassage]:
    """A question's rows: two windows that overlap, the first positive, the second with a sentence that nobody
    judged; a wrong one; a retrieved one."""
    right, wrong, other = (
        S(f"{d}@0", 'It is\n"it".', 1, True),
        S(f"{d}@9", "It is\tnot.", 0, True),
        S(f"{d}@19", "=Who knows?", 0, False),
    )
    same = S(f"{d}x@0", 'IT is "it".', 0)  # of a file that does not say
    return [
        row(q, f"{d}:0-18", (right, wrong)),
        row(q, f"{d}:9-30", (wrong, other)),
        row(q, f"{d}x:0-12", (same,)),
        row(q, "shared#0", (S("shared@0", "Everywhere the same.", 0),), "retrieved"),
    ]


DATA = {
    "train": [question_rows("q1", "d1"), question_rows("q2", "d2")],
    "dev": [],
    "test": [question_rows("q3", "d3")],
}


def written(folder: Path, **changes) -> Path:
    """A folder as `answermill passages` writes it."""
    summary: dict[str, object] = {
        "max_tokens": 200,
        "group": "all",
        "places": 5,
        "negatives": 5,
        "seed": 0,
        "similar": 0.8,
    }
    summary |= {"shares": [0.8, 0.1, 0.1], "labels_left_out_unknown_sentence": 3}

    for name, questions in DATA.items():
        with whole_file(folder / f"{name}.parquet", LabelledPassage) as write:
            for rows in questions:
                write(rows)
        positives = sum(each.label for rows in questions for each in rows)
        summary |= {
            f"{name}_questions": len(questions),
            f"{name}_passages": 4 * len(questions),
            f"{name}_positives": positives,
        }

    (folder / "passages.json").write_text(json.dumps(summary | changes))
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    list(publish(written(folder / "data"), folder / "out", ["parquet", "dpr", "beir", "asnq", "trec"], CARD))
    return folder / "out"


def test_nothing_else_is_written(published):
    files = sorted(path.relative_to(published).as_posix() for path in published.rglob("*") if path.is_file())
    each = [
        f"{form.format(name)}"
        for name in SPLITS
        for form in ("passages/{}.parquet", "sentences/{}.parquet", "dpr/{}.json")
    ]

    each += [
        f"{form.format(name)}"
        for name in SPLITS
        for form in ("asnq/{}.tsv", "beir/qrels/{}.tsv", "trec/{}.topics.tsv")
    ]
    each += [f"trec/{name}.{unit}.qrels" for name in SPLITS for unit in ("passages", "sentences")]
    assert files == sorted(["README.md", "beir/corpus.jsonl", "beir/queries.jsonl", *each])


def test_parquet_holds_the_rows_and_each_sentence_once(published):
    for name, questions in DATA.items():
        rows = LabelledPassage.rows(pq.read_table(published / f"passages/{name}.parquet"))
        assert rows == [each for rows_of_one in questions for each in rows_of_one]

    candidates = list(read_dataset(published / "sentences/train.parquet"))
    assert [
        (each.candidate_id, each.position, each.label) for each in candidates if each.question_id == "q1"
    ] == [
        ("d1@0", 0, 1),
        ("d1@9", 1, 0),
        ("d1@19", 2, 0),
        ("d1x@0", 3, 0),
        ("shared@0", 4, 0),
    ]

    assert candidates == LabelledCandidate.rows(pq.read_table(published / "sentences/train.parquet"))
    around = {each.candidate_id: (each.previous, each.next) for each in candidates}
    assert (
        around["d1@0"] == ("", "It is\tnot.")
        and around["d1@19"] == ("It is\tnot.", "")
        and around["d1x@0"] == ("", "")
    )
    assert {each.title for each in candidates} == {
        "About d1",
        "About d1x",
        "About d2",
        "About d2x",
        "About shared",
    }


@pytest.mark.parametrize("config", ["passages", "sentences"])
def test_datasets_loads_the_folder_as_it_is(published, tmp_path, config):
    datasets = pytest.importorskip(
        "datasets", reason="runs where datasets is installed: pip install datasets"
    )
    loaded = datasets.load_dataset(str(published), config, cache_dir=str(tmp_path))
    assert {name: len(rows) for name, rows in loaded.items()} == (
        {"train": 8, "test": 4} if config == "passages" else {"train": 10, "test": 5}
    )
    assert loaded["train"][0]["question_id"] == "q1"


def test_dpr_has_answers_and_hard_negatives(published):
    first, second = json.loads((published / "dpr/train.json").read_text())
    assert set(first) >= {"question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs"}
    assert (first["question"], first["answers"]) == ("What\tis q1?", ['It is\n"it".'])
    assert [ctx["passage_id"] for ctx in first["positive_ctxs"]] == ["d1:0-18"]
    assert [ctx["passage_id"] for ctx in second["hard_negative_ctxs"]] == ["d2:9-30", "d2x:0-12", "shared#0"]
    assert {*first["positive_ctxs"][0]} >= {"title", "text", "passage_id"}
    assert json.loads((published / "dpr/dev.json").read_text()) == []


def beir_files(folder: Path, split: str) -> tuple[dict, dict, dict]:
    """BEIR's files, as its documentation describes them."""
    corpus, queries = (
        {each["_id"]: each for each in map(json.loads, (folder / name).read_text().splitlines())}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    judged: dict[str, dict[str, int]] = {}
    with (folder / f"qrels/{split}.tsv").open(newline="") as file:
        head, *rows = csv.reader(file, delimiter="\t")
    assert head == ["query-id", "corpus-id", "score"]
    for query, passage, score in rows:
        judged.setdefault(query, {})[passage] = int(score)
    return corpus, queries, judged


def test_beir_has_every_passage_once_and_judgements_of_windows(published):
    corpus, queries, judged = beir_files(published / "beir", "train")
    assert len(corpus) == 3 * 3 + 1 == len((published / "beir/corpus.jsonl").read_text().splitlines())
    assert queries["q3"]["text"] == "What\tis q3?" and corpus["shared#0"]["title"] == "About shared"
    assert judged == {
        q: {f"{d}:0-18": 1, f"{d}:9-30": 0, f"{d}x:0-12": 0} for q, d in (("q1", "d1"), ("q2", "d2"))
    }
    assert beir_files(published / "beir", "dev")[2] == {}


def test_beir_s_own_loader_reads_it(published):
    loader = pytest.importorskip(
        "beir.datasets.data_loader", reason="runs where beir is installed: pip install beir"
    )
    corpus, queries, judged = loader.GenericDataLoader(data_folder=str(published / "beir")).load(
        split="train"
    )
    assert (
        len(corpus) == 10
        and set(queries) == {"q1", "q2"}
        and judged["q1"] == {"d1:0-18": 1, "d1:9-30": 0, "d1x:0-12": 0}
    )


def test_asnq_s_classes(published):
    classes = {each.candidate_id: number for each, number in asnq_classes(question_rows("q1", "d1"))}
    assert classes == {"d1@0": 4, "d1@9": 3, "d1@19": 1, "d1x@0": 2, "shared@0": 1}
    counted: Counter[str] = Counter()
    candidates = list(read_dataset(published / "asnq/train.tsv", counted=counted))
    assert counted == {"class 4": 2, "class 3": 2, "class 2": 2, "class 1": 4}
    original = list(read_dataset(published / "sentences/train.parquet"))
    assert [(each.text, each.label, each.position) for each in candidates] == [
        (" ".join(each.text.split()), each.label, each.position) for each in original
    ]
    assert {each.question for each in candidates} == {"What is q1?", "What is q2?"}
    assert (published / "asnq/dev.tsv").read_text() == ""


def test_trec_s_files_are_read_back(published):
    passages = (published / "trec/test.passages.qrels").read_text().splitlines()
    assert passages == ["q3 0 d3:0-18 1", "q3 0 d3:9-30 0", "q3 0 d3x:0-12 0"]
    assert {q.question_id: q.text for q in read_questions(published / "trec/test.topics.tsv")} == {
        "q3": "What is q3?"
    }
    labels = read_labels(published / "trec/test.sentences.qrels").values
    assert dict(zip(labels.candidate_id.to_pylist(), labels.value.tolist(), strict=True)) == {
        "d3@0": 1,
        "d3@9": 0,
        "d3x@0": 0,
    }


def test_a_licence_that_the_hub_does_not_list_keeps_its_name(tmp_path):
    list(
        publish(
            written(tmp_path / "data"), tmp_path / "out", ["trec"], replace(CARD, licence="research only")
        )
    )
    _, head, _ = (tmp_path / "out/README.md").read_text().split("---\n", 2)
    known = yaml.safe_load(head)
    assert (known["license"], known["license_name"]) == ("other", "research only")


def test_the_card_shows_a_row_and_says_in_words_what_was_left_out_and_how_it_was_sampled(tmp_path):
    data = written(tmp_path / "data")
    summary = json.loads((data / "passages.json").read_text())
    left_out = {"labels_left_out_document_of_another_split": 16, "questions_left_out": 1}
    (data / "passages.json").write_text(json.dumps(summary | left_out))
    list(publish(data, tmp_path / "out", ["trec"], CARD))
    card = (tmp_path / "out/README.md").read_text()
    assert "- Left out: 3 labels of a sentence that its document does not have, " in card
    assert ", 16 labels of a document that is in another split, 1 question left out\n" in card
    assert "## A row\n\n- question: What is q" in card and ", label 1)" in card and "## Citation" in card
    settings = {"top": 15, "random": 2, "annotators": 3, "overlap_share": 0.2}
    counts = {"questions": 30, "tasks": 512, "top": 450, "random": 60, "control": 2}
    assert _sampling(settings, counts) == (
        "of each question the 15 best and, drawn from the others, 2; for 30 questions 512 sentences, 450 "
        "of the best, 60 of the others, and 2 with known labels, unseen; 3 people judge each of 20% of them"
    )


def test_the_card_has_the_table_and_what_to_know(published):
    card = (published / "README.md").read_text()
    _, head, text = card.split("---\n", 2)
    known = yaml.safe_load(head)
    assert (known["pretty_name"], known["license"]) == (
        CARD.name,
        "cc-by-4.0",
    ) and "license_name" not in known

    # Dev has no question.
    files = [{"split": name, "path": f"sentences/{name}.parquet"} for name in ("train", "test")]
    assert (
        known["configs"][1] == {"config_name": "sentences", "data_files": files} and "language" not in known
    )
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    assert table[0] == ["Split", "Questions", "Documents", "QP pairs", "QP+", "QP-", "QA pairs", "QA+", "QA-"]

    assert table[1] == ["train", "2", "5", "6", "2", "4", "8", "2", "6"]
    assert table[2] == ["dev", *["0"] * 8]
    assert table[4] == ["total", "3", "7", "9", "3", "6", "12", "3", "9"]

    for fact in (
        "CC BY 4.0",
        "pages of a.example: CC BY-SA 4.0",
        "3 retrieved passages are hard negatives",
        "Left out: 3 labels of a sentence that its document does not have\n",
    ):
        assert fact in text

    assert "similarity of 0.8 or more" in text and "How far annotators agree is not known here" in text


def test_the_same_data_give_the_same_bytes(published, tmp_path):
    list(
        publish(
            written(tmp_path / "data"), tmp_path / "out", ["trec", "asnq", "beir", "dpr", "parquet"], CARD
        )
    )
    for path in published.rglob("*.*"):
        if path.name != "README.md":  # the order of the forms is that of the command
            assert path.read_bytes() == (tmp_path / "out" / path.relative_to(published)).read_bytes(), path


def refused(code: int, says: str, *arguments, **named) -> None:
    with pytest.raises(JobError, match=says) as e:
        list(publish(*arguments, **named))
    assert e.value.code == code


def test_what_cannot_be_published_is_refused(tmp_path):
    data, out = written(tmp_path / "data"), tmp_path / "out"
    refused(USAGE, "give one or several of parquet, dpr", data, out, [], CARD)
    refused(INPUT_MISSING, "run `answermill passages RUN", tmp_path, out, ["dpr"], CARD)
    refused(INPUT_MISSING, "--run takes the folder of a run", data, out, ["dpr"], CARD, tmp_path)
    refused(
        BAD_DATA,
        r"train.parquet has \(2, 8, 2\)",
        written(tmp_path / "a", train_passages=9),
        out,
        ["dpr", "beir"],
        CARD,
    )

    assert not out.exists()
    list(publish(data, out, ["dpr"], CARD))
    refused(OUTPUT_EXISTS, "exists already, and has files", data, out, ["dpr"], CARD)
    (data / "passages.json").write_text("[]")
    refused(BAD_DATA, "not what `answermill passages` writes", data, tmp_path / "b", ["dpr"], CARD)


def test_a_question_twice_and_an_id_that_qrels_cannot_hold(tmp_path, monkeypatch):
    monkeypatch.setitem(DATA, "dev", [question_rows("q1", "d9")])
    refused(
        BAD_DATA,
        "question 'q1' is in dev and in train",
        written(tmp_path / "data"),
        tmp_path / "out",
        ["dpr"],
        CARD,
    )

    monkeypatch.setitem(DATA, "dev", [question_rows("q 9", "d9")])
    data = written(tmp_path / "blank")
    for form in ("beir", "trec"):
        refused(
            BAD_DATA,
            r"the id 'q 9' has white space or quotes, .* leave out beir and trec",
            data,
            tmp_path / form,
            [form],
            CARD,
        )

    list(publish(data, tmp_path / "others", ["parquet", "dpr", "asnq"], CARD))


def run_of_collected_labels(sample_run: Path, run: Path) -> Path:
    """The sample's run as if its labels had been collected."""
    run.mkdir()
    for name in ("documents", "questions", "retrieved"):
        (run / name).symlink_to(sample_run / name)
    shutil.copytree(sample_run / "labels", run / "labels")
    shutil.copytree(sample_run / "labels/sentences", run / "collected/labels")

    collected = read_manifest(run / "collected/labels")
    assert collected is not None
    (run / "labels/sentences/_manifest.json").unlink()
    replace(collected, inputs=dict(collected.inputs) | {"labels": digest_of(collected)}).write(
        run / "labels/sentences"
    )
    return run


def test_labels_of_a_file_are_counted_and_not_what_was_collected_since(sample_run, tmp_path):
    """Nor is the agreement of those who judged since that of the set."""
    run, data = run_of_collected_labels(sample_run, tmp_path / "run"), tmp_path / "data"
    write_passages(sample_run, data, PassageRules())
    (run / "collected/agreement.json").write_text('{"annotators": {"Ann": {}}}')
    list(publish(data, tmp_path / "collected", ["trec"], CARD, run))

    shutil.rmtree(run / "labels/sentences")
    shutil.copytree(sample_run / "labels/sentences", run / "labels/sentences")
    collected = read_manifest(run / "collected/labels")
    assert collected is not None
    (run / "collected/labels/_manifest.json").unlink()
    replace(collected, parts=()).write(run / "collected/labels")
    list(publish(data, tmp_path / "given", ["trec"], CARD, run))

    of_people, of_file = (
        (tmp_path / name / "README.md").read_text().splitlines() for name in ("collected", "given")
    )
    tables = [[line for line in lines if line.startswith("| ")] for lines in (of_people, of_file)]
    assert tables[0] == tables[1] and "- people who judged: 1" in of_people
    assert not any("people who judged" in line for line in of_file)


def test_the_command_publishes_a_run_s_set_with_its_origin(sample_run, tmp_path, capsys):
    agreed = {
        "krippendorff_alpha": {"value": 0.8125, "tasks": 40, "votes": 80, "undefined": None},
        "annotators": {"Ann": {}},
    }
    run = run_of_collected_labels(sample_run, tmp_path / "run")
    (run / "collected/agreement.json").write_text(json.dumps(agreed))
    described = ["--name", "n", "--licence", "l"]
    for arguments in (
        ["passages", sample_run, "--out", tmp_path / "data"],
        ["publish", tmp_path / "data", "--out", tmp_path / "out", *described, "--run", run],
    ):
        with pytest.raises(SystemExit) as e:
            main([str(argument) for argument in arguments])
        assert e.value.code == 0

    said, card = capsys.readouterr().out, (tmp_path / "out/README.md").read_text()
    assert "Split  Questions" in said
    rows = [line.split(" | ") for line in card.splitlines() if line.startswith("| ")]
    counts = json.loads((tmp_path / "data/passages.json").read_text())
    assert int(rows[-1][1]) == counts["questions"] - counts["questions_left_out"] > 80

    # Judged sentences, of the questions that are in the set.
    judged_left_out = counts["labels"] - int(rows[-1][6].replace(",", ""))
    assert (
        0 <= judged_left_out <= counts["labels_left_out_document_of_another_split"]
        and rows[-1][7].isdecimal()
    )
    assert (
        "Krippendorff's alpha: 0.812 (40 tasks, 80 votes)" in card
        and "people who judged: 1" in card
        and "Ann" not in card
    )

    assert "70 read, 60 kept (language en, at least 30 words)" in card and "`web.warc.gz`" in card
    published_rows = {name: list(read_dataset(tmp_path / f"out/sentences/{name}.parquet")) for name in SPLITS}
    texts = {
        name: {fold(each.question) for each in candidates} for name, candidates in published_rows.items()
    }
    assert all(texts.values()) and not texts["train"] & texts["test"]
    counts["inputs"]["labels"] = "0" * 32
    (tmp_path / "data/passages.json").write_text(json.dumps(counts))
    refused(
        BAD_DATA,
        "its labels/sentences is not what",
        tmp_path / "data",
        tmp_path / "b",
        ["dpr"],
        CARD,
        tmp_path / "run",
    )
