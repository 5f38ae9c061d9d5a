"""A stage's own encoder ranks as sentence-transformers computes its cosines, and its vectors can be
stored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.shards.dense import ModelMissing, find_model, vector_length
from answermill.indexing.shards.encoders.encoder_settings import numbers_kept, pooling_of, prompts_of
from answermill.pipelines.steps.models import encoder_loader
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.pretrained import BiEncoderStage
from answermill.ranking.rerankers.pretrained.bi_encoder import PublishedVectorCoder
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.labels import LabelledCandidate
from testing.family_models import change_json, write_classifier
from testing.tiny import write_dense

QUESTION = "Which river flows through Rome?"
TEXTS = (
    "The Tiber flows through Rome into the sea.",
    "Paris is the capital of France.",
    "Rome is old.",
    "wind",
)
LIST = ranked_list(
    [LabelledCandidate("q", QUESTION, f"c{n}", f"d{n}", "", n, text, 0) for n, text in enumerate(TEXTS)]
)


def write(folder: Path, pooling: str = "cls") -> Path:
    """A model of sentence-transformers with prompts."""
    write_dense(folder, initializer_range=1.0)
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    rows = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()

    pool = {"word_embedding_dimension": 32} | {
        f"pooling_mode_{mode}": mode.startswith(pooling) for mode in ("cls_token", "mean_tokens")
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pool))
    prompts = {"query": "query: ", "document": "passage: "}
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": prompts, "default_prompt_name": None})
    )

    return folder


def load(folder: Path | str, **settings: object) -> Reranker:
    return load_reranker(
        "bi_encoder",
        folder,
        model=find_model,
        encoder_of=encoder_loader(),
        **{"precision": "fp32"} | settings,
    )


def scores(reranker: Reranker) -> list[float]:
    (ranked,) = reranker.rerank([LIST])
    of_text = {c.text: c.score for c in ranked.candidates}
    return [of_text[text] for text in TEXTS]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_score_is_the_cosine_of_sentence_transformers_with_its_pooling_and_prompts(
    pooling: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, pooling)
    import sentence_transformers  # takes seconds, so not at the top

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    question, texts = (
        model.encode(QUESTION, prompt_name="query"),
        model.encode(list(TEXTS), prompt_name="document"),
    )
    ours = scores(load(folder))
    assert ours == pytest.approx((texts @ question).tolist(), abs=1e-4)
    assert np.ptp(ours) > 0.01


def test_the_numbers_and_prompts_that_a_folder_states_count(tmp_path: Path) -> None:
    folder = write(tmp_path, "mean")
    whole = scores(load(folder))
    own = {"prompts": {"query": "query: ", "corpus": "of a page: "}, "truncate_dim": 8}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(own))
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    question, texts = (
        model.encode(QUESTION, prompt_name="query"),
        model.encode(list(TEXTS), prompt_name="corpus"),
    )
    cosines = texts @ question / np.linalg.norm(texts, axis=1) / np.linalg.norm(question)
    ours = scores(load(folder))
    assert ours == pytest.approx(cosines.tolist(), abs=1e-4)
    assert len(question) == 8 == vector_length(folder)
    assert ours != pytest.approx(whole, abs=1e-3)


@pytest.mark.parametrize(("family", "body"), [("distilbert", "DistilBertModel"), ("gpt2", "GPT2Model")])
def test_a_padded_body_may_name_its_width_in_its_own_way(family: str, body: str, tmp_path: Path) -> None:
    folder = write_classifier(tmp_path, family, [QUESTION, *TEXTS])
    change_json(folder / "config.json", architectures=[body])
    if family == "distilbert":
        change_json(folder / "config.json", activation="relu")
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    vectors = np.stack([model.encode(text) for text in (QUESTION, *TEXTS)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert scores(load(folder)) == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-4)


def test_the_newer_name_of_a_pooling_counts_before_the_older_ones(tmp_path: Path) -> None:
    folder = write(tmp_path, "cls")
    assert pooling_of(folder) == ("cls", True)
    for stated in ("mean", ["mean"]):
        change_json(folder / "1_Pooling" / "config.json", pooling_mode=stated)
        assert pooling_of(folder) == ("mean", True)


def test_an_adapter_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelMissing, match=r"an adapter of peft, .* merge_and_unload"):
        load(folder)


def test_stored_vectors_are_within_the_form_s_error_and_depend_on_all_that_decides_them(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path)
    assert scores(load(folder, stored="fp16")) == pytest.approx(scores(load(folder)), abs=1e-3)
    stages = [
        BiEncoderStage(reranker="bi_encoder", **settings)  # type: ignore[arg-type]
        for settings in (
            {"stored": "fp16"},
            {"stored": "fp16", "limit": 32},
            {"stored": "fp16", "precision": "fp32"},
        )
    ]
    assert len({PublishedVectorCoder.decisive(stage) for stage in stages}) == 3
    assert PublishedVectorCoder.decisive(BiEncoderStage(reranker="bi_encoder")) is None


def test_a_model_that_is_not_to_be_had_or_not_computed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"no model './nowhere'"):
        load("./nowhere")
    with pytest.raises(
        ValueError, match="bi_encoder needs `checkpoint`: the folder, or the hub name, of an encoder"
    ):
        load_reranker("bi_encoder")
    folder = write(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelMissing, match="its module Dense is not supported"):
        load(folder)


def test_settings_of_a_whole_model_count_beside_modules_alone(tmp_path: Path) -> None:
    folder = write(tmp_path)
    change_json(folder / "config_sentence_transformers.json", truncate_dim=8)
    assert prompts_of(folder) == {"query": "query: ", "document": "passage: "} and numbers_kept(folder) == 8
    (folder / "modules.json").unlink()
    assert prompts_of(folder) == {} and numbers_kept(folder) is None


@pytest.mark.parametrize("kind", ["CrossEncoder", "SparseEncoder"])
def test_modules_of_a_model_that_gives_no_vectors_of_texts_are_refused(kind: str, tmp_path: Path) -> None:
    """sentence-transformers would take its body alone, without its settings."""
    folder = write(tmp_path)
    assert pooling_of(folder) == ("cls", True)
    change_json(folder / "config_sentence_transformers.json", model_type=kind)
    with pytest.raises(ModelMissing, match=f"its modules are a {kind}'s"):
        pooling_of(folder)
