"""Sweep: a training file and values of its keys -> a checkpoint for each, a table and plots (HAS Figs. 2 and
3).

Each key is swept on its own, the others as the file has them, as the paper does: β at one δ, δ at one β. The
trainings are those of `answermill train`: a complete one is not repeated, and a stopped one goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from answermill.files.atomic_files import write_text
from answermill.pipelines.config.training_file import TrainJob, load_job
from answermill.pipelines.errors import USAGE, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.plot import FORMS, plot_sweep
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.pipelines.learn.train.train import data_form, run
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.training.state import finished

SEED = "train.seed"
MEANS = "means.json"
_PLACE = ("key", "value", "checkpoint")
"""Keys of a row that are no figures."""


@dataclass(frozen=True, slots=True)
class Point:
    """A training of the sweep."""

    key: str
    value: str
    job: TrainJob
    folder: Path


def sweep(
    file: Path,
    over: Sequence[str],
    out: Path,
    *,
    settings: Sequence[str] = (),
    labels: Sequence[Path] = (),
    metrics: Sequence[str] = ("MAP", "MRR"),
) -> Iterator[str]:
    """Train each point, measure it on `labels`, and write sweep.json, last, and the plots; yields lines for
    people.

    Raises JobError: 2 if `over` is wrong or a file is in `labels` twice, and as `train.run` and `evaluate`
    do. All settings are checked before the first training.
    """
    names = names_of(labels)
    trainings = points(file, over, out, settings)
    rows: list[dict[str, str | float]] = []
    measured: dict[Path, dict[str, float]] = {}

    for point in trainings:
        if point.folder not in measured:
            yield f"{point.key} = {point.value}"
            yield from run(point.job, point.folder)
            measured[point.folder] = dict(_figures(point, names, metrics))
        rows.append(
            {
                "key": point.key,
                "value": point.value,
                "checkpoint": point.folder.name,
                **measured[point.folder],
            }
        )

    yield from _table(rows)
    means = over_seeds(rows)
    yield from _means(means)
    for key in dict.fromkeys(point.key for point in trainings):
        key_rows = [row for row in rows if row["key"] == key]
        values = [str(row["value"]) for row in key_rows]
        curves = {name: [float(row[name]) for row in key_rows] for name in key_rows[0] if name not in _PLACE}
        plot_sweep([out / f"{key}{form}" for form in FORMS], key, values, curves)

    if means:
        write_text(out / MEANS, json.dumps(means, indent=1) + "\n")
    else:  # those of an earlier sweep would be of other rows
        (out / MEANS).unlink(missing_ok=True)
    write_text(out / "sweep.json", json.dumps(rows, indent=1) + "\n")
    yield f"written: {out}"


def names_of(labels: Sequence[Path]) -> dict[str, Path]:
    """Name → file. A name is the file's up to the first dot; the whole one, or the path, where two would be
    equal."""
    for name in (lambda file: file.name.partition(".")[0], lambda file: file.name, str):
        files = {name(file): file for file in labels}
        if len(files) == len(labels):
            return files
    raise JobError("a file is given twice as --labels", USAGE)


def points(file: Path, over: Sequence[str], out: Path, settings: Sequence[str] = ()) -> list[Point]:
    """Every point in order; two of the same settings have one folder. Raises JobError as `sweep` does."""
    trainings: list[Point] = []
    folders: dict[str, Path] = {}
    for item in over:
        key, _, written = item.partition("=")
        values = [value.strip() for value in written.split(",")]
        if not key or not all(values) or len(set(values)) != len(values):
            raise JobError(
                f"--over {item}: write key=value,value,..., each value once, e.g. hashing.beta=1,2,5,10,20",
                USAGE,
            )
        if any(point.key == key for point in trainings):
            raise JobError(f"--over {item}: {key} is swept already; give all its values at once", USAGE)

        for value in values:
            job = load_job(file, [*settings, f"{key}={value}"])
            folder = folders.setdefault(job.model_dump_json(), out / f"{key}={value}")
            trainings.append(Point(key, value, job, folder))

    if not trainings:
        raise JobError("--over is missing: a key and its values, e.g. hashing.beta=1,2,5,10,20", USAGE)

    return trainings


def _figures(point: Point, labels: Mapping[str, Path], metrics: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The best dev score, and each metric on each data set."""
    history = finished(point.folder)
    assert history is not None and history.best is not None  # `run` has just ended
    yield f"dev {point.job.train.metric}", history.best.dev
    for name, file in labels.items():
        evaluation = evaluate(
            kind_of(point.folder),
            file,
            protocol=point.job.train.protocol,
            metrics=metrics,
            form=data_form(point.job),
            ranker=RankOptions(checkpoint=str(point.folder)),
        )
        yield from ((f"{name} {metric}", evaluation.means[metric][0]) for metric in metrics)


def over_seeds(rows: Sequence[Mapping[str, str | float]]) -> dict[str, dict[str, float]]:
    """Figure → its mean over the seeds that were swept, the deviation of a sample, and their number; empty
    unless two or more seeds were.

    >>> over_seeds([{"key": "train.seed", "value": str(n), "checkpoint": "", "MAP": n / 10} for n in (1, 3)])
    {'MAP': {'mean': 0.2, 'deviation': 0.141421, 'seeds': 2}}
    """
    seeds = [row for row in rows if row["key"] == SEED]
    if len(seeds) < 2:
        return {}
    means = {}
    for name in (name for name in seeds[0] if name not in _PLACE):
        values = [float(row[name]) for row in seeds]
        means[name] = {
            "mean": round(mean(values), 6),
            "deviation": round(stdev(values), 6),
            "seeds": len(values),
        }
    return means


def _means(means: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for name, figure in means.items():
        seeds = f"over {figure['seeds']:.0f} seeds"
        yield f"{name}: {100 * figure['mean']:.2f} ± {100 * figure['deviation']:.2f} {seeds}"


def _table(rows: Sequence[Mapping[str, str | float]]) -> Iterator[str]:
    """Lines of a table for people, in percent."""
    names = [name for name in rows[0] if name not in _PLACE]
    points = [f"{row['key']} = {row['value']}" for row in rows]
    first = max(map(len, points))
    yield ""
    yield " " * first + "".join(f"  {name:>12}" for name in names)
    for point, row in zip(points, rows, strict=True):
        yield point.ljust(first) + "".join(
            f"  {100 * float(row[name]):>{max(12, len(name))}.2f}" for name in names
        )
