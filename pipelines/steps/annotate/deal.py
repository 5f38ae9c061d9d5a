"""Deal of tasks to people by name. Pure functions.

A task goes to the people whose hashes with it are the least (rendezvous hashing, Thaler and Ravishankar
1998), so that one person more takes tasks from all others and moves few between them; and each person has
room for an equal share, so that one with lucky hashes does not judge more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from answermill.pipelines.steps.annotate.sampling import draw


def deal(
    tasks: Iterable[tuple[str, int]], people: Sequence[str], seed: int = 0
) -> dict[str, tuple[str, ...]]:
    """Task id → the people who judge it, by name, of (task id, number of people who are to judge it).

    People's numbers of tasks differ by 1 at most; so do those of the tasks that equally many judge. The order
    of tasks and of people changes nothing.

    >>> deal([("a", 1), ("b", 1), ("c", 2)], ["anna", "ben"])
    {'b': ('ben',), 'a': ('anna',), 'c': ('anna', 'ben')}
    """
    groups: dict[int, list[str]] = {}
    for task_id, judges in tasks:
        groups.setdefault(judges, []).append(task_id)
    if max(groups, default=0) > len(people):
        raise ValueError(f"{max(groups)} people are to judge a task, {len(people)} are named")

    dealt: dict[str, tuple[str, ...]] = {}
    turns = sorted(people, key=lambda person: draw(seed, "turn", person))
    for judges, group in sorted(groups.items()):
        share, more = divmod(judges * len(group), len(people))
        room = {person: share + (turn < more) for turn, person in enumerate(turns)}
        dealt |= _deal_group(group, judges, room, seed)
        # The next group's remainder goes to those who had none of this one's.
        turns = turns[more:] + turns[:more]
    return dealt


def _deal_group(
    tasks: Sequence[str], judges: int, room: dict[str, int], seed: int
) -> dict[str, tuple[str, ...]]:
    """The deal of tasks that have `judges` people each, who fill the `room` of all (person → tasks)."""
    dealt = {}
    order = sorted(tasks, key=lambda task_id: draw(seed, "deal", task_id))
    for left, task_id in zip(range(len(tasks), 0, -1), order, strict=True):
        draws = {person: draw(seed, "person", task_id, person) for person, free in room.items() if free}

        # Who has as much room as there are tasks left must get each of them: nobody gets a task twice.
        first = sorted(draws, key=lambda person: (room[person] < left, draws[person]))[:judges]
        for person in first:
            room[person] -= 1
        dealt[task_id] = tuple(sorted(first))
    return dealt
