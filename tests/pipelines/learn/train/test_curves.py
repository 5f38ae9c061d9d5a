"""Curves of a training: what the card shows is what was measured."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from answermill.pipelines.learn.train.curves import tensorboard, write_curves
from answermill.ranking.training.loop import TrainingProgress
from answermill.ranking.training.state import Evaluated, History

HISTORY = History(
    "x", 30, [Evaluated(10, 0.5, 0.9, 0.5), Evaluated(20, 1, 0.4, 0.8), Evaluated(30, 1.5, 0.3, 0.7)]
)


def test_the_table_and_the_picture_have_every_evaluation(tmp_path: Path) -> None:
    write_curves(tmp_path, HISTORY, "MAP")
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert [(int(row["step"]), float(row["loss"]), float(row["dev_MAP"])) for row in rows] == [
        (e.step, e.loss, e.dev) for e in HISTORY.evaluations
    ]
    picture = ElementTree.fromstring((tmp_path / "curves.svg").read_text())
    lines = picture.findall("{*}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 3]
    loss = [float(point.split(",")[1]) for point in lines[0].attrib["points"].split()]
    assert loss == sorted(loss), "a falling loss goes down, and y grows downwards"
    dots = [dot for dot in picture.findall("{*}circle") if dot.attrib["r"] == "5"]
    assert len(dots) == 1 and dots[0].attrib["cx"] == lines[1].attrib["points"].split()[1].split(",")[0]


def test_a_single_evaluation_is_a_point(tmp_path: Path) -> None:
    write_curves(tmp_path, History("x", 10, HISTORY.evaluations[:1]), "P@1")
    assert "dev P@1" in (tmp_path / "curves.svg").read_text()


def test_the_events_are_those_of_the_training(tmp_path: Path) -> None:
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install 'answermill[tensorboard]'"
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tensorboard(tmp_path / "events", "MAP") as add:
        add(TrainingProgress(1, 2, 0.5, None, None))
        add(TrainingProgress(1, 2, 0.5, 0.75, 0.75))
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["dev/MAP", "loss/mean", "loss/step"]
    assert [(event.step, event.value) for event in events.Scalars("dev/MAP")] == [(1, 0.75)]
