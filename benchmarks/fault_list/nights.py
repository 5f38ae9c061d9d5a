"""Faults of nights, of lists of runs, and of machines that share a run."""

from __future__ import annotations

import json
import shutil
from typing import Any

from benchmarks.fault_list.damage import all_of, manifest_emptied, removed, written
from benchmarks.fault_list.fault import Fault, Harm, Place, nothing
from benchmarks.fault_list.machine import locked

NIGHT, JOIN = "night JOB --runs WORK/runs --night b", "run JOB --out WORK/new --join"


def good_night(record: Any = None) -> Harm:
    """The run as the good one of a folder of nights, with this as its record; a sound one if None."""

    def harm(place: Place) -> None:
        runs = place.work / "runs"
        shutil.copytree(place.run, runs / "a")
        (runs / "good").symlink_to("a")
        sound = {
            "night": "a",
            "job": str(place.job),
            "began": 1.0,
            "former": None,
            "stage": "retain",
            "code": 0,
        }
        text = json.dumps(sound if record is None else record)
        (runs / "a" / "night.json").write_text(text, encoding="utf-8")

    return harm


def good_to_nowhere(place: Place) -> None:
    """Let `good` lead to a run that somebody has removed."""
    (place.work / "runs").mkdir()
    (place.work / "runs" / "good").symlink_to("2026-01-01")


_OF_NIGHT = (
    Fault("night: no job", nothing, "night DIR/none.toml --runs WORK/runs", 66, "none.toml: no such file"),
    Fault("night: --runs is a file", nothing, "night JOB --runs JOB", 73, "is a file"),
    Fault("night: a key with a mistake", nothing, f"{NIGHT} --set index.shard=2", 78, "shards"),
    Fault("night: no date", nothing, f"{NIGHT} --set date=yesterday", 78, "valid date"),
    Fault("night: a metric with a mistake", nothing, f"{NIGHT} --metric NDGC", 2, "metric"),
    Fault("night: none stays", nothing, f"{NIGHT} --keep 0", 2, "--keep 0"),
    Fault("night: a step with a mistake", nothing, f"{NIGHT} --since idnex", 2, "index"),
    Fault(
        "night: a hook without time",
        nothing,
        f"{NIGHT} --on-failure true --on-failure-timeout nan",
        2,
        "--on-failure-timeout nan",
    ),
    Fault("night: an input is gone", removed("web.warc.gz"), NIGHT, 66, "web.warc.gz", "restore"),
    Fault("night: the good run is gone", good_to_nowhere, NIGHT, 66, "2026-01-01"),
    Fault("night: good is a folder", written("work/runs/good/a", "a"), NIGHT, 73, "move it away"),
    Fault("night: another's record", good_night([]), f"{NIGHT[:-1]}a", 65, "night.json"),
    Fault(
        "night: a damaged good run",
        all_of(good_night(), manifest_emptied("work/runs/a")),
        NIGHT,
        65,
        "scored",
    ),
    Fault(
        "night: other settings in the night's run",
        good_night(),
        f"{NIGHT[:-1]}a --set index.shards=1",
        73,
        "shards",
    ),
)

_OF_RUNS = (
    Fault("runs: no folder", nothing, "runs DIR/none", 66, "none: no such folder"),
    Fault("runs: a file", nothing, "runs JOB", 66, "job.toml"),
    Fault("runs: no run in the folder", nothing, "runs WORK", 66, "no run in"),
    Fault("runs: a run in place of its folder", nothing, "runs RUN", 66, "is a run itself"),
    Fault("runs: none is shown", nothing, "runs DIR --last 0", 2, "--last 0"),
    Fault("runs: another's record", good_night([]), "runs WORK/runs", 65, "night.json"),
    Fault(
        "runs: a damaged run",
        manifest_emptied(),
        "runs DIR",
        0,
        "damaged",
        right=lambda place, sound: True,
    ),
    Fault("runs: damaged times", written("run/.clock.json", "[]"), "runs DIR", 0, "complete"),
    Fault("status --json: no run", nothing, "status WORK --json", 66, "no run in"),
)

_OF_MACHINES = (
    Fault("join: no job", nothing, "run DIR/none.toml --out WORK/new --join", 66, "none.toml: no such file"),
    Fault("join: --out is a file", nothing, "run JOB --out JOB --join", 73, "is a file"),
    Fault("join: lost at once", nothing, f"{JOIN} --lapse 0.1", 2, "--lapse 0.1"),
    Fault("join: lost after no number", nothing, f"{JOIN} --lapse nan", 2, "--lapse nan"),
    Fault("join: with --redo", nothing, f"{JOIN} --redo rerank", 2, "--join does not go with --redo"),
    Fault("join: with an engine", nothing, f"{JOIN} -- --runner=DirectRunner", 2, "leave out what follows"),
    Fault(
        "join: another job's output", nothing, "run JOB --out RUN --join --set index.shards=1", 73, "shards"
    ),
    Fault(
        "join: a command alone is there",
        removed("run/scored"),
        "run JOB --out RUN --join",
        73,
        "a process is writing here",
        "again",
        how=locked,
    ),
    Fault("join: an input is gone", removed("web.warc.gz"), JOIN, 66, "web.warc.gz", "restore"),
    Fault(
        "join: a machine of another version",
        written("work/new/_machines/leader-00001.json", "[]"),
        JOIN,
        69,
        "another version of answermill",
    ),
)

FAULTS = (*_OF_NIGHT, *_OF_RUNS, *_OF_MACHINES)
