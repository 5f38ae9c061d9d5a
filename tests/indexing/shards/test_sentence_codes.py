"""A shard's sentence codes: each text once, found by its hash, read from the file; damaged or of another
model, refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from answermill.indexing.shards import sentence_codes
from answermill.indexing.shards.sentence_codes import (
    Bytes,
    CodeWriter,
    Numbers,
    Parts,
    SentenceCodes,
    ShardCodes,
    text_hash,
)
from answermill.indexing.shards.shard import Shard, stored_codes
from answermill.indexing.shards.shard_builder import ShardSettings, build_shard
from answermill.indexing.shards.shard_files import SHARD_FILE, ShardDamaged, ShardMismatch
from answermill.schemas.corpus import Passage, Sentence

LIMIT = 7
TEXTS = [f"{'ice ' * (n % 9)}number {n}" for n in range(300)]
ALONE = [(text,) for text in TEXTS]


@dataclass(frozen=True)
class Encoded:
    bits: Bytes
    lengths: Numbers
    cut: Numbers


class Words:
    """A token per word, of at most LIMIT, whose bits are a hash of it."""

    model, width, form, precision = "a" * 32, 64, "bits", ""

    def texts(self, passage: Passage) -> list[Parts]:
        return [(sentence.text,) for sentence in passage.sentences]

    def encode(self, texts: Sequence[Parts]) -> Encoded:
        words = [" ".join(text).split() for text in texts]
        kept = [w for each in words for w in each[:LIMIT]]
        bits = np.frombuffer(
            b"".join(hashlib.sha256(w.encode()).digest()[:8] for w in kept), np.uint8
        ).reshape(-1, 8)
        lengths = np.array([len(each) for each in words], np.int64)
        return Encoded(bits, np.minimum(lengths, LIMIT), np.maximum(lengths - LIMIT, 0))


class Other(Words):
    model = "b" * 32


def written(folder: Path, *calls: Sequence[Parts]) -> ShardCodes:
    writer = CodeWriter(folder, Words())
    for texts in calls:
        writer.add(texts)
    return ShardCodes(folder, writer.finish())


def passages(texts: Sequence[str]) -> list[Passage]:
    """Of two sentences each, of which the second is the first of the next one."""
    return [
        Passage(
            f"d#{n}",
            "d",
            "",
            "",
            n,
            n + 2,
            f"{a} {b}",
            (Sentence(f"d@{n}", n, n + 1, a), Sentence(f"d@{n + 1}", n + 1, n + 2, b)),
        )
        for n, (a, b) in enumerate(pairwise(texts))
    ]


def test_every_text_is_found_with_its_bits_and_stored_once(tmp_path: Path) -> None:
    shard_codes = written(tmp_path, ALONE[:100], ALONE[50:250], [], ALONE[:10])
    assert shard_codes.name.answers == 250 and shard_codes.name.answers_cut > 20
    answers = SentenceCodes([shard_codes]).find(ALONE)
    assert [answer is None for answer in answers] == [False] * 250 + [True] * 50
    for text, answer in zip(ALONE[:250], answers, strict=False):
        alone = Words().encode([text])
        assert answer is not None
        assert (answer.bits == alone.bits).all() and answer.cut == alone.cut[0]
        assert not answer.bits.flags.owndata


def test_a_row_says_hash_tokens_and_place_and_bits_are_of_fixed_size(tmp_path: Path) -> None:
    name = written(tmp_path, ALONE).name
    folder = sentence_codes.folder_of(tmp_path, name.model)
    answers = pa.ipc.open_file(folder / sentence_codes.ANSWERS).read_all()
    bits = pa.ipc.open_file(folder / sentence_codes.BITS).read_all()
    assert bits.schema.field("bits").type == pa.binary(8) and len(bits) == name.tokens == sum(
        answers["length"].to_pylist()
    )
    assert answers["text_hash"].to_pylist() == sorted(map(text_hash, ALONE))
    assert (folder / sentence_codes.BITS).stat().st_size < 8 * name.tokens + 2_000


def test_an_empty_shard_has_codes_of_nothing(tmp_path: Path) -> None:
    assert SentenceCodes([written(tmp_path)]).find([("a",), ("b",)]) == [None, None]
    assert SentenceCodes([]).find([]) == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of 80 passages with codes by two models, and one without codes."""
    folder = tmp_path_factory.mktemp("shards")
    for number, some in enumerate((TEXTS[:81], TEXTS[80:161])):
        report = build_shard(
            iter(passages(some)), folder / str(number), ShardSettings(coders=[Words(), Other()])
        )
        assert [each.answers for each in report.codes] == [81, 81] and report.passages == 80
    build_shard(iter(passages(TEXTS[:5])), folder / "2", ShardSettings())
    return folder


def test_codes_stand_in_the_shards_manifest_and_are_read_over_all_shards(built: Path) -> None:
    Shard.open(built / "0")
    files = json.loads((built / "0" / SHARD_FILE).read_text())["files"]
    assert {name for name in files if name.startswith("codes/")} == {
        f"codes/{model}/{file}"
        for model in (Words.model, Other.model)
        for file in (sentence_codes.ANSWERS, sentence_codes.BITS)
    }
    codes = stored_codes([built / n for n in "012"], Words.model)
    assert codes is not None and len(codes.shards) == 2
    assert [answer is None for answer in codes.find(ALONE)] == [False] * 161 + [True] * 139
    assert stored_codes([built / "2"], Words.model) is None


def test_the_same_passages_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    build_shard(iter(passages(TEXTS[:81])), tmp_path / "again", ShardSettings(coders=[Words()]))
    for file in (sentence_codes.ANSWERS, sentence_codes.BITS):
        name = sentence_codes.folder_of(Path(), Words.model) / file
        assert (tmp_path / "again" / name).read_bytes() == (built / "0" / name).read_bytes()


def test_codes_of_another_model_or_format_are_refused(built: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ShardMismatch, match=rf"{Words.model}, {Other.model}, the job's is {'c' * 32}. Run this job's index"
    ):
        stored_codes([built / "0"], "c" * 32)
    shutil.copytree(built / "0", tmp_path / "0")
    contents = json.loads((tmp_path / "0" / SHARD_FILE).read_text())
    contents["codes"][0]["format"] = 0
    (tmp_path / "0" / SHARD_FILE).write_text(json.dumps(contents))
    with pytest.raises(ShardMismatch, match=r"sentence codes were written by another version.*--redo index"):
        stored_codes([tmp_path / "0"], Words.model)


@pytest.mark.parametrize("file", [sentence_codes.ANSWERS, sentence_codes.BITS])
def test_codes_cut_short_or_changed_are_refused(built: Path, tmp_path: Path, file: str) -> None:
    shutil.copytree(built / "0", tmp_path / "0")
    path = sentence_codes.folder_of(tmp_path / "0", Words.model) / file
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    for verify in (True, False):
        with pytest.raises(ShardDamaged, match=f"{file} has .* bytes, .* were written; `answermill run"):
            stored_codes([tmp_path / "0"], Words.model, verify)

    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ShardDamaged, match=f"{file} was changed since it was written"):
        stored_codes([tmp_path / "0"], Words.model)
    assert stored_codes([tmp_path / "0"], Other.model) is not None
    path.unlink()
    with pytest.raises(ShardDamaged, match="missing"):
        stored_codes([tmp_path / "0"], Words.model, verify=False)


class Titled(Words):
    """Two bytes of each sentence behind its title, as a model of vectors has it."""

    model, width, form, precision = "d" * 32, 16, "fp16", "fp32"

    def texts(self, passage: Passage) -> list[Parts]:
        return [(passage.title, sentence.text) for sentence in passage.sentences]

    def encode(self, texts: Sequence[Parts]) -> Encoded:
        bits = np.frombuffer(
            b"".join(hashlib.sha256("|".join(text).encode()).digest()[:2] for text in texts), np.uint8
        )
        return Encoded(bits.reshape(-1, 2), np.ones(len(texts), np.int64), np.zeros(len(texts), np.int64))


def test_vectors_stand_beside_bits_and_are_known_by_all_parts_of_a_text(tmp_path: Path) -> None:
    some = [replace(passage, title=f"T{n % 2}") for n, passage in enumerate(passages(TEXTS[:9]))]
    report = build_shard(iter(some), tmp_path / "0", ShardSettings(coders=[Words(), Titled()]))
    assert [(each.form, each.answers) for each in report.codes] == [("bits", 9), ("fp16", 16)]
    assert len(report.seconds_codes) == 2
    vectors = stored_codes([tmp_path / "0"], Titled.model, vectors=True)
    assert vectors is not None
    there = vectors.find(
        [("T0", TEXTS[1]), ("T1", TEXTS[1]), ("T1", TEXTS[0]), (TEXTS[0],), ("T0 number", "0")]
    )
    assert [each is not None for each in there] == [True, True, False, False, False]

    assert there[0] is not None and (there[0].bits == Titled().encode([("T0", TEXTS[1])]).bits).all()
    with pytest.raises(
        ShardMismatch, match=rf"vectors are of encoder and settings {Titled.model}, the job's is {'c' * 32}"
    ):
        stored_codes([tmp_path / "0"], "c" * 32, vectors=True)

    build_shard(iter(some), tmp_path / "1", ShardSettings(coders=[Words()]))
    assert stored_codes([tmp_path / "1"], Titled.model, vectors=True) is None  # it has bits only
