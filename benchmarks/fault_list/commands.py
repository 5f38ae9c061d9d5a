"""Faults of typed commands: missing files or files of another kind, misspelt names, another job's folder."""

from __future__ import annotations

import json

from benchmarks.fault_list.damage import changed, overwritten, replaced, written
from benchmarks.fault_list.fault import Fault, Harm, Place, nothing

LABELS = "RUN/labels/sentences"
MISSING = {
    "run": "run DIR/none.toml --out WORK/new",
    "ingest": "ingest DIR/none.toml --out WORK/new",
    "status": "status DIR/none",
    "annotate": "annotate DIR/none.toml --out RUN",
    "dataset": "dataset DIR/none.tsv --out WORK/new.parquet",
    "candidates": "candidates DIR/none.tsv --out WORK/new",
    "collect": "collect RUN DIR/none.csv",
    "passages": "passages DIR/none --out WORK/new",
    "publish": "publish DIR/none --out WORK/new --name none --licence none",
    "train": "train DIR/none.toml --out WORK/new",
    "tune": "tune checkpoints/cascade --dev DIR/none.tsv --out WORK/new",
    "export": "export DIR/none --out WORK/new",
    "heads": "heads DIR/none --out WORK/new",
    "evaluate": f"evaluate DIR/none --labels {LABELS}",
    "evaluate, labels": "evaluate RUN/scored --labels DIR/none.tsv",
    "compare": f"compare DIR/none.parquet RUN/scored --labels {LABELS}",
}
"""Command → the command with a missing file."""


def annotated(place: Place) -> None:
    """Write packs to annotate into the run."""
    place.work.mkdir(exist_ok=True)
    place.call("annotate JOB --out RUN")


def two_servers(place: Place) -> None:
    """Judge the first task of a pack on two servers, on each as its user 1."""
    annotated(place)
    (task, *_) = json.loads((place.run / "packs/label-studio/tasks-00001.json").read_text(encoding="utf-8"))
    for name, number, user, label in (("anna", 5, 1, "correct"), ("bob", 8, 1, "wrong")):
        result = {"from_name": "answer", "type": "choices", "value": {"choices": [label]}}
        annotation = {"id": number, "completed_by": user, "result": [result]}
        export = json.dumps([{"id": 1, "data": task["data"], "annotations": [annotation]}])
        (place.work / f"{name}.json").write_text(export, encoding="utf-8")


def _edited_sample() -> Harm:
    return written("work/s/questions.jsonl", '{"question_id": "own", "text": "What is tea?"}\n')


def refused_job(name: str, harm: Harm, says: str) -> Fault:
    """A job file that `run` refuses as wrongly set."""
    return Fault(name, harm, "run JOB --out RUN", 78, says)


FAULTS = (
    *(Fault(f"missing file: {name}", nothing, command, 66, "none") for name, command in MISSING.items()),
    Fault("no verb of that name", nothing, "rnu JOB --out RUN", 2, "run"),
    Fault("no option of that name", nothing, "run JOB --oot RUN", 2, "--out"),
    Fault("no --out", nothing, "run JOB", 2, "--out"),
    Fault("no step of that name", nothing, "run JOB --out RUN --redo rank", 2, "the steps are"),
    Fault("a reranker with a mistake", nothing, f"evaluate cosinett --labels {LABELS}", 66, "cosinet"),
    refused_job(
        "a reranker of a job with a mistake",
        replaced("job.toml", 'reranker = "complete_sentence"', 'reranker = "complete_sentenc"'),
        "complete",
    ),
    refused_job("a key with a mistake", replaced("job.toml", "shards = 2", "shard = 2"), "shards"),
    refused_job("a value of another type", replaced("job.toml", "shards = 2", 'shards = "two"'), "shards"),
    Fault(
        "no TOML", overwritten("job.toml", "[ingest\n"), "run JOB --out RUN", 78, "not valid TOML", "restore"
    ),
    Fault(
        "a job with a byte order mark",
        changed("job.toml", lambda whole: b"\xef\xbb\xbf" + whole),
        "run JOB --out RUN",
        0,
        "(complete)",
    ),
    refused_job("a job of brackets", overwritten("job.toml", "a = " + "[" * 50_000), "not valid TOML"),
    refused_job(
        "a job with a long number",
        replaced("job.toml", "shards = 2", "shards = " + "9" * 5_000),
        "not valid TOML",
    ),
    Fault(
        "--set with a long number",
        nothing,
        "run JOB --out RUN --set index.shards=" + "9" * 5_000,
        78,
        "index.shards",
    ),
    Fault("a job of nothing", overwritten("job.toml", ""), "run JOB --out WORK/new", 78, "ingest"),
    refused_job("a job that is not UTF-8", overwritten("job.toml", b"\xff\xfe"), "not valid TOML"),
    Fault(
        "a metric with a mistake",
        nothing,
        f"evaluate RUN/scored --labels {LABELS} --metric NDGC",
        2,
        "metric",
    ),
    Fault(
        "a stage with a mistake",
        nothing,
        f"evaluate RUN/scored --labels {LABELS} --by cosinett",
        2,
        "no stage",
    ),
    Fault("--out is a file", nothing, "run JOB --out JOB", 73, "is a file"),
    Fault("recipe --out is a file", nothing, "recipe wqa --out JOB", 73, "is a file"),
    Fault(
        "a margin that is no number",
        nothing,
        f"compare RUN/scored RUN/scored --labels {LABELS} --margin nan",
        2,
        "--margin",
    ),
    Fault("sample --out is a file", nothing, "sample --out JOB", 73, "is a file"),
    Fault("status of no run", nothing, "status WORK", 66, "no run in"),
    Fault("another --out without the steps before", nothing, "rerank JOB --out WORK/other", 66, "run"),
    Fault(
        "other settings in a complete folder", nothing, "run JOB --out RUN --set index.shards=1", 73, "shards"
    ),
    Fault(
        "a dry run of what would be refused",
        nothing,
        "run JOB --out RUN --set index.shards=1 --dry-run",
        73,
        "shards",
    ),
    Fault(
        "a night whose name is a path", nothing, "night JOB --runs WORK/runs --night a/b", 2, "give a name"
    ),
    Fault(
        "a night's bar that is no number",
        nothing,
        "night JOB --runs WORK/runs --max-changed nan",
        2,
        "--max-changed nan: give a number",
    ),
    Fault(
        "other settings, redone", nothing, "run JOB --out RUN --set retrieve.depth=10", 73, "--redo retrieve"
    ),
    Fault("compare without labels", nothing, "compare RUN/scored RUN/scored", 2, "--labels"),
    Fault("export of another model", nothing, "export DIR/checkpoints/cosinet --out WORK/new", 78, "cosinet"),
    Fault(
        "tune of another model",
        nothing,
        "tune DIR/checkpoints/cosinet --dev DIR/labels.tsv --out WORK/new",
        78,
        "cosinet",
    ),
    Fault(
        "a pack that nobody has filled in",
        annotated,
        "collect RUN RUN/packs/csv/tasks-00001.csv",
        65,
        "no label is filled in",
    ),
    Fault(
        "user 1 of two servers",
        two_servers,
        "collect RUN WORK/anna.json WORK/bob.json",
        65,
        "--user-numbers per-file",
    ),
    Fault(
        "a person for a user who is in no export",
        two_servers,
        "collect RUN WORK/anna.json --people 7=anna",
        2,
        "the annotators are 1",
    ),
    Fault(
        "other tasks than those of the packs, redone",
        annotated,
        "annotate JOB --out RUN --set annotate.top=1 --redo",
        73,
        "annotate.batch=2",
    ),
    Fault(
        "a batch without the one before it",
        nothing,
        "annotate JOB --out RUN --set annotate.batch=2",
        66,
        "batch 1",
    ),
    Fault("columns of no folder", nothing, "columns scoerd", 2, "is scored meant"),
    Fault("keys of no section", nothing, "keys rerunk", 2, "is rerank meant"),
    Fault(
        "two pools of workers",
        nothing,
        "run JOB --out WORK/new -- --environment_type=EXTERNAL --environment_config=a:1,b:1",
        2,
        "give one HOST:PORT",
    ),
    Fault(
        "a URL that is not read, for --out",
        nothing,
        "run JOB --out hdfs://host/run",
        78,
        "hdfs://host/run: of URLs only",
    ),
    Fault("a Beam option with a mistake", nothing, "run JOB --out WORK/new -- --runer=X", 2, "runer"),
    Fault(
        "Flink without a network",
        nothing,
        "run JOB --out WORK/new -- --runner=FlinkRunner --flink_master=localhost:1",
        69,
        "jar",
    ),
    Fault(
        "sample over edited files",
        _edited_sample(),
        "sample --out WORK/s --set rerank.stages.0.reranker=none",
        78,
        "kept as they are",
    ),
)
