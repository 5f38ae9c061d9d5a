"""Groups of questions, in which rerank does a part of retrieved/. A group that took long is kept in the
step's work folder until the part is done, so that a run that was stopped goes on within it.

A stage's result for a question's list does not depend on the other lists, so the rows are the same whatever
the groups are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from answermill.pipelines.errors import JobError
from answermill.pipelines.runs.manifests.reports import Report, Reports
from answermill.pipelines.runs.parquet_folder import PartWriter, read_part
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.rerank import RerankCounts, StageCounts
from answermill.ranking.plan import Stage, StageWork, run_stages
from answermill.ranking.reranker import Costed
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate

PASSAGES = 256
"""Passages of a group, or more if one question has more: a rerank of 64 questions with 100 passages each is
22 groups."""
PASSAGES_ON_CARD = 4_096
"""Passages of a group where models run on a graphics card, which a few hundred sentences at a time leave
idle."""
KEEP_S = 1.0
"""Least seconds of a group that is kept; a shorter one is done again."""

Rows = list[ScoredCandidate]


def ranked_lists(hits: Iterator[Hit]) -> Iterator[RankedList]:
    """Hits, in the order of question and rank, as one ranked list of passages per question."""
    for (question_id, text), group in groupby(hits, key=lambda hit: (hit.question_id, hit.question)):
        yield RankedList(
            Question(question_id, text), tuple(Candidate(hit, None, position=hit.rank - 1) for hit in group)
        )


def groups(lists: Iterator[RankedList], on_card: bool = False) -> Iterator[list[RankedList]]:
    """Groups of whole lists that follow each other, each of at most PASSAGES passages, or PASSAGES_ON_CARD,
    but of at least one list."""
    most = PASSAGES_ON_CARD if on_card else PASSAGES
    group: list[RankedList] = []
    size = 0
    for ranked in lists:
        if group and size + len(ranked.candidates) > most:
            yield group
            group, size = [], 0
        group.append(ranked)
        size += len(ranked.candidates)
    if group:
        yield group


def rerank_lists(lists: Sequence[RankedList], plan: Sequence[Stage]) -> tuple[Rows, RerankCounts]:
    """The rows that the plan makes of a group, and their counts."""
    costs(plan)  # drops the costs of a unit that failed, which has no report for them
    works = list[StageWork]()
    outcomes = run_stages(lists, plan, report=works.append)
    rows = [row for outcome in outcomes for row in outcome.rows()]
    stage_costs = costs(plan)
    departures = [departure for outcome in outcomes for departure in outcome.departed]
    counts = RerankCounts(
        questions=len(lists),
        passages=sum(len(ranked.candidates) for ranked in lists),
        candidates=len(rows),
        kept=sum(len(outcome.kept.candidates) for outcome in outcomes),
        grouped=sum(departure.dropped_by is None for departure in departures),
        dropped=sum(departure.dropped_by is not None for departure in departures),
        stages={work.stage: stage_counts(work, stage_costs.get(work.stage, {})) for work in works},
    )

    return rows, counts


def stage_counts(work: StageWork, costs: Mapping[str, int]) -> StageCounts:
    """The counts of one stage over one group."""
    return StageCounts(
        incoming=work.incoming,
        outgoing=work.outgoing,
        microseconds=work.microseconds,
        card_microseconds=work.card_microseconds,
        card_peak_bytes=work.card_peak_bytes,
        costs=dict(costs),
    )


def costs(plan: Sequence[Stage]) -> dict[str, Mapping[str, int]]:
    """Stage → costs of its reranker since the last call; units of a process share them."""
    return {stage.name: stage.reranker.costs() for stage in plan if isinstance(stage.reranker, Costed)}


class KeptGroups:
    """The groups of one part that are done, in a folder of the step's work folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._reports = folder, Reports(folder, RerankCounts, folder.parent)

    def read(self, number: int, lists: Sequence[RankedList]) -> tuple[Rows, RerankCounts] | None:
        """A group's rows and counts; None if it is missing, damaged, or of other lists."""
        try:
            report = self._reports.read_one(number)
            if report is not None and report.counts.questions == len(lists):
                rows = list(read_part(self._folder, report.parts[self._folder.name][0], ScoredCandidate))
                if {row.question_id for row in rows} == {ranked.question.question_id for ranked in lists}:
                    return rows, report.counts
        except (JobError, OSError) as e:
            # The rows can be computed again, but the user should know why that takes time.
            print_line(f"rerank: a group that was kept cannot be read, and is scored again: {e}")
        return None

    def rerank(
        self, number: int, lists: Sequence[RankedList], plan: Sequence[Stage]
    ) -> tuple[Rows, RerankCounts]:
        """Rerank a group as `rerank_lists` does, and keep it if it took long."""
        began = time.monotonic()
        rows, counts = rerank_lists(lists, plan)
        if time.monotonic() - began >= KEEP_S:
            writer = PartWriter(self._folder, ScoredCandidate, number)
            with writer:
                writer.write(rows)
            self._reports.write(Report(number, {self._folder.name: writer.parts}, counts))
        return rows, counts

    def delete(self) -> None:
        """Delete the groups; another attempt at the part may still use the folder, which is removed with the
        work folder."""
        for path in self._folder.glob("[!.]*"):
            path.unlink(missing_ok=True)
