"""Commands that measure scores against labels."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from answermill.files.remote import as_path
from answermill.pipelines.cli.parameters.arguments import (
    NEW_FILE,
    PLACE,
    NewFile,
    Plots,
    Seed,
    check_apart,
    check_there,
)
from answermill.pipelines.cli.parameters.option_groups import (
    BY_FINAL_ORDER,
    NO_FILES,
    NO_MARGIN,
    RECOGNISED,
    USUAL_DRAWS,
    ComparisonFiles,
    DatasetForm,
    Margin,
    Measure,
    Resampling,
    ScoreOptions,
)
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import INPUT_MISSING, USAGE, WORSE, JobError
from answermill.schemas.plug_ins import is_code

GROUP = Group("Evaluation", sort_key=4)
RULES = ("random", "RR", "WO", "WO+RR")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFiles:
    """Files that an evaluation is written to."""

    json: Annotated[NewFile, Parameter(help="Write the figures, from 0 to 1, as one flat JSON object.")] = (
        None
    )
    questions: Annotated[NewFile, Parameter(help="Write one row per question and metric as Parquet.")] = None
    coverage: Annotated[
        Plots,
        Parameter(
            help="Plot the share of right answers if only the most confident are given, as .svg or .png.",
        ),
    ] = ()


def evaluate(
    scores: Annotated[
        str,
        Parameter(
            help="A scored/ folder, a TREC run, or a table of question_id, candidate_id, score. Or what "
            "ranks the data set: random, RR, WO, WO+RR, or the name of a reranker."
        ),
    ],
    *,
    measure: Measure,
    options: ScoreOptions = BY_FINAL_ORDER,
    files: EvaluationFiles = EvaluationFiles(),
) -> None:
    """Measure scores against labels: P@1, MAP, MRR, nDCG@10, exact under ties, with the protocol named.

    Tied candidates count by their expectation over all orders of the tie; the worst and the best order are
    printed beside it. Judged candidates without a score, and scored ones without a label, are counted and
    reported.

    With --coverage all questions that have labels count, whatever the protocol, and so do those without a
    correct answer. The answer is the first candidate, and its score is the confidence.
    """
    _check_scores(scores)
    check_there(measure.labels)
    check_apart(files.json, files.questions, *files.coverage)
    from answermill.pipelines.learn.evaluate.evaluate import evaluate as run_evaluation
    from answermill.pipelines.learn.evaluate.rank import RankOptions

    result = run_evaluation(
        scores,
        measure.labels,
        protocol=measure.protocol,
        metrics=measure.metrics,
        by=options.by,
        form=options.reading.parse(are_of_several=True),
        ranker=RankOptions(options.checkpoint, options.settings, options.words),
        coverage=bool(files.coverage),
    )
    if files.questions is not None:
        from answermill.pipelines.learn.evaluate.compare import with_answers

        result = with_answers(result, measure.labels, options.reading.parse(are_of_several=True))
    result.write(files.json, files.questions, files.coverage)

    write_lines(result.lines())


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """Labels and metrics for two sets of scores that are no finished evaluations."""

    labels: Annotated[Path | None, PLACE, Parameter(help="Evaluate A and B against these labels.")] = None
    protocol: Annotated[
        Literal["raw", "answerable", "clean", "compat"] | None,
        Parameter(help="As for `evaluate`; a finished evaluation must have it."),
    ] = None
    metrics: Annotated[
        tuple[str, ...] | None,
        Parameter(
            negative=(),
            consume_multiple=True,
            help="As for `evaluate`; of a finished evaluation those that it has, all of them if absent.",
        ),
    ] = None
    reading: DatasetForm = RECOGNISED


def compare(
    a: Annotated[
        str,
        Parameter(
            help="Parquet file of `evaluate --questions`; with --labels anything that `evaluate` takes."
        ),
    ],
    b: Annotated[
        str, Parameter(help="The same for the other side; a win is a question that B answers better.")
    ],
    *more: Annotated[str, Parameter(help="Further runs, each compared with A.")],
    measure: ComparedMeasure = ComparedMeasure(),
    limit: Margin = NO_MARGIN,
    drawn: Resampling = USUAL_DRAWS,
    show: Annotated[
        int, Parameter(help="Number of lost questions, and of gained ones, to show.", validator=Number(gte=0))
    ] = 10,
    files: ComparisonFiles = NO_FILES,
) -> int:
    """Compare B with A on the same questions: difference, interval, p, wins, losses, and flips.

    With more than two runs each is compared with A, in one table, whose p-values are corrected for the number
    of runs (Holm); `--table results.tex` writes it for a paper.
    """
    limit.check(measure.metrics)
    if more and (limit.margin is not None or files.json is not None):
        raise JobError("--margin and --json are for two runs; leave them out, or the further runs", USAGE)
    for side in (a, b, *more):
        _check_scores(side)
    check_there(*([measure.labels] if measure.labels is not None else []))
    from answermill.pipelines.learn.compare_many import check_tables, compare_many
    from answermill.pipelines.learn.evaluate.compare import compare_files
    from answermill.ranking.evaluation.significance import EQUAL

    check_tables(files.table)
    options: dict[str, Any] = {
        "labels": measure.labels,
        "protocol": measure.protocol,
        "metrics": measure.metrics,
        "form": measure.reading.parse(are_of_several=True),
        "rounds": drawn.rounds,
        "seed": drawn.seed,
    }
    if more or files.table:
        table = compare_many([a, b, *more], **options)
        table.write(files.table)
        if more:
            write_lines(table.lines())
            return 0
        result = table.pairs[b]
    else:
        result = compare_files(a, b, **options)
    worse = 0.0 if limit.margin is None else result.worse_by(limit.measured)

    if files.json:
        result.write(files.json)
    write_lines(result.lines(show))
    if limit.margin is not None and worse > limit.margin + EQUAL:
        sys.stderr.write(
            f"answermill: B is worse by {worse:.4f} {limit.measured}; the margin is {limit.margin}\n"
        )
        return WORSE

    return 0


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSearch:
    """Weights of an ensemble to try, and the metric of the best."""

    metric: Annotated[str, Parameter(help="The chosen weights have the highest value of this metric.")] = (
        "MAP"
    )
    protocol: Annotated[Literal["raw", "answerable", "clean"], Parameter(help="As for `evaluate`.")] = (
        "answerable"
    )
    parts: Annotated[
        int,
        Parameter(help="Weights are multiples of 1 / parts; for up to four models all of them are tried."),
    ] = 20
    trials: Annotated[
        int,
        Parameter(
            help="Number of weights that Optuna samples; 0 tries all instead.", validator=Number(gte=0)
        ),
    ] = 0
    seed: Annotated[Seed, Parameter(help="Seed of the sample of --trials.")] = 0


def ensemble(
    scores: Annotated[Path, PLACE, Parameter(help="scored/ folder of a run with a stage for each model.")],
    *,
    labels: Annotated[Path, PLACE, Parameter(help="Labels of the dev set, as for `evaluate`.")],
    stages: Annotated[
        tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="The stages to combine.")
    ],
    search: WeightSearch = WeightSearch(),
    reading: DatasetForm = RECOGNISED,
    json: Annotated[NewFile, Parameter(help="Write the weights and values as JSON.")] = None,
) -> None:
    """Tune the weights of a linear combination of several models' scores on a dev set.

    Only candidates with a label are ranked. Prints each model alone, all with equal weights, and the best
    weights as `answermill evaluate SCORED --by '…'` takes them. For a stage of a job, whose scores come from
    several scales, fit `weights` instead.
    """
    check_there(scores, labels)
    from answermill.pipelines.learn.evaluate.ensemble import WeightTuning, tune_ensemble

    tuning = WeightTuning(search.metric, search.protocol, search.parts, search.trials, search.seed)
    result = tune_ensemble(scores, labels, stages, tuning, reading.parse())
    if json:
        result.write(json)
    write_lines(result.lines())


def calibrate(
    scored: Annotated[Path, PLACE, Parameter(help="scored/ folder of a run, by the plan to calibrate.")],
    *,
    labels: Annotated[
        Path,
        PLACE,
        Parameter(
            help="Labels of a dev set, as for `evaluate`, with questions that have no correct candidate. "
            "Never those of a test set."
        ),
    ],
    out: Annotated[Path, NEW_FILE, Parameter(help="The calibration file to write, as JSON.")],
    seed: Annotated[
        Seed, Parameter(help="Seed of the parts and folds, which are chosen by a hash of the question's id.")
    ] = 0,
    plot: Annotated[
        Plots,
        Parameter(
            help="Plot the share of right answers against their probability, as .svg, .png or both.",
        ),
    ] = (),
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Fit the probability that an answer of a plan is right, for its last stage `probability`.

    A logistic regression of a candidate's scores, of its lead over the next, and of how many stages put it
    first. It is fitted on a third of the questions; the others are held back, and on them a job's
    rerank.answers.max_wrong chooses its bar. Prints calibration error and Brier score of the first answers,
    each by a fit without its fold, and the bars for some shares of wrong answers.

    The probabilities hold for questions like the labelled ones, with as many among them that have no answer.
    A stage names the file: reranker = "probability", calibration_file = "FILE". In another plan it is
    refused.
    """
    check_there(scored, labels)
    from answermill.pipelines.learn.calibrate import calibrate_run

    result = calibrate_run(scored, labels, form=reading.parse(), seed=seed)
    result.plot(plot)
    result.file.write(out)
    write_lines(result.lines())


def agreement(
    scores: Annotated[
        Path, PLACE, Parameter(help="scored/ folder of a run with a stage for each head and teacher.")
    ],
    *,
    labels: Annotated[Path, PLACE, Parameter(help="Labels, as for `evaluate`.")],
    heads: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(), consume_multiple=True, help="Stages of the student's heads; see `answermill heads`."
        ),
    ],
    teachers: Annotated[
        tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="Stages of the teachers.")
    ],
    json: Annotated[NewFile, Parameter(help="Write the matrix as JSON.")] = None,
    plot: Annotated[Plots, Parameter(help="Plot the matrix as .svg, .png or both.")] = (),
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Measure how often a student's heads answer as their teachers do."""
    check_there(scores, labels)
    from answermill.pipelines.learn.evaluate.ensemble import agree

    result = agree(scores, labels, heads, teachers, reading.parse())
    result.write(json, plot)
    write_lines(result.lines())


def audit(
    model: Annotated[str, Parameter(help="A model folder, a reranker's name, or a file of training lists.")],
    *,
    against: Annotated[
        Path | None, Parameter(help="A labelled test set, which training is compared with.")
    ] = None,
    probes: Annotated[
        Path | None, Parameter(help="Labelled lists, which are changed to see what distracts the model.")
    ] = None,
    data: Annotated[Path, Parameter(help="Folder of the lists that the model learnt from.")] = Path(),
    vectors: Annotated[
        int, Parameter(help="Most training questions, and answers, whose vectors are compared; 0 = none.")
    ] = 20_000,
    margin: Annotated[
        float | None,
        Parameter(help="Exit with 3 if training has more than this share of the test questions."),
    ] = None,
    json: Annotated[NewFile, Parameter(help="Write everything as JSON.")] = None,
    reading: DatasetForm = RECOGNISED,
) -> int:
    """Look for a test set in training lists, and for what distracts a model from the answer.

    --against counts equal and near questions and answers, by text and by vector, and shared runs of 13 words.
    --probes changes length, place and words, and prints what each change adds to P@1.
    """
    if margin is not None and not (0 <= margin <= 1 and against is not None):
        raise JobError(f"--margin {margin}: give a number from 0 to 1, and --against SET", USAGE)
    check_there(*(file for file in (against, probes) if file is not None))
    from answermill.pipelines.learn.audit.audit import AuditOptions
    from answermill.pipelines.learn.audit.audit import audit as run_audit

    result = run_audit(model, against, probes, AuditOptions(data, vectors, form=reading.parse()))
    if json:
        result.write(json)
    write_lines(result.lines())
    if margin is not None and (problem := result.beyond(margin)):
        sys.stderr.write(f"answermill: {problem}\n")
        return WORSE
    return 0


def _check_scores(scores: str) -> None:
    """Raise JobError (66) if it is neither a file or folder nor the name of a ranking of a data set."""
    from answermill.ranking.rerankers.registry import known

    names = (*RULES, *known())
    if scores in names or is_code(scores) or as_path(scores).exists():
        return
    near = difflib.get_close_matches(scores, names, n=1)
    hint = f"; did you mean the reranker {near[0]!r}?" if near else ", and no reranker has this name"
    raise JobError(f"{scores}: no such file or folder{hint}", INPUT_MISSING)


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [evaluate, compare, ensemble, calibrate, agreement, audit]
