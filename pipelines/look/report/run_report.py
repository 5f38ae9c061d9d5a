"""Report of a run: RUN/report.html for people, RUN/report.json with the same figures, and all answers beside
them, as answers.html, answers.csv and, on request, answers.xlsx. Where people judge, annotation.html says how
far they are.

All of scored/ is read once, without its texts, and then the rows of the questions that are shown. The same
run gives the same bytes: the report holds the last two names of the run's path, but nothing of the machine or
the time at which it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from answermill.files.atomic_files import WrongShape, sha256, whole_text
from answermill.files.sealed_json import read_sealed, write_sealed
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.look.annotation.annotation_page import PAGE as ANNOTATION_PAGE
from answermill.pipelines.look.annotation.annotation_page import annotation_page
from answermill.pipelines.look.annotation.annotation_progress import annotation_figures, conflict_rows
from answermill.pipelines.look.answers.answer_files import check_excel, write_answers
from answermill.pipelines.look.estimate.actual import predicted_and_actual
from answermill.pipelines.look.report import funnel, manifest_figures
from answermill.pipelines.look.report.agreement import Agreements
from answermill.pipelines.look.report.correct_answers import CorrectAnswers, QuestionValues
from answermill.pipelines.look.report.figures import AnswerFigures, Predicted, RunReport, StageFigures
from answermill.pipelines.look.report.histogram import Histogram
from answermill.pipelines.look.report.manifest_figures import dollars
from answermill.pipelines.look.report.pages.run_page import run_page
from answermill.pipelines.look.report.scored_blocks import ScoredBlock, blocks
from answermill.pipelines.look.report.shown_questions import Choices, Reader
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.parquet_folder import read_batches
from answermill.pipelines.specs.propagate import PASSAGE_LABELS, SENTENCE_LABELS
from answermill.pipelines.specs.registry import REPORT, REPORT_PAGE
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED, RerankCounts, StageCounts
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.pipelines.specs.run import Run
from answermill.schemas.ranked import answer_kind

_RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Last ranks of the ranges."""


def write_report(
    run: Path,
    labels: Path | None = None,
    price_per_hour: float | None = None,
    seed: int = 0,
    out: Path | None = None,
    *,
    form: Form = None,
    excel: bool | None = None,
) -> str:
    """Write the report and all answers into `out`, or the run folder; returns a line for people.

    `labels` and `form`: as for `answermill evaluate`; None = the run's own labels, if it has some.
    `price_per_hour`: of one worker. `excel`: whether answers.xlsx is written too; None = if it is there.
    Raises JobError: 66 if there is no run, 65 if it is damaged or another version's, 2 if the price is
    negative; ExtraMissing (69) if Excel is asked for and there is no library for it.
    """
    if excel:
        check_excel()
    opened = Run.open(run)
    report, passed = _whole(opened, labels, price_per_hour, seed, form)
    folder = out or opened.path
    answers = opened[ANSWERS] if opened.is_complete(RERANK) and opened.get(ANSWERS) is not None else None
    judge = passed.correct.judge if passed is not None and passed.correct is not None else None
    former = _former_files(folder)
    files = write_answers(answers, folder, report.run, judge, excel=excel, former=former)
    files += _write_annotation(opened, report, folder, former)

    with whole_text(folder / REPORT_PAGE) as write:
        for piece in run_page(report, files):
            write(piece)
    digests = {name: sha256(folder / name) for name in (REPORT_PAGE, *files)}
    write_sealed(folder / REPORT, asdict(report) | {"digests": digests})
    steps = ", ".join(missing.step for missing in report.missing)
    return f"report     {folder / REPORT_PAGE}{f'; not complete: {steps}' if steps else ''}"


def _write_annotation(run: Run, report: RunReport, folder: Path, former: Collection[str]) -> list[str]:
    """Write the page on the people who judge, if they were asked; its name. Else a former one is removed."""
    if report.annotation is None:
        if ANNOTATION_PAGE in former:
            (folder / ANNOTATION_PAGE).unlink(missing_ok=True)
        return []
    conflicts = conflict_rows(run) if report.annotation.is_collected else ()
    with whole_text(folder / ANNOTATION_PAGE) as write:
        for piece in annotation_page(report.run, report.annotation, conflicts):
            write(piece)
    return [ANNOTATION_PAGE]


@dataclass(frozen=True, slots=True)
class _Former:
    digests: Mapping[str, str]


def _former_files(folder: Path) -> Collection[str]:
    """Names of the files that a former report has written; none if there is no such report."""
    try:
        return read_sealed(folder / REPORT, _Former).digests.keys()
    except (FileNotFoundError, WrongShape):
        return ()


def read_report(
    run: Path,
    labels: Path | None = None,
    price_per_hour: float | None = None,
    seed: int = 0,
    *,
    form: Form = None,
) -> RunReport:
    """All figures of the report. Raises as `write_report`."""
    return _whole(Run.open(run), labels, price_per_hour, seed, form)[0]


def _whole(
    run: Run, labels: Path | None, price_per_hour: float | None, seed: int, form: Form
) -> tuple[RunReport, _Pass | None]:
    """The report as `_read` gives it, with its questions and losses."""
    report, passed = _read(run, labels, price_per_hour, seed, form)
    if passed is None:
        return report, None
    reader = passed.reader()
    questions = tuple(reader.questions(passed.choices.questions))
    losses = tuple(reader.losses(passed.choices.losses))
    return replace(report, questions=questions, losses=losses), passed


def read_with_values(
    run: Run, labels: Path | None = None, price_per_hour: float | None = None, form: Form = None
) -> tuple[RunReport, QuestionValues | None]:
    """The report without questions and losses to show, and the plan's P@1 and MRR by question; None if there
    are no labels. Raises as `write_report`."""
    report, passed = _read(run, labels, price_per_hour, 0, form)
    return report, passed.correct.values if passed is not None and passed.correct is not None else None


def _read(
    run: Run, labels: Path | None, price_per_hour: float | None, seed: int, form: Form
) -> tuple[RunReport, _Pass | None]:
    """The report without questions and losses to show, and the pass that has chosen these; None without
    scored/."""
    if price_per_hour is not None and not price_per_hour >= 0:
        raise JobError(
            f"--price-per-hour {price_per_hour}: give what an hour of one worker costs, 0 or more", USAGE
        )

    run.refuse_unreadable()
    run.refuse_none()
    scored = run.get(SCORED) if run.is_complete(RERANK) else None
    stages = stage_names(scored)
    passed = None
    if scored is not None:
        passed = _Pass(run, stages, labels or own_labels(run), seed, form if labels else None)
    dropped = passed.dropped if passed is not None else {}
    report = RunReport(
        run="/".join(run.path.resolve().parts[-2:]),
        steps=tuple(manifest_figures.step_figures(run)),
        missing=tuple(manifest_figures.missing_steps(run)),
        corpus=tuple(funnel.corpus(run)),
        candidates=tuple(funnel.candidates(run, dropped)),
        rejects=tuple(manifest_figures.rejects(run)),
        failed_units=manifest_figures.failed_units(run),
        work=tuple(manifest_figures.step_work(run, price_per_hour)),
        price_per_hour=price_per_hour,
        predictions=tuple(Predicted(what, *values) for what, values in predicted_and_actual(run).items()),
        stages=tuple(passed.stage_figures(scored, run.counts(RERANK), price_per_hour))
        if passed is not None and scored is not None
        else (),
        answers=passed.answer_figures(run) if passed is not None else None,
        agreement=passed.agreements.result() if passed is not None else (),
        quality=passed.correct.result() if passed is not None and passed.correct is not None else None,
        units=manifest_figures.slowest_units(run),
        seed=seed,
        questions=(),
        losses=(),
        annotation=annotation_figures(run),
    )

    return report, passed


def stage_names(scored: Manifest | None) -> tuple[str, ...]:
    """Names of the stages of a run's plan, in order."""
    stages = scored.settings["stages"] if scored is not None else ()
    return tuple(map(stage_name, stages))


def own_labels(run: Run) -> Path | None:
    """Labels that the run has propagated, for the kind in which its plan ends; None if it has none."""
    folder = PASSAGE_LABELS if _answer_kind(run) == "passage" else SENTENCE_LABELS
    labels = run.get(folder)
    return folder.path(run.path) if labels is not None and labels.rows else None


def _answer_kind(run: Run) -> str:
    """Kind of the run's first kept candidate: 'sentence' or 'passage'."""
    scored = run.get(SCORED)
    parts = scored.parts if scored is not None else ()
    folder = SCORED.path(run.path)
    batches = (batch for part in parts for batch in read_batches(folder, part, ["unit", "rank"]))
    return answer_kind((row["unit"], row["rank"]) for batch in batches for row in batch.to_pylist())


def _name_of(labels: Path, run: Path) -> str:
    """Name of labels: within the run their path in it, so that a copy of the run has the same report."""
    path, folder = labels.resolve(), run.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(labels)


class _Pass:
    """Sums and choices of one pass over scored/."""

    def __init__(self, run: Run, stages: tuple[str, ...], labels: Path | None, seed: int, form: Form) -> None:
        scored = run[SCORED]
        self._run = run
        self._scored, self._stages = scored, stages
        self._dropped = np.zeros(len(stages), np.int64)
        self._histograms = [Histogram() for _ in stages]
        self._ranks, self._sources = Counter[int](), Counter[str]()
        self.agreements, self.choices = Agreements(stages), Choices(seed)
        correct = None
        if labels is not None:
            correct = CorrectAnswers(labels, _name_of(labels, run.path), stages, form)
        self.correct = correct if correct is not None and correct.has_any else None

        for block in blocks(scored, stages):
            self._add(block)
            self.agreements.add(block)
            self.choices.add(block, self.correct.add(block) if self.correct is not None else {})

    def _add(self, block: ScoredBlock) -> None:
        dropped = block.dropped_by[block.dropped_by >= 0]
        self._dropped += np.bincount(dropped, minlength=len(self._stages))
        for n, histogram in enumerate(self._histograms):
            scored = ~np.isnan(block.score[:, n])
            histogram.add(block.score[scored, n], block.dropped_by[scored] == n)
        first = block.rank == 1
        self._ranks.update(block.retrieved_rank[first].tolist())
        for bm25, dense in zip(block.bm25_rank[first] > 0, block.dense_rank[first] > 0, strict=True):
            self._sources[
                "both" if bm25 and dense else "BM25 alone" if bm25 else "dense alone" if dense else "neither"
            ] += 1

    def reader(self) -> Reader:
        """Reader of the chosen questions and losses."""
        chosen = [*self.choices.questions, *(choice for choice, _ in self.choices.losses)]
        shown = {choice.question_id for choice in chosen}
        retrieved = self._run[RETRIEVED] if self._run.get(RETRIEVED) is not None else None
        labels = self.correct.labels(shown) if self.correct is not None else {}
        return Reader(self._scored, retrieved, labels)

    @property
    def dropped(self) -> dict[str, int]:
        return dict(zip(self._stages, self._dropped.tolist(), strict=True))

    def stage_figures(
        self, scored: Manifest, counts: RerankCounts, price_per_hour: float | None
    ) -> Iterable[StageFigures]:
        """Figures of the plan's stages."""
        for name, settings, histogram in zip(
            self._stages, scored.settings["stages"], self._histograms, strict=True
        ):
            stage = counts.stages.get(name, StageCounts())
            seconds = stage.seconds or None
            yield StageFigures(
                name=name,
                reranker=settings["reranker"],
                came=stage.incoming,
                went=stage.outgoing,
                dropped=self.dropped[name],
                seconds=seconds,
                candidates_per_second=stage.incoming / seconds if stage.incoming and seconds else None,
                card_share=stage.card_microseconds / 1e6 / seconds
                if stage.card_microseconds and seconds
                else None,
                card_peak_bytes=stage.card_peak_bytes or None,
                layer_tokens=stage.layer_tokens or None,
                full_layer_tokens=stage.full_layer_tokens or None,
                dollars=dollars(seconds, price_per_hour),
                bin_width=histogram.width,
                scores=histogram.bins(),
            )

    def answer_figures(self, run: Run) -> AnswerFigures:
        questions = run.get(QUESTIONS)
        ranges = Counter({_range(rank): 0 for rank in (*_RANKS, _RANKS[-1] + 1)})
        for rank, count in self._ranks.items():
            ranges[_range(rank)] += count
        answered = self._ranks.total()
        counts = run.counts(RERANK)
        return AnswerFigures(
            questions.rows if questions is not None else counts.questions,
            answered,
            run.counts(RERANK).declined,
            run[SCORED].manifest.settings.get("answer_rule", {}).get("promise", ""),
            dict(ranges),
            {name: n for name, n in sorted(self._sources.items()) if n},
            counts.several_pages,
            counts.several_sites,
        )


def _range(rank: int) -> str:
    """Range that a rank is in: '1', '4–5', 'over 100'."""
    before = 0
    for last in _RANKS:
        if rank <= last:
            return f"{last}" if last == before + 1 else f"{before + 1}–{last}"
        before = last
    return f"over {before}"
