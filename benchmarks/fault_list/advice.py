"""Faults of commands beside a run whose message advises another command: it is typed, and must end well."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from benchmarks.fault_list.damage import (
    all_of,
    changed,
    cut,
    emptied,
    json_changed,
    overwritten,
    removed,
    replaced,
    written,
)
from benchmarks.fault_list.fault import Fault, Place, complete, nothing, same_rows_in, written_out
from benchmarks.fault_list.stops import TRAIN, training

LABELS = "RUN/labels/sentences"
PUBLISH, AGAIN = "publish {} --out WORK/{} --name small --licence none", "passages RUN --out WORK/data"
PUBLISHED = (AGAIN, PUBLISH.format("WORK/data", "new"))
OTHER = "answermill passages RUN --out OTHER"
DATASET = "dataset DIR/set.tsv --out WORK/{}.parquet"
NOTHING_KEPT = "run JOB --out RUN --redo rerank --set rerank.stages.4.threshold=1"
STEPS = ("documents", "questions", "retrieved")


def passages(place: Place) -> None:
    """Write the run's labelled passages into data/."""
    place.call("passages RUN --out DIR/data")


def copied_steps(place: Place) -> None:
    """Copy the folders that rerank reads into work/other, as the documentation says."""
    for folder in STEPS:
        shutil.copytree(place.run / folder, place.work / "other" / folder)


def job_of_rerank(place: Place) -> None:
    """Leave only the section [rerank] in the job."""
    changed("job.toml", lambda whole: whole[whole.index(b"[[rerank.stages]]") :])(place)


def change_rows(folder: Path, change: Any) -> None:
    """Change the rows of a committed folder's first part, whose digest is that of the new rows, as a program
    would write it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from answermill.files.atomic_files import sha256
    from answermill.files.sealed_json import write_sealed

    file = sorted(folder.glob("part-*"))[0]
    table = pq.read_table(file)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    manifest = folder / "_manifest.json"
    values = json.loads(manifest.read_text(encoding="utf-8"))
    for part in values["parts"]:
        if part["file"] == file.name:
            part |= {"bytes": file.stat().st_size, "sha256": sha256(file)}

    del values["sha256"]
    write_sealed(manifest, values)


def nan_in_the_last_stage(place: Place) -> None:
    """Make a kept candidate's score of its last stage NaN."""

    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["rank"] is not None)["stages"][-1]["score"] = math.nan

    change_rows(place.run / "scored", change)


def heads(place: Place) -> None:
    """Write a checkpoint of several heads, and a folder work/heads that is in use."""
    from testing.tiny import checkpoint

    checkpoint("multihead", place.folder / "checkpoints/multihead")
    written("work/heads/mine.txt", "mine\n")(place)


def trained(place: Place) -> None:
    """Train into work/model, then give the training file another seed."""
    training()(place)
    place.call(TRAIN)
    changed("train.toml", lambda whole: whole.replace(b"epochs = 1", b"epochs = 1\nseed = 5"))(place)


def _of_publish() -> list[Fault]:
    harms = {
        "a cut Parquet": cut("data/train.parquet"),
        "an emptied Parquet": emptied("data/train.parquet"),
        "a lost Parquet": removed("data/train.parquet"),
        "passages.json emptied": emptied("data/passages.json"),
        "passages.json a list": overwritten("data/passages.json", "[]"),
        "a count of another type": json_changed(
            "data/passages.json", lambda values: values.update(train_questions="2")
        ),
        "a count of other rows": json_changed(
            "data/passages.json", lambda values: values.update(train_questions=999)
        ),
    }

    card = written_out("work/new/README.md")
    return [
        Fault(
            f"publish: {name}", all_of(passages, harm), PUBLISH.format("DIR/data", "new"), 66 if "lost" in name else 65,
            OTHER, PUBLISHED, card,
        )
        for name, harm in harms.items()
    ]  # fmt: skip


def _of_training() -> list[Fault]:
    other = TRAIN.replace("model", "other")

    model = written_out("work/other/model.safetensors")
    return [
        Fault("train: another seed", trained, TRAIN, 73, "train.seed", (other,), model),
        Fault("train: a folder in use", all_of(training(), written("work/model/a.txt", "a")), TRAIN, 73, "another --out",
              (other,), model),
        Fault("train: a key with a mistake", all_of(training(), replaced("train.toml", "epochs", "epoch")), TRAIN, 78,
              "epochs"),
        Fault("train: no number for a label", all_of(training(), replaced("set.tsv", "\t1\n", "\tyes\n")), TRAIN, 65,
              "set.tsv:5"),
        Fault("train: vectors of another length", all_of(training(), cut("vectors.txt")), TRAIN, 65,
              "vectors.txt:21: not 8 numbers"),
        Fault("train: an emptied file of vectors", all_of(training(), emptied("vectors.txt")), TRAIN, 65, "vectors.txt: "),
        Fault("train: a vector of nine numbers", all_of(training(), replaced("vectors.txt", "w7 ", "w7 nan ")), TRAIN, 65,
              "vectors.txt:8: not 8 numbers"),
        Fault("train: a history of another shape", all_of(trained, overwritten("work/model/training.json", "[]")), TRAIN, 65,
              "training.json", (other,), model),
        Fault("heads: a folder in use", heads, "heads DIR/checkpoints/multihead --out WORK/heads", 73, "another folder",
              ("heads DIR/checkpoints/multihead --out WORK/other",), written_out("work/other/1/model.safetensors")),
        Fault("dataset: --out is there", all_of(training(), written("work/new.parquet", "PAR1")), DATASET.format("new"), 73,
              "another --out", (DATASET.format("other"),), written_out("work/other.parquet")),
    ]  # fmt: skip


def _of_evaluate() -> list[Fault]:
    run = "q01 Q0 a 1 nan t\n"
    return [
        Fault("evaluate: a confidence of NaN", nan_in_the_last_stage, "evaluate RUN/scored --labels "
                                                                      f"{LABELS}", 65,
              ", row 0: confidence nan"),
        Fault("evaluate: a score of NaN in a TREC run", written("nan.txt", run), "evaluate DIR/nan.txt "
                                                                                 f"--labels {LABELS}", 65,
              "nan.txt:1: score nan"),
    ]  # fmt: skip


FAULTS = (
    *_of_publish(),
    *_of_training(),
    *_of_evaluate(),
    Fault("rerank in a copy of the steps before", copied_steps, "rerank JOB --out WORK/other", 0, "rerank ",
          right=same_rows_in("work/other", "passages", "shards", "labels", "rejects", "questions_rejects")),
    Fault("rerank without the steps before", nothing, "rerank JOB --out WORK/other", 66,
          "ingest, index and retrieve must run first",
          tuple(f"{step} JOB --out WORK/other" for step in ("ingest", "index", "retrieve", "rerank")),
          same_rows_in("work/other", "labels")),
    Fault("rerank without the steps before, advice", nothing, "rerank JOB --out WORK/other", 66,
          "`answermill run JOB.toml --out", ("run JOB --out WORK/other",), same_rows_in("work/other")),
    Fault("rerank without the step before", all_of(removed("run/retrieved")), "rerank JOB --out RUN", 66,
          "run `answermill retrieve JOB.toml --out", "advice"),
    Fault("rerank without what answers need", removed("run/documents", "run/questions", "run/scored"),
          "rerank JOB --out RUN", 66, "questions is not there"),
    Fault("rerank of a job without the steps before", job_of_rerank, "rerank JOB --out WORK/other", 66,
          "the job has no [ingest], [retrieve]"),
    Fault("a plan that keeps nothing", nothing, NOTHING_KEPT, 65, "rerank.allow_empty = true",
          (NOTHING_KEPT + " --set rerank.allow_empty=true",), complete("run")),
)  # fmt: skip
