"""Strata are drawn as they say, and what is drawn says without bias what was not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.steps.annotate.sampling import SamplingRules, choose, draw, estimate


@dataclass(frozen=True)
class Row:
    question_id: str
    label: int
    stratum: str
    probability: float


def ids(many: int) -> list[str]:
    return [f"d@{n}" for n in range(many)]


@given(
    st.integers(0, 40), st.integers(1, 20), st.integers(0, 5), st.sets(st.integers(0, 39)), st.integers(0, 3)
)
def test_the_top_is_whole_and_the_rest_is_sampled_once_each(many, top, random, labelled, seed):
    known = {f"d@{n}": n % 2 for n in labelled}
    chosen = choose("q", ids(many), known, SamplingRules(top, random, 0.3, seed))
    assert len({each.number for each in chosen}) == len(chosen)
    by = {
        name: sorted(each.number for each in chosen if each.stratum == name)
        for name in ("top", "random", "control")
    }
    below = max(many - top, 0)
    assert by["top"] == list(range(min(top, many)))

    assert len(by["random"]) == min(random, below) and min(by["random"], default=top) >= top
    assert all(f"d@{n}" in known and n >= top for n in by["control"])
    for each in chosen:
        assert each.expected == known.get(f"d@{each.number}")
        wanted = {
            "top": 1.0,
            "random": min(random, below) / below if below else 0,
            "control": each.probability,
        }
        assert each.probability == wanted[each.stratum] and 0 < each.probability <= 1


def test_what_caps_leave_out_of_the_top_is_among_the_rest():
    rules = SamplingRules(top=9, random=8)
    chosen = {each.number: each for each in choose("q", ids(10), {}, rules, top=[0, 4])}
    assert sorted(chosen) == list(range(10))
    assert [n for n, each in sorted(chosen.items()) if each.stratum == "top"] == [0, 4]
    assert {each.probability for each in chosen.values()} == {1.0}


def test_a_sample_depends_on_no_order_below_the_top():
    rules, sentences = SamplingRules(top=3, random=4), ids(30)
    again = [*sentences[:3], *reversed(sentences[3:])]
    first = {(sentences[each.number], each.stratum) for each in choose("q", sentences, {}, rules)}
    assert first == {(again[each.number], each.stratum) for each in choose("q", again, {}, rules)}
    other = {(sentences[each.number], each.stratum) for each in choose("q2", sentences, {}, rules)}
    assert first != other and len(first) == 7


def test_the_order_shown_tells_no_stratum():
    places = {"top": [], "random": [], "control": []}
    for q in range(400):
        known = {f"d@{n}": 1 for n in range(10, 60)}
        for place, each in enumerate(choose(f"q{q}", ids(60), known, SamplingRules(8, 8, 1 / 3))):
            places[each.stratum].append(place)
    assert all(len(slots) > 2000 for slots in places.values())
    means = [np.mean(slots) for slots in places.values()]
    # Of 24 places; the first eight and the last eight would differ by 16.
    assert max(means) - min(means) < 0.5


def test_controls_are_drawn_with_the_probability_that_they_state():
    """8 tasks and a fifth of controls: 2 of 5 known. And 17 tasks and 5 %: 0.89 of 5."""
    for rules, mean in ((SamplingRules(6, 2, 0.2), 2.0), (SamplingRules(15, 2, 0.05), 17 / 19)):
        known = {f"d@{n}": 0 for n in range(40, 45)}
        drawn: dict[int, int] = {}
        for seed in range(3000):
            for each in choose(
                "q", ids(60), known, SamplingRules(rules.top, rules.random, rules.control_share, seed)
            ):
                if each.stratum == "control":
                    assert each.probability == pytest.approx(mean / 5)
                    drawn[each.number] = drawn.get(each.number, 0) + 1
        assert sorted(drawn) == [40, 41, 42, 43, 44]
        for times in drawn.values():  # a little less than stated where the random sample had it first
            assert times / 3000 == pytest.approx(mean / 5, abs=0.035)


def test_a_sentence_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match="question q: a sentence comes twice"):
        choose("q", ["a@1", "a@1"], {}, SamplingRules())


def test_a_draw_lies_evenly_between_0_and_1():
    values = [draw(0, "x", str(n)) for n in range(4000)]
    assert min(values) >= 0 and max(values) < 1
    assert np.histogram(values, bins=8, range=(0, 1))[0] == pytest.approx(500, abs=100)


POPULATION = np.random.default_rng(7)
SIZES = POPULATION.integers(4, 45, size=50)
LABELS = [
    (POPULATION.random(size) < np.maximum(0.5 * 0.8 ** np.arange(size), 0.06)).astype(int) for size in SIZES
]
RULES = SamplingRules(top=5, random=6)
"""50 questions of 4 to 44 sentences, half of the first ones correct and 6 % of the last."""


def draw_labels(seed: int) -> list[Row]:
    rows = []
    for q, labels in enumerate(LABELS):
        for each in choose(f"q{q}", ids(len(labels)), {}, SamplingRules(RULES.top, RULES.random, seed=seed)):
            rows.append(Row(f"q{q}", int(labels[each.number]), each.stratum, each.probability))
    return rows


@pytest.fixture(scope="module")
def draws() -> list[tuple]:
    """300 draws, estimated; with the share of correct ones among all that were judged."""
    estimates = []
    for seed in range(300):
        rows = draw_labels(seed)
        estimates.append((*estimate(rows), np.mean([row.label for row in rows])))
    return estimates


def check_unbiased(values: list[float], truth: float) -> None:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert error > 0
    assert abs(np.mean(values) - truth) < 3 * error, (np.mean(values), truth, error)


def test_300_draws_give_prevalence_and_recall_without_bias(draws):
    correct, sentences = sum(labels.sum() for labels in LABELS), SIZES.sum()
    correct_at_top = sum(labels[: RULES.top].sum() for labels in LABELS)
    assert 0.4 < correct_at_top / correct < 0.7  # much is lost below the top
    assert all(overall.sentences == pytest.approx(sentences) for overall, _, _ in draws)
    check_unbiased([overall.correct for overall, _, _ in draws], correct)
    check_unbiased([overall.prevalence for overall, _, _ in draws], correct / sentences)
    check_unbiased([overall.recall for overall, _, _ in draws], correct_at_top / correct)


def test_300_draws_give_the_prevalence_of_each_question_without_bias(draws):
    """|z| > 4 has a chance of 1 in 300 for the worst of them."""
    worst = 0.0
    for q, labels in enumerate(LABELS):
        values = [by_question[f"q{q}"].prevalence for _, by_question, _ in draws]
        error = np.std(values, ddof=1) / math.sqrt(len(values))
        if len(labels) <= RULES.top + RULES.random:
            assert (
                values == pytest.approx([labels.mean()] * len(values))
                and draws[0][1][f"q{q}"].prevalence_se == 0
            )
        elif error > 1e-9:  # some have no correct one below the top
            worst = max(worst, abs(np.mean(values) - labels.mean()) / error)
    assert 1 < worst < 4


def test_the_standard_errors_are_those_of_the_draws(draws):
    for name in ("correct", "prevalence", "recall"):
        spread = np.std([getattr(overall, name) for overall, _, _ in draws], ddof=1)
        stated = math.sqrt(np.mean([getattr(overall, f"{name}_se") ** 2 for overall, _, _ in draws]))
        assert stated == pytest.approx(spread, rel=0.12), name


def test_the_share_of_the_judged_that_are_correct_is_no_prevalence(draws):
    truth = sum(labels.sum() for labels in LABELS) / SIZES.sum()
    values = [naive for _, _, naive in draws]
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert np.mean(values) - truth > 100 * error


def test_a_worked_example():
    """Top of 2, one correct; 3 of 12 below judged, one correct: 4 of 12, variance 12² · (1 - 3/12) · (1/3) /
    3 = 12."""
    rows = [Row("q", 1, "top", 1.0), Row("q", 0, "top", 1.0)]
    rows += [Row("q", label, "random", 0.25) for label in (1, 0, 0)] + [Row("q", 1, "control", 0.5)]
    overall, by_question = estimate(rows)
    assert by_question == {"q": overall}
    assert (overall.questions, overall.sentences, overall.correct) == (1, 14, 5)
    assert overall.correct_se == pytest.approx(math.sqrt(12))
    assert (overall.prevalence, overall.prevalence_se) == pytest.approx((5 / 14, math.sqrt(12) / 14))
    assert overall.recall == pytest.approx(1 / 5 - 12 / 125)
    assert overall.recall_se == pytest.approx(math.sqrt(12) / 25)


def test_what_cannot_be_known_is_nan():
    overall, by_question = estimate([])
    assert (overall.questions, overall.sentences, by_question) == (0, 0, {})
    assert math.isnan(overall.prevalence) and math.isnan(overall.recall)
    one, _ = estimate([Row("q", 0, "top", 1.0), Row("q", 1, "random", 0.1)])
    assert (one.correct, one.prevalence) == (pytest.approx(10), pytest.approx(10 / 11)) and math.isnan(
        one.prevalence_se
    )
    none, _ = estimate([Row("q", 0, "top", 1.0)])
    assert none.prevalence == 0 and math.isnan(none.recall)
