"""Tasks dealt to people: each gets as many, nobody the same one twice, and a new colleague moves few."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.steps.annotate.deal import deal

PEOPLE = ["anna", "ben", "chris", "dora", "emil", "fay"]


@given(
    st.lists(st.integers(1, 3), max_size=40),
    st.integers(3, 6),
    st.integers(0, 3),
)
def test_everybody_gets_as_many_and_a_task_goes_to_different_people(
    judges: list[int], people: int, seed: int
) -> None:
    tasks = [(f"t{n}", many) for n, many in enumerate(judges)]
    dealt = deal(tasks, PEOPLE[:people], seed)
    assert {task_id: len(set(names)) for task_id, names in dealt.items()} == dict(tasks)
    assert all(list(names) == sorted(names) for names in dealt.values())

    # As many in all, and of the tasks of each number of judges.
    for some in (dict(tasks), *({t for t, n in tasks if n == many} for many in (1, 2, 3))):
        counts = Counter(name for task_id in some for name in dealt[task_id])
        each = [counts[name] for name in PEOPLE[:people]]
        assert max(each) - min(each) <= 1


def test_the_order_of_tasks_and_people_changes_nothing_and_the_seed_does() -> None:
    tasks = [(f"t{n}", 1 + n % 2) for n in range(100)]
    dealt = deal(tasks, PEOPLE)
    assert deal(tasks[::-1], PEOPLE[::-1]) == dealt
    assert deal(tasks, PEOPLE, seed=1) != dealt


def test_one_person_more_takes_from_all_and_moves_little_between_the_others() -> None:
    tasks = [(f"t{n}", 2 if n % 5 == 0 else 1) for n in range(2_000)]
    before, after = deal(tasks, PEOPLE[:4]), deal(tasks, PEOPLE[:5])
    moved = sum(len({*before[task_id]} - {*after[task_id]}) for task_id, _ in tasks)
    new = sum(PEOPLE[4] in names for names in after.values())
    assert new == 480 and new <= moved < 1.2 * new


def test_two_judges_meet_everybody() -> None:
    pairs = Counter(deal([(f"t{n}", 2) for n in range(600)], PEOPLE[:4]).values())
    assert len(pairs) == 6 and min(pairs.values()) > 60


def test_more_judges_than_people_are_refused() -> None:
    with pytest.raises(ValueError, match="3 people are to judge a task, 2 are named"):
        deal([("t", 3)], PEOPLE[:2])
