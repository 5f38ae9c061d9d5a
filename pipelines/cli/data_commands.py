"""Commands that read and convert labelled data sets, collect annotations, and publish training sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from answermill.pipelines.cli.parameters.arguments import (
    FOLDER,
    LICENCE,
    NEW_FOLDER,
    ColumnNames,
    LocalOut,
    NewFile,
    check_there,
    parse_columns,
)
from answermill.pipelines.cli.parameters.option_groups import (
    RECOGNISED,
    USUAL_NEGATIVES,
    USUAL_SPLIT,
    USUAL_WINDOWS,
    DatasetForm,
    Negatives,
    Split,
    Windows,
)
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import USAGE, JobError

GROUP = Group("Data sets and annotation", sort_key=2)


def dataset(
    files: Annotated[
        tuple[Path, ...], Parameter(name="FILE", negative=(), help="One data set, in one file or several.")
    ] = (),
    *,
    form: Annotated[
        str | None,
        Parameter(
            help="Form of the files, if it is not recognised; 'list' prints all forms with their options."
        ),
    ] = None,
    columns: ColumnNames = (),
    out: Annotated[
        NewFile, Parameter(help="Write the candidates to this Parquet file, which `--labels` takes.")
    ] = None,
    as_job: Annotated[
        Path | None,
        NEW_FOLDER,
        Parameter(
            help="Write a job into this folder instead, which must be new or empty: its documents as pages, "
            "its questions and labels, and a job.toml that runs."
        ),
    ] = None,
    tokens: Annotated[
        Literal["spacy", "blanks"],
        Parameter(help="Unit of lengths: spaCy's English tokens, or words between blanks."),
    ] = "spacy",
    published: Annotated[
        str | None,
        Parameter(
            help="Print the papers' rows beside: SET/SPLIT, e.g. wikiqa/test; 'list' prints all names."
        ),
    ] = None,
    **options: Annotated[
        str, Parameter(help="An option of the form, e.g. --splitter spacy; `--form list` prints them.")
    ],
) -> None:
    """Read an answer sentence selection data set, print the papers' statistics row, and convert it.

    All forms but squad and yahooqa are read as a stream, whatever their size.

    yahooQA's splits are published as a pickle. A pickle runs code when it is opened, so this command does not
    open it; if you trust it, convert it to JSON: `python -c "import json, pickle;
    json.dump(pickle.load(open('env.pkl', 'rb')), open('yahooqa.json', 'w'))"`.
    """
    check_there(*files)
    from answermill.pipelines.data.formats.format import TableForm

    table = TableForm(form, parse_columns(columns))
    if as_job is not None:
        if out is not None or published is not None:
            raise JobError("--as-job writes a job and nothing else; leave --out and --published out", USAGE)
        from answermill.pipelines.data.convert.as_job import write_job

        write_lines(write_job(files, as_job, table, **options))
        return
    from answermill.pipelines.data.convert.convert import convert

    write_lines(convert(files, table, options, out, tokens=tokens, published=published))


def candidates(
    files: Annotated[
        tuple[Path, ...],
        Parameter(name="FILE", negative=(), help="Labelled data sets (see `answermill dataset`)."),
    ],
    *,
    out: LocalOut,
    reading: DatasetForm = RECOGNISED,
) -> None:
    """Write labelled data sets as a run, their candidates as if retrieved, for `answermill rerank`.

    Every stage of a plan then scores them. The scored/ folder has the data sets' own ids and is a table for
    distillation: write `[distil] tables = ["RUN"]` in a training file, with the names of the stages as
    teachers.
    """
    from answermill.pipelines.data.convert.as_run import write_candidates

    write_lines([write_candidates(files, out, reading.parse())])


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """People whom exports name otherwise."""

    user_numbers: Annotated[
        Literal["shared", "per-file"] | None,
        Parameter(
            help="Users whom Label Studio exports as numbers. shared: all exports are of one server, so a "
            "number is one person; per-file: each is of another server, so 1 of anna.json is anna:1. If "
            "absent, shared, but an error where that cannot be."
        ),
    ] = None
    people: Annotated[
        tuple[str, ...],
        Parameter(
            help="Who is who, where an export names people otherwise than `annotate.people`, e.g. "
            "1=anna@example.org 2=bob@example.org for Label Studio's numbers, or an id of Argilla's.",
            consume_multiple=True,
            negative=(),
        ),
    ] = ()


def collect(
    run: Annotated[Path, FOLDER, Parameter(help="Folder of a run, with tasks/.")],
    exports: Annotated[
        tuple[Path, ...],
        Parameter(
            name="EXPORT",
            negative=(),
            help="Exports of annotation tools, plain or gzip: Label Studio (JSON, JSON_MIN, CSV), Argilla "
            "(JSON), Prodigy (JSONL), CSV. Name all of them each time.",
        ),
    ],
    *,
    resolve: Annotated[
        Literal["majority", "weighted", "adjudicate"],
        Parameter(
            help="majority: the label with most votes holds; weighted: a vote weighs by the annotator's "
            "accuracy on controls; adjudicate: tasks with any disagreement stay open. A tie stays open in "
            "all."
        ),
    ] = "majority",
    min_votes: Annotated[int, Parameter(help="A task with fewer votes gets no label.")] = 1,
    adjudicator: Annotated[
        str | None,
        Parameter(help="Annotator whose vote decides every task they judged. A CSV without names: its name."),
    ] = None,
    form: Annotated[
        str | None,
        Parameter(
            help="Form of all exports, if it is not recognised, such as label-studio-min; a wrong name "
            "lists all."
        ),
    ] = None,
    users: Users = Users(),
    columns: ColumnNames = (),
) -> None:
    """Read exports of annotation tools; write labels, conflicts and agreement into RUN/collected.

    Only the exports that are named count: a second collect replaces the first, so name the old ones again. A
    record that is not a label (cancelled, skipped, duplicate, unknown_task, text_changed, not_a_label) is
    kept in collected/rejects. If an annotator labelled a task twice, the later label holds: by the tool's
    time, else by the order of files and records. Votes of users whom the tool no longer names are kept apart.

    A vote's weight is ln((right + 1) / (wrong + 1)) on controls, never below 0; an annotator who judged no
    control gets the mean weight.

    Open tasks are written as a pack, collected/adjudication.csv, and as ids in adjudication.txt. Copy the
    pack, fill in its labels, and name it beside all other exports: `answermill collect RUN EXPORTS...
    judged.csv --adjudicator judged`.
    """
    check_there(run, *exports)
    from answermill.pipelines.steps.collect.collect import collect as collect_exports
    from answermill.pipelines.steps.collect.people import parse_people
    from answermill.pipelines.steps.collect.resolution import ResolutionRules

    rules = ResolutionRules(resolve, min_votes, adjudicator)
    names, persons = parse_columns(columns), parse_people(users.people)
    write_lines(
        collect_exports(run, exports, rules, form, users.user_numbers, columns=names, persons=persons)
    )


def passages(
    run: Annotated[
        Path, FOLDER, Parameter(help="Folder of a run, with labels/, documents/, questions/ and retrieved/.")
    ],
    *,
    out: Annotated[
        LocalOut, Parameter(help="Folder for train, dev and test; it is created if it does not exist.")
    ],
    windows: Windows = USUAL_WINDOWS,
    split: Split = USUAL_SPLIT,
) -> None:
    """Write passages for training from the labels of a run: train.parquet, dev.parquet and test.parquet.

    Windows of whole sentences slide over each labelled sentence; a passage is positive if it holds a correct
    one. Neither a question, or one nearly the same, nor a document is in two splits: test is filled before
    dev, dev before train, and what is therefore left out is counted: passages.json in --out has all counts.
    """
    from answermill.pipelines.data.publish.passage_set import PassageRules
    from answermill.pipelines.data.publish.training_passages import write_passages

    rules = PassageRules(
        windows.group,
        windows.places,
        windows.max_tokens,
        windows.negatives,
        shares=split.split,
        seed=split.seed,
        similar=split.similar,
        documents_apart=split.keep_documents_apart,
    )
    write_lines([write_passages(run, out, rules, split.split_file, parse_columns(split.columns))])


def sentences(
    run: Annotated[
        Path,
        FOLDER,
        Parameter(help="Folder of a run, with labels/, passages/, questions/, and retrieved/ or scored/."),
    ],
    *,
    out: Annotated[
        LocalOut, Parameter(help="Folder for train, dev and test; it is created if it does not exist.")
    ],
    name: Annotated[str, Parameter(help="Name of the set, for its card.")],
    licence: Annotated[str, LICENCE, Parameter(help="Licence of the set, for its card.")],
    negatives: Negatives = USUAL_NEGATIVES,
    split: Split = USUAL_SPLIT,
) -> None:
    """Write lists of sentences for training from a run's labels: train, dev and test.parquet.

    A list has the question's right sentences and wrong ones, judged or not, which are drawn in given shares.
    Splits are as those of `answermill passages`. `answermill train` and `answermill dataset` read the files.
    sentences.json in --out has all counts, beside a card.
    """
    from answermill.pipelines.data.publish.lists.list_files import Attribution, write_lists
    from answermill.pipelines.data.publish.lists.list_rules import ListRules

    rules = ListRules(
        negatives.negatives,
        negatives.shares,
        negatives.depth,
        negatives.by,
        shares=split.split,
        seed=split.seed,
        similar=split.similar,
        documents_apart=split.keep_documents_apart,
    )

    attribution = Attribution(name, licence)
    line = write_lists(
        run,
        out,
        rules,
        attribution,
        split_file=split.split_file,
        answers=negatives.answers,
        columns=parse_columns(split.columns, are_of_several=True),
    )
    write_lines([line])


def publish(
    data: Annotated[Path, FOLDER, Parameter(help="Folder that `answermill passages` wrote.")],
    *,
    out: Annotated[LocalOut, Parameter(help="Folder of the set; it is created if it does not exist.")],
    name: Annotated[str, Parameter(help="Name of the set, for its card.")],
    licence: Annotated[str, LICENCE, Parameter(help="Licence of the set itself, for its card.")],
    forms: Annotated[
        tuple[Literal["parquet", "dpr", "beir", "asnq", "trec"], ...],
        Parameter(negative=(), consume_multiple=True, help="Forms to write."),
    ] = ("parquet", "dpr", "beir", "asnq", "trec"),
    sources: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="Sources of the set, each with its licence, for the card.",
        ),
    ] = (),
    run: Annotated[
        Path | None,
        FOLDER,
        Parameter(
            help="The run that DATA came from; the card then reports pages, questions, sampling and "
            "agreement."
        ),
    ] = None,
) -> None:
    """Write a set of passages as Parquet (for `datasets`), DPR, BEIR, ASNQ and TREC, with its card.

    `datasets.load_dataset(FOLDER, "passages")`, or "sentences", loads the Parquet files as they are. Prints
    the table of the card, in the form of WQA's Table 1.
    """
    from answermill.pipelines.data.publish.card import Card
    from answermill.pipelines.data.publish.publish import publish as publish_files

    write_lines(publish_files(data, out, forms, Card(name, licence, sources), run))


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [dataset, candidates, collect, passages, sentences, publish]
