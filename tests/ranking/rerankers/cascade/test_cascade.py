"""The cascade, the monolithic ranker and the sequential one, with small random bodies and the default
tokenizer."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from answermill.files.model_files import SUMS
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.evaluation.metrics import Judged, measure
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import ScoreNotFinite
from answermill.ranking.rerankers.cascade import cascade
from answermill.ranking.rerankers.cascade.cascade import Cascade, alpha_per_exit
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load, save
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.rerankers.cascade.pointwise import Pointwise
from answermill.ranking.rerankers.cascade.prior import fit_exits
from answermill.ranking.rerankers.cascade.replay import replay
from answermill.ranking.rerankers.cascade.schedule import sizes, survivors
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.transformer.classifier import Classifier
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Packed, Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import BodySource, StoredForm
from answermill.schemas.corpus import Question
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList, StageScore

EXITS = (1, 2, 4)
SHAPE = Shape(layers=4, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
NOUNS = "apple river engine violin glacier senate comet harvest lantern vaccine"


def tokeniser(limit: int = 64) -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), limit)


def model(exits: tuple[int, ...] = EXITS, seed: int = 0) -> CascadeModel:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(seed)
    cascade_model = CascadeModel(LayeredEncoder(replace(SHAPE, layers=exits[-1])), exits)
    for weight in cascade_model.parameters():
        weight.data *= 4
    return cascade_model.eval()


def question(name: str, candidates: int, seed: int = 0) -> list[LabelledCandidate]:
    random = np.random.default_rng([seed, *name.encode()])
    rows = []
    for n in range(candidates):
        text = " ".join(random.choice(NOUNS.split(), random.integers(1, 30)))
        rows.append(LabelledCandidate(name, f"What is {name}?", f"{name}-{n}", "", "", n, text, int(n == 0)))
    return rows


def lists(*counts: int) -> list[RankedList]:
    return [
        ranked_list(question(f"q{n}", count)) if count else RankedList(Question(f"q{n}", "?"), ())
        for n, count in enumerate(counts)
    ]


def scores(ranked: RankedList) -> dict[str, float]:
    return {c.candidate_id: c.score for c in ranked.candidates}


def test_without_dropping_it_is_the_monolithic_ranker_of_the_same_weights() -> None:
    whole = model()
    monolithic = CascadeModel(whole.encoder, (4,))
    monolithic.classifiers[0].load_state_dict(whole.classifiers[-1].state_dict())
    ours = Cascade(whole, tokeniser()).rerank(lists(7, 1, 30))
    theirs = Pointwise(monolithic, tokeniser()).rerank(lists(7, 1, 30))
    assert [scores(r) for r in ours] == [scores(r) for r in theirs]
    assert len({*scores(ours[2]).values()}) > 20


def test_survivors_have_exactly_the_scores_that_they_would_have_had() -> None:
    kept = Cascade(model(), tokeniser(), (0.3, 0.5)).rerank(lists(40, 9))
    all_of_them = Cascade(model(), tokeniser()).rerank(lists(40, 9))
    for some, everyone in zip(kept, all_of_them, strict=True):
        assert 0 < len(some.candidates) < len(everyone.candidates)
        assert scores(some).items() <= scores(everyone).items()


def test_at_each_exit_the_share_of_each_question_leaves_that_has_the_lowest_scores_there() -> None:
    reranker, drops = Cascade(model(), tokeniser(), (0.3, 0.5)), (0.3, 0.5)
    came = lists(40, 1, 9)
    rows = reranker.exit_scores(came)
    for ranked, exits, kept in zip(came, rows, reranker.rerank(came), strict=True):
        here = list(range(len(ranked.candidates)))
        for exit, alpha in enumerate(drops):
            here.sort(key=lambda n: (-round(exits.scores[n, exit], 6), n))
            here = here[: len(here) - int(len(here) * alpha + 1e-9)]
        assert {ranked.candidates[n].candidate_id for n in here} == set(scores(kept))
        assert len(here) == sizes(len(ranked.candidates), drops)[-1]


def test_who_leaves_at_an_exit_keeps_that_exit_s_score() -> None:
    reranker, drops = Cascade(model(), tokeniser(), (0.3, 0.5)), (0.3, 0.5)
    came = lists(40, 1, 9, 0)
    entering = 0

    for ranked, exits, kept in zip(came, reranker.exit_scores(came), reranker.rerank(came), strict=True):
        place = {c.candidate_id: n for n, c in enumerate(ranked.candidates)}
        assert len(kept.candidates) + len(kept.left) == len(ranked.candidates)
        left = [c.stages[-1] for c in kept.left]
        assert [len([s for s in left if s.exit == n]) for n in (1, 2)] == [
            a - b for a, b in zip(sizes(len(place), drops), sizes(len(place), drops)[1:], strict=False)
        ]

        # The first to leave first.
        assert [(s.exit, s.score) for s in left] == sorted((s.exit or 0, s.score) for s in left)
        for c in kept.left:
            assert c.stages[-1].rank is None and c.stages[-1].exit is not None
            assert c.stages[-1].score == round(exits.scores[place[c.candidate_id], c.stages[-1].exit - 1], 6)

        assert all(c.stages[-1].exit == 3 for c in kept.candidates)
        entering += len(kept.left)

    assert entering > 25
    (whole,) = Pointwise(CascadeModel(model().encoder, (4,)), tokeniser()).rerank(lists(5))
    assert {c.stages[-1].exit for c in whole.candidates} == {None} and not whole.left


WEIGHTS = [{"exit": 1.0, "words": 2.0, "log_rank": 0.5}, {"exit": 0.5, "words": 1.0}]
"""Of the prior at the two exits but the last."""


def worded(*counts: int) -> list[RankedList]:
    """The lists with a stage `words` before, of few different scores."""
    scored = []
    for ranked in lists(*counts):
        stages = [(StageScore("words", float(len(c.text) % 7), 1),) for c in ranked.candidates]
        candidates = (replace(c, stages=stage) for c, stage in zip(ranked.candidates, stages, strict=True))
        scored.append(RankedList(ranked.question, tuple(candidates)))
    return scored


def left_by_hand(ranked: RankedList, scores: np.ndarray, drops: tuple[float, ...]) -> set[str]:
    """Ids of those that a cascade with WEIGHTS leaves, one list and one exit after the other."""
    here = list(range(len(ranked.candidates)))
    for exit, alpha in enumerate(drops):
        total = np.zeros(len(here))
        for name, weight in WEIGHTS[exit].items():
            known = {
                "exit": lambda n: scores[n, exit],  # noqa: B023
                "words": lambda n: ranked.candidates[n].stages[0].score,
            }
            known["log_rank"] = lambda n: -np.log(ranked.candidates[n].hit.rank)
            values = np.array([round(known[name](n), 6) for n in here])
            total += weight * (values - values.mean()) / values.std() if len(set(values)) > 1 else 0.0
        order = sorted(range(len(here)), key=lambda i: (-round(total[i], 6), here[i]))
        here = [here[i] for i in order[: len(here) - int(len(here) * alpha + 1e-9)]]

    return {ranked.candidates[n].candidate_id for n in here}


def test_with_a_prior_those_leave_whose_weighted_sum_is_the_lowest() -> None:
    drops = (0.3, 0.5)
    weighed, plain = (Cascade(model(), tokeniser(), drops, weights=weights) for weights in (WEIGHTS, ()))
    came = worded(40, 1, 9, 0)
    rows = weighed.exit_scores(came)
    for ranked, exits, kept in zip(came, rows, weighed.rerank(came), strict=True):
        assert left_by_hand(ranked, exits.scores, drops) == set(scores(kept))
        assert len(kept.candidates) == sizes(len(ranked.candidates), drops)[-1]
    assert [set(scores(kept)) for kept in plain.rerank(came)] != [
        set(scores(kept)) for kept in weighed.rerank(came)
    ]


def test_a_prior_knows_nothing_of_other_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = Cascade(model(), tokeniser(), (0.5, 0.5), weights=WEIGHTS)
    together = reranker.rerank(worded(12, 5, 0, 33))
    assert together == [reranker.rerank([each])[0] for each in worded(12, 5, 0, 33)]
    monkeypatch.setattr(cascade, "GROUP_TOKENS", 200)
    assert reranker.rerank(worded(12, 5, 0, 33)) == together


def test_a_replay_of_its_exit_scores_is_what_a_cascade_with_a_prior_does() -> None:
    came = worded(40, 9, 21)
    labels = [[int(n % 3 == 0) for n in range(len(r.candidates))] for r in came]

    for drops in ((0.3, 0.5), (0.0, 0.6), (0.5, 0.0)):
        reranker = Cascade(model(), tokeniser(), drops, weights=WEIGHTS)
        rows, names = reranker.exit_scores(came), [r.question.question_id for r in came]
        table = ExitScores.of(EXITS, 4, names, labels, rows, prior=reranker.prior)
        kept = reranker.rerank(came)
        judged = Judged.of([
            (
                [scores(k).get(c.candidate_id, -1e6) for c in r.candidates],
                gold,
            )
            for r, k, gold in zip(came, kept, labels, strict=True)
        ])  # fmt: skip
        expected = measure(judged, ["MAP"])["MAP"].expected.mean()

        reranker.costs()
        reranker.rerank(came)
        spent = reranker.costs()
        replayed = replay(table, [drops])
        assert replayed.metrics["MAP"][0] == pytest.approx(expected, abs=1e-12)
        assert replayed.token_cost[0] == pytest.approx(
            spent["layer_tokens"] / spent["full_layer_tokens"], abs=1e-12
        )


def test_one_table_of_weights_is_for_all_exits_and_their_number_is_checked() -> None:
    once, twice = (
        Cascade(model(), tokeniser(), (0.3, 0.3), weights=WEIGHTS[:1] * n).rerank(worded(30)) for n in (1, 2)
    )
    assert once == twice
    with pytest.raises(
        ValueError, match="weights for 3 exits; give one table for all, or one for each but the last: 2"
    ):
        Cascade(model(), tokeniser(), (0.3, 0.3), weights=WEIGHTS[:1] * 3)


def test_weights_are_fitted_for_each_exit_on_those_that_came_to_it() -> None:
    generator = np.random.default_rng(0)
    came = worded(*[20] * 30)
    labels = [[int(n == generator.integers(20)) for n in range(20)] for _ in came]
    for gold in labels:
        gold[0] = 1
    exit_scores = [generator.normal(size=(20, 3)) + np.array(gold)[:, None] * (0, 1, 2) for gold in labels]
    fits = fit_exits(came, labels, exit_scores, ["words", "log_rank"], (0.5, 0.0))
    assert [set(fit.weights) for fit in fits] == [{"exit", "words", "log_rank"}] * 2
    assert fits[0].candidates == 600 and fits[1].candidates + 10 * fits[1].without_answer == 300

    assert abs(fits[0].weights["exit"]) < 0.5 < fits[1].weights["exit"]
    reranker = Cascade(model(), tokeniser(), (0.5, 0.3), weights=[fit.weights for fit in fits])
    assert sum(len(kept.candidates) for kept in reranker.rerank(came)) == 30 * sizes(20, (0.5, 0.3))[-1]
    with pytest.raises(ValueError, match="give one drop for each exit but the last"):
        fit_exits(came, labels, exit_scores, ["words"], (0.5,))


def test_many_questions_in_flight_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = Cascade(model(), tokeniser(), (0.5, 0.5))
    together = reranker.rerank(lists(12, 5, 0, 33))
    assert together == [reranker.rerank([each])[0] for each in lists(12, 5, 0, 33)]
    spent = reranker.costs()
    monkeypatch.setattr(cascade, "GROUP_TOKENS", 200)

    for in_flight, tokenised in ((1, 8_192), (2, 8_192), (3, 10)):
        monkeypatch.setitem(cascade.IN_FLIGHT, "cpu", in_flight)  # as on a graphics card
        monkeypatch.setattr(cascade, "TOKENISED", tokenised)
        assert reranker.rerank(lists(12, 5, 0, 33)) == together
        again = reranker.costs()
        assert {key: n for key, n in again.items() if key != "milliseconds"} == {
            key: n // 2 for key, n in spent.items() if key != "milliseconds"
        }


def test_few_candidates_are_tokenised_first_so_that_a_card_begins_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cascade, "TOKENISED", 80)
    some = lists(*[10] * 40)
    parts = list(cascade._whole_lists(some))
    assert [ranked for part in parts for ranked in part] == list(some)
    assert [len(part) for part in parts] == [1, 2, 4, 8, 8, 8, 8, 1]


def test_of_equal_scores_the_later_one_leaves() -> None:
    question = np.array([1, 1, 1, 0, 0])
    stay = survivors(question, np.array([2.0, 1.0, 1.0 + 1e-9, 5.0, 5.0]), np.array([4, 1, 0, 3, 2]), 0.5)
    assert stay.tolist() == [True, False, True, False, True]


def test_costs_are_layers_times_what_ran_through_them() -> None:
    reranker = Cascade(model(), tokeniser(), (0.3, 0.3))
    reranker.rerank(lists(128))
    spent = reranker.costs()
    assert spent["candidates"] == 128
    assert spent["layer_candidates"] == 1 * 128 + 1 * 90 + 2 * 63
    assert spent["full_layer_candidates"] == 4 * 128
    assert spent["full_layer_tokens"] == 4 * spent["tokens"] > spent["layer_tokens"] > 0
    assert spent["tokens_cut"] == 0
    assert not reranker.costs()


def test_texts_of_any_length_are_scored_and_what_is_cut_is_counted() -> None:
    rows = [
        replace(row, text=text)
        for row, text in zip(question("q", 3), ("", "word " * 10_000, "one"), strict=True)
    ]
    reranker = Cascade(model(), tokeniser())
    (ranked,) = reranker.rerank([ranked_list(rows)])
    assert len(ranked.candidates) == 3
    assert 9_900 < reranker.costs()["tokens_cut"] < 10_000
    long_question = [replace(row, question="why " * 500) for row in rows]
    assert len(reranker.rerank([ranked_list(long_question)])[0].candidates) == 3


def test_drops_and_exits_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="drop"):
        Cascade(model(), tokeniser(), (0.3,))
    with pytest.raises(ValueError):
        Cascade(model(), tokeniser(), (0.3, 1.0))
    with pytest.raises(ValueError):
        CascadeModel(LayeredEncoder(SHAPE), (2, 1, 4))
    with pytest.raises(ValueError, match="4 layers"):
        CascadeModel(LayeredEncoder(SHAPE), (1, 2))


def test_drops_and_weights_for_a_model_without_exits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`drop` = .*has no exit where candidates could leave"):
        alpha_per_exit([0.3], 0)
    assert not any((*alpha_per_exit([0.0], 0), *alpha_per_exit([], 0)))
    with pytest.raises(ValueError, match="`weights` for exits, and the model has no exit but the last"):
        Cascade(model((4,)), tokeniser(), (), weights=WEIGHTS[:1])


def test_noise_below_the_last_digit_does_not_order_those_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal scores, the later one of the list leaves first."""
    exact = Cascade._scored

    def noisy(self: Cascade, came: Sequence[RankedList], drops: Sequence[float]) -> Iterator[Any]:
        for passed in exact(self, came, drops):
            noise = 1e-9 * np.arange(len(passed.exits), dtype=np.float64)[:, None]
            yield passed._replace(scores=np.broadcast_to(noise, passed.scores.shape))

    monkeypatch.setattr(Cascade, "_scored", noisy)
    ranked = Cascade(model(), tokeniser(), (0.5, 0.5)).rerank(lists(20))[0]
    places = [candidate.position for candidate in ranked.left if candidate.stages[-1].exit == 1]
    assert len(places) > 3 and places == sorted(places, reverse=True)


def test_the_sequential_ranker_is_its_rankers_in_sequence(tmp_path: Path) -> None:
    for depth in (4, 1, 2):  # found by their depths, not by their names
        save(tmp_path / f"r{4 - depth}", "pointwise", model((depth,), seed=depth), tokeniser())
    reranker = load_reranker("sequential", tmp_path, drop=[0.5])
    came = lists(20, 3)
    now = came

    for depth in (1, 2, 4):
        ranked = Pointwise(model((depth,), seed=depth), tokeniser()).rerank(now)
        if depth < 4:
            stay = [
                {c.candidate_id for c in r.candidates[: len(r.candidates) - len(r.candidates) // 2]}
                for r in ranked
            ]
            now = [
                RankedList(r.question, tuple(c for c in r.candidates if c.candidate_id in ids))
                for r, ids in zip(now, stay, strict=True)
            ]

    left = reranker.rerank(came)
    assert [scores(r) for r in left] == [scores(r) for r in ranked]
    assert [len(r.candidates) for r in left] == [5, 1]
    spent = reranker.costs()
    assert (spent["candidates"], spent["full_layer_candidates"]) == (23, 4 * 23)
    assert spent["layer_candidates"] == 23 + 2 * (10 + 2) + 4 * (5 + 1)
    assert not reranker.costs()
    with pytest.raises(ValueError, match="sub-folders"):
        load_reranker("sequential", tmp_path / "r0")

    save(tmp_path / "r4", "pointwise", model((2,)), tokeniser())
    with pytest.raises(ValueError, match=r"the rankers have depths \[1, 2, 2, 4\]; each must be deeper"):
        load_reranker("sequential", tmp_path)


@pytest.mark.parametrize("stop", [False, True])
def test_the_loss_of_an_exit_reaches_the_embeddings_unless_it_is_stopped(stop: bool) -> None:
    cascade_model = model().train()
    tokens = tokeniser().pairs([("What?", "That."), ("Who?", "Nobody.")]).pack()
    cascade_model(tokens, 1, stop).sum().backward()
    assert (cascade_model.encoder.words.weight.grad is None) == stop
    assert cascade_model.encoder.layers[1].widen.weight.grad is not None
    assert cascade_model.encoder.layers[2].widen.weight.grad is None
    assert cascade_model.classifiers[0].score.weight.grad is None


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    save(tmp_path, "cascade", model(), tokeniser())
    back = load_reranker("cascade", tmp_path, drop=[0.3])
    assert back.drops == (0.3, 0.3)
    assert back.rerank(lists(9)) == Cascade(model(), tokeniser(), (0.3, 0.3)).rerank(lists(9))
    with pytest.raises(ValueError, match="give one of pointwise"):
        load(tmp_path, "pointwise")


def test_word_embeddings_can_stay_with_the_transformer_that_they_are_from(tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = find_model(DEFAULT)
    pointwise = CascadeModel(LayeredEncoder.load(folder, 1), (1,))
    save(tmp_path, "pointwise", pointwise, tokeniser(), StoredForm("fp16", BodySource.read(DEFAULT, folder)))
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", SUMS}
    back, _ = load(tmp_path, "pointwise", find_model)
    assert torch.equal(back.encoder.words.weight, pointwise.encoder.words.weight)
    config = json.loads((tmp_path / "config.json").read_text())
    config["words"]["sha256"] = "0" * 64

    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / SUMS).unlink()
    with pytest.raises(ValueError, match=f"it needs the {DEFAULT} of SHA-256 0{{16}}"):
        load(tmp_path, "pointwise", find_model)


def task(**settings) -> PairTask:
    rows = [question(f"q{n}", 4 + n % 3) for n in range(12)]
    return PairTask(
        model(), tokeniser(), rows, lambda folder, trained: None, PairOptions(tokens=200, **settings)
    )


def test_an_epoch_has_every_pair_once_and_the_same_batches_again_when_asked_again() -> None:
    learning = task()
    batches = list(learning.batches(0))
    assert len(batches) == learning.steps > 5
    assert sum(len(b.labels) for b in batches) == sum(4 + n % 3 for n in range(12))
    assert sum(float(b.labels.sum()) for b in batches) == 12
    assert max(len(b.tokens.ids) for b in batches) <= 200 + 64

    again = list(learning.batches(0))
    assert all(
        torch.equal(a.tokens.ids, b.tokens.ids) and a.exit == b.exit
        for a, b in zip(batches, again, strict=True)
    )
    assert any(
        not torch.equal(a.tokens.ids, b.tokens.ids)
        for a, b in zip(batches, learning.batches(1), strict=False)
    )


def test_exits_are_drawn_evenly_in_turn_or_the_early_ones_first() -> None:
    def drawn(sampling: str, epochs: range) -> np.ndarray:
        learning = task(sampling=sampling, early_epochs=100)
        exits = [batch.exit for epoch in epochs for batch in learning.batches(epoch)]
        return np.bincount(exits, minlength=3) / len(exits)

    assert drawn("uniform", range(100)) == pytest.approx([1 / 3] * 3, abs=0.06)
    assert drawn("early", range(100)) == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.06)
    assert drawn("early", range(100, 200)) == pytest.approx([1 / 3] * 3, abs=0.06)
    turns = [batch.exit for epoch in range(2) for batch in task(sampling="round_robin").batches(epoch)]
    assert turns == [n % 3 for n in range(len(turns))]


def test_it_learns_at_every_exit() -> None:
    torch.manual_seed(0)
    cascade_model = CascadeModel(LayeredEncoder(replace(SHAPE, dropout=0.0, attention_dropout=0.0)), EXITS)
    rows = [
        [
            LabelledCandidate(f"q{n}", "Which?", f"q{n}-{m}", "", "", m, f"{noun} {n}", int(noun == "comet"))
            for m, noun in enumerate(nouns)
        ]
        for n, nouns in enumerate([("apple", "comet"), ("comet", "river"), ("violin", "comet")])
    ]
    learning = PairTask(cascade_model, tokeniser(), rows, lambda folder, model: None, PairOptions(tokens=100))

    optimizer = torch.optim.AdamW(cascade_model.parameters(), lr=3e-3)
    for epoch in range(60):
        for batch in learning.batches(epoch):
            optimizer.zero_grad()
            learning.loss(batch).backward()
            optimizer.step()

    for each in Cascade(cascade_model, tokeniser()).exit_scores([ranked_list(r) for r in rows]):
        assert each.scores.argmax(0).tolist() == [each.scores[:, 0].argmax()] * 3
    assert all(
        "comet" in r.candidates[0].text
        for r in Cascade(cascade_model, tokeniser()).rerank([ranked_list(r) for r in rows])
    )


def test_classifiers_learn_at_their_own_multiple_of_the_rate(tmp_path: Path) -> None:
    moved = {}
    for multiple in (1.0, 10.0):
        learning = task(classifier_rate=multiple)
        before = {name: value.detach().clone() for name, value in learning.model.named_parameters()}
        train(
            learning,
            Dev([question("d", 3)]),
            Recipe(1, 1e-6, "constant"),
            Output(tmp_path / str(multiple), "a test's"),
        )
        far = {
            name: float((value.detach() - before[name]).abs().max())
            for name, value in learning.model.named_parameters()
        }
        body = [d for name, d in far.items() if name.startswith("encoder.") and d]
        heads = [d for name, d in far.items() if name.startswith("classifiers.")]
        moved[multiple] = statistics.median(heads) / statistics.median(body)

    assert moved[10.0] == pytest.approx(10 * moved[1.0], rel=0.2)


def test_batches_that_a_single_text_could_fill_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens"):
        PairTask(
            model(), tokeniser(), [question("q", 4)], lambda folder, trained: None, PairOptions(tokens=30)
        )


@pytest.mark.parametrize("drops", [(), (0.3, 0.3)])
@pytest.mark.parametrize("exit_", range(3))
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_stops_it_at_whichever_exit(
    wrong: float, exit_: int, drops: tuple[float, ...]
) -> None:
    broken = model()
    cast(Classifier, broken.classifiers[exit_]).score.bias.data[:] = wrong
    with pytest.raises(ScoreNotFinite, match=f"cascade: score {wrong} for candidate q0-. of question q0"):
        Cascade(broken, tokeniser(), drops).rerank(lists(7, 3))


def test_an_early_exit_names_the_candidate_that_has_no_number() -> None:
    broken = Cascade(model(), tokeniser(), (0.3, 0.3))
    classify, calls = broken._model.classify, iter(range(3))

    def one_wrong(hidden: Tensor, tokens: Packed, exit_: int) -> Tensor:
        scores_ = classify(hidden, tokens, exit_).clone()
        if next(calls) == 0:
            scores_[2] = torch.nan  # the third longest of all
        return scores_

    broken._model.classify = one_wrong  # type: ignore[method-assign]
    came = lists(4, 6)
    lengths = tokeniser().pairs([(r.question.text, c.text) for r in came for c in r.candidates]).lengths
    place = int(np.argsort(-lengths, kind="stable")[2])
    named = [c.candidate_id for r in came for c in r.candidates][place]
    with pytest.raises(ScoreNotFinite, match=f"score nan for candidate {named} of question {named[:2]}"):
        broken.rerank(came)
