"""Commands that train models and write their checkpoints in other forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from answermill.files.extras import need
from answermill.pipelines.cli.parameters.arguments import (
    FOLDER,
    FROM_0_UP,
    NEW_FILE,
    PLACE,
    Checkpoint,
    ColumnNames,
    NewFolder,
    Seed,
    TensorBoard,
    TrainingFile,
    TrainingOverrides,
    check_there,
    parse_columns,
)
from answermill.pipelines.cli.parameters.option_groups import (
    RECOGNISED,
    USUAL_AIMS,
    USUAL_FIT,
    DatasetForm,
    ScheduleAims,
    WeightFit,
)
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import USAGE, JobError

if TYPE_CHECKING:
    from answermill.pipelines.learn.train.dev_score import DevScore

GROUP = Group("Models", sort_key=3)
SCORES_TO_WEIGH = (
    "The scores to weigh: stages of the run, bm25, dense, fused, log_rank (-log of the rank in retrieval)."
)


def train(
    job: TrainingFile, *, out: Checkpoint, settings: TrainingOverrides = (), tensorboard: TensorBoard = False
) -> None:
    """Train a reranker and write its checkpoint into --out; a stopped training continues.

    Its card has curves of loss and dev score by step, curves.csv their figures. `answermill keys --of train`
    lists the keys of a training file. To use the checkpoint, write `checkpoint = "FOLDER"` in a stage, or
    type `answermill evaluate RERANKER --checkpoint FOLDER`.
    """
    if tensorboard:
        need("tensorboard", "tensorboard", "`answermill train --tensorboard`")
    from answermill.pipelines.config.training_file import load_job

    loaded = load_job(job, settings)
    check_there(*map(loaded.path, (*loaded.data.train, *loaded.data.dev)))
    from answermill.pipelines.learn.train.train import run as run_training

    write_lines(run_training(loaded, out, events=tensorboard))


def sweep(
    job: TrainingFile,
    *,
    over: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="One or several keys with their values, e.g. hashing.beta=1,2,5,10,20.",
        ),
    ],
    out: Annotated[
        NewFolder,
        Parameter(
            help="Folder of the trainings, the table and the plots; it is created if it does not exist."
        ),
    ],
    labels: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="Data sets on which each checkpoint is measured; if none is named, only the dev score is "
            "written.",
        ),
    ] = (),
    metrics: Annotated[
        tuple[str, ...],
        Parameter(negative=(), consume_multiple=True, help="Metrics on --labels: MAP, MRR, P@k, nDCG@k."),
    ] = ("MAP", "MRR"),
    settings: TrainingOverrides = (),
) -> None:
    """Train once for each value of a setting, with all other settings as in the file, and plot the results.

    Several keys are swept one after the other, each from the file's own values; a training that two of them
    share runs once. A finished training does not run again, and one that was stopped continues. --out gets a
    folder for each training, sweep.json, and a plot for each key, KEY.svg and KEY.png. Over train.seed the
    mean and the deviation of each figure are printed too, and are in means.json.
    """
    need("matplotlib", "plots", "a plot")
    check_there(job, *labels)
    from answermill.pipelines.learn.train.sweep import sweep as run_sweep

    write_lines(run_sweep(job, over, out, settings=settings, labels=labels, metrics=metrics))


def tune(
    checkpoint: Annotated[str, Parameter(help="Checkpoint of a cascade, or a shipped one's name.")],
    *,
    dev: Annotated[
        Path,
        Parameter(
            help="Labelled data set (see `answermill dataset`) on which schedules are tried and chosen."
        ),
    ],
    out: Annotated[
        NewFolder, Parameter(help="Folder for the tables and the plot; it is created if it does not exist.")
    ],
    held_out: Annotated[
        Path | None, Parameter(help="Another data set, on which the chosen schedules are checked.")
    ] = None,
    aims: ScheduleAims = USUAL_AIMS,
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Choose how many candidates a cascade drops at each exit, within --budget or keeping --delta.

    The model runs once over the dev set; all schedules of the grid are then replayed, exactly, in seconds.
    --out gets schedules.parquet (every schedule), schedules.json (the chosen ones), cost.svg and cost.png
    (cost against accuracy), and exit_scores.parquet. The guarantee holds for questions like those of the dev
    set, on half of which it is tested. It is weaker if the same dev set already chose the checkpoint;
    --held-out shows by how much.
    """
    need("matplotlib", "plots", "a plot")
    check_there(dev, *([held_out] if held_out is not None else []))
    from answermill.pipelines.learn.evaluate.tune import Aims, shares, tune_files

    chosen = Aims(shares(aims.grid), aims.budget, aims.metric, aims.delta, aims.epsilon, aims.seed)
    result = tune_files(checkpoint, dev, chosen, held_out=held_out, form=reading.parse())
    result.write(out)
    write_lines([*result.lines(), "", f"written: {out}"])


def weights(
    scored: Annotated[Path, PLACE, Parameter(help="scored/ folder of a run whose stages gave the scores.")],
    *,
    labels: Annotated[
        Path, PLACE, Parameter(help="Labels of a dev set, as for `evaluate`. Never those of a test set.")
    ],
    names: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True, help=SCORES_TO_WEIGH)],
    out: Annotated[Path, NEW_FILE, Parameter(help="The file of weights to write, as JSON.")],
    exits_of: Annotated[
        str | None,
        Parameter(
            help="Stage with exits, such as cascade: fit a table for each exit but the last, not a blend's."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        Parameter(
            help="Checkpoint of --exits-of, if it is not where the job named it, from the current folder."
        ),
    ] = None,
    fit: WeightFit = USUAL_FIT,
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Fit the weights of a stage of `blend`: how much each of a candidate's scores says.

    Each score is standardised within its list; the weights are those of a list-wise logistic regression over
    the questions whose list holds an answer. Prints P@1 and MRR of each score alone and of the blend, which
    is measured on questions that its weights have not seen, and of the difference. An interval of the
    difference that holds 0 says that no gain is shown.

    With --exits-of STAGE the weights are those by which candidates leave at the exits of a cascade: of the
    exit's own score, `exit`, and of scores that are known before. The model scores what the stage has read
    again, at all exits; the run must have its retrieved/ folder. The stage then names the file in
    `weights_file`.

    A stage names the file: reranker = "blend", weights_file = "FILE". It is refused in a plan where one of
    the stages has another reranker or another checkpoint.
    """
    check_there(scored, labels)
    from answermill.pipelines.learn.evaluate.blend_weights import fit_exits_of, fit_run
    from answermill.ranking.rerankers.blend.weights import FitOptions

    form = reading.parse()
    options = FitOptions(fit.penalty, fit.folds, fit.seed)
    if exits_of is None and checkpoint is not None:
        raise JobError(
            "--checkpoint is of the stage whose exits are fitted; name it with --exits-of too", USAGE
        )

    if exits_of is None:
        result = fit_run(scored, labels, names, options, form=form)
    else:
        result = fit_exits_of(scored, labels, exits_of, names, options, checkpoint=checkpoint, form=form)

    result.file.write(out)
    write_lines(result.lines())


def heads(
    checkpoint: Annotated[Path, FOLDER, Parameter(help="Checkpoint of a multihead reranker.")],
    *,
    out: NewFolder,
) -> None:
    """Write each head of a multiple-heads student as a separate checkpoint: OUT/1, OUT/2, …."""
    check_there(checkpoint)
    from answermill.pipelines.learn.train.heads import write_heads

    write_lines(write_heads(checkpoint, out))


def export(
    checkpoint: Annotated[
        Path, FOLDER, Parameter(help="Checkpoint of cascade or pointwise, or a shipped name.")
    ],
    *,
    out: NewFolder,
    exit: Annotated[
        int | None,
        Parameter(help="Exit of the cascade at which the model ends, from 1; the last if not named."),
    ] = None,
) -> None:
    """Write a cross-encoder as a folder for sentence-transformers, whose CrossEncoder gives its scores."""
    need("sentence_transformers", "sentence-transformers", "`answermill export`")
    from answermill.ranking.entry import checkpoint_at

    folder = checkpoint_at(checkpoint, str(checkpoint))
    check_there(folder)
    from answermill.pipelines.learn.train.export import export_files

    write_lines(export_files(folder, out, exit))


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreToKeep:
    """The dev score that another form of a checkpoint is to keep."""

    dev: Annotated[Path, Parameter(help="Labelled data set that decides. Never a test set.")]
    metric: Annotated[str, Parameter(help="Metric to keep: MAP, MRR, P@k, nDCG@k.")] = "MAP"
    reranker: Annotated[
        str | None,
        Parameter(
            help="Reranker that scores the set, such as peasi.easi; by the checkpoint's format if not named. "
            "cross_encoder for a published model."
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative=(),
            consume_multiple=True,
            help="Stage settings of the reranker, as for `evaluate`, e.g. drop=[0.0].",
        ),
    ] = ()

    def read(self, form: DatasetForm) -> DevScore:
        """The score, on a data set of this form."""
        from answermill.pipelines.learn.train.dev_score import DevScore

        check_there(self.dev)
        return DevScore(self.dev, self.metric, self.reranker, self.settings, form.parse())


def shrink(
    checkpoint: Annotated[
        Path,
        FOLDER,
        Parameter(help="Checkpoint of a transformer: cascade, hashing, peasi, …; or a shipped one's name."),
    ],
    *,
    out: NewFolder,
    score: ScoreToKeep,
    bound: Annotated[float, FROM_0_UP, Parameter(help="Points, of 100, that the metric may be lower.")] = 0.3,
    body: Annotated[
        str | None,
        Parameter(help="Public body that it began as; the one of its words, or all-MiniLM-L6-v2, if absent."),
    ] = None,
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Write a checkpoint in fewer bytes, as differences to the public body that it began as.

    Each matrix's difference is stored as a product of two narrow ones, in bytes, of the least rank that keeps
    a share of its energy. Shares are tried from few bytes to many, each is measured on --dev, and the first
    whose metric is within --bound is written. It serves as the checkpoint does, where the body is installed.
    What it loses in int8 is stated too, as by `answermill int8`.
    """
    from answermill.ranking.entry import checkpoint_at

    folder = checkpoint_at(checkpoint, str(checkpoint))
    check_there(folder)
    from answermill.pipelines.learn.train.shrink import shrink as run_shrink

    write_lines(run_shrink(folder, out, score.read(reading), bound, body))


def int8(
    checkpoint: Annotated[str, Parameter(help="Checkpoint, a shipped one's name, or a hub name.")],
    *,
    out: NewFolder,
    score: ScoreToKeep,
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Measure what a checkpoint loses with precision = "int8", and write a copy that states it.

    --dev is scored in fp32 and in int8. The copy has the loss, with its interval, in int8.json and on its
    card. A stage with precision = "int8" names it, and refuses it if it lost more than the stage's int8_loss.
    """
    from answermill.pipelines.learn.train.int8 import write_measured

    write_lines(write_measured(checkpoint, out, score.read(reading)))


def static_encoder(
    run: Annotated[Path, FOLDER, Parameter(help="Folder of a run that has passages/.")],
    *,
    out: NewFolder,
    teacher: Annotated[
        str | None, Parameter(help="Dense encoder to learn from; all-MiniLM-L6-v2 if not named.")
    ] = None,
    passages: Annotated[
        int, Parameter(help="Passages to draw: four fifths are learnt from, the others compared.")
    ] = 20_000,
    questions: Annotated[
        Path | None,
        Parameter(
            help="Questions of the comparison; if not named, those that the run has asked, or else sentences "
            "of its passages."
        ),
    ] = None,
    columns: ColumnNames = (),
    seed: Seed = 0,
) -> None:
    """Write a static encoder, learnt from a dense encoder's vectors of a run's passages.

    A static encoder has a vector for each token, and encodes many times as many passages a second. Where the
    run has shards/ by the teacher, their vectors are taken. Prints how much of the teacher's lists the static
    encoder finds. A job names the folder as index.encoder, and best the teacher as index.question_encoder.
    """
    check_there(run, *([questions] if questions is not None else []))
    from answermill.pipelines.learn.train.static_encoder_of_run import StaticOptions, learn

    names = parse_columns(columns)
    options = StaticOptions(passages=passages, questions=questions, columns=names, seed=seed)
    write_lines(learn(run, out, options if teacher is None else replace(options, teacher=teacher)))


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [train, sweep, tune, weights, heads, shrink, int8, static_encoder, export]
