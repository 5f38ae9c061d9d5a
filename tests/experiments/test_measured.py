"""The recorded digests are of the data that was measured on, and conversions give that data where a source
is on this machine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from experiments import published_forms, published_squad
from experiments.published_content import content_sha256, write
from experiments.published_sets import FILES, SETS

SQUAD_TRAIN = "qa-train/squad-train"
TALES = "qa-train/fairytaleqa/fairytaleqa"


def convert(folder: Path, name: str, files: dict[str, bytes], data: Path) -> str:
    """The state of a set below `folder` after these published files were converted."""
    for file, content in files.items():
        (folder / file).write_bytes(content)
    conversion = SETS[name].convert
    assert conversion is not None
    for path, content in conversion({file: folder / file for file in files}, data):
        write(folder / path, content)
    return SETS[name].state(folder)


def unpacked(data: Path, path: str) -> bytes:
    return gzip.decompress((data / path).read_bytes())


@pytest.mark.nightly
def test_the_recorded_digests_are_those_of_the_measuring_data(shared_data: Path) -> None:
    measured = {name: each.state(shared_data) for name, each in SETS.items() if each.files[0].sha256}
    assert len(measured) == 18 and set(measured.values()) == {"there"}


def test_squadshifts_as_published_becomes_what_was_measured_on(shared_data: Path, tmp_path: Path) -> None:
    content = unpacked(shared_data, f"squad/{published_squad.SHIFTS}")
    assert convert(tmp_path, "squadshifts", {"new_wiki_v1.0.json": content}, shared_data) == "there"
    (source,) = SETS["squadshifts"].sources
    assert content_sha256(tmp_path / source.name) == source.sha256 and len(content) == source.size


def test_nq_open_as_published_becomes_what_was_measured_on(shared_data: Path, tmp_path: Path) -> None:
    kept = [json.loads(line) for line in unpacked(shared_data, "questions/nq-open-dev.jsonl.gz").splitlines()]
    published = ({"question": row["question"], "answer": row["answers"]} for row in kept)
    content = "".join(json.dumps(row) + "\n" for row in published).encode()
    assert convert(tmp_path, "nq-open", {"NQ-open.dev.jsonl": content}, shared_data) == "there"
    (source,) = SETS["nq-open"].sources
    assert content_sha256(tmp_path / source.name) == source.sha256


@pytest.mark.nightly
def test_squad_sent_and_the_wikipedia_corpus_come_out_as_measured(shared_data: Path, tmp_path: Path) -> None:
    names = {"dev-v1.1.json": published_squad.DEV, "dev-v2.0.json": published_squad.TEST}
    files = {name: unpacked(shared_data, f"squad/{file}") for name, file in names.items()}
    assert convert(tmp_path, "squad", files, shared_data) == "there"
    assert convert(tmp_path, "corpus-wiki", {}, shared_data) == "there"


def test_sentences_of_squad_train_come_out_as_measured(shared_data: Path) -> None:
    """Those of some articles: all of them take a minute."""
    content = unpacked(shared_data, f"{SQUAD_TRAIN}/squad-train-v1.1.json.gz")
    articles = json.loads(content)["data"][:12]
    table = pq.read_table(shared_data / SQUAD_TRAIN / "squad-sent-train-v1.1.parquet").slice(0, 30_000)
    titles = {article["title"] for article in articles}
    expected = [tuple(row.values()) for row in table.to_pylist() if row["document_title"] in titles]
    assert len(expected) > 8_000 and list(published_squad.train_rows(articles)) == expected


def test_cacm_s_documents_come_out_as_measured(shared_data: Path, tmp_path: Path) -> None:
    archive = (shared_data / "retrieval/cacm/cacm.tar.gz").read_bytes()
    files = {"cacm.tar.gz": archive, "topics.cacm.txt": b"", "qrels.cacm.txt": b""}
    assert convert(tmp_path, "cacm", files, shared_data) == "differs", "there are no topics"
    assert FILES["cacm"][0].state(tmp_path) == "there"


def test_most_of_fairytaleqa_s_questions_have_the_same_answer_sentence(shared_data: Path) -> None:
    """The measured set was labelled by rules that are not recorded."""
    labels: dict[str, list[int]] = {}
    for row in pq.read_table(shared_data / f"{TALES}-sent.parquet").to_pylist():
        labels.setdefault(row["question_id"], []).append(row["label"])

    asked = [json.loads(line) for line in unpacked(shared_data, f"{TALES}.jsonl.gz").splitlines()]
    same = 0
    for each in (each for each in asked if each["id"] in labels):
        sentences = published_forms.sentences_of(each["text"])
        position, _ = published_forms.answer_sentence(each["answers"][0], sentences)
        same += [int(n == position) for n in range(len(sentences))] == labels[each["id"]]
    assert 0.95 < same / len(labels) < 1
