"""Groups of options that several commands share, or that one of them takes as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from answermill.pipelines.cli.parameters.arguments import (
    FROM_0_UP,
    METRICS,
    NEW_FILE,
    PLACE,
    ColumnNames,
    Form,
    Metrics,
    NewFile,
    Protocol,
    Seed,
    parse_columns,
)
from answermill.pipelines.errors import USAGE, JobError

if TYPE_CHECKING:
    from answermill.pipelines.data.formats.format import TableForm


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetForm:
    """Form and columns of a labelled data set."""

    form: Form = None
    columns: ColumnNames = ()

    def parse(self, are_of_several: bool = False) -> TableForm:
        """Raises JobError (2) if the names of columns are wrong. They may be those of several tables."""
        from answermill.pipelines.data.formats.format import TableForm

        return TableForm(self.form, parse_columns(self.columns, are_of_several))


RECOGNISED = DatasetForm()
"""A data set whose form is recognised, and whose columns have usual names."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Division of the questions into train, dev and test."""

    split: Annotated[
        tuple[float, float, float], Parameter(negative=(), help="Shares of the questions: train, dev, test.")
    ] = (0.8, 0.1, 0.1)
    split_file: Annotated[
        Path | None,
        Parameter(
            help="question_id and train, dev or test, as TSV, CSV, JSONL or Parquet; replaces --split and "
            "its seed."
        ),
    ] = None
    columns: ColumnNames = ()
    similar: Annotated[
        float,
        Parameter(
            help="Questions whose words have at least this Jaccard similarity are nearly the same and share "
            "a split."
        ),
    ] = 0.8
    keep_documents_apart: Annotated[bool, Parameter(help="No document is in two splits.")] = True
    seed: Annotated[Seed, Parameter(help="Seed of the split, and of what is drawn.")] = 0


USUAL_SPLIT = Split()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Labels and metrics by which scores are measured."""

    labels: Annotated[
        Path,
        PLACE,
        Parameter(
            help="A data set (see `answermill dataset`), a folder below labels/, TREC or BEIR qrels, or a "
            "table of question_id, candidate_id, label."
        ),
    ]
    protocol: Protocol = "answerable"
    metrics: Metrics = METRICS


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """Limit beyond which B counts as worse than A."""

    metric: Annotated[str | None, Parameter(help="The metric of --margin; MAP if absent.")] = None
    margin: Annotated[
        float | None,
        FROM_0_UP,
        Parameter(help="Exit with 3 if B is worse than A by more than this; from 0 to 1, e.g. 0.005."),
    ] = None

    @property
    def measured(self) -> str:
        return self.metric or "MAP"

    def check(self, metrics: Sequence[str] | None) -> None:
        """Raise JobError (2) if the margin is no share, or its metric none of the `metrics` to measure."""
        if self.margin is None:
            if self.metric is not None:
                raise JobError(f"--metric {self.metric} belongs to --margin; give both, or neither", USAGE)
        elif not 0 <= self.margin <= 1:
            raise JobError(f"--margin {self.margin}: give a number from 0 to 1", USAGE)
        elif metrics is not None and self.measured not in metrics:
            raise JobError(f"--metric {self.measured} is not among --metrics {' '.join(metrics)}", USAGE)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """Rounds and seed of the randomisation test and of the bootstrap."""

    rounds: Annotated[
        int, Parameter(help="Rounds of the randomisation test and of the bootstrap.", validator=Number(gte=1))
    ] = 10_000
    seed: Annotated[Seed, Parameter(help="Seed of the randomisation test and of the bootstrap.")] = 0


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFiles:
    """Files that a comparison is written to."""

    json: Annotated[
        NewFile, Parameter(help="Write everything, all flipped questions included, as JSON; of two runs.")
    ] = None
    table: Annotated[
        tuple[Path, ...],
        NEW_FILE,
        Parameter(
            negative=(),
            consume_multiple=True,
            help="Write the table of all runs, as .md, .tex or both; p is corrected by Holm.",
        ),
    ] = ()


NO_MARGIN, USUAL_DRAWS, NO_FILES = Margin(), Resampling(), ComparisonFiles()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFit:
    """Settings by which weights are fitted and judged."""

    penalty: Annotated[
        float,
        FROM_0_UP,
        Parameter(
            help="Times the sum of the squared weights: more holds weights nearer to 0, where questions are "
            "few."
        ),
    ] = 0.005
    folds: Annotated[
        int,
        Parameter(
            validator=Number(gte=2),
            help="Parts of the questions. Each is ordered by weights that were fitted without it, for the "
            "figures.",
        ),
    ] = 5
    seed: Annotated[
        Seed, Parameter(help="Seed of the parts, which are chosen by a hash of the question's id.")
    ] = 0


USUAL_FIT = WeightFit()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Choice of a folder's scores, and ranking of a data set."""

    by: Annotated[
        str,
        Parameter(
            help="Order of a scored/ folder: final, position (the original order), the name of a stage (its "
            "scores), or the "
            "weights of an ensemble, e.g. '0.5 * a + 0.5 * b'."
        ),
    ] = "final"
    checkpoint: Annotated[str | None, Parameter(help="Checkpoint of the reranker.")] = None
    settings: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative=(),
            consume_multiple=True,
            help="Settings of the reranker, as in a job's stage, e.g. drop=[0.2]. What it drops counts as "
            "not found.",
        ),
    ] = ()
    words: Annotated[
        Literal["cosinet", "blanks"] | None,
        Parameter(
            help="Words that WO and WO+RR count. cosinet, the default: Cosinet's spaCy tokens; blanks: the "
            "text between blanks."
        ),
    ] = None
    reading: DatasetForm = RECOGNISED


BY_FINAL_ORDER = ScoreOptions()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Rules for the windows of sentences that become passages."""

    group: Annotated[
        Literal["all", "center", "random"],
        Parameter(
            help="Windows of a labelled sentence to keep. all: every window; center: the one with the "
            "sentence nearest to its middle; random: a random one."
        ),
    ] = "all"
    places: Annotated[int, Parameter(help="The labelled sentence takes places 1 to this in its windows.")] = 5
    max_tokens: Annotated[int, Parameter(help="spaCy tokens that no window exceeds.")] = 200
    negatives: Annotated[
        int,
        Parameter(
            help="Hard negatives per question: windows that begin as the first retrieved passages without a "
            "correct sentence."
        ),
    ] = 5


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Negatives:
    """Choice of the wrong sentences of a list."""

    negatives: Annotated[int, Parameter(help="Wrong sentences of a question.")] = 20
    shares: Annotated[
        tuple[float, float, float, float],
        Parameter(
            negative=(),
            help="Shares of them by where they are from: a passage with a right sentence; the rest of its "
            "document; other "
            "documents, among the best retrieved; random passages. What one lacks, others make up for.",
        ),
    ] = (0.2, 0.25, 0.45, 0.1)
    depth: Annotated[
        int,
        Parameter(help="Sentences of other documents, the best first, that the third share is drawn from."),
    ] = 50
    by: Annotated[
        str | None,
        Parameter(
            help="Stage whose scores say which are the best, or 'retrieved' for the rank of their passage; "
            "if absent the last "
            "stage of scored/, or 'retrieved' if there is none."
        ),
    ] = None
    answers: Annotated[
        Path | None,
        Parameter(
            help="question_id and answers (a text or a list) as TSV, CSV, JSONL or Parquet, such as the "
            "file of questions. A "
            "sentence of a right one's document that holds one of them is left out, unless it is labelled "
            "right."
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAims:
    """Drop schedules to try, and the aims of the best."""

    budget: Annotated[
        float,
        Parameter(help="Highest cost of a schedule; 1 is that of every candidate through every layer."),
    ] = 0.6
    metric: Annotated[
        Literal["P@1", "MAP", "MRR", "nDCG@10"],
        Parameter(help="The chosen schedule has the highest value of this metric."),
    ] = "P@1"
    delta: Annotated[
        float,
        Parameter(help="Highest probability that an answerable question loses every correct candidate."),
    ] = 0.05
    epsilon: Annotated[
        float, Parameter(help="Highest probability that the guarantee of --delta is wrong.")
    ] = 0.1
    grid: Annotated[
        str,
        Parameter(
            help="Shares to try at each exit but the last, with commas; 0 means no exit there: exits are "
            "chosen too. Nothing dropped, and 0.3, 0.4 or 0.5 at all exits, the paper's, are always tried."
        ),
    ] = "0.1,0.2,0.3,0.4,0.5,0.6"
    seed: Annotated[
        Seed, Parameter(help="Seed of the split of the dev set into the halves that the guarantee needs.")
    ] = 0


USUAL_WINDOWS, USUAL_NEGATIVES, USUAL_AIMS = Windows(), Negatives(), ScheduleAims()
