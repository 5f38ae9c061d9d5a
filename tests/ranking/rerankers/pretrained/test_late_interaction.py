"""A stage of late interaction ranks by the MaxSim that sentence-transformers computes, for folders of its own
and of PyLate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from answermill.files.model_files import PYLATE_DENSE, ModelDamaged, code_in
from answermill.indexing.shards.dense import find_model
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.registry import load_reranker
from testing.tiny import write_dense, write_late_interaction
from tests.ranking.rerankers.pretrained.test_bi_encoder import LIST, QUESTION, TEXTS, scores


def load(folder: Path | str, **settings: object) -> Reranker:
    return load_reranker("late_interaction", folder, model=find_model, **settings)


def maxsim(question: np.ndarray, sentence: np.ndarray) -> float:
    return float((question @ sentence.T).max(axis=1).sum())


def test_a_score_is_the_sum_of_each_question_vector_s_best_match(tmp_path: Path) -> None:
    folder = write_late_interaction(tmp_path)
    from sentence_transformers import MultiVectorEncoder  # takes seconds, so not at the top

    model = MultiVectorEncoder(str(folder), device="cpu")
    question = model.encode_query(QUESTION, convert_to_numpy=True)
    expected = [maxsim(question, model.encode_document(text, convert_to_numpy=True)) for text in TEXTS]
    ours = scores(load(folder))
    assert ours == pytest.approx(expected, abs=1e-4) and np.ptp(ours) > 0.01
    assert len({len(question), *(len(model.encode_document(text)) for text in TEXTS)}) > 2


def test_a_score_does_not_depend_on_other_texts(tmp_path: Path) -> None:
    stage = load(write_late_interaction(tmp_path))
    (together,) = stage.rerank([LIST])
    whole = {c.text: c.score for c in together.candidates}
    for candidate in LIST.candidates:
        (alone,) = stage.rerank([type(LIST)(LIST.question, (candidate,))])
        assert alone.candidates[0].score == whole[candidate.text]


def test_the_context_is_part_of_the_text(tmp_path: Path) -> None:
    folder = write_late_interaction(tmp_path)
    assert scores(load(folder, context=["previous", "sentence"])) == scores(load(folder))
    assert (
        load(folder, context=["title", "sentence"]).readings[0].one_text(["Rome", "It is old."])
        == "Rome. It is old."
    )


def test_a_folder_of_pylate_gives_the_same_scores(tmp_path: Path) -> None:
    folder = write_late_interaction(tmp_path)
    expected = scores(load(folder))
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        if module["type"].endswith(".Dense"):
            module["type"] = PYLATE_DENSE
    (folder / "modules.json").write_text(json.dumps(modules))
    own = json.loads((folder / "config_sentence_transformers.json").read_text())
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps(own | {"model_type": "SentenceTransformer"})
    )
    assert code_in(folder) is None and scores(load(folder)) == pytest.approx(expected, abs=1e-5)


def test_what_is_no_model_of_late_interaction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="no model of late interaction, so its vectors of tokens would be random"
    ):
        load(write_dense(tmp_path))


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = write_late_interaction(tmp_path)
    weights = next(file for file in folder.rglob("*.safetensors") if file.parent != folder)
    torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(ValueError, match=r"pytorch_model\.bin holds pickled weights, which are not loaded"):
        load(folder)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = write_late_interaction(tmp_path)
    file = next(file for file in folder.rglob("*.safetensors") if file.parent != folder)
    save_file({name: weight / 0 for name, weight in load_file(file).items()}, file)
    with pytest.raises(ModelDamaged, match="hold NaN or infinity"):
        load(folder)
