"""A recurrent form of Cosinet as a stage of a job: it reads a question's sentences in the order in which they
were retrieved."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from answermill.pipelines.config.job_file import load
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.cosinet.cosinet import CosinetModel
from answermill.ranking.rerankers.cosinet.list_checkpoint import save_list_model
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.word_vectors.embeddings import Embeddings

WORDS = ("the", "of", "and", "in", "was", "is", "a", "to")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A random Cosinet BiRNN."""
    vectors = np.random.default_rng(0).normal(size=(1 + len(WORDS), 8)).astype(np.float32)
    vectors[0] = 0
    torch.manual_seed(0)
    save_list_model(tmp_path / "birnn", CosinetModel(vectors, "birnn", 8), Embeddings(WORDS, vectors))
    return tmp_path / "birnn"


def test_a_recurrent_form_reads_sentences_in_the_order_of_their_passages_ranks(
    small_run: Path, checkpoint: Path, tmp_path: Path
) -> None:
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(small_run / name, tmp_path / "run" / name)
    stage = f"rerank.stages=[{{reranker='cosinet', checkpoint='{checkpoint}'}}]"
    list(run_steps(load(small_run.parent / "job.toml", (stage,)), tmp_path / "run", ["rerank"], ()))
    in_job = {
        (row.question_id, row.candidate_id): row.stages[0].score
        for row in SCORED.open(tmp_path / "run").read()
    }

    lists = [to_sentences(ranked) for ranked in ranked_lists(RETRIEVED.open(small_run).read())]
    ranks = [[c.hit.rank for c in sorted(r.candidates, key=lambda c: c.position)] for r in lists]
    assert lists and all(places == sorted(places) for places in ranks) and max(map(max, ranks)) > 1

    reranker = load_reranker("cosinet", checkpoint)
    backwards = [
        replace(r, candidates=tuple(replace(c, position=-c.position) for c in r.candidates)) for r in lists
    ]
    for asked, turned in zip(reranker.rerank(lists), reranker.rerank(backwards), strict=True):
        scores = {c.candidate_id: c.score for c in asked.candidates}
        assert scores == {c: in_job[asked.question.question_id, c] for c in scores}
        assert scores != {c.candidate_id: c.score for c in turned.candidates}
