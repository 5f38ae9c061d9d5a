"""Weights: a run's scored/ and labels -> weights of its scores, beside the worth of each score alone.

For the exits of a cascade there is a table each. A candidate that left at an exit has that exit's score
alone, so the model scores again, at all its exits, what the stage has read; the texts are those of retrieved/
beside scored/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.candidate_values import CandidateValues, Value
from answermill.pipelines.learn.evaluate.join import join
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.revision import code_version
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.parquet_folder import Folder
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.job_plan import stage_models
from answermill.pipelines.steps.models import device_of
from answermill.ranking.reranker import Resources
from answermill.ranking.rerankers.blend.fitting import METRICS, LabelledColumns, fit_columns
from answermill.ranking.rerankers.blend.score_columns import EXIT, RETRIEVAL
from answermill.ranking.rerankers.blend.weights import USUAL_FIT, Fit, FitOptions, Interval, WeightsFile
from answermill.ranking.rerankers.cascade import ExitStage
from answermill.ranking.rerankers.cascade.cascade import Cascade, fit_prior
from answermill.ranking.rerankers.cascade.exits import ExitModel
from answermill.ranking.rerankers.registry import find, no_encoder
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate, answer_kind


@dataclass(frozen=True, slots=True)
class Fitted:
    """The weights file, and the number of candidates that it is not made of."""

    file: WeightsFile
    left_out: int
    """Candidates of the run that one of the stages has not scored."""

    def lines(self) -> Iterator[str]:
        fits = self.file.fits
        for number, fit in enumerate(fits, 1):
            if EXIT in fit.weights:
                yield from [""] * (number > 1)
                yield f"exit {number}, of {len(fits) + 1}"
            yield from self._lines(fit)

    def _lines(self, fit: Fit) -> Iterator[str]:
        yield (
            f"{fit.questions:,} questions with a correct candidate among {fit.candidates:,}; "
            f"{fit.without_answer:,} without "
            f"one, {self.left_out:,} candidates not scored by all stages"
        )
        yield (
            f"in percent, with the 95 % interval; the blend held out in {fit.folds} folds, penalty "
            f"{fit.penalty:g}"
        )
        yield ""
        width = max(len(name) for name in (*fit.weights, f"blend - {fit.best}")) + 2
        yield " " * width + "".join(f"{metric:<24}" for metric in METRICS) + "weight"

        for name, weight in fit.weights.items():
            yield f"{name:<{width}}{_cells(fit.alone[name])}{weight:.4f}"
        yield f"{'blend':<{width}}{_cells(fit.blend)}".rstrip()
        yield f"{f'blend - {fit.best}':<{width}}{_cells(fit.gain)}".rstrip()


def fit_run(
    scored: Path,
    labels: Path,
    names: Sequence[str],
    options: FitOptions = USUAL_FIT,
    *,
    form: Form = None,
) -> Fitted:
    """Fit weights of the named scores of a run. The lists are the candidates that all named stages have
    scored, of the kind in which the plan ends; one that nobody has judged counts as wrong.

    Raises JobError: 66 if something is missing, 65 if it is unusable, or has too few questions, 2 for a score
    that the run does not have or an option out of bounds.
    """
    folder = opened(scored)
    plan = {key: str(stage["reranker"]) for key, stage in stages_of(folder).items()}
    _check_names(names, list(plan), f"no such score in {scored}")
    stages = [name for name in names if name in plan]
    lists, left_out = _lists(folder, stages)

    try:
        columns = LabelledColumns.of(*judged_lists(scored, lists, labels, form), names)
    except ValueError as e:
        raise JobError(f"{scored}: {e}", USAGE) from e

    try:
        fit = fit_columns(columns, options)
    except ValueError as e:
        raise JobError(f"{scored} against {labels}: {e}", BAD_DATA) from e

    models = stage_models(plan, folder.manifest.inputs)
    return Fitted(WeightsFile.of([fit], plan, models, code_version()), left_out)


def fit_exits_of(
    scored: Path,
    labels: Path,
    key: str,
    names: Sequence[str],
    options: FitOptions = USUAL_FIT,
    *,
    checkpoint: Path | None = None,
    form: Form = None,
) -> Fitted:
    """Fit a table for each exit but the last of stage `key` of a run: of the exit's score and the named ones,
    which the candidates had before it. The lists are those that the stage has read.

    `checkpoint`: the stage's, if it is not where the run's job file named it, from the current folder. Raises
    JobError as `fit_run`, and if the stage has no exits (2), its checkpoint is another (65), or it or
    retrieved/ is missing (66).
    """
    folder = opened(scored)
    stages = stages_of(folder)
    if key not in stages:
        raise JobError(f"--exits-of {key}: no such stage in {scored}; known: {', '.join(stages)}", USAGE)

    place = list(stages).index(key)
    before, after = list(stages)[:place], list(stages)[place + 1 :]
    others = [name for name in names if name != EXIT]
    _check_names(others, before, f"no score that is known before the exits of {key}")

    if not others or len(set(names)) != len(names):
        raise JobError(
            f"--names {' '.join(names)}; name at least one score beside {EXIT}, and each once", USAGE
        )

    if passages := [
        name
        for name in after
        if find(str(stages[name]["reranker"])).reranker_of(stages[name]).reads == "passage"
    ]:
        raise JobError(
            f"--exits-of {key}: stage {passages[0]} after it reads passages, and then not every sentence "
            "has its own scores; "
            f"give a run whose plan ends before {passages[0]}",
            USAGE,
        )

    model, drop = _model_of(folder, key, stages[key], checkpoint)
    lists, left_out = _lists_read_by(key, before, folder)
    try:
        judged = judged_lists(scored, lists, labels, form)
        fits = fit_prior(model, *judged, others, drop, options=options)
    except ValueError as e:
        raise JobError(f"{scored} against {labels}: {e}", BAD_DATA) from e

    plan = {name: str(stage["reranker"]) for name, stage in stages.items()}
    models = stage_models(plan, folder.manifest.inputs)
    return Fitted(WeightsFile.of(fits, plan, models, code_version(), exit_of=key), left_out)


def opened(scored: Path) -> Folder[ScoredCandidate]:
    if not scored.is_dir():
        raise JobError(f"{scored}: no folder; give the scored/ folder of a run", INPUT_MISSING)
    if (scored / SCORED.name).is_dir():
        raise JobError(f"{scored} is a run; give its folder {scored / SCORED.name}", INPUT_MISSING)
    return Folder.open(scored, SCORED)


def stages_of(folder: Folder[ScoredCandidate]) -> dict[str, Mapping[str, Any]]:
    """Key of each stage of the run's plan → its settings."""
    return {stage_name(stage): stage for stage in folder.manifest.settings["stages"]}


def _check_names(names: Sequence[str], stages: Sequence[str], problem: str) -> None:
    known = [*stages, *RETRIEVAL]
    if unknown := [name for name in names if name not in known]:
        raise JobError(f"--names {unknown[0]}: {problem}; known: {', '.join(known)}", USAGE)


def _model_of(
    folder: Folder[ScoredCandidate], key: str, stage: Mapping[str, Any], checkpoint: Path | None
) -> tuple[ExitModel, Sequence[float]]:
    """The stage's model, by the checkpoint that the run had, and its α."""
    entry = find(str(stage["reranker"]))
    if not issubclass(entry.settings, ExitStage):
        raise JobError(f"--exits-of {key}: a stage of {entry.name}, which takes no weights at exits", USAGE)

    settings = entry.settings.model_validate({**stage, "weights": None, "weights_file": None})
    try:
        model_folder = entry.folder(checkpoint or settings.checkpoint)
    except ValueError as e:
        raise JobError(f"--exits-of {key}: {e}; name its folder with --checkpoint", INPUT_MISSING) from e
    assert model_folder is not None  # a stage with exits has a model

    digest = folder.manifest.inputs.get(f"checkpoint of {key}")
    if folder_digest(model_folder) != digest:
        raise JobError(
            f"{model_folder}: not the checkpoint that {key} had in {folder.path} ({digest}); give that one",
            BAD_DATA,
        )

    try:
        resources = Resources(
            settings=settings,
            checkpoint=model_folder,
            encoder=no_encoder,
            model=find_model,
            device=device_of("auto"),
            model_digest=digest,
        )
        model = entry.load(resources)
    except ValueError as e:
        raise JobError(f"--exits-of {key}: {e}", BAD_DATA) from e

    if not isinstance(model, Cascade) or len(model.exits) < 2:
        raise JobError(f"--exits-of {key}: {model_folder} has a single exit, where nobody leaves", USAGE)

    return model, settings.drop


def _lists_read_by(
    key: str, before: Sequence[str], folder: Folder[ScoredCandidate]
) -> tuple[list[RankedList], int]:
    """(the lists of sentences that a stage read, with their passages and earlier scores; the number of
    sentences that it did not read)."""
    retrieved = RETRIEVED.path(folder.run)
    if not retrieved.is_dir():
        raise JobError(
            f"{folder.path}: no {retrieved} beside it, which has the texts; give the whole run", INPUT_MISSING
        )

    hits = Folder.open(retrieved, RETRIEVED)
    if hits.digest() != folder.manifest.inputs[RETRIEVED.name]:
        raise JobError(f"{retrieved} is not what {folder.path} was ranked from; rank it again", BAD_DATA)

    lists, left_out = [], 0
    passages = groupby(hits.read(), key=lambda hit: hit.question_id)
    for question_id, group in groupby(folder.read(), key=lambda row: row.question_id):
        question_hits = next(hits_of for other, hits_of in passages if other == question_id)
        by_passage = {hit.passage.passage_id: hit for hit in question_hits}
        candidates = []

        for row in group:
            if row.unit != "sentence":
                continue
            if all(score.stage != key for score in row.stages):
                left_out += 1
                continue
            hit = by_passage[row.passage_id]
            sentence = next(s for s in hit.passage.sentences if s.sentence_id == row.candidate_id)
            known = tuple(score for score in row.stages if score.stage in before)
            candidates.append(Candidate(hit, sentence, row.position, known))

        candidates.sort(key=lambda c: (c.stages[-1].rank if c.stages else 0, c.position))
        question = next(iter(by_passage.values())).question
        lists.append(RankedList(Question(question_id, question), tuple(candidates)))

    return lists, left_out


def _lists(folder: Folder[ScoredCandidate], stages: Sequence[str]) -> tuple[list[RankedList], int]:
    """(the lists of a run, of the candidates that all these stages have scored; the number of the
    others)."""
    lists, left_out = [], 0
    for _, group in groupby(folder.read(), key=lambda row: row.question_id):
        rows = list(group)
        kind = answer_kind((row.unit, row.rank) for row in rows)
        answers = [row for row in rows if row.unit == kind]
        scored = [
            row
            for row in answers
            if {score.stage for score in row.stages if score.rank is not None}.issuperset(stages)
        ]
        left_out += len(answers) - len(scored)

        lists.append(
            RankedList(
                Question(rows[0].question_id, rows[0].question), tuple(candidate_of(row) for row in scored)
            )
        )

    return lists, left_out


def candidate_of(row: ScoredCandidate) -> Candidate:
    """The candidate of a row, as far as weights need it: its id, its scores and its ranks."""
    passage = Passage(row.candidate_id, row.doc_id, row.url, row.title, row.start, row.end, row.text, ())
    ranks = (
        row.retrieved_rank,
        row.fused_score,
        row.bm25_score,
        row.bm25_rank,
        row.dense_score,
        row.dense_rank,
    )
    return Candidate(Hit(row.question_id, row.question, *ranks, passage), None, row.position, row.stages)


def judged_lists(
    scored: Path, lists: Sequence[RankedList], labels: Path, form: Form
) -> tuple[list[RankedList], list[list[int]]]:
    """The lists of the questions that have labels, joined as `evaluate` joins them, and each candidate's
    label."""
    rows: list[Value] = []
    for ranked in lists:
        for candidate in ranked.candidates:
            rows.append((len(rows), ranked.question.question_id, candidate.candidate_id, float(len(rows))))

    joined = join(CandidateValues.from_rows(scored, rows), read_labels(labels, form))
    ranked_rows = joined.judged.pick(joined.judged.ranked)
    label = dict(zip(ranked_rows.score.astype(np.int64).tolist(), ranked_rows.label.tolist(), strict=True))
    known = set(joined.question_ids)
    list_labels: list[list[int]] = []
    number = 0

    for ranked in lists:
        size = len(ranked.candidates)
        list_labels.append([label.get(n, 0) for n in range(number, number + size)])
        number += size

    pairs = [
        (ranked, own_labels)
        for ranked, own_labels in zip(lists, list_labels, strict=True)
        if ranked.question.question_id in known
    ]

    return [ranked for ranked, _ in pairs], [own_labels for _, own_labels in pairs]


def _cells(figures: dict[str, Interval]) -> str:
    cells = (figures[metric] for metric in METRICS)
    return "".join(f"{100 * f.value:>6.2f}  {f'{100 * f.low:.2f} .. {100 * f.high:.2f}':<16}" for f in cells)
