"""The command line. What stands after `--` goes to Beam as it is.

Importing this module imports no model, Beam or spaCy: `--help` answers at once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from pipelines.errors import BAD_DATA, IO, UNAVAILABLE, WORSE, JobError

HELP = """Offline answer sentence selection: pages in, ranked answer sentences and labelled passages out.

Start with `answermill sample --out DIR`: it writes a small web, questions and a job file, and runs the job.

A job is a TOML file; `answermill keys` lists what can stand in it. Steps read and write Parquet folders below --out;
one that is complete is skipped, one that was stopped goes on where it was. What stands after `--` goes to Apache Beam:
`answermill run JOB.toml --out RUN -- --runner=FlinkRunner --flink_master=HOST:PORT`.

Exit codes: 0 ok, 2 usage, 3 compared and worse than --margin allows, 65 bad data or too many rejects, 66 input missing,
69 Java or model missing, 73 another job's output is in the way or another process writes into the folder, 74 input/output
error, 78 settings.
"""

app = App(name="answermill", help=HELP, version=lambda: metadata.version("answermill"), help_format="markdown")

JobFile = Annotated[Path, Parameter(help="the job file")]
Out = Annotated[Path, Parameter(name="--out", help="folder of the run; made if it is not there")]
Overrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative=(), consume_multiple=True, help="settings laid over the job file, e.g. index.shards=4"),
]

_beam_options: tuple[str, ...] = ()


@app.command
def run(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """Run the whole job: every step that it has a section for, in order."""
    _run(job, out, settings, None)


@app.command
def ingest(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """Crawled files in; documents/, passages/ and rejects/ out."""
    _run(job, out, settings, "ingest")


@app.command
def index(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """passages/ in; shards/ out, each with a Lucene and a FAISS index."""
    _run(job, out, settings, "index")


@app.command
def retrieve(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """Questions and shards/ in; questions/ and retrieved/ out."""
    _run(job, out, settings, "retrieve")


@app.command
def rerank(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """retrieved/ in; scored/ and answers.jsonl out."""
    _run(job, out, settings, "rerank")


@app.command
def annotate(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """scored/ and retrieved/ in; tasks/ out, and packs/ of them for Label Studio, Argilla, Prodigy and spreadsheets.

    A job without [annotate] has its defaults: the 15 best sentences of each question, and 2 random ones below them.
    """
    _run(job, out, settings, "annotate")


@app.command
def propagate(job: JobFile, *, out: Out, settings: Overrides = ()) -> None:
    """Given sentence labels and passages/ in; labels/ out."""
    _run(job, out, settings, "propagate")


@app.command
def sample(*, out: Out = Path("sample"), settings: Overrides = ()) -> None:
    """Write the sample web, its questions, labels and job file into --out, and run the job there."""
    from pipelines.sample import copy_to

    _run(copy_to(out), out / "run", settings, None)


@app.command
def train(job: Annotated[Path, Parameter(help="the training file")], *, out: Out, settings: Overrides = ()) -> None:
    """Train a reranker's checkpoint into --out; a training that was stopped goes on where it was.

    `answermill keys --of train` lists the keys of a training file. The checkpoint is used by `checkpoint = "FOLDER"` in
    `[[rerank.stages]]`, and by `answermill evaluate RERANKER --checkpoint FOLDER`.
    """
    from pipelines.config.training_file import load_job
    from pipelines.train.train import run as run_training

    for line in run_training(load_job(job, settings), out):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@app.command
def candidates(
    files: Annotated[
        tuple[Path, ...], Parameter(name="FILE", negative=(), help="labelled data sets (see `answermill dataset`)")
    ],
    *,
    out: Out,
    form: Annotated[str | None, Parameter(help="form of the data sets where it is not recognised")] = None,
) -> None:
    """Make a run of labelled data sets: their questions and candidates, as if retrieved, for `answermill rerank`.

    So every stage of a plan scores them, and scored/, which has the data sets' own ids, is the table of a distillation:
    `[distil] tables = ["RUN"]` in a training file, with the stages' names as teachers.
    """
    from pipelines.convert.as_run import write_candidates

    sys.stdout.write(write_candidates(files, out, form) + "\n")


@app.command
def evaluate(
    scores: Annotated[
        str,
        Parameter(
            help="a scored/ folder, a TREC run, a Parquet of question_id, candidate_id, score; or what is to rank a data set: "
            "random, RR, WO, WO+RR, or a reranker's name"
        ),
    ],
    *,
    labels: Annotated[
        Path,
        Parameter(help="a data set (see `answermill dataset`), a folder below labels/, TREC or BEIR qrels, or a Parquet"),
    ],
    protocol: Annotated[
        Literal["raw", "answerable", "clean", "compat"],
        Parameter(
            help="raw: all questions; answerable: those with a correct candidate; clean: with a wrong one as well; "
            "compat: as the field's posted code, optimistic, for comparison with figures that were made so"
        ),
    ] = "answerable",
    metrics: Annotated[
        tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="MAP, MRR, and P@k, R@k, nDCG@k with any k")
    ] = ("P@1", "MAP", "MRR", "nDCG@10"),
    by: Annotated[
        str,
        Parameter(
            help="order of a scored/ folder: final, position (the original order), the score of the stage so named, or an "
            "ensemble's: '0.5 * a + 0.5 * b'"
        ),
    ] = "final",
    form: Annotated[str | None, Parameter(help="form of the data set where it is not recognised")] = None,
    checkpoint: Annotated[str | None, Parameter(help="checkpoint of the reranker")] = None,
    words: Annotated[
        Literal["cosinet", "blanks"],
        Parameter(help="words of WO, WO+RR: Cosinet's spaCy tokens, or what stands between blanks"),
    ] = "cosinet",
    json: Annotated[Path | None, Parameter(help="write the figures, from 0 to 1, as one flat JSON object")] = None,
    questions: Annotated[Path | None, Parameter(help="write one row per question and metric as Parquet")] = None,
    coverage: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="draw how many of the answers are right where only the most confident are given, as .svg or .png or both",
        ),
    ] = (),
) -> None:
    """Hold scores against labels: P@1, MAP, MRR, nDCG@10, exact under ties, with the protocol named.

    Tied candidates count by their expectation over all orders of the tie; worst and best order stand beside it. Judged
    candidates without a score, and scored ones without a label, are counted and said.

    With --coverage all questions that have labels count, whatever the protocol, those that nothing answers too. The answer is
    the first candidate, its score the confidence.
    """
    from pipelines.evaluate.evaluate import check_plots
    from pipelines.evaluate.evaluate import evaluate as run_evaluation

    check_plots(coverage)
    made = run_evaluation(
        scores,
        labels,
        protocol=protocol,
        metrics=metrics,
        by=by,
        form=form,
        checkpoint=checkpoint,
        words=words,
        coverage=bool(coverage),
    )
    made.write(json, questions, coverage)
    sys.stdout.writelines(line + "\n" for line in made.lines())


@app.command
def compare(
    a: Annotated[str, Parameter(help="Parquet of `evaluate --questions`; with --labels anything that `evaluate` takes")],
    b: Annotated[str, Parameter(help="the same for the other; wins are B's")],
    *,
    labels: Annotated[Path | None, Parameter(help="evaluate A and B against these")] = None,
    protocol: Annotated[Literal["raw", "answerable", "clean", "compat"], Parameter(help="as for `evaluate`")] = "answerable",
    metrics: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="as for `evaluate`")] = (
        "P@1",
        "MAP",
        "MRR",
        "nDCG@10",
    ),
    metric: Annotated[str, Parameter(help="the metric that --margin is about")] = "MAP",
    margin: Annotated[
        float | None, Parameter(help="exit with 3 where B is worse than A by more than this, from 0 to 1; e.g. 0.005")
    ] = None,
    rounds: Annotated[int, Parameter(help="of the randomisation test and of the bootstrap")] = 10_000,
    seed: Annotated[int, Parameter(help="of both")] = 0,
    show: Annotated[int, Parameter(help="lost and gained questions to show, of each")] = 10,
    json: Annotated[Path | None, Parameter(help="write everything, all flipped questions included, as JSON")] = None,
) -> int:
    """Compare B with A on the same questions: difference, interval, p, wins and losses, and the questions that flipped."""
    from pipelines.evaluate.compare import compare_files

    made = compare_files(a, b, labels=labels, protocol=protocol, metrics=metrics, rounds=rounds, seed=seed)
    worse = made.worse_by(metric) if margin is not None else 0.0
    if json:
        made.write(json)
    sys.stdout.writelines(line + "\n" for line in made.lines(show))
    if margin is not None and worse > margin:
        sys.stderr.write(f"answermill: B is worse by {worse:.4f} {metric}; the margin is {margin}\n")
        return WORSE
    return 0


@app.command
def ensemble(
    scores: Annotated[Path, Parameter(help="scored/ folder of a run with a stage for each model")],
    *,
    labels: Annotated[Path, Parameter(help="of the dev set, as for `evaluate`")],
    stages: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="the models")],
    metric: Annotated[str, Parameter(help="to be highest: MAP, MRR, P@k, nDCG@k")] = "MAP",
    protocol: Annotated[Literal["raw", "answerable", "clean"], Parameter(help="as for `evaluate`")] = "answerable",
    parts: Annotated[
        int, Parameter(help="weights are multiples of 1 / parts; all of them are tried, for up to four models")
    ] = 20,
    trials: Annotated[int, Parameter(help="sample so many weights with Optuna instead")] = 0,
    seed: Annotated[int, Parameter(help="of --trials")] = 0,
    json: Annotated[Path | None, Parameter(help="write the weights and values as JSON")] = None,
) -> None:
    """Tune the weights of a linear combination of several models' scores on a dev set.

    Prints each model alone, all alike, and the best weights as `answermill evaluate SCORED --by '…'` takes them.
    """
    from pipelines.evaluate.ensemble import tune_ensemble

    made = tune_ensemble(scores, labels, stages, metric, protocol, parts, trials, seed)
    if json:
        made.write(json)
    sys.stdout.writelines(line + "\n" for line in made.lines())


@app.command
def agreement(
    scores: Annotated[Path, Parameter(help="scored/ folder of a run with a stage for each head and teacher")],
    *,
    labels: Annotated[Path, Parameter(help="as for `evaluate`")],
    heads: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="stages; see `answermill heads`")],
    teachers: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="stages")],
    json: Annotated[Path | None, Parameter(help="write the matrix as JSON")] = None,
    plot: Annotated[
        tuple[Path, ...], Parameter(negative=(), consume_multiple=True, help="draw it as .svg or .png or both")
    ] = (),
) -> None:
    """Say how often a student's heads answer as their teachers do: of a head's correct answers, the share of each teacher's."""
    from pipelines.evaluate.ensemble import agree
    from pipelines.evaluate.evaluate import check_plots

    check_plots(plot)
    made = agree(scores, labels, heads, teachers)
    made.write(json, plot)
    sys.stdout.writelines(line + "\n" for line in made.lines())


@app.command
def heads(
    checkpoint: Annotated[Path, Parameter(help="checkpoint of multihead")],
    *,
    out: Annotated[Path, Parameter(help="folder to write; must be empty where it is there")],
) -> None:
    """Write each head of a multiple-heads student as a checkpoint of its own, OUT/1, OUT/2, …, to be stages of their own."""
    from pipelines.train.heads import write_heads

    sys.stdout.writelines(line + "\n" for line in write_heads(checkpoint, out))


@app.command
def tune(
    checkpoint: Annotated[str, Parameter(help="checkpoint of a cascade")],
    *,
    dev: Annotated[
        Path, Parameter(help="labelled data set (see `answermill dataset`) on which schedules are tried and chosen")
    ],
    out: Annotated[Path, Parameter(help="folder for the tables and the plot; made if it is not there")],
    held_out: Annotated[Path | None, Parameter(help="another data set, on which the chosen schedules are checked")] = None,
    budget: Annotated[float, Parameter(help="cost that may not be exceeded; 1 = every candidate through every layer")] = 0.6,
    metric: Annotated[Literal["P@1", "MAP", "MRR", "nDCG@10"], Parameter(help="to be highest within the budget")] = "P@1",
    delta: Annotated[
        float, Parameter(help="highest probability that an answerable question loses every correct candidate")
    ] = 0.05,
    epsilon: Annotated[float, Parameter(help="highest probability that the guarantee of --delta is wrong")] = 0.1,
    grid: Annotated[
        str,
        Parameter(help="shares to try at each exit but the last, with commas; 0 = no exit there: with it exits are chosen too"),
    ] = "0.1,0.2,0.3,0.4,0.5,0.6",
    seed: Annotated[int, Parameter(help="of the halves of the dev set that the guarantee needs")] = 0,
    form: Annotated[str | None, Parameter(help="form of the data sets where it is not recognised")] = None,
) -> None:
    """Choose how many candidates a cascade drops at each exit: the best within --budget, and the cheapest that keeps --delta.

    The model runs once over the dev set; all schedules of the grid are then replayed, exactly, in seconds. --out gets
    schedules.parquet (every schedule), schedules.json (the chosen ones), cost.svg and cost.png (cost against accuracy), and
    exit_scores.parquet. The guarantee holds for questions of the dev set's kind, on half of which it is tested; a dev set that
    already chose the checkpoint gives a weaker one: --held-out shows what is left of it.
    """
    from pipelines.evaluate.tune import Aims, shares, tune_files

    aims = Aims(shares(grid), budget, metric, delta, epsilon, seed)
    made = tune_files(checkpoint, dev, aims, held_out=held_out, form=form)
    made.write(out)
    sys.stdout.writelines(line + "\n" for line in made.lines())
    sys.stdout.write(f"\nwritten: {out}\n")


@app.command
def sweep(
    job: Annotated[Path, Parameter(help="the training file")],
    *,
    over: Annotated[
        tuple[str, ...],
        Parameter(negative=(), consume_multiple=True, help="a key and its values, e.g. hashing.beta=1,2,5,10,20; several keys"),
    ],
    out: Annotated[Path, Parameter(help="folder of the trainings, the table and the plots; made if it is not there")],
    labels: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(), consume_multiple=True, help="data sets that each checkpoint is measured on; none = dev score alone"
        ),
    ] = (),
    metrics: Annotated[
        tuple[str, ...], Parameter(negative=(), consume_multiple=True, help="of --labels: MAP, MRR, P@k, nDCG@k")
    ] = ("MAP", "MRR"),
    settings: Overrides = (),
) -> None:
    """Train once for each value of a setting, all else as the file has it, and draw what comes of it.

    Several keys are swept one after the other, each from the file's own values; a training that two of them ask for is made
    once. What is trained is not repeated, and what was stopped goes on. --out gets a folder for each training, sweep.json, and
    a plot for each key, KEY.svg and KEY.png.
    """
    from pipelines.train.sweep import sweep as run_sweep

    for line in run_sweep(job, over, out, settings, labels, metrics):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@app.command
def export(
    checkpoint: Annotated[Path, Parameter(help="checkpoint of cascade or pointwise")],
    *,
    out: Annotated[Path, Parameter(help="folder to write; must be empty where it is there")],
    exit: Annotated[
        int | None, Parameter(help="exit of the cascade at which the model ends, from 1; default: the last")
    ] = None,
) -> None:
    """Write a cross-encoder as a folder for sentence-transformers: CrossEncoder(FOLDER).predict(pairs) gives its scores."""
    from pipelines.train.export import export_files

    sys.stdout.writelines(line + "\n" for line in export_files(checkpoint, out, exit))


@app.command
def dataset(
    files: Annotated[tuple[Path, ...], Parameter(name="FILE", negative=(), help="one data set, in one file or several")],
    *,
    form: Annotated[str | None, Parameter(help="where it is not recognised, or to read it another way; see below")] = None,
    out: Annotated[Path | None, Parameter(help="write the candidates as one Parquet file, which `--labels` takes")] = None,
    questions: Annotated[Path | None, Parameter(help="asnq: keep the questions of this list, a line each or JSONL")] = None,
    split: Annotated[str | None, Parameter(help="asnq: of that list, those of this split; yahooqa: the split to read")] = None,
    splitter: Annotated[
        Literal["rules", "spacy"] | None, Parameter(help="squad, nq-asnq: our sentence rules, or spaCy's sentencizer")
    ] = None,
    annotators: Annotated[int | None, Parameter(help="nq-la, nq-asnq: how many must give a long answer (of five, 2)")] = None,
    answers: Annotated[Path | None, Parameter(help="insuranceqa: the file of answers")] = None,
    vocabulary: Annotated[Path | None, Parameter(help="insuranceqa: the vocabulary")] = None,
    tokens: Annotated[
        Literal["spacy", "blanks"], Parameter(help="what lengths count: spaCy's English tokens, or words between blanks")
    ] = "spacy",
    published: Annotated[
        str | None, Parameter(help="put the papers' rows beside: SET/SPLIT, e.g. wikiqa/test; 'list' lists them")
    ] = None,
) -> None:
    """Read an answer sentence selection data set, print the papers' statistics row, and convert it.

    Forms: wikiqa, trecqa (jacana's XML), asnq, tsv (question, sentence, label), squad (to SQuAD-sent), nq-la and nq-asnq
    (Natural Questions), insuranceqa (v1), yahooqa, parquet. All but yahooqa are read as a stream, whatever their size.

    yahooQA's splits are published as a pickle. It runs code when it is opened, so it is not opened here; if you trust it, write
    it as JSON: `python -c "import json, pickle; json.dump(pickle.load(open('env.pkl', 'rb')), open('yahooqa.json', 'w'))"`.
    """
    from pipelines.convert.convert import convert

    options = {
        "questions": questions,
        "split": split,
        "splitter": splitter,
        "annotators": annotators,
        "answers": answers,
        "vocabulary": vocabulary,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for line in convert(files, form, given, out, tokens, published):
        sys.stdout.write(line + "\n")


@app.command
def collect(
    run: Annotated[Path, Parameter(help="folder of a run, with tasks/")],
    exports: Annotated[
        tuple[Path, ...],
        Parameter(
            name="EXPORT",
            negative=(),
            help="what the tools have exported, plain or gzip: Label Studio (JSON, JSON_MIN, CSV), Argilla (JSON), "
            "Prodigy (JSONL), CSV; all of it, each time",
        ),
    ],
    *,
    resolve: Annotated[
        Literal["majority", "weighted", "adjudicate"],
        Parameter(
            help="majority: most votes; weighted: votes weigh by the annotator's accuracy on controls; adjudicate: tasks with "
            "any disagreement stay open. A tie stays open in all"
        ),
    ] = "majority",
    min_votes: Annotated[int, Parameter(help="tasks of fewer votes get no label")] = 1,
    adjudicator: Annotated[
        str | None,
        Parameter(help="annotator whose word holds wherever they have judged; for a CSV without names, the file's name"),
    ] = None,
    form: Annotated[
        Literal["label-studio", "label-studio-min", "argilla", "prodigy", "csv"] | None,
        Parameter(help="what all exports are, where it is not recognised"),
    ] = None,
) -> None:
    """Exports of annotation tools in; labels, conflicts and agreement out, in RUN/collected.

    The exports that are named are all that counts: a second collect replaces the first, so name the old ones again. What is
    no label (cancelled, skipped, duplicate, unknown_task, text_changed, not_a_label) is kept in collected/rejects. Of two
    labels by one annotator for one task the later holds: by the tool's time, else by the order of files and records.

    A vote's weight is ln((right + 1) / (wrong + 1)) on controls, never below 0; who has judged none gets the mean weight.

    Open tasks come as a pack, collected/adjudication.csv, and as ids in adjudication.txt. Copy the pack, fill in its labels,
    and name it beside all other exports: `answermill collect RUN EXPORTS... judged.csv --adjudicator judged`.
    """
    from pipelines.annotate.collect import Rules
    from pipelines.annotate.collect import collect as collect_exports

    for line in collect_exports(run, exports, Rules(resolve, min_votes, adjudicator), form):
        sys.stdout.write(line + "\n")


@app.command
def passages(
    run: Annotated[Path, Parameter(help="folder of a run, with labels/, documents/, questions/ and retrieved/")],
    *,
    out: Annotated[Path, Parameter(help="folder for train, dev and test; made if it is not there")],
    group: Annotated[
        Literal["all", "center", "random"],
        Parameter(help="windows of a labelled sentence: all; the one with it nearest to the middle; a random one"),
    ] = "all",
    places: Annotated[int, Parameter(help="the labelled sentence takes places 1 to this in its windows")] = 5,
    max_tokens: Annotated[int, Parameter(help="spaCy tokens that no window exceeds")] = 200,
    negatives: Annotated[
        int,
        Parameter(
            help="hard negatives per question: windows that begin as the first retrieved passages without a correct sentence"
        ),
    ] = 5,
    split: Annotated[tuple[float, float, float], Parameter(negative=(), help="shares of the questions: train, dev, test")] = (
        0.8,
        0.1,
        0.1,
    ),
    split_file: Annotated[
        Path | None,
        Parameter(help="question_id and train, dev or test, as TSV, JSONL or Parquet; in the place of --split and its seed"),
    ] = None,
    similar: Annotated[
        float, Parameter(help="Jaccard similarity of their words from which questions are nearly the same: they share a split")
    ] = 0.8,
    keep_documents_apart: Annotated[bool, Parameter(help="no document stands in two splits")] = True,
    seed: Annotated[int, Parameter(help="of the split, and of --group random")] = 0,
) -> None:
    """Make training data of passages from the labels of a run: train.parquet, dev.parquet and test.parquet.

    Windows of whole sentences slide over each labelled sentence; a passage is positive if it holds a correct one. Neither a
    question, or one nearly the same, nor a document stands in two splits: what two could have goes to test before dev before
    train, and what is left out so is counted. Prints the counts as one JSON object, which --out also gets, last, as
    passages.json.
    """
    from pipelines.publish.training_passages import Rules, write_passages

    rules = Rules(group, places, max_tokens, negatives, split, seed, similar, keep_documents_apart)
    sys.stdout.write(write_passages(run, out, rules, split_file))


@app.command
def publish(
    data: Annotated[Path, Parameter(help="folder that `answermill passages` wrote")],
    *,
    out: Annotated[Path, Parameter(help="folder of the published set; made if it is not there")],
    name: Annotated[str, Parameter(help="of the set, for its card")],
    licence: Annotated[str, Parameter(help="of the set itself, for its card")],
    forms: Annotated[
        tuple[Literal["parquet", "dpr", "beir", "asnq", "trec"], ...],
        Parameter(negative=(), consume_multiple=True, help="what to write"),
    ] = ("parquet", "dpr", "beir", "asnq", "trec"),
    sources: Annotated[
        tuple[str, ...],
        Parameter(negative=(), consume_multiple=True, help="what went into it, each with its licence, for the card"),
    ] = (),
    run: Annotated[
        Path | None, Parameter(help="the run that `data` came from: its card tells of pages, questions, sampling and agreement")
    ] = None,
) -> None:
    """Write a set of passages as others read it: Parquet for `datasets`, DPR, BEIR, ASNQ, TREC; and its card, README.md.

    `datasets.load_dataset(FOLDER, "passages")`, or "sentences", loads the Parquet files as they are. Prints the table of the
    card, in the form of WQA's Table 1.
    """
    from pipelines.publish.card import Card
    from pipelines.publish.publish import publish as publish_files

    for line in publish_files(data, out, forms, Card(name, licence, sources), run):
        sys.stdout.write(line + "\n")


@app.command
def recipe(
    name: Annotated[
        Literal["wqa", "peasi"], Parameter(help="wqa: a labelled set from a crawl; peasi: a training on such a set")
    ],
    *,
    out: Annotated[Path, Parameter(help="folder to write NAME.toml into; made if it is not there")] = Path(),
) -> None:
    """Write a job file, with comments, to start one's own from."""
    from pipelines.jobs import copy_to

    sys.stdout.write(f"written: {copy_to(name, out)}\n")


@app.command
def status(run: Annotated[Path, Parameter(help="folder of a run")]) -> None:
    """Show rows and state of every step of a run."""
    from pipelines.steps.chain import status as folders

    rows = [("step", "folder", "rows", "state"), *folders(run)]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    for step, folder, count, state in rows:
        sys.stdout.write(f"{step:<{widths[0]}}  {folder:<{widths[1]}}  {count:>{widths[2]}}  {state}\n")


@app.command
def doctor(*, out: Out = Path()) -> int:
    """Say what is there and what is missing on this machine, and what to type."""
    from pipelines.doctor import examine

    missing = 0
    for finding in examine(out):
        missing += finding.state == "missing"
        sys.stdout.write(f"{finding.state:<8} {finding.what:<7} {finding.detail}\n")
        if finding.remedy:
            sys.stdout.write(f"{'':<16} → {finding.remedy}\n")
    return UNAVAILABLE if missing else 0


@app.command
def keys(*, of: Annotated[Literal["job", "train"], Parameter(help="a job file, or a training file")] = "job") -> None:
    """List every key of a job file, or of a training file, with its type, default and meaning."""
    from pipelines.config.job_file import keys as all_keys

    if of == "train":
        from pipelines.config.training_file import TrainJob

        listed = all_keys(TrainJob)
    else:
        listed = all_keys()
    for key, kind, default, meaning in listed:
        sys.stdout.write(f"{key}\n    {kind}, {default if default == 'required' else 'default ' + default}\n    {meaning}\n")


@app.command
def columns() -> None:
    """Print the data dictionary: every column of every folder."""
    from pipelines.steps.chain import FOLDERS

    for folder, record in (item for outputs in FOLDERS.values() for item in outputs.items()):
        sys.stdout.write(f"{folder}/  {' '.join((record.__doc__ or '').split())}\n")
        for name, kind, meaning in record.describe():
            sys.stdout.write(f"    {name:<32} {kind:<26} {meaning}\n")


def _run(job_file: Path, out: Path, settings: Sequence[str], step: str | None) -> None:
    from pipelines.config.job_file import load

    job = load(job_file, settings)
    logging.disable(logging.WARNING)  # Beam says on import which of Google's libraries are missing
    from pipelines.execution.runner import configure_logging
    from pipelines.steps import chain as whole

    logging.disable(logging.NOTSET)
    configure_logging()
    steps = [step] if step else whole.steps_of(job, out)
    for line in whole.run_steps(job, out, steps, _beam_options):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"in {out}: `answermill status {out}` shows its folders, `answermill columns` their columns\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    global _beam_options
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--" in given:
        at = given.index("--")
        given, _beam_options = given[:at], tuple(given[at + 1 :])
    else:
        _beam_options = ()
    try:
        code = app(given, exit_on_error=True, result_action="return_value")
    except JobError as e:
        _fail(str(e), e.code)
    except OSError as e:
        _fail(f"{e.filename or ''}: {e.strerror}" if e.strerror else str(e), IO)
    except KeyboardInterrupt:
        _fail("stopped; the same command goes on where it was", 130)
    except RuntimeError as e:
        from indexing.shards.dense import ModelMissing
        from indexing.shards.jvm import JavaMissing
        from indexing.shards.shard import ShardDamaged, ShardMismatch

        if isinstance(e, JavaMissing | ModelMissing):
            _fail(str(e), UNAVAILABLE)
        if isinstance(e, ShardDamaged | ShardMismatch):
            _fail(str(e), BAD_DATA)
        traceback.print_exc()
        _exit(1)
    _exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"answermill: {message}\n")
    _exit(code)


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
