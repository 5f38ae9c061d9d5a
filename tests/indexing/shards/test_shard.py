"""Row i is one passage in all files of a shard, and a shard refuses what it was not built for."""

import json
from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import DENSE, SHARD_FILE, ShardMismatch
from answermill.schemas.corpus import Passage


def test_row_i_is_passage_i_and_lucene_document_i_and_vector_i(
    passages: list[Passage], few: Path, default_encoder: Encoder
) -> None:
    shard = Shard.open(few)
    assert shard.passages(range(20)) == passages[:20]
    for row in (0, 7, 19):
        assert shard.bm25.search([f"number{row}"], 1, None)[0][0].tolist() == [row]
    alone = default_encoder.encode_passages([(p.title, p.text) for p in passages[7:8]])
    assert (shard.dense.vectors[7] == alone[0]).all()
    assert shard.dense.search(alone, 1)[0][0].tolist() == [7]


def test_a_shard_remembers_how_it_was_made(few: Path, default_encoder: Encoder) -> None:
    shard = Shard.open(few)
    assert (shard.rows, shard.bm25.rows) == (20, 20)
    shard.check_encoder(default_encoder.fingerprint)
    with pytest.raises(ShardMismatch, match="all-MiniLM-L6-v2"):
        shard.check_encoder("0123456789abcdef")


def test_passages_come_in_the_order_asked_across_row_groups(passages: list[Passage], many: Path) -> None:
    shard = Shard.open(many)
    rows = np.random.default_rng(0).integers(0, 700, 300).tolist()  # some twice
    assert len(set(rows)) < len(rows)
    assert shard.passages(rows) == [passages[row] for row in rows]
    assert shard.passage_ids(rows) == [passages[row].passage_id for row in rows]
    assert (shard.passages([]), shard.passage_ids([])) == ([], [])


def test_a_shard_without_an_encoder_has_no_dense_index(many: Path) -> None:
    assert not (many / DENSE).exists()
    with pytest.raises(ShardMismatch, match="without an encoder"):
        Shard.open(many).dense  # noqa: B018


def test_a_shard_of_another_lucene_is_refused(many: Path) -> None:
    written = json.loads((many / SHARD_FILE).read_text())
    (many / SHARD_FILE).write_text(json.dumps(written | {"lucene": "8.11.0"}))
    shard = Shard.open(many)
    assert shard.passage_ids([0]) == ["d0#0"]  # passages do not need Lucene
    with pytest.raises(ShardMismatch, match=r"written by Lucene 8\.11\.0"):
        shard.bm25  # noqa: B018


def test_a_shard_of_another_language_is_refused(many: Path) -> None:
    shard = Shard.open(many)
    shard.check_words("en", 0.5)
    with pytest.raises(ShardMismatch, match=r"words are of language 'en', the job's is 'de'; .*--redo index"):
        shard.check_words("de", 0)
    written = json.loads((many / SHARD_FILE).read_text())
    written["bm25"] |= {"analyzer": "org.example.Other"}
    (many / SHARD_FILE).write_text(json.dumps(written))
    with pytest.raises(ShardMismatch, match=r"by org\.example\.Other for language 'en', which is not known"):
        Shard.open(many).bm25  # noqa: B018


def test_a_shard_of_a_former_version_serves_all_but_a_weight_of_titles(many: Path) -> None:
    written = json.loads((many / SHARD_FILE).read_text())
    written["bm25"] = {"k1": 0.9, "b": 0.4, "analyzer": written["bm25"]["analyzer"]}
    (many / SHARD_FILE).write_text(json.dumps(written))
    shard = Shard.open(many)
    shard.check_words("en", 0)
    assert shard.bm25.rows == 700
    with pytest.raises(ShardMismatch, match="no titles by themselves"):
        shard.check_words("en", 0.5)


def test_a_closed_shard_opens_its_indexes_anew(few: Path) -> None:
    shard = Shard.open(few)
    first = shard.bm25.search(["ice"], 3, None)[0][0].tolist()
    shard.passage_ids([0])
    shard.close()
    assert shard.bm25.search(["ice"], 3, None)[0][0].tolist() == first
    assert shard.passage_ids([0]) == ["d0#0"]
