"""A Cosinet that reads what retrieval and the page say of a sentence beside its words."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from answermill.files.model_files import SUMS
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.blend.score_columns import WeightedSum, retrieval_columns
from answermill.ranking.rerankers.cosinet.cosinet import Cosinet, CosinetModel
from answermill.ranking.rerankers.cosinet.heads import FORMS, Form
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model, save_list_model
from answermill.ranking.rerankers.cosinet.list_features import ListFeatures
from answermill.ranking.rerankers.cosinet.list_settings import FEATURES, ListModelSettings
from answermill.ranking.training.inputs import TrainingInputs
from answermill.ranking.training.list_models import ListOptions, ListTask, build
from answermill.ranking.training.loop import Recipe
from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import Candidate, Hit, RankedList

WORDS = ("capital", "city", "italy", "of", "rome", "the")
VECTORS = np.random.default_rng(0).standard_normal((1 + len(WORDS), 8)).astype(np.float32)
VECTORS[0] = 0
EMBEDDINGS = Embeddings(WORDS, VECTORS)
TITLES = ("Rome", "", "Capital city", "Unheard", "Rome")


def retrieved(passages: int = 5, name: str = "q", seed: int = 0, sentences: int = 3) -> RankedList:
    """Passages as retrieval returns them, as sentences: each with a score of one index or of both."""
    draw, candidates = random.Random(seed), []
    for n in range(passages):
        spans = [
            (f"{name}.{n}@{m}", 10 * m, 10 * m + 9, " ".join(draw.choices((*WORDS, "nobody"), k=4)))
            for m in range(sentences)
        ]
        passage = Passage(
            f"{name}.{n}#0",
            f"{name}.{n}",
            "",
            TITLES[n % 5],
            0,
            99,
            "text",
            tuple(Sentence(*s) for s in spans),
        )

        bm25, dense = (draw.uniform(0, 20) if n % 3 else None), (draw.uniform(0, 1) if n % 3 < 2 else None)
        hit = Hit(name, "Capital of Italy?", n + 1, 1 / (n + 61), bm25, n + 1, dense, n + 1, passage)
        candidates.append(Candidate(hit, None, n))

    return to_sentences(RankedList(Question(name, "Capital of Italy?"), tuple(candidates)))


def rows_of(ranked: RankedList, some: set[int] | None = None) -> list[LabelledCandidate]:
    """The list as training data, or some of its sentences: with the scores that it has among all."""
    columns, rows = retrieval_columns(ranked), []
    for n, c in enumerate(ranked.candidates):
        if some is None or n in some:
            scores = {name: values[n] for name, values in columns.items()}
            place = [s.sentence_id for s in c.hit.passage.sentences].index(c.candidate_id)
            where = c.candidate_id, c.hit.passage.doc_id, c.hit.passage.title, len(rows), c.text
            question = ranked.question.question_id, ranked.question.text
            rows.append(LabelledCandidate(*question, *where, int(not rows), "", "", **scores, place=place))
    return rows


def features(ranked: RankedList, names=FEATURES) -> np.ndarray:
    return ListFeatures(names, VECTORS, Lexicon(EMBEDDINGS))([ranked])[0]


def model(form: Form = "list", names=FEATURES) -> CosinetModel:
    torch.manual_seed(0)
    return CosinetModel(VECTORS, form, 8, names).eval()


def scores(ranked: RankedList) -> dict[str, float]:
    return {c.candidate_id: c.score for c in ranked.candidates}


def test_each_feature_is_what_it_says() -> None:
    ranked = retrieved()
    values = features(ranked)
    for n, name in enumerate(("bm25", "dense", "log_rank")):
        assert np.array_equal(values[:, n], WeightedSum.of({name: 1.0}).scores(ranked))
        assert len(set(values[:, n])) > 2

    assert values[:4, 3].tolist() == [0, -log(2), -log(3), 0]
    w = dict(zip(WORDS, VECTORS[1:] / np.linalg.norm(VECTORS[1:], axis=1, keepdims=True), strict=True))
    asked = ("capital", "of", "italy")  # and a question mark, which has no vector
    assert values[0, 4] == pytest.approx(sum(w[word] @ w["rome"] for word in asked) / 4, abs=1e-6)
    assert values[6, 4] == pytest.approx(
        (1 + sum(max(w[q] @ w["capital"], w[q] @ w["city"]) for q in asked[1:])) / 4, abs=1e-6
    )
    assert not values[3:6, 4].any() and not values[9:12, 4].any()


def test_a_list_gives_the_same_when_it_serves_and_when_part_of_it_is_learnt_from() -> None:
    ranked = retrieved(seed=4)
    some = {1, 3, 8, 9, 14}
    learnt = features(ranked_list(rows_of(ranked, some)))
    served = features(ranked)[sorted(some)]
    assert np.array_equal(learnt[:, :4], served[:, :4])  # words of a title are multiplied beside others
    assert np.allclose(learnt, served, rtol=0, atol=1e-6) and served[:, 4].any()


def test_what_is_not_known_is_0_and_counted() -> None:
    read = ListFeatures(FEATURES, VECTORS, Lexicon(EMBEDDINGS))
    read([retrieved()])
    assert read.missing() == {f"without_{name}": 0 for name in FEATURES} | {"without_title": 3}
    bare = [LabelledCandidate("q", "Who?", f"c{n}", "d", "", n, "the city", n) for n in range(2)]

    # No index returned them: there is no rank.
    assert read([ranked_list(bare)])[0][:, :3].tolist() == [[0, 0, 0]] * 2
    around = [replace(row, previous="", next="") for row in bare]
    assert not read([ranked_list(around)])[0].any()
    none = {"without_bm25": 4, "without_dense": 4, "without_log_rank": 4, "without_title": 4}
    assert read.missing() == {**none, "without_position": 2}
    assert not read.missing()
    ranked = retrieved()
    one = replace(
        ranked,
        candidates=tuple(replace(c, hit=replace(c.hit, bm25_score=None)) for c in ranked.candidates[3:6]),
    )
    assert features(one)[:, 0].tolist() == [0, 0, 0]

    reranker = Cosinet(model(), EMBEDDINGS)
    reranker.rerank([ranked_list(bare)])
    assert reranker.costs()["without_bm25"] == 2 and not reranker.costs()
    assert not Cosinet(model(names=()), EMBEDDINGS).costs()


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_the_model_s_and_depend_neither_on_the_order_nor_on_other_lists(form: Form) -> None:
    lists = [retrieved(passages, f"q{n}", n) for n, passages in enumerate((5, 1, 40, 0, 12))]
    reranker = Cosinet(model(form), EMBEDDINGS)
    together = reranker.rerank(lists)
    for ranked, among in zip(lists, together, strict=True):
        (alone,) = reranker.rerank([RankedList(ranked.question, ranked.candidates[::-1])])
        assert scores(alone) == scores(among)

    names = ("log_rank",)
    learns = ListTask(
        EMBEDDINGS, [rows_of(lists[0])], lambda *_: None, ListOptions(form=form, filters=8, features=names)
    )
    (batch,) = learns.batches(0)
    (served,) = learns.reranker().rerank([lists[0]])
    expected = learns.model(batch).tolist()
    assert [scores(served)[c.candidate_id] for c in lists[0].candidates] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_without_features_nothing_changes(form: Form, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = CosinetModel(VECTORS, form, 8)
    same = model(form, ())
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), same.parameters(), strict=True))
    parameters = sum(p.numel() for p in plain.parameters())
    more = sum(p.numel() for p in model(form).parameters()) - parameters
    assert (more == len(FEATURES)) == (form in ("pointwise", "list")) and more >= len(FEATURES)
    save_list_model(tmp_path, plain, EMBEDDINGS)
    assert set(json.loads((tmp_path / "config.json").read_text())) == {"format", "model", "form", "filters"}

    ranked = retrieved()
    bare = tuple(
        Candidate(replace(c.hit, bm25_score=None, dense_score=None), c.sentence, c.position)
        for c in ranked.candidates
    )
    known, unknown = Cosinet(plain, EMBEDDINGS).rerank([ranked, RankedList(ranked.question, bare)])
    assert scores(known) == scores(unknown)
    known, unknown = Cosinet(model(form), EMBEDDINGS).rerank([ranked, RankedList(ranked.question, bare)])
    assert scores(known) != scores(unknown)


def test_a_checkpoint_keeps_its_features_and_one_of_unknown_ones_is_refused(tmp_path: Path) -> None:
    save_list_model(tmp_path, model(names=("title", "bm25")), EMBEDDINGS)
    back, embeddings = load_list_model(tmp_path, CosinetModel)
    assert back.features == ("title", "bm25")
    ranked = [retrieved()]
    before = Cosinet(model(names=("title", "bm25")), EMBEDDINGS).rerank(ranked)
    assert Cosinet(back, embeddings).rerank(ranked) == before
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / SUMS).unlink()
    (tmp_path / "config.json").write_text(json.dumps(config | {"features": ["title", "fused"]}))

    with pytest.raises(
        ValueError, match="unknown feature 'fused'; known: bm25, dense, log_rank, position, title"
    ):
        load_list_model(tmp_path, CosinetModel)


@pytest.mark.parametrize("form", ["pointwise", "list"])
def test_a_model_learns_where_only_the_rank_tells_the_answer(form: Form) -> None:
    def toy(n: int) -> list[LabelledCandidate]:
        right = random.Random(n).randrange(6)
        rows = (("q", 0.5) if m == right else ("q", -0.5) for m in range(6))

        return [
            LabelledCandidate(
                f"q{n}",
                "the city?",
                f"c{m}",
                f"d{m}",
                "",
                m,
                "of the city",
                int(z > 0),
                "",
                "",
                log_rank=z,
                place=0,
            )
            for m, (_, z) in enumerate(rows)
        ]

    lists = [toy(n) for n in range(20)]
    right = {}
    for names in ((), ("log_rank",)):
        torch.manual_seed(0)
        task = ListTask(EMBEDDINGS, lists, lambda *_: None, ListOptions(form=form, filters=8, features=names))
        optimizer = torch.optim.Adam(task.model.parameters(), lr=0.02)

        for epoch in range(3):
            for batch in task.batches(epoch):
                optimizer.zero_grad()
                task.loss(batch).backward()
                optimizer.step()

        firsts = [
            ranked.candidates[0] for ranked in task.reranker().rerank([ranked_list(rows) for rows in lists])
        ]
        labels = {(rows[0].question_id, row.candidate_id): row.label for rows in lists for row in rows}
        right[names] = sum(labels[first.hit.question_id, first.candidate_id] for first in firsts)

    assert right[()] < 10 and right[("log_rank",)] == 20


def test_the_training_says_what_its_data_lack(tmp_path: Path) -> None:
    lines = [
        " ".join([word, *map(str, vector)]) for word, vector in zip(WORDS, VECTORS[1:].tolist(), strict=True)
    ]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    settings = ListModelSettings(
        reranker="cosinet",
        form="list",
        embeddings=str(tmp_path / "vectors.txt"),
        filters=4,
        features=["bm25", "title"],
    )

    bare = [LabelledCandidate("r", "Who?", f"c{n}", "d", "", n, "the city", n) for n in range(2)]
    full = rows_of(retrieved())
    said = build(TrainingInputs(settings, Recipe(), [full, bare], [full, bare])).description
    assert said.endswith(
        ", 2 candidates without bm25, 5 candidates without title; dev 2 candidates without bm25, 5 "
        "candidates without title"
    )
    settings = settings.model_copy(update={"features": None})
    assert "without" not in build(TrainingInputs(settings, Recipe(), [full, bare], [full, bare])).description


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"reranker": "compare_aggregate"},
            "`features` are for cosinet; leave them out for compare_aggregate",
        ),
        ({"features": ["title", "title"]}, "one comes twice"),
        ({"features": []}, "at least 1 item"),
        ({"features": ["fused"]}, "'bm25', 'dense', 'log_rank', 'position' or 'title'"),
    ],
)
def test_features_that_cannot_be_are_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ListModelSettings(**{"reranker": "cosinet", "features": ["title"], **changed})  # type: ignore[arg-type]
