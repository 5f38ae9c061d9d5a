"""Static encoders give the vectors of sentence-transformers, each of its text alone, and say what is wrong
with a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from answermill.files.model_files import ModelDamaged
from answermill.indexing.shards.dense import Encoder, EncoderOptions, ModelMissing, find_model, load_encoder
from answermill.pipelines.steps.models import dense_encoder, load_transformer
from testing.tiny import write_static

TEXTS = [
    "Glacier caves form within the ice.",
    "What is circular motion?",
    "A satellite orbits the Earth at constant height. " * 5,
    "wind",
    "",
    "Who sang it?",
    "Naïve 😀 text in no language " * 3,
]


def weights(tokens: int = 30_522, width: int = 32, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(tokens, width)).astype(np.float32)


def load(folder: Path, **options: Any) -> Encoder:
    return load_encoder(load_transformer, str(folder), options=EncoderOptions(**options))


def write(folder: Path, arrays: Mapping[str, npt.NDArray[Any]], **config: object) -> Path:
    """A folder of model2vec with these arrays, and the default's tokenizer."""
    folder.mkdir(exist_ok=True)
    save_file(dict(arrays), folder / "model.safetensors")
    shutil.copy(find_model("all-MiniLM-L6-v2") / "tokenizer.json", folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"} | config))
    return folder


@pytest.mark.parametrize("scaled", [True, False])
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, scaled: bool) -> None:
    from sentence_transformers import SentenceTransformer

    folder = write_static(tmp_path / "model", weights(), scaled=scaled)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    ours = load(folder).encode_sentences(TEXTS)
    assert ours == pytest.approx(theirs, abs=1e-6)
    lengths = np.linalg.norm(ours, axis=1)
    assert (np.abs(lengths - 1) < 1e-6).tolist() == [scaled and text != "" for text in TEXTS]


def test_a_static_vector_has_the_same_bits_alone_and_in_any_company(tmp_path: Path) -> None:
    encoder = load(write_static(tmp_path, weights()))
    texts = TEXTS * 50  # more than are tokenised together
    alone = np.concatenate([encoder.encode_sentences([text]) for text in TEXTS])
    company = encoder.encode_sentences([f"{text} {n}" for n in range(60) for text in TEXTS] + TEXTS[::-1])
    assert (encoder.encode_sentences(texts) == np.tile(alone, (50, 1))).all()
    assert (company[-len(TEXTS) :][::-1] == alone).all() and not (alone[0] == alone[1]).any()


def test_a_folder_of_model2vec_may_share_and_weigh_its_vectors(tmp_path: Path) -> None:
    vectors, mapping = weights(100), np.arange(30_522) % 100
    token_weights = np.linspace(0.1, 2, 30_522)
    shared = {"embeddings": vectors, "mapping": mapping, "weights": token_weights}
    whole = {"embeddings": vectors[mapping] * token_weights[:, None].astype(np.float32)}
    shared_vectors = load(write(tmp_path / "shared", shared, normalize=True)).encode_sentences(TEXTS)
    assert shared_vectors == pytest.approx(
        load(write(tmp_path / "whole", whole, normalize=True)).encode_sentences(TEXTS), abs=1e-6
    )
    assert np.linalg.norm(shared_vectors[0]) == pytest.approx(1, abs=1e-6)

    # As their libraries have it, vectors keep their length unless the folder says otherwise.
    plain = load(write(tmp_path / "plain", whole))
    assert abs(np.linalg.norm(plain.encode_sentences(["wind"])) - 1) > 0.1
    narrow = load(write(tmp_path / "narrow", {"embeddings": whole["embeddings"].astype(np.float16)}))
    assert narrow.encode_sentences(TEXTS) == pytest.approx(plain.encode_sentences(TEXTS), abs=1e-2)


def test_a_static_encoder_takes_title_prompt_and_limit_as_others_do(tmp_path: Path) -> None:
    folder = write_static(tmp_path, weights())
    encoder = load(folder)
    titled, untitled = encoder.encode_passages([("Ice", "It is cold."), ("", "It is cold.")])
    assert (titled == encoder.encode_sentences(["Ice. It is cold."])[0]).all()
    assert (untitled == encoder.encode_questions(["It is cold."])[0]).all()
    assert encoder.encode_sentences([]).shape == (0, 32)

    short = load(folder, max_tokens=8)
    assert (short.encode_sentences(["ice " * 8]) == short.encode_sentences(["ice " * 8 + "wind"])).all()
    assert short.fingerprint != encoder.fingerprint
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "ask: "}}')
    asked = load(folder)
    assert (asked.encode_questions(["wind"]) == encoder.encode_sentences(["ask: wind"])).all()
    assert asked.fingerprint != encoder.fingerprint


def test_other_weights_have_another_fingerprint_and_are_loaded_once(tmp_path: Path) -> None:
    first, second = (write_static(tmp_path / str(seed), weights(seed=seed)) for seed in (1, 2))
    assert load(first).fingerprint != load(second).fingerprint
    assert dense_encoder(str(first)) is not dense_encoder(str(second))
    kept = dense_encoder(str(first))
    assert dense_encoder(str(first)) is kept


def test_the_weights_stay_in_the_file(tmp_path: Path) -> None:
    """Mapped, so processes share one copy."""
    encoder = load(write_static(tmp_path, weights()))
    rows = encoder._passages._transformer._rows  # type: ignore[attr-defined]
    assert isinstance(rows, np.memmap) and rows.mode == "r"
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path / "model.safetensors") in maps.read_text()


def test_a_static_encoder_may_encode_passages_for_another_encoder_of_questions(tmp_path: Path) -> None:
    passages, questions = (write_static(tmp_path / str(seed), weights(seed=seed)) for seed in (1, 2))
    encoder = load_encoder(load_transformer, str(passages), str(questions))
    assert (encoder.encode_sentences(TEXTS) == load(passages).encode_sentences(TEXTS)).all()
    assert (encoder.encode_questions(TEXTS) == load(questions).encode_sentences(TEXTS)).all()
    assert encoder.fingerprint == load(passages).fingerprint


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"embeddings": weights()[0]}, r"it has embeddings float32\[32\] in place of .* a table of floats"),
        ({"layer": weights(8)}, r"it has layer float32\[8, 32\] in place of"),
        ({"embeddings": np.ones((30_522, 2), np.int32)}, r"it has embeddings int32\[30522, 2\] in place of"),
        ({"embeddings": np.ones((30_522, 2), np.int8)}, r"embeddings is of type I8, which is not supported"),
        ({"embeddings": weights(30_521)}, "its tokenizer has 30,522 tokens, its weights 30,521"),
        (
            {"embeddings": weights(9), "mapping": np.full(30_522, 9)},
            "its mapping names vectors beyond the 9 it has",
        ),
    ],
)
def test_weights_of_another_form_are_refused_with_the_file(
    tmp_path: Path, arrays: Mapping[str, npt.NDArray[Any]], reason: str
) -> None:
    with pytest.raises(ModelMissing, match=f"^{tmp_path}/model.safetensors: {reason}"):
        load(write(tmp_path, arrays))


def test_damaged_files_of_a_static_encoder_are_named(tmp_path: Path) -> None:
    broken = weights()
    broken[7, 3] = np.nan
    with pytest.raises(ModelDamaged, match=r"model\.safetensors: its weights hold NaN or infinity"):
        load(write_static(tmp_path / "broken", broken))

    folder = write_static(tmp_path / "model", weights())
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelMissing, match=r"model\.safetensors: no safetensors weights"):
        load(folder)
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ModelMissing, match=r"tokenizer\.json: no tokenizer"):
        load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match="no safetensors weights"):
        load(folder)


def test_only_a_normalisation_may_follow_the_vectors_of_tokens(tmp_path: Path) -> None:
    folder = write_static(tmp_path, weights())
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelMissing, match="its module Dense is not supported"):
        load(folder)


def test_a_static_encoder_is_refused_where_a_transformer_is_needed(tmp_path: Path) -> None:
    folder = write_static(tmp_path, weights())
    with pytest.raises(ModelMissing, match="a static encoder, which has no transformer; name it as index"):
        find_model(str(folder))
