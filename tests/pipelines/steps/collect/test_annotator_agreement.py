"""Agreement: the worked examples of the papers, what other packages compute, and what must hold for any
votes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from answermill.pipelines.steps.collect.annotator_agreement import (
    Share,
    Votes,
    annotators,
    cohen,
    fleiss,
    krippendorff,
    pairs,
    resolve,
    same_votes,
    weight,
    weights,
    wilson,
)

DIAGNOSES = (  # Fleiss 1971, table 1: psychiatrists of 6 who gave each of 30 patients each of 5 diagnoses
    "00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031 00501 30012 "
    "51000 02040 10203 "
    "00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"
)


def read(*rows: str) -> Votes:
    """A row per annotator, a column per item; '.' is no vote."""
    said = [
        (item, n, ord(label))
        for n, row in enumerate(rows)
        for item, label in enumerate(row.split())
        if label != "."
    ]
    return Votes.of(said)


votes_of_some = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 1)),
    min_size=1,
    max_size=60,
    unique_by=lambda v: v[:2],
)


def test_krippendorff_s_example_of_two_observers_and_binary_data() -> None:
    votes = read("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
    assert krippendorff(votes.table()).value == pytest.approx(0.095, abs=5e-4)


def test_krippendorff_s_example_of_two_observers_and_nominal_data() -> None:
    votes = read("a a b b d c c c e d d a", "b a b b b c c c e d d d")
    assert krippendorff(votes.table()).value == pytest.approx(0.692, abs=5e-4)


def test_krippendorff_s_example_of_four_observers_with_values_missing() -> None:
    votes = read(
        "1 2 3 3 2 1 4 1 2 . . .",
        "1 2 3 3 2 2 4 1 2 5 . 3",
        ". 3 3 3 2 3 4 2 2 5 1 .",
        "1 2 3 3 2 4 4 1 2 5 1 .",
    )
    alpha = krippendorff(votes.table())
    assert alpha.value == pytest.approx(0.743, abs=5e-4)
    # The last unit has one value, which pairs with none.
    assert (alpha.items, alpha.votes, len(votes.items)) == (11, 40, 41)


def test_fleiss_example_of_thirty_patients() -> None:
    kappa = fleiss([[int(n) for n in row] for row in DIAGNOSES.split()])
    assert kappa.value == pytest.approx(0.430, abs=5e-4)
    assert (kappa.items, kappa.votes) == (30, 180)


def test_cohen_s_example_of_two_hundred_patients() -> None:
    assert cohen([[88, 14, 18], [10, 40, 10], [2, 6, 12]]).value == pytest.approx(0.492, abs=5e-4)


@given(votes_of_some)
def test_coefficients_are_at_most_one_and_do_not_know_annotators_apart(said) -> None:
    votes, other = Votes.of(said), Votes.of((item, 4 - who, label) for item, who, label in said)
    for coefficient in (krippendorff, lambda table: fleiss(same_votes(table)[1])):
        agreement = coefficient(votes.table())
        assert agreement == coefficient(other.table())
        assert agreement.value is None or -1 <= agreement.value <= 1
        assert (agreement.value is None) == bool(agreement.reason)
    one, two = pairs(votes), pairs(other)
    assert {(4 - b, 4 - a) for a, b in one} == two.keys()
    for (a, b), kappa in one.items():
        same = two[4 - b, 4 - a]
        assert (kappa.items, kappa.reason) == (same.items, same.reason)
        assert kappa.value == pytest.approx(same.value) if kappa.value is not None else same.value is None


@given(votes_of_some)
def test_perfect_agreement_is_one_and_of_one_class_undefined(said) -> None:
    agreed = Votes.of((item, who, item % 2) for item, who, _ in said)
    paired = [row for row in agreed.table() if row.sum() >= 2]
    assume(paired)
    both = np.sum(paired, axis=0)
    agreement = krippendorff(agreed.table())
    assert agreement.value == (1 if (both > 0).all() and len(both) == 2 else None)
    for kappa in pairs(agreed).values():
        assert kappa.value is None or kappa.value == pytest.approx(1)
    alone = Votes.of((item, who, 1) for item, who, _ in said)
    assert {krippendorff(alone.table()).reason, *(k.reason for k in pairs(alone).values())} == {
        "all votes are of one class"
    }


def test_what_cannot_be_computed_says_why() -> None:
    single = read("0 1", ". .")
    assert (
        krippendorff(single.table()).reason
        == fleiss(same_votes(single.table())[1]).reason
        == "no item with two votes"
    )
    assert pairs(single) == {} and krippendorff(Votes.of([]).table()).value is None
    assert cohen([[0, 0], [0, 0]]).reason == "no common item"

    # One class of one annotator alone is defined: no better than chance.
    assert cohen([[3, 2], [0, 0]]).value == 0
    with pytest.raises(ValueError, match="items have 2 to 3 votes"):
        fleiss([[1, 1], [1, 2]])
    with pytest.raises(ValueError, match="annotator 1 votes twice on item 0"):
        Votes.of([(0, 1, 0), (0, 0, 0), (0, 1, 1)])


def test_fleiss_takes_the_number_of_votes_that_most_items_have() -> None:
    votes = read("0 1 1 0 1 0 1", "0 1 0 0 1 . .", "1 1 . . . . .")
    n, table = same_votes(votes.table())
    assert n == 2 and table.tolist() == [[1, 1], [2, 0], [0, 2]]
    assert same_votes(np.array([[2, 1], [1, 1]]))[0] == 3  # of as many, the greater number


def random_votes(seed: int) -> list[tuple[int, int, int]]:
    generator = random.Random(seed)
    truth = [generator.random() < 0.4 for _ in range(80)]
    return [
        (item, who, int(truth[item] if generator.random() < 0.8 else not truth[item]))
        for item in range(80)
        for who in range(5)
        if generator.random() < 0.7
    ]


@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_that_of_the_package_krippendorff(seed: int) -> None:
    package = pytest.importorskip(
        "krippendorff", reason="runs where krippendorff is installed: pip install krippendorff"
    )
    said = random_votes(seed)
    data = np.full((5, 80), np.nan)
    for item, who, label in said:
        data[who, item] = label
    expected = package.alpha(data, level_of_measurement="nominal")
    assert (
        krippendorff(Votes.of(said).table()).value == pytest.approx(expected, abs=1e-12)
        and 0.1 < expected < 0.9
    )


@pytest.mark.parametrize("seed", range(5))
def test_fleiss_kappa_is_that_of_statsmodels(seed: int) -> None:
    package = pytest.importorskip(
        "statsmodels.stats.inter_rater", reason="runs where statsmodels is installed: pip install statsmodels"
    )
    n, table = same_votes(Votes.of(random_votes(seed)).table())
    assert n >= 3 and len(table) > 15
    assert fleiss(table).value == pytest.approx(package.fleiss_kappa(table, method="fleiss"), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_cohen_s_kappa_is_that_of_scikit_learn(seed: int) -> None:
    package = pytest.importorskip(
        "sklearn.metrics", reason="runs where scikit-learn is installed: pip install scikit-learn"
    )
    said = random_votes(seed)
    votes = [{item: label for item, who, label in said if who == n} for n in range(5)]
    kappas = pairs(Votes.of(said))
    assert list(kappas) == [(a, b) for a in range(5) for b in range(a + 1, 5)]
    for (a, b), kappa in kappas.items():
        common = sorted(votes[a].keys() & votes[b].keys())
        assert kappa.items == len(common) > 20
        expected = package.cohen_kappa_score([votes[a][i] for i in common], [votes[b][i] for i in common])
        assert kappa.value == pytest.approx(expected, abs=1e-12)


def test_an_annotator_is_held_to_the_majority_of_the_others_and_to_the_controls() -> None:
    votes = read("1 1 0 1 0", "1 0 0 . 1", "1 0 1 . .")
    votes = Votes(votes.items, votes.annotators, votes.labels - ord("0"))
    expected = np.array([1, -1, -1, 0, 0])[votes.items]
    judged = annotators(votes, expected)
    assert {who: annotator.items for who, annotator in judged.items()} == {0: 5, 1: 4, 2: 3}
    assert [judged[n].positive for n in range(3)] == [3, 2, 2]

    # the first: items 0 and 1 have a majority of the others, item 2 is one to one, item 3 has none, item 4
    # has one other
    assert judged[0].with_others == Share(1, 3)
    assert (
        judged[0].controls == Share(2, 3)
        and judged[1].controls == Share(1, 2)
        and judged[2].controls == Share(1, 1)
    )
    assert Share(0, 0).value is None and Share(0, 0).interval is None


def test_the_wilson_interval_is_the_one_that_is_printed() -> None:
    """Newcombe 1998, table I: 81 of 263 and 0 of 20, method 3."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(20, 20) == pytest.approx((0.8389, 1), abs=5e-5)


def test_weights_are_log_odds_never_negative_and_the_mean_where_unknown() -> None:
    assert weight(Share(9, 10)) == pytest.approx(math.log(10 / 2))
    assert weight(Share(5, 10)) == 0 and weight(Share(1, 10)) == 0
    assert weights([Share(9, 10), Share(0, 0), Share(3, 3)]) == pytest.approx(
        [math.log(5), math.log(20) / 2, math.log(4)]
    )
    assert weights([Share(0, 0), Share(0, 0)]) == [1, 1]


def test_one_good_annotator_can_outweigh_two_poor_ones() -> None:
    good, poor = weight(Share(29, 30)), weight(Share(16, 30))
    assert resolve([(1, 1), (0, 1), (0, 1)]) == (0, pytest.approx(1 / 3))
    label, positive = resolve([(1, good), (0, poor), (0, poor)])
    assert label == 1 and positive == pytest.approx(good / (good + 2 * poor))


def test_a_tie_and_votes_without_weight_give_no_label() -> None:
    assert resolve([(1, 0.1), (1, 0.2), (0, 0.3)]) == (None, pytest.approx(0.5))
    assert resolve([(1, 0.0)]) == (None, 0.5)
    assert resolve([(0, 2.0)]) == (0, 0.0)
