"""A checkpoint that was damaged, after it was written or before, is refused with its file, whichever reranker
reads it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import load_file, save_file

from answermill.files.model_files import SUMS, ModelDamaged, check_sums
from answermill.indexing.shards.dense import find_model, load_encoder
from answermill.pipelines.steps.models import load_transformer
from answermill.ranking.entry import SHIPPED
from answermill.ranking.rerankers.cosinet.list_checkpoint import save_list_model
from answermill.ranking.rerankers.registry import RERANKERS, load_reranker
from answermill.ranking.training.list_models import MODELS
from answermill.ranking.word_vectors.embeddings import Embeddings
from testing.tiny import checkpoint, write_dense

KINDS = sorted(name for name, entry in RERANKERS.items() if entry.checkpoint)


def folder_with_weights(kind: str, folder: Path) -> Path:
    """A checkpoint of the kind; the folder in it that holds weights."""
    checkpoint(kind, folder)
    return folder / "2" if kind == "sequential" else folder


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x40
    file.write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
def test_every_checkpoint_has_the_digests_of_all_its_files(kind: str, tmp_path: Path) -> None:
    folder = folder_with_weights(kind, tmp_path)
    digests = json.loads((folder / SUMS).read_text())["sha256"]
    assert (
        {"config.json", "model.safetensors"}
        < set(digests)
        == {path.name for path in folder.iterdir()} - {SUMS}
    )

    for name in digests:
        broken = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"{kind}-{name}")))
        file = broken / folder.relative_to(tmp_path) / name
        flip(file, -20)
        with pytest.raises(
            ModelDamaged, match=f"{re.escape(str(file))} is not the file that was written"
        ) as e:
            load_reranker(kind, broken)
        assert e.value.exit_code == 65
        file.unlink()
        with pytest.raises(ModelDamaged, match=f"{re.escape(str(file))} is not there"):
            load_reranker(kind, broken)


@pytest.mark.parametrize("limit", [-5, 0, 100_000])
def test_a_limit_that_the_body_cannot_keep_is_refused(limit: int, tmp_path: Path) -> None:
    checkpoint("cascade", tmp_path)
    (tmp_path / SUMS).unlink()
    config = json.loads((tmp_path / "config.json").read_text()) | {"limit": limit}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"limit is {limit}; it must be from 8 to the body's"):
        load_reranker("cascade", tmp_path)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_no_numbers_are_refused_without_digests_too(
    kind: str, wrong: float, tmp_path: Path
) -> None:
    folder = folder_with_weights(kind, tmp_path)
    (folder / SUMS).unlink()
    load_reranker(kind, tmp_path)  # as it was before there were digests
    weights = load_file(folder / "model.safetensors")
    name = sorted(weights)[-1]
    weights[name].view(-1)[-1] = wrong
    save_file({key: weight.clone() for key, weight in weights.items()}, folder / "model.safetensors")
    with pytest.raises(
        ModelDamaged, match=f"model.safetensors: its weights '{re.escape(name)}' hold NaN or infinity"
    ):
        load_reranker(kind, tmp_path)


def test_word_vectors_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    checkpoint("cosinet", tmp_path)
    (tmp_path / SUMS).unlink()
    vectors = safetensors.numpy.load_file(tmp_path / "vectors.safetensors")["vectors"]
    vectors[2, 3] = np.nan
    safetensors.numpy.save_file({"vectors": vectors}, tmp_path / "vectors.safetensors")
    with pytest.raises(ModelDamaged, match=r"vectors\.safetensors: a vector holds NaN"):
        load_reranker("cosinet", tmp_path)


def zeros(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 100_000] = bytes(100_000)
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [zeros, lambda file: flip(file, -1)], ids=["zeros", "exponent"])
@pytest.mark.parametrize("name", ["cascade", "cosinet", "peasi"])
def test_a_shipped_checkpoint_that_is_damaged_is_refused(
    name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    check_sums(SHIPPED / name)
    folder = Path(shutil.copytree(SHIPPED / name, tmp_path / name))
    damage(folder / "model.safetensors")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors is not the file"):
        load_reranker("peasi.pr" if name == "peasi" else name, folder, model=find_model)


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"format": 1}', '{"sha256": 3}', "\x00", '{"format": 1, "sha256": {"config.json": null}}'],
)
def test_digests_that_are_damaged_themselves_are_refused(content: str, tmp_path: Path) -> None:
    checkpoint("pointwise", tmp_path)
    (tmp_path / SUMS).write_text(content)
    with pytest.raises(ModelDamaged):
        load_reranker("pointwise", tmp_path)


def test_what_a_killed_writer_leaves_over_another_checkpoint_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint("cosinet", tmp_path)
    shape = json.loads((tmp_path / "config.json").read_text())

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("answermill.ranking.rerankers.cosinet.list_checkpoint.write_sums", killed)
    vectors = np.concatenate([np.zeros((1, 8)), np.ones((1, 8))]).astype(np.float32)

    with pytest.raises(KeyboardInterrupt):
        save_list_model(
            tmp_path, MODELS["cosinet"].model(vectors, "pointwise", 16), Embeddings(("one",), vectors)
        )

    # It would load: the digests alone tell.
    assert json.loads((tmp_path / "config.json").read_text()) == shape
    with pytest.raises(ModelDamaged):
        load_reranker("cosinet", tmp_path)


@pytest.mark.parametrize("kind", ["BertModel", "DPRContextEncoder"])
def test_a_dense_encoder_whose_weights_are_no_numbers_is_refused(kind: str, tmp_path: Path) -> None:
    folder = write_dense(tmp_path, kind, **({"projection_dim": 8} if kind.startswith("DPR") else {}))
    weights = load_file(folder / "model.safetensors")
    name = next(key for key in sorted(weights) if "layer.1" in key)
    weights[name].view(-1)[0] = torch.nan
    save_file(
        {key: weight.clone() for key, weight in weights.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )

    question = (
        str(write_dense(tmp_path / "q", "DPRQuestionEncoder", projection_dim=8))
        if kind.startswith("DPR")
        else None
    )
    with pytest.raises(ModelDamaged, match=f"{tmp_path}.*hold NaN or infinity"):
        load_encoder(load_transformer, str(folder), question)
