"""The cascade learns as its paper has it, and the rows of its tables and of its figure are what they say."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.ranking.rerankers.cascade.exits import ExitRows, ExitScores
from answermill.ranking.rerankers.cascade.schedule import cost, relative_cost
from experiments import cascade_long_lists, cascade_trainings, schedule_spread
from experiments.cascade_paper import BODIES, WAYS, pairs, rows_of, sections, trainings, wanted
from experiments.exit_rows import sequential_rows, values
from experiments.schedule_costs import EXITS, over_lists

BODY, WORK = BODIES["default"], Path("work")


def table(exits: tuple[int, ...], scores: list[list[float]], questions: int = 1) -> ExitScores:
    """Lists of as many candidates, the last of which is right."""
    rows = [ExitRows(np.array(scores, np.float64), np.full(len(scores), 9)) for _ in range(questions)]
    labels = [[int(n == len(scores) - 1) for n in range(len(scores))] for _ in rows]
    return ExitScores.of(exits, 6, [f"q{n}" for n in range(questions)], labels, rows)


def random_table(exits: tuple[int, ...], questions: int, seed: int = 0) -> ExitScores:
    """A table whose right candidates stand out the more, the deeper the exit."""
    exit_table = table(exits, [[0.0] * len(exits)] * 8, questions)
    noise = np.random.default_rng(seed).normal(size=exit_table.scores.shape)
    return replace(exit_table, scores=noise + exit_table.label[:, None] * np.arange(1, len(exits) + 1))


def test_the_paper_s_cascade_draws_an_exit_and_learns_single_pairs_in_transfer_and_adapt() -> None:
    jobs = [cascade_trainings.training(WORK, each) for each in trainings(BODY, ["paper"])]
    assert len(jobs) == 4
    for job in jobs:
        section = job.transformer
        assert (section.reranker, section.sampling, section.stop_gradient) == ("cascade", "uniform", False)
        assert (section.loss, section.bce_weight, section.negatives) == ("bce", 0.0, None)
    assert jobs[0].transformer.encoder == BODY.encoder and tuple(jobs[0].transformer.exits) == BODY.exits
    assert {job.transformer.encoder for job in jobs[1:]} == {str(WORK / "paper-transfer")}
    assert [job.train.seed for job in jobs] == [0, 0, 1, 2]


def test_each_ablation_differs_from_the_paper_s_cascade_by_one_setting() -> None:
    (paper, *others) = ({"sampling": "uniform", "stop_gradient": False} | way for way in WAYS.values())
    changed = [{key for key in paper if paper[key] != other[key]} for other in others]
    assert list(WAYS) == ["paper", "early", "round_robin", "stop", "all"]
    assert changed == [{"sampling"}, {"sampling"}, {"stop_gradient"}, {"sampling"}]


def test_a_monolithic_model_reads_the_first_token_at_each_exit_s_depth() -> None:
    for body in BODIES.values():
        names = [f"mt{depth}" for depth in body.exits]
        assert names == sorted(set(sections(body)) - set(WAYS), key=lambda name: int(name[2:]))
        transfers = [each for each in trainings(body, names) if each.data == "transfer"]
        read = [(each.section["layers"], each.section["pooling"]) for each in transfers]
        assert read == [(depth, "first") for depth in body.exits] and len(read) == 5


def test_twelve_layers_learn_at_their_own_rates_and_six_at_those_of_the_other_study() -> None:
    def rates(body: str) -> list[float]:
        jobs = (cascade_trainings.training(WORK, each) for each in trainings(BODIES[body], ["paper"]))
        return [job.train.learning_rate for job in jobs][:2]

    assert rates("default") == [cascade_trainings.TRANSFER_RATE, cascade_trainings.ADAPT_RATE]
    assert rates("base") == list(BODIES["base"].rates)


def test_models_are_trained_in_the_order_in_which_they_are_named() -> None:
    names = [each.name for each in trainings(BODY, ["paper", "mt6"])]
    assert names[:4] == ["paper-transfer", "mt6-transfer", "paper-0", "mt6-0"] and len(names) == 8
    assert wanted("paper,mt6", BODY) == ["paper", "mt6"] and wanted("none", BODY) == []
    assert wanted(None, BODY) == list(sections(BODY))
    with pytest.raises(SystemExit, match=r"no model 'mt12'; give --models some of mt6,paper,"):
        wanted("mt6,mt12", BODY)


def test_the_sequential_ranker_of_five_models_costs_what_table_3_says_on_long_lists() -> None:
    five = [table((depth,), [[0.0]] * 4_000) for depth in BODY.exits]
    rows = sequential_rows(five, (0.3, 0.4, 0.5))
    costs = {name: round(one.cost, 2) for name, one in rows.items()}
    assert costs == {"sequential_a3": 1.54, "sequential_a4": 1.18, "sequential_a5": 0.92}
    base = [relative_cost((4, 6, 8, 10, 12), (alpha,) * 4, 12, shared=False) for alpha in (0.3, 0.4, 0.5)]
    assert [one.cost for one in rows.values()] == pytest.approx(base, abs=2e-3)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_on_short_lists_it_costs_what_its_models_encode(k: int) -> None:
    five = [table((depth,), [[0.0]] * k) for depth in BODY.exits]
    for alpha, one in zip((0.3, 0.5), sequential_rows(five, (0.3, 0.5)).values(), strict=True):
        assert one.cost == pytest.approx(cost(k, BODY.exits, (alpha,) * 4, shared=False) / (6 * k))
        assert one.cost == pytest.approx(over_lists([k], EXITS["five"], alpha, shared=False))


def test_a_candidate_that_one_model_drops_is_lost_to_the_models_after_it() -> None:
    first, last = table((2,), [[3.0], [2.0], [1.0]]), table((6,), [[1.0], [2.0], [3.0]])
    rows = sequential_rows([first, last], (0.3, 0.5))
    assert values(last.question, last.label, last.scores[:, 0])["p1"].tolist() == [1.0]
    assert rows["sequential_a3"].values["p1"].tolist() == [1.0]  # of three candidates none leaves
    assert rows["sequential_a5"].values["p1"].tolist() == [0.0]


def test_rows_are_of_the_models_that_are_complete() -> None:
    scored = {f"mt{depth}": random_table((depth,), 2) for depth in BODY.exits}
    rows = rows_of(scored | {"paper": random_table(BODY.exits, 2)}, BODY)
    assert {"mt2", "mt5", "monolithic", "sequential_a3", "paper_exit2", "paper_a0", "paper_a5"} < rows.keys()
    assert rows["mt3"].cost == rows["paper_exit3"].cost == 0.5 and "mt6" not in rows
    del scored["mt4"]
    assert "sequential_a3" not in rows_of(scored, BODY) and "paper_a0" not in rows_of(scored, BODY)


def test_every_claim_and_every_ablation_is_compared() -> None:
    result = set(pairs(BODY))
    assert {("paper_a0", "monolithic"), ("paper_a3", "monolithic"), ("paper_exit2", "mt2")} < result
    assert {(f"{way}_{end}", f"paper_{end}") for way in list(WAYS)[1:] for end in ("a0", "a3")} < result
    assert {("paper_a3", "sequential_a3"), ("paper_a5", "mt3")} < result


def test_a_question_s_paragraphs_make_one_list_and_a_set_may_be_left_out(tmp_path: Path) -> None:
    columns = ("question_id", "document_id", "sentence_index", "label")
    cells = [("a", "a#0", 0, 0), ("a", "a#0", 1, 1), ("a", "a#1", 0, 1), ("b", "b#0", 0, 0)]
    table = [dict(zip(columns, row, strict=True)) for row in cells]
    texts = {"question": "?", "document_title": "T", "sentence": "s"}
    file = tmp_path / cascade_long_lists.HOTPOTQA
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row | texts for row in table]), file)

    (only,) = cascade_long_lists.hotpotqa(tmp_path, tmp_path, 5)  # b has no answer
    assert only.labels == [0, 1, 1]
    assert [c.candidate_id for c in only.ranked.candidates] == ["a#0/0", "a#0/1", "a#1/0"]
    lists = cascade_long_lists.lists_of(Namespace(data=tmp_path, hotpotqa=None, test=0), tmp_path)
    assert lists == {"hotpotqa": [only]}


def test_p1_by_question_is_that_of_the_replayed_schedules() -> None:
    exit_table = random_table((2, 4, 6), 5)
    schedules = schedule_spread.grid((0.3, 0.6), exit_table.exits)
    each = schedule_spread.by_question(exit_table, schedules)
    whole = schedule_spread.replay(exit_table, schedules).metrics["P@1"]
    assert each.shape == (5, 4) and each.mean(axis=0) == pytest.approx(whole)


def test_the_gain_by_cost_tapers_off_where_its_slope_falls() -> None:
    cost = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    below, above = slice(0, 3), slice(2, 5)
    flat, straight = np.minimum(cost, 0.7), cost
    p1 = np.stack([flat, straight])
    gained = [schedule_spread.slopes(p1[:, part], cost[part]) for part in (below, above)]
    assert (gained[0] - gained[1]).round(9).tolist() == [1.0, 0.0]


def test_the_spread_has_all_schedules_in_its_bands_and_an_interval_for_each_claim() -> None:
    result = schedule_spread.spread("test", "paper", random_table((2, 3, 4, 5, 6), 4))
    lows = [value for key, value in result.items() if key.startswith("test_low_")]
    highs = [value for key, value in result.items() if key.startswith("test_high_")]
    assert min(lows) == result["test_p1_min_paper"] and max(highs) == result["test_p1_max_paper"]
    assert result["test_cost_min_paper"] < 0.6 and result["test_cost_max_paper"] > 0.8
    for key in ("kept", "below", "above", "taper"):
        name = f"test_{key}_paper"
        assert (
            result[f"{name}_low"] <= result[name] <= result[f"{name}_high"] and 0 < result[f"{name}_p"] <= 1
        )
    steeper = result["test_below_paper"] - result["test_above_paper"]
    assert result["test_taper_paper"] == pytest.approx(steeper, abs=1e-3)
