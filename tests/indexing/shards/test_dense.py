"""Encoders make vectors that depend on the text alone; the dense index gives exact scores and never cuts a tie at random."""

import json
import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from indexing.shards.dense import DEFAULT, DenseIndex, DenseWriter, Encoder, ModelMissing, find_model, load_encoder

TEXTS = [
    "Glacier caves form within the ice.",
    "What is circular motion?",
    "A satellite orbits the Earth at constant height. " * 5,
    "wind",
    "The ice facade is approximately 60 m high. " * 12,
    "",
    "Who sang it?",
    "Naïve 😀 text in no language " * 3,
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(device="cpu", precision="fp32")


def save_tiny(folder: Path, kind: str, size: int = 32, seed: int = 0, **settings: int) -> Path:
    """A model of this kind with random weights, and the default's tokenizer."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = getattr(transformers, "DPRConfig" if kind.startswith("DPR") else "BertConfig")(
        vocab_size=30_522,
        hidden_size=size,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        **settings,
    )
    getattr(transformers, kind)(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(find_model(DEFAULT) / name, folder)
    return folder


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_vector_depends_on_the_text_alone(precision: Literal["fp32", "bf16"], tmp_path: Path) -> None:
    # The default model in fp32; in bf16, which is slow on old processors, a small one.
    name = DEFAULT if precision == "fp32" else str(save_tiny(tmp_path, "BertModel", size=64))
    encoder = load_encoder(name, device="cpu", precision=precision)
    together = encoder.encode_sentences(TEXTS)
    backwards = encoder.encode_sentences(TEXTS[::-1] + TEXTS[:3])[: len(TEXTS)][::-1]
    alone = np.concatenate([encoder.encode_sentences([text]) for text in TEXTS])
    company = encoder.encode_sentences([made for text in TEXTS for made in (text, f"{text} indeed", f"so {text}")])[::3]
    assert (together == backwards).all()
    assert (together == alone).all()
    assert (together == company).all()
    assert len(np.unique(together, axis=0)) == len(TEXTS)


def test_vectors_are_those_of_the_models_own_forward(encoder: Encoder) -> None:
    import torch
    import transformers

    folder = find_model(DEFAULT)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        for text, vector in zip(TEXTS, encoder.encode_sentences(TEXTS), strict=True):
            hidden = model(**tokenizer(text, truncation=True, max_length=256, return_tensors="pt")).last_hidden_state[0]
            assert vector == pytest.approx(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy(), abs=2e-6)
    assert encoder.dimension == 384


def test_a_question_is_nearest_to_its_answer(encoder: Encoder) -> None:
    passages = encoder.encode_passages(
        [("Glacier cave", "A cave within the ice."), ("", "Motion of an object along a circle.")]
    )
    questions = encoder.encode_questions(["where do caves form inside ice?", "what is circular motion?"])
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1]


def test_the_title_is_part_of_a_passage(encoder: Encoder) -> None:
    with_title, without = encoder.encode_passages([("Glacier cave", "It is cold."), ("", "It is cold.")])
    assert (without == encoder.encode_sentences(["It is cold."])[0]).all()
    assert not np.allclose(with_title, without, atol=0.01)


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode_questions([]).shape == (0, 384)


def test_dpr_has_two_encoders_and_takes_title_and_text_as_a_pair(tmp_path: Path) -> None:
    import torch
    import transformers

    context = save_tiny(tmp_path / "context", "DPRContextEncoder", seed=1)
    asking = save_tiny(tmp_path / "question", "DPRQuestionEncoder", seed=2)
    dpr = load_encoder(str(context), str(asking), device="cpu", precision="fp32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(context)
    with torch.inference_mode():
        passage = transformers.DPRContextEncoder.from_pretrained(context).eval()(
            **tokenizer("Glacier cave", "It is cold.", return_tensors="pt")
        )
        question = transformers.DPRQuestionEncoder.from_pretrained(asking).eval()(**tokenizer("Is it?", return_tensors="pt"))
    assert dpr.encode_passages([("Glacier cave", "It is cold.")])[0] == pytest.approx(
        passage.pooler_output[0].numpy(), abs=1e-6
    )
    assert dpr.encode_questions(["Is it?"])[0] == pytest.approx(question.pooler_output[0].numpy(), abs=1e-6)
    with pytest.raises(ModelMissing, match="an encoder of its own for questions"):
        load_encoder(str(context), device="cpu")
    wider = save_tiny(tmp_path / "wider", "DPRQuestionEncoder", size=48)
    with pytest.raises(ModelMissing, match="32 numbers, the question encoder 48"):
        load_encoder(str(context), str(wider), device="cpu")


def test_a_sentence_transformers_folder_says_how_it_pools(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "BertModel")
    plain = load_encoder(str(folder), device="cpu")
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": path}
        for name, path in (("Transformer", ""), ("Pooling", "1_Pooling"))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: ", "passage": "passage: "}})
    )
    told = load_encoder(str(folder), device="cpu")
    assert told.fingerprint != plain.fingerprint
    lengths = np.linalg.norm(told.encode_sentences(["ice"]), axis=1)
    assert abs(lengths[0] - 1) > 0.1  # no module brings it to length 1
    assert np.linalg.norm(plain.encode_sentences(["ice"])) == pytest.approx(1, abs=1e-6)
    assert not np.allclose(told.encode_questions(["ice"]), told.encode_sentences(["ice"]))
    (folder / "modules.json").write_text(
        json.dumps([*modules, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])
    )
    with pytest.raises(ModelMissing, match="Dense is not supported"):
        load_encoder(str(folder), device="cpu")


def test_a_text_is_cut_where_the_model_ends(tmp_path: Path) -> None:
    encoder = load_encoder(str(save_tiny(tmp_path, "BertModel")), device="cpu")
    long, longer = encoder.encode_sentences(["ice " * 100, "ice " * 200])
    assert (long == longer).all()


def test_what_cannot_be_loaded_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"no config\.json"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(ModelMissing, match=r"save_pretrained\(folder\)"):
        find_model(str(tmp_path))


def index_of(vectors: np.ndarray, folder: Path) -> DenseIndex:
    writer = DenseWriter(vectors.shape[1])
    for start in range(0, len(vectors), 100):
        writer.add(vectors[start : start + 100])
    writer.write(folder / "dense.faiss")
    return DenseIndex.open(folder / "dense.faiss")


def test_row_is_vector_number_and_scores_are_inner_products(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((1_000, 48)).astype(np.float32)
    index = index_of(vectors, tmp_path)
    assert (index.vectors == vectors).all()
    questions = np.random.default_rng(1).standard_normal((20, 48)).astype(np.float32)
    exact = questions.astype(np.float64) @ vectors.astype(np.float64).T
    for n, (rows, scores) in enumerate(index.search(questions, 50)):
        assert rows.tolist() == np.argsort(-exact[n], kind="stable")[:50].tolist()
        assert scores == pytest.approx(exact[n, rows], abs=1e-6)


def test_a_score_does_not_depend_on_the_size_of_the_shard(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 384)).astype(np.float32)
    questions = np.random.default_rng(1).standard_normal((7, 384)).astype(np.float32)
    whole = index_of(vectors, tmp_path).search(questions, 500)
    for start, stop in ((0, 1), (1, 4), (4, 500)):
        part = index_of(vectors[start:stop], tmp_path).search(questions[:3], 500)
        for (rows, scores), (all_rows, all_scores) in zip(part, whole, strict=False):
            by_row = dict(zip(all_rows.tolist(), all_scores.tolist(), strict=True))
            assert [by_row[row + start] for row in rows.tolist()] == scores.tolist()


def test_every_vector_that_ties_with_the_last_is_returned(tmp_path: Path) -> None:
    near, tied, far = np.eye(3, dtype=np.float32)
    vectors = np.concatenate([[near] * 2, [tied] * 300, [far] * 50]).astype(np.float32)
    index = index_of(vectors, tmp_path)
    question = np.array([[3, 2, 1]], np.float32)
    assert index.search(question, 3)[0][0].tolist() == list(range(302))
    assert index.search(question, 2)[0][0].tolist() == [0, 1]
    assert len(index.search(question, 303)[0][0]) == 352
    assert len(index.search(question, 10_000)[0][0]) == 352


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    index = index_of(np.empty((0, 8), np.float32), tmp_path)
    assert index.search(np.ones((1, 8), np.float32), 5)[0][0].tolist() == []


def test_a_vector_that_is_not_finite_is_refused_with_its_row() -> None:
    writer = DenseWriter(2)
    writer.add(np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="vector 4 is not finite"):
        writer.add(np.array([[1, 1], [1, np.nan]], np.float32))


def test_another_kind_of_faiss_index_is_refused(tmp_path: Path) -> None:
    import faiss

    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "l2.faiss"))
    with pytest.raises(ValueError, match="IndexFlatL2"):
        DenseIndex.open(tmp_path / "l2.faiss")
