"""A checkpoint that is stored as differences to a public body gives back the model, in fewer bytes, and only
with that body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from answermill.files.model_files import SUMS, ModelMissing
from answermill.ranking.entry import resolve
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.hashing import hashing_model
from answermill.ranking.rerankers.hashing.hashing_model import HashingModel
from answermill.ranking.rerankers.multihead import multihead
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.rerankers.registry import trainings
from answermill.ranking.transformer.differences import Differences, merged, public_names, rank_of
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.transformer_checkpoint import (
    BodySource,
    StoredForm,
    public_weights,
    write_differences,
)
from testing.tiny import tokeniser, write_body

LAYERS = 4
RANK = 2


def joint(body: Path) -> PeasiModel:
    """Two bodies that began alike."""
    model = PeasiModel(LayeredEncoder.load(body), "joint", 2)
    model.easi_encoder = LayeredEncoder.load(body)
    return model


MODELS: dict[str, Callable[[Path], Any]] = {
    "cascade": lambda body: CascadeModel(LayeredEncoder.load(body), (2, LAYERS)),
    "pointwise": lambda body: CascadeModel(LayeredEncoder.load(body, 2), (2,)),
    "multihead": lambda body: multihead.split(LayeredEncoder.load(body), 2, 1, (1,)),
    "hashing": lambda body: HashingModel(LayeredEncoder.load(body), "has", 24),
    "peasi": joint,
}


@pytest.fixture
def body(tmp_path: Path) -> Path:
    return Path(write_body(tmp_path / "body", seed=1, layers=LAYERS, width=32, inner=64))


def moved(model: nn.Module) -> None:
    """Add a difference of rank RANK to every matrix of a layer, and any difference to every vector."""
    for name, weight in model.named_parameters():
        if "layers" in name and weight.dim() == 2:
            rows, columns = weight.shape
            weight.data += 0.05 * torch.randn(rows, RANK) @ torch.randn(RANK, columns)
        elif weight.dim() == 1:
            weight.data += 0.05 * torch.randn_like(weight)


def saved(kind: str, folder: Path, body: Path) -> Any:
    """A model that began as the body and moved away from it, and a checkpoint of it in `folder`."""
    torch.manual_seed(0)
    model = MODELS[kind](body)
    moved(model)
    form = StoredForm(words=BodySource.read(str(body), body))
    if kind in ("cascade", "pointwise"):
        cascade_model.save(folder, kind, model, tokeniser(), form)
    else:
        save = {"multihead": multihead.save, "hashing": hashing_model.save, "peasi": peasi_model.save}[kind]
        save(folder, model, tokeniser(), form)
    return model


def loaded(kind: str, folder: Path, source: Callable[[str], Path] = Path) -> Any:
    start = trainings()[kind].start
    assert start is not None
    return resolve(start)(folder, source)[0]


def shrunk(kind: str, folder: Path, body: Path, share: float = 0.9999) -> Any:
    """The model of a checkpoint whose differences are written to `folder`."""
    model = saved(kind, folder.with_name("whole"), body)
    differences = Differences(model.state_dict(), public_weights(model, body))
    source, stored = BodySource.read(str(body), body), differences.stored(share)
    assert differences.size(share) == sum(tensor.nbytes for tensor in stored.values())
    write_differences(folder.with_name("whole"), folder, source, stored)
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_comes_back_with_ranks_where_it_has_them(
    kind: str, tmp_path: Path, body: Path
) -> None:
    model = shrunk(kind, tmp_path / "out", body)
    back = loaded(kind, tmp_path / "out").state_dict()
    assert back.keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        assert back[name].dtype == torch.float32
        torch.testing.assert_close(back[name], weight, rtol=0, atol=0.01)

    stored = load_file(tmp_path / "out" / "model.safetensors")
    ranks = {name: tensor.shape[1] for name, tensor in stored.items() if name.endswith(".a")}
    assert set(ranks.values()) == {RANK} and len(ranks) >= 4 * 2
    assert all(stored[name].dtype == torch.int8 for name in ranks)
    assert not any("words" in name or "positions" in name for name in stored)


def test_layers_of_heads_are_differences_to_the_last_layers_of_the_body(tmp_path: Path, body: Path) -> None:
    model = shrunk("multihead", tmp_path / "out", body)
    names = public_names(model)
    assert names["heads.1.layers.0.widen.weight"] == f"layers.{LAYERS - 1}.widen.weight"
    assert names["encoder.layers.0.widen.weight"] == "layers.0.widen.weight"
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert {"heads.0.layers.0.widen.weight.a", "heads.1.layers.0.widen.weight.a"} <= stored.keys()
    assert "heads.0.layers.0.widen.weight" not in stored


def test_both_bodies_of_a_joint_model_are_differences_that_are_not_shared(tmp_path: Path, body: Path) -> None:
    shrunk("peasi", tmp_path / "out", body)
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert {f"{name}.layers.0.widen.weight.a" for name in ("encoder", "easi_encoder")} <= stored.keys()
    back = loaded("peasi", tmp_path / "out")
    back.encoder.words.weight.data.zero_()
    assert back.easi_encoder.words.weight.any()


def test_a_lower_share_takes_fewer_bytes_and_is_further_from_the_model() -> None:
    torch.manual_seed(0)
    weight, public = torch.randn(48, 32), torch.randn(48, 32)
    differences = Differences({"w": weight}, {"w": public})
    lost, sizes = [], []
    for share in (0.5, 0.9, 1.0):
        stored = differences.stored(share)
        back = merged(stored, {"w": public}, {"w": weight.shape})["w"]
        lost.append(float((back - weight).square().sum() / (weight - public).square().sum()))
        sizes.append(sum(tensor.nbytes for tensor in stored.values()))

    assert sizes == sorted(set(sizes))
    assert 0.4 < lost[0] <= 0.501 and 0.05 < lost[1] <= 0.101 and lost[2] < 0.001


def test_factors_in_fp16_are_read_and_a_weight_without_an_entry_is_the_public_one() -> None:
    torch.manual_seed(0)
    a, b, public = torch.randn(20, 2).half(), torch.randn(2, 30).half(), torch.randn(20, 30)
    shapes = {"w": torch.Size([20, 30]), "kept": torch.Size([20, 30])}
    weights = merged({"w.a": a, "w.b": b}, {"w": public, "kept": public}, shapes)
    assert torch.equal(weights["w"], public + a.float() @ b.float())
    assert torch.equal(weights["kept"], public)
    assert torch.equal(merged({"w.a": a, "w.b": b}, {}, {"w": shapes["w"]})["w"], a.float() @ b.float())


def test_a_matrix_without_energy_has_rank_one() -> None:
    assert rank_of(torch.zeros(3), 0.9) == 1


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({}, "it has no w"),
        (
            {"w.a": torch.ones(4, 2), "w.b": torch.ones(3, 5)},
            r"w.a \[4, 2\] and w.b \[3, 5\] have no product",
        ),
        ({"w.a": torch.ones(4, 2)}, "it has no w"),
        ({"w.a": torch.ones(3, 2), "w.b": torch.ones(2, 5)}, r"w is \[3, 5\], but config.json has \[4, 5\]"),
        ({"w": torch.ones(4, 5, dtype=torch.int8)}, "w is int8 without a scale for each row"),
        ({"w": torch.ones(4, 5, dtype=torch.int8), "w.scale": torch.ones(1, 5)}, "without a scale for each"),
    ],
)
def test_tensors_that_do_not_fit_are_named(stored: Mapping[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merged(stored, {}, {"w": torch.Size([4, 5])})


def test_another_revision_another_width_and_a_missing_body_are_refused(tmp_path: Path, body: Path) -> None:
    def missing(name: str) -> Path:
        raise ModelMissing(f"no model {name!r}")

    shrunk("cascade", tmp_path / "out", body)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    config["body"]["model"] = "elsewhere"
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    (tmp_path / "out" / SUMS).unlink()
    with pytest.raises(ModelMissing, match="no model 'elsewhere'"):
        loaded("cascade", tmp_path / "out", missing)

    other = Path(write_body(tmp_path / "other", seed=2, layers=LAYERS, width=32, inner=64))
    with pytest.raises(
        ValueError, match=r"out is no checkpoint of cascade: it needs the .*/other is another"
    ):
        loaded("cascade", tmp_path / "out", lambda name: other)

    narrow = Path(write_body(tmp_path / "narrow", layers=LAYERS))
    config["body"] = {"model": str(narrow), "sha256": BodySource.read("", narrow).sha256}
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"the public body's is \[.*\]; name the body that it began as"):
        loaded("cascade", tmp_path / "out")


def test_a_body_beside_the_checkpoint_comes_first(tmp_path: Path, body: Path) -> None:
    model = shrunk("cascade", tmp_path / "out", body)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    config["body"]["model"] = "body"
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    (tmp_path / "out" / SUMS).unlink()
    back = loaded("cascade", tmp_path / "out", lambda name: pytest.fail("another place was looked at"))
    assert torch.equal(back.encoder.words.weight, model.encoder.words.weight)


def test_a_weight_that_is_missing_and_has_no_public_one_is_named(tmp_path: Path, body: Path) -> None:
    shrunk("cascade", tmp_path / "out", body)
    file = tmp_path / "out" / "model.safetensors"
    stored = load_file(file)
    del stored["classifiers.0.score.bias"]
    save_file(stored, file)
    (tmp_path / "out" / SUMS).unlink()
    with pytest.raises(ValueError, match=r"no checkpoint of cascade: it has no classifiers\.0\.score\.bias"):
        loaded("cascade", tmp_path / "out")


def test_trained_words_are_differences_too_and_the_tokenizer_stays(tmp_path: Path, body: Path) -> None:
    torch.manual_seed(0)
    model = CascadeModel(LayeredEncoder.load(body), (LAYERS,))
    model.encoder.words.weight.data[5:9] += 0.5
    cascade_model.save(tmp_path / "whole", "pointwise", model, tokeniser())
    differences = Differences(model.state_dict(), public_weights(model, body))
    source = BodySource.read(str(body), body)
    write_differences(tmp_path / "whole", tmp_path / "out", source, differences.stored(0.999))

    assert (tmp_path / "out" / "tokenizer.json").is_file()
    words = loaded("pointwise", tmp_path / "out").encoder.words.weight
    torch.testing.assert_close(words, model.encoder.words.weight, rtol=0, atol=0.02)
