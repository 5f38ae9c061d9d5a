"""Random models of two narrow layers, and a whole job of them on the sample web: tests of the machinery need
no quality."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.data.sample import copy_to
from answermill.ranking.entry import decisive_settings
from answermill.ranking.rerankers.blend.weights import Interval
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.cosinet.list_checkpoint import save_list_model
from answermill.ranking.rerankers.hashing import hashing_model
from answermill.ranking.rerankers.hashing.hashing_model import HashingModel
from answermill.ranking.rerankers.multihead import multihead
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.rerankers.probability.calibration_file import (
    CalibrationFile,
    PartAnswers,
    PlanStage,
)
from answermill.ranking.rerankers.probability.confidence_features import feature_names
from answermill.ranking.rerankers.registry import find
from answermill.ranking.training.list_models import MODELS
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.word_vectors.embeddings import Embeddings

SHAPE = Shape(layers=2, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
Model = TypeVar("Model", bound=torch.nn.Module)


@cache
def tokeniser(limit: int = 64) -> Tokeniser:
    """The default encoder's tokeniser."""
    return Tokeniser(find_model(DEFAULT), limit)


def enlarged(model: Model, factor: float = 4) -> Model:
    """The model with every weight times `factor`: scores of freshly drawn weights hardly differ."""
    for weight in model.parameters():
        weight.data *= factor
    return model


SETTINGS: dict[str, dict[str, Any]] = {
    name: {"weights": {"overlap": 1.0}} for name in ("blend", "blend_passages")
}
"""Settings that a stage of the reranker needs, in a plan with a stage of `overlap` before it."""


def stage_settings(name: str, folder: Path) -> dict[str, Any]:
    """SETTINGS; for `probability` a calibration of the plan with `overlap` before it, and for `scores` a
    table that knows the question q1 and a few sentences."""
    if name.startswith("probability"):
        folder.mkdir(exist_ok=True)
        return {"calibration_file": write_calibration(folder / "calibration.json")}
    if name != "scores":
        return SETTINGS.get(name, {})
    texts = ["Rome is old.", "It lies on the Tiber.", "Paris is the capital of France."]
    folder.mkdir(exist_ok=True)
    rows = {"question_id": ["q1"] * len(texts), "text": texts, "score": [0.5, 2.0, -1.0]}
    pq.write_table(pa.table(rows), folder / "scores.parquet")
    return {"table": str(folder / "scores.parquet")}


def write_calibration(file: Path, answers: int = 100) -> str:
    """A calibration of the plan of `overlap` alone, whose sure answers are right, with as many questions in
    each half; every fifth has no answer. Returns the file's path."""
    overlap = find("overlap").stage()
    half = PartAnswers(
        probability=[0.1 if n % 5 == 0 else 0.9 for n in range(answers)],
        right=[0 if n % 5 == 0 else 1 for n in range(answers)],
        answerable=[0 if n % 5 == 0 else 1 for n in range(answers)],
    )
    stage = PlanStage(key="overlap", reranker="overlap", model=None, settings=decisive_settings(overlap, {}))
    figure = Interval(value=0.1, low=0.05, high=0.2)
    CalibrationFile(
        plan=[stage],
        labels="labels.tsv",
        features=list(feature_names(["overlap"])),
        weights=[0.5, 0.5, 1.0, 2.0],
        bias=-1.0,
        fitted=half,
        held_back=half,
        folds=5,
        ece=figure,
        brier=figure,
        revision="0",
    ).write(file)
    return str(file)


def write_body(folder: Path, seed: int = 0, **shape: Any) -> str:
    """A transformer with the default's tokenizer, as a folder that a training can begin with; returns the
    folder."""
    torch.manual_seed(seed)
    LayeredEncoder(replace(SHAPE, **shape)).save(folder)
    shutil.copyfile(find_model(DEFAULT) / "tokenizer.json", folder / "tokenizer.json")
    return str(folder)


def write_dense(
    folder: Path, kind: str = "BertModel", size: int = 32, seed: int = 0, **settings: float
) -> Path:
    """A dense encoder of this kind (BertModel, DPRContextEncoder, …), as its library saves it, with the
    default's tokenizer."""
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


def write_static(folder: Path, weights: npt.NDArray[np.float32], scaled: bool = True) -> Path:
    """A static encoder of these vectors [tokens, d], as sentence-transformers saves it, with the default's
    tokenizer, which cuts at 128 tokens. `scaled`: its vectors have length 1."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(find_model(DEFAULT) / "tokenizer.json"))
    modules: list[Any] = [StaticEmbedding(tokenizer, weights), *([Normalize()] if scaled else [])]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)
    return folder


def write_late_interaction(folder: Path) -> Path:
    """A ColBERT with prompts, query expansion and a token that is left out, as sentence-transformers saves
    it."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    with tempfile.TemporaryDirectory() as name:
        body = write_dense(Path(name), initializer_range=0.5)
        transformer = Transformer(str(body), query_expansion={"strategy": "min", "length": 12})

    dense = Dense(
        32, 16, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"
    )
    modules = [
        transformer,
        dense,
        MultiVectorMask(skiplist_words=["."]),
        Normalize(module_input_name="token_embeddings"),
    ]

    prompts = {"query": "query: ", "document": "passage: "}
    MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").save_pretrained(str(folder))
    return folder


def checkpoint(name: str, folder: Path, words: Sequence[str] = ("answer", "sentence", "the")) -> str | None:
    """Write a checkpoint of the reranker of that name; None where it has no model. `words` are those that
    word vectors know.

    List models are pointwise, since to a recurrent one equal texts are not equal.
    """
    name = name.removesuffix("_passages")
    torch.manual_seed(0)
    if name in MODELS:
        drawn = np.random.default_rng(0).normal(size=(len(words), 8))
        vectors = np.concatenate([np.zeros((1, 8)), drawn]).astype(np.float32)
        save_list_model(
            folder, MODELS[name].model(vectors, "pointwise", 16), Embeddings(tuple(words), vectors)
        )
    elif name in ("cascade", "pointwise", "support_pairs"):
        exits = (2,) if name == "pointwise" else (1, 2)
        model_name = "cascade" if name == "support_pairs" else name
        cascade = enlarged(CascadeModel(LayeredEncoder(SHAPE), exits))
        cascade_model.save(folder, model_name, cascade, tokeniser())
    elif name == "sequential":
        for depth in (1, 2):
            model = CascadeModel(LayeredEncoder(replace(SHAPE, layers=depth)), (depth,))
            cascade_model.save(folder / str(depth), "pointwise", enlarged(model), tokeniser())
    elif name == "multihead":
        multihead.save(folder, enlarged(multihead.split(LayeredEncoder(SHAPE), 2, 1, (1,))), tokeniser())
    elif name == "hashing":
        hashing_model.save(folder, enlarged(HashingModel(LayeredEncoder(SHAPE), "has", 8)), tokeniser())
    elif name == "cross_encoder":
        write_dense(folder, "BertForSequenceClassification", num_labels=1)
    elif name == "bi_encoder":
        write_dense(folder)
    elif name == "late_interaction":
        write_late_interaction(folder)
    elif name.startswith("peasi"):
        peasi_model.save(folder, enlarged(PeasiModel(LayeredEncoder(SHAPE), "joint", 2)), tokeniser())
    else:
        return None

    return str(folder)


STAGES = ("cosinet", "cascade", "peasi.pr", "peasi.easi")
"""The sample job's stages that have checkpoints."""


def ask_fewer(folder: Path, every: int) -> list[str]:
    """Keep only every n-th question of a copy of the sample, and its labels; returns the texts of these
    questions."""
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[::every]
    texts = {question["question_id"]: question["text"] for question in map(json.loads, lines)}
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    header, *labels = (folder / "labels.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in labels if line.partition("\t")[0] in texts]
    (folder / "labels.tsv").write_text(header + "".join(kept), encoding="utf-8")
    return list(texts.values())


PLAN = """[[rerank.stages]]
reranker = "cosinet"
keep = 25

[[rerank.stages]]
reranker = "complete_sentence"

[[rerank.stages]]
reranker = "cascade"
drop = [0.2]

[[rerank.stages]]
reranker = "peasi.pr"
keep = 5

[[rerank.stages]]
reranker = "peasi.easi"

[[rerank.stages]]
reranker = "similarity"

"""
"""Every stage drops, but the last; sentences become passages, and passages sentences."""


def write_job(folder: Path, every: int = 3) -> Path:
    """The sample job on its whole web, with a third of its questions, PLAN and random models; returns the job
    file's path."""
    job = copy_to(folder)
    words = sorted({word.strip("?,.'").lower() for text in ask_fewer(folder, every) for word in text.split()})
    steps, _, plan = job.read_text(encoding="utf-8").partition("[[rerank.stages]]")
    text = steps + PLAN + plan[plan.index("[propagate]") :]
    for name in STAGES:
        checkpoint(name, folder / "checkpoints" / name, words)
        text = text.replace(f'reranker = "{name}"', f'checkpoint = "checkpoints/{name}"\nreranker = "{name}"')
    encoder = json.dumps(str(write_dense(folder / "encoder")))
    job.write_text(text.replace("[index]", f"[index]\nencoder = {encoder}"), encoding="utf-8")
    return job
