"""Faults of what users begin with and give away: recipes, data sets as jobs, calibrations, bills of
materials, and a hub that refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.fault_list.advice import passages
from benchmarks.fault_list.damage import all_of, emptied, flipped, manifest_emptied, written
from benchmarks.fault_list.fault import Ended, Fault, Harm, How, Place, in_process, nothing

SET = (
    "question_id\tquestion\tsentence\tlabel\nq1\tWho sang it?\tHe did.\t1\nq1\tWho sang it?\tIt is blue.\t0\n"
)
AS_JOB = "dataset DIR/set.tsv --as-job WORK/new"
CALIBRATE = "calibrate RUN/scored --labels {} --out WORK/probability.json"
LABELS = "RUN/labels/sentences"
PUSH, CHECKPOINT = "push {} us/set", "DIR/checkpoints/cosinet"
CARD = "---\nlicense: mit\n---\n# A set\n"
data_set: Harm = written("set.tsv", SET)
card: Harm = written("data/README.md", CARD)


@contextmanager
def a_hub(prepare: Callable[[Any], object]) -> Iterator[None]:
    """A hub on this machine, of which a command has the token."""
    from huggingface_hub import constants

    from testing import hub_server

    with hub_server.serving() as hub:
        patched = {"ENDPOINT": hub.url, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}
        former = {name: getattr(constants, name) for name in patched}
        vars(constants).update(patched)
        os.environ["HF_TOKEN"] = hub_server.TOKEN
        prepare(hub)
        try:
            yield
        finally:
            del os.environ["HF_TOKEN"]
            vars(constants).update(former)


def at_a_hub(prepare: Callable[[Any], object]) -> How:
    """Run a command beside a hub that was prepared so."""

    def run(place: Place, words: Sequence[str]) -> Ended:
        with a_hub(prepare):
            return in_process(place, words)

    return run


def no_writing(hub: Any) -> None:
    hub.may_write = False


def other_content(hub: Any) -> None:
    hub.repositories["dataset", "us/set"] = {"README.md": b"# Another set\n"}


def refuses_all(hub: Any) -> None:
    hub.refuse = lambda digest: True


def two_files(place: Place) -> None:
    """Write the data set twice, as two splits."""
    for name in ("train", "dev"):
        written(f"{name}.tsv", SET)(place)


def killed_as_job(place: Place) -> None:
    """Leave what a killed `dataset --as-job` leaves."""
    data_set(place)
    for name in (".unfinished", "pages.jsonl", "splits.jsonl", ".questions.jsonl.1234.tmp"):
        written(f"work/new/{name}", "{}\n")(place)


def written_as_job(place: Place, sound: Place) -> bool:
    """True if the job is whole, and nothing of the killed command is left."""
    names = {path.relative_to(place.work).as_posix() for path in place.work.rglob("*") if path.is_file()}
    return names == {f"new/{name}" for name in ("job.toml", "labels.jsonl", "pages.jsonl", "questions.jsonl")}


_OF_RECIPES = (
    Fault("recipe: no recipe of that name", nothing, "recipe jbo --out WORK", 2, "job"),
    Fault(
        "recipe job: no pages",
        nothing,
        "recipe job --pages 'DIR/none/*.gz' --out WORK",
        66,
        "no file matches",
    ),
    Fault(
        "recipe job: no questions", nothing, "recipe job --questions DIR/none.tsv --out WORK", 66, "none.tsv"
    ),
    Fault("recipe job: no labels", nothing, "recipe job --labels DIR/none.tsv --out WORK", 66, "none.tsv"),
    Fault("recipe job: no plan of that name", nothing, "recipe job --plan sured --out WORK", 2, "sure"),
    Fault("recipe job: a job is there", nothing, "recipe job --out DIR", 73, "another --out"),
    Fault("recipe job: --out is a file", nothing, "recipe job --out JOB", 73, "is a file"),
    Fault("recipe peasi: pages", nothing, "recipe peasi --pages JOB --out WORK", 78, "--pages is for"),
)

_OF_DATA_SETS = (
    Fault("dataset --as-job: no file", nothing, "dataset DIR/none.tsv --as-job WORK/new", 66, "none.tsv"),
    Fault("dataset --as-job: no file is named", nothing, "dataset --as-job WORK/new", 2, "at least one file"),
    Fault("dataset --as-job: with --out", data_set, f"{AS_JOB} --out WORK/set.parquet", 2, "leave --out"),
    Fault(
        "dataset --as-job: a folder in use",
        all_of(data_set, written("work/new/a", "a")),
        AS_JOB,
        73,
        "another folder",
    ),
    Fault("dataset --as-job: a file", data_set, "dataset DIR/set.tsv --as-job JOB", 73, "job.toml"),
    Fault("dataset --as-job: no form", nothing, "dataset JOB --as-job WORK/new", 65, "name its form"),
    Fault("dataset --as-job: an empty file", written("set.tsv", ""), AS_JOB, 65, "set.tsv"),
    Fault(
        "dataset --as-job: a question in two files",
        two_files,
        "dataset DIR/train.tsv DIR/dev.tsv --as-job WORK/new",
        65,
        "in another file already",
    ),
    Fault(
        "dataset --as-job: killed before its end",
        killed_as_job,
        AS_JOB,
        0,
        "answermill run",
        right=written_as_job,
    ),
)

_OF_CALIBRATIONS = (
    Fault(
        "calibrate: no run", nothing, CALIBRATE.format(LABELS).replace("RUN/scored", "DIR/none"), 66, "none"
    ),
    Fault(
        "calibrate: the run in place of scored",
        nothing,
        CALIBRATE.format(LABELS).replace("RUN/scored", "RUN"),
        66,
        "is a run; give its folder",
    ),
    Fault("calibrate: no labels", nothing, CALIBRATE.format("DIR/none.tsv"), 66, "none.tsv"),
    Fault("calibrate: labels of other questions", data_set, CALIBRATE.format("DIR/set.tsv"), 65, "question"),
    Fault("calibrate: few labels", nothing, CALIBRATE.format(LABELS), 65, "label"),
    Fault(
        "calibrate: a plot of another kind",
        nothing,
        CALIBRATE.format(LABELS) + " --plot WORK/p.jpg",
        2,
        ".svg",
    ),
    Fault(
        "calibrate: --out is a folder",
        nothing,
        CALIBRATE.format(LABELS).replace("WORK/probability.json", "WORK"),
        73,
        "is a folder",
    ),
)

_OF_MATERIALS = (
    Fault("materials: no folder", nothing, "materials DIR/none", 66, "no folder"),
    Fault("materials: a model with a mistake", nothing, "materials peassi", 66, "peasi"),
    Fault("materials: a folder of nothing", nothing, "materials WORK", 65, "neither a run"),
    Fault("materials: a file", nothing, "materials JOB", 65, "job.toml"),
    Fault(
        "materials: a damaged head of a card",
        written("data/README.md", "---\nlicense: [\n---\n"),
        "materials DIR/data",
        65,
        "its head is damaged",
    ),
    Fault(
        "materials: an emptied config",
        emptied("checkpoints/cosinet/config.json"),
        f"materials {CHECKPOINT}",
        65,
        "config.json",
    ),
    Fault("materials: a damaged run", manifest_emptied(), "materials RUN", 65, "scored"),
)

_OF_PUSHES = (
    Fault("push: no folder", nothing, PUSH.format("DIR/none"), 66, "no folder"),
    Fault("push: no repository's name", card, "push DIR/data set", 2, "OWNER/NAME"),
    Fault("push: nothing in the folder", nothing, PUSH.format("WORK --kind dataset"), 66, "no files to push"),
    Fault(
        "push: neither data set nor model", written("data/a.txt", "a"), PUSH.format("DIR/data"), 65, "--kind"
    ),
    Fault(
        "push: passages that were not published", passages, PUSH.format("DIR/data"), 65, "answermill publish"
    ),
    Fault("push: no token", card, PUSH.format("DIR/data"), 78, "set HF_TOKEN"),
    Fault(
        "push: a changed model",
        flipped("checkpoints/cosinet/model.safetensors"),
        PUSH.format(CHECKPOINT),
        65,
        "not the file",
    ),
    Fault(
        "push: a token that may not write",
        card,
        PUSH.format("DIR/data"),
        78,
        "may write",
        how=at_a_hub(no_writing),
    ),
    Fault(
        "push: other content there",
        card,
        PUSH.format("DIR/data"),
        73,
        "--replace",
        how=at_a_hub(other_content),
    ),
    Fault(
        "push: a hub that fails",
        nothing,
        PUSH.format(CHECKPOINT),
        74,
        "the same command again",
        how=at_a_hub(refuses_all),
    ),
)

FAULTS = (*_OF_RECIPES, *_OF_DATA_SETS, *_OF_CALIBRATIONS, *_OF_MATERIALS, *_OF_PUSHES)
