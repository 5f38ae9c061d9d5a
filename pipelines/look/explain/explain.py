"""Path of one question's candidates through a run, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from answermill.files.remote import as_path
from answermill.pipelines.errors import USAGE, JobError, counted
from answermill.pipelines.look.explain.gold_answers import GoldAnswers, by_labels, by_text, folded
from answermill.pipelines.look.explain.losses import CandidateRows, Loss
from answermill.pipelines.look.explain.question_search import FoundQuestion, find_question
from answermill.pipelines.look.explain.stage_views import StageView, score_by, stage_views
from answermill.pipelines.look.explain.written_parts import WrittenParts
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.specs.registry import folders
from answermill.pipelines.specs.rerank import ANSWERS, SCORED, SCORED_REJECTS
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.specs.run import Run
from answermill.schemas.corpus import Rejected
from answermill.schemas.ranked import ScoredCandidate

WIDTH = 160
"""Characters of a candidate's text that are shown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that a run holds about one question."""

    match: FoundQuestion
    candidates: CandidateRows
    gold: GoldAnswers
    losses: Sequence[Loss]
    """Fate of each right answer."""
    missing: Sequence[str]
    """Parts that the run lacks, a clause each."""
    elsewhere: Mapping[str, int]
    """Folder → number of its rows about the question, for folders that are not shown otherwise."""

    @property
    def views(self) -> Sequence[StageView]:
        return list(self.candidates.views.values())

    def lines(self, first: int, every: bool = False) -> Iterator[str]:
        """Lines for people: the stages, the losses of right answers, and a table of the `first` candidates
        and the right ones, or of all with `every`."""
        yield from self._heading()
        yield from self._stage_lines()
        yield from self._gold_lines()
        yield from self._table(first, every)

    def json(self, first: int, every: bool = False) -> dict[str, Any]:
        """The same as plain values."""
        question, gold = self.match.question, self._right()
        chosen = self._chosen(first, every)

        return {
            "question_id": question.question_id,
            "question": question.text,
            "passages": len(self.candidates.hits),
            "candidates": len(self.candidates.rows),
            "stages": [
                {
                    "stage": view.name,
                    "reranker": view.reranker,
                    "unit": view.kind,
                    "in": view.entered,
                    "kept": view.kept,
                    "last_kept_score": None if view.last_kept is None else view.last_kept.score,
                }
                for view in self.views
            ],
            "gold": {
                "source": self.gold.source,
                "answers": [asdict(loss) | {"needed": loss.needed} for loss in self.losses],
            },
            "missing": list(self.missing),
            "elsewhere": dict(self.elsewhere),
            "rows": [
                {"place": place, "is_gold": row.candidate_id in gold, **row.to_dict()}
                for place, row in chosen
            ],
        }

    def _heading(self) -> Iterator[str]:
        question, candidates = self.match.question, self.candidates
        yield f"{question.question_id}  {question.text}"
        if self.match.others:
            yield f"      the same text: {', '.join(self.match.others)}"
        counts = [counted(len(candidates.hits), "passage")]
        for source, label in (("bm25_rank", "by BM25"), ("dense_rank", "by the dense index")):
            counts.append(f"{sum(getattr(hit, source) is not None for hit in candidates.hits):,} {label}")
        scored = f"; {counted(len(candidates.rows), 'candidate')}" if candidates.views else ""
        yield f"{counts[0]} ({', '.join(counts[1:])}){scored}"

        if self.elsewhere:
            listed = (f"{folder}/ ({counted(rows, 'row')})" for folder, rows in self.elsewhere.items())
            yield f"also in {', '.join(listed)}"

        yield from (f"missing: {clause}" for clause in self.missing)

    def _stage_lines(self) -> Iterator[str]:
        if not self.views:
            return
        width = max(len(view.name) for view in self.views) + 2
        yield ""
        yield f"{'stage':<{width}}{'reads':<10}{'in':>6}{'kept':>6}  last one kept"
        for view in self.views:
            last = "" if view.last_kept is None else f"{view.last_kept.score:.6g}"
            yield f"{view.name:<{width}}{view.kind + 's':<10}{view.entered:>6}{view.kept:>6}  {last}".rstrip()

    def _gold_lines(self) -> Iterator[str]:
        yield ""
        if not self.gold.source:
            yield "no right answer is known: the run has no label that says so; give one with --gold TEXT"
        elif not self.losses:
            yield "no right answer is among the labels of this question"
        for loss in self.losses:
            yield f"right: {_short(loss.text)}" if loss.text else "right:"
            yield f"       {loss.explanation}"

    def _right(self) -> set[str]:
        return {loss.candidate_id for loss in self.losses}

    def _chosen(self, first: int, every: bool) -> list[tuple[int, ScoredCandidate]]:
        """(place, row) of the rows that are shown."""
        gold = self._right()
        rows = enumerate(self.candidates.rows, 1)
        return [(place, row) for place, row in rows if every or place <= first or row.candidate_id in gold]

    def _table(self, first: int, every: bool) -> Iterator[str]:
        yield ""
        if not self.candidates.views:
            yield from self._passage_table(first, every)
            return

        gold, names = self._right(), list(self.candidates.views)
        table = [("place", "BM25", "dense", "fused", *names, "fate")]
        chosen = self._chosen(first, every)

        for place, row in chosen:
            fate = f"dropped by {row.dropped_by}" if row.dropped_by else row.fate
            scores = (_cell_of_stage(row, name) for name in names)
            sources = (_cell(row.bm25_score, row.bm25_rank), _cell(row.dense_score, row.dense_rank))
            table.append((str(place), *sources, f"#{row.retrieved_rank}", *scores, fate))

        aligned = _aligned(table)
        yield next(aligned)
        for (_, row), line in zip(chosen, aligned, strict=True):
            yield line
            yield f"{'right' if row.candidate_id in gold else '':<5}  {_short(row.text)}"
            yield f"       {row.candidate_id}  {row.url}"

        left_out = len(self.candidates.rows) - len(chosen)
        if left_out:
            yield f"{counted(left_out, 'candidate')} more: --all shows them"

    def _passage_table(self, first: int, every: bool) -> Iterator[str]:
        """Table of the retrieved passages, for a question that is not reranked yet."""
        hits = [hit for hit in self.candidates.hits if every or hit.rank <= first]
        table = [("rank", "BM25", "dense", "fused")]
        for hit in hits:
            sources = (_cell(hit.bm25_score, hit.bm25_rank), _cell(hit.dense_score, hit.dense_rank))
            table.append((str(hit.rank), *sources, f"{hit.fused_score:.4g}"))

        aligned = _aligned(table)
        yield next(aligned)
        for hit, line in zip(hits, aligned, strict=True):
            yield line
            yield f"       {_short(hit.passage.text)}"
            yield f"       {hit.passage.passage_id}  {hit.passage.url}"

        if len(hits) < len(self.candidates.hits):
            yield f"{counted(len(self.candidates.hits) - len(hits), 'passage')} more: --all shows them"


def explain(run: Path, wanted: str, gold: str | None = None) -> Explanation:
    """Follow the candidates of a question, which `wanted` names by id or text.

    `gold`: a right text, in place of the run's labels.

    Raises JobError: 66 if the run or the question is not there, 65 if a file is damaged or another version's,
    2 if `gold` is empty.
    """
    run = as_path(run)
    Run.open(run).refuse_none()
    if gold is not None and not folded(gold):
        raise JobError("--gold: give some words of the right answer", USAGE)

    match = find_question(run, wanted)
    question_id = match.question.question_id
    hits = WrittenParts.of(run, RETRIEVED).question_rows(question_id, match.unit)
    scored = WrittenParts.of(run, SCORED)
    missing = []
    is_scored = match.unit in scored.by_unit
    rows = scored.question_rows(question_id, match.unit)

    if not is_scored:
        missing.append(f"no stage has scored this question: {scored.missing}")
    elif not rows and hits:
        rejects = WrittenParts.of(run, SCORED_REJECTS)
        reasons = [
            reject.detail
            for _, batch in rejects.batches()
            for reject in Rejected.rows(batch)
            if reject.source_record == question_id
        ]
        missing += [f"rerank failed on this question's unit: {reason}" for reason in reasons]

    views = stage_views(_stages(run, rows), rows) if rows else []
    candidates = CandidateRows(hits, rows, {view.name: view for view in views})
    answers = by_text(run, gold, hits) if gold is not None else by_labels(run, question_id)
    if answers.missing:
        missing.append(answers.missing)

    return Explanation(
        match, candidates, answers, candidates.losses(answers), missing, rows_elsewhere(run, question_id)
    )


def rows_elsewhere(run: Path, question_id: str) -> dict[str, int]:
    """Folder → number of its rows about the question, for complete folders that an explanation does not show
    otherwise."""
    shown = (QUESTIONS, RETRIEVED, SCORED, SCORED_REJECTS, ANSWERS)
    rows_by_folder = {}
    for _, spec in folders():
        if (
            spec in shown
            or "question_id" not in spec.record.schema().names
            or (folder := spec.find(run)) is None
        ):
            continue

        columns = (
            batch.column(0)
            for part in folder.parts
            for batch in read_batches(folder.path, part, ["question_id"])
        )
        rows_by_folder[spec.name] = sum(
            pc.sum(pc.equal(column, question_id)).as_py() or 0 for column in columns
        )

    return {name: rows for name, rows in rows_by_folder.items() if rows}


def _stages(run: Path, rows: Sequence[ScoredCandidate]) -> list[dict[str, Any]]:
    """Settings of the stages: from the manifest of scored/, or, before it is written, their names from the
    rows."""
    manifest = SCORED.manifest(run)
    if manifest is not None:
        return list(manifest.settings["stages"])
    names = dict.fromkeys(
        score.stage for row in sorted(rows, key=lambda row: -len(row.stages)) for score in row.stages
    )
    names |= dict.fromkeys(row.dropped_by for row in rows if row.dropped_by is not None)
    return [{"name": name, "reranker": name} for name in names]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _cell(score: float | None, rank: int | None) -> str:
    return "-" if rank is None else f"{score:.4g} #{rank}"


def _cell_of_stage(row: ScoredCandidate, stage: str) -> str:
    score = score_by(row, stage)
    if score is None:
        return "-"
    place = (
        f"#{score.rank}"
        if score.rank is not None
        else f"exit {score.exit}"
        if score.exit is not None
        else "left"
    )
    return f"{score.score:.4g} {place}"


def _aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table, with each column as wide as its widest cell."""
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
    for row in table:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
