"""The stage `peasi`: sentences are scored where they stand, by the odds of p(q, p) times p(s | p), and none
is dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from answermill.indexing.shards.dense import find_model
from answermill.ranking.entry import StageBefore
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.peasi import InPlace, PassageReranker
from answermill.ranking.rerankers.peasi.peasi_model import Extractor, PeasiModel, Variant
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.ranked import RankedList
from testing.tiny import SHAPE, enlarged, tokeniser
from tests.ranking.rerankers.peasi.test_at_once import model, titled
from tests.ranking.rerankers.peasi.test_span import random_lists

BOTH: tuple[Variant, ...] = ("mtl0", "mtl1", "joint")


def scores(ranked: RankedList) -> dict[str, float]:
    return {c.candidate_id: c.stages[-1].score for c in ranked.candidates}


@pytest.mark.parametrize("extractor", get_args(Extractor))
@pytest.mark.parametrize("variant", BOTH)
def test_a_sentence_has_the_passage_s_odds_times_its_probability(
    variant: Variant, extractor: Extractor
) -> None:
    peasi = enlarged(PeasiModel(LayeredEncoder(SHAPE), variant, 2, extractor=extractor)).eval()
    came = random_lists(5, 4)
    of_passages = PassageReranker(peasi, tokeniser()).rerank(came)
    for by_pr, came_of, placed in zip(
        of_passages, came, InPlace(peasi, tokeniser()).rerank(list(map(to_sentences, came))), strict=True
    ):
        known = scores(placed)
        assert set(known) == {c.candidate_id for c in to_sentences(came_of).candidates}
        for passage in filter(lambda c: c.sentences, by_pr.candidates):
            of_sentences = [known[s.sentence_id] for s in passage.sentences]
            assert np.logaddexp.reduce(of_sentences) == pytest.approx(passage.stages[-1].score, abs=1e-5)


def test_the_first_of_each_passage_is_what_the_two_stages_extract(tmp_path: Path) -> None:
    peasi_model.save(tmp_path, model(), tokeniser())
    came = titled(random_lists(9, 3))
    by_pr = load_reranker("peasi.pr", tmp_path, model=find_model).rerank(came)
    before = [StageBefore("peasi.pr", "peasi.pr")]
    extracted = load_reranker(
        "peasi.easi", tmp_path, model=find_model, score="log_odds", before=before
    ).rerank(by_pr)
    placed = load_reranker("peasi", tmp_path, model=find_model).rerank(
        [to_sentences(ranked) for ranked in came]
    )

    for few, every in zip(extracted, placed, strict=True):
        of_passages = {c.candidate_id: c.hit.passage.passage_id for c in every.candidates}
        first = {}
        for candidate in every.candidates:
            first.setdefault(of_passages[candidate.candidate_id], candidate.candidate_id)
        assert (
            list(first.values()) == [c.candidate_id for c in few.candidates]
            and len(every.candidates) > len(first) > 1
        )
        # Both are rounded to six digits, so a last bit may make one unit of the sixth.
        assert [scores(every)[name] for name in first.values()] == pytest.approx(
            list(scores(few).values()), abs=1.01e-6
        )


def test_neither_the_list_nor_what_was_dropped_changes_a_score() -> None:
    stage = InPlace(model(), tokeniser())
    whole = to_sentences(random_lists(6)[0])
    part = replace(whole, candidates=whole.candidates[1::3])
    (of_whole,), (of_part,) = stage.rerank([whole]), stage.rerank([part])
    assert 2 < len(scores(of_part)) < len(scores(of_whole))
    assert {name: scores(of_whole)[name] for name in scores(of_part)} == scores(of_part)


def test_a_sentence_that_was_cut_off_is_as_unlikely_as_the_least_likely_one() -> None:
    stage = InPlace(enlarged(PeasiModel(LayeredEncoder(SHAPE), "mtl1", 5)).eval(), tokeniser(48))
    came = random_lists(2)[0]
    passage = came.candidates[1].hit.passage
    long = replace(passage.sentences[0], text="comet " * 60)
    sentences = (long, *passage.sentences[1:])
    hit = replace(came.candidates[1].hit, passage=replace(passage, sentences=sentences))
    (placed,) = stage.rerank(
        [to_sentences(replace(came, candidates=(replace(came.candidates[1], hit=hit),)))]
    )
    known = scores(placed)
    assert len(known) == len(sentences) > 1 and np.isfinite(list(known.values())).all()
    assert known[sentences[-1].sentence_id] == min(known.values())


@pytest.mark.parametrize("variant", ["pr", "easi"])
def test_a_checkpoint_with_one_of_both_is_refused(variant: Variant) -> None:
    with pytest.raises(ValueError, match=f"of variant '{variant}'; both PR and EASI are needed"):
        InPlace(PeasiModel(LayeredEncoder(SHAPE), variant, 2), tokeniser())
