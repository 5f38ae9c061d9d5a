"""Plots, as SVG and PNG with the same bytes every time: cost against accuracy of drop schedules (Cascade
Transformer Fig. 2), coverage against accuracy of rankers that may give no answer, the effect of a setting of
a training (HAS Figs. 2 and 3), agreement of heads with teachers (MHS Fig. 3), and reliability of
probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from answermill.ranking.evaluation.risk_coverage import ReliabilityBin, RiskCoverage
from answermill.schemas.arrays import Floats

FORMS = (".svg", ".png")
_SIZE, _DPI = (8, 5), 120
_FRONT = "the best for the cost"
_COLOURS = {"point": "#9aa5b1", "front": "#1f4e79", "mark": "#c05621"}
_CURVES = ("#1f4e79", "#c05621", "#2e7d32", "#7b3fa0", "#b00020", "#5f6b7a")


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A schedule that is named in the legend, by its number; `shape` is matplotlib's."""

    number: int
    name: str
    shape: str
    colour: str = _COLOURS["mark"]


def plot(
    files: Sequence[Path],
    cost: Floats,
    value: Floats,
    *,
    metric: str,
    front: Sequence[int],
    marks: Sequence[PlotMark],
) -> None:
    """One point per schedule: `cost` relative to the monolithic model and `value` of the metric, [schedules],
    both 0 to 1.

    The file names' ends say the form. Schedules at the same place are one point.
    """
    with _drawn(
        files, "layers × candidates, % of the monolithic model", f"{metric}, %", "lower right"
    ) as axes:
        places = sorted({(100 * float(c), 100 * float(v)) for c, v in zip(cost, value, strict=True)})
        x, y = zip(*places, strict=True)
        axes.plot(
            x,
            y,
            "o",
            color=_COLOURS["point"],
            markersize=3.5,
            alpha=0.55,
            markeredgewidth=0,
            label="a schedule",
        )

        line = [(100 * float(cost[i]), 100 * float(value[i])) for i in front]
        axes.plot(
            *zip(*line, strict=True),
            "-",
            drawstyle="steps-post",
            color=_COLOURS["front"],
            linewidth=1.5,
            label=_FRONT,
        )

        for mark in marks:
            point = [100 * float(cost[mark.number])], [100 * float(value[mark.number])]
            axes.plot(
                *point,
                mark.shape,
                color=mark.colour,
                label=mark.name,
                markersize=14 if mark.shape == "*" else 10,
                markeredgecolor="white",
            )


def plot_coverage(files: Sequence[Path], curves: Mapping[str, RiskCoverage]) -> None:
    """One line per name: share of all questions that is answered, the most confident first, and share of
    these that is right.

    Inside a tie it is the expectation over the tie's orders; the dot is where every question that has an
    answer is answered.
    """
    with _drawn(
        files, "coverage: questions answered, %", "accuracy: right among the answered, %", "lower left"
    ) as axes:
        for n, (name, curve) in enumerate(curves.items()):
            x = 100 * np.arange(1, len(curve.running) + 1) / curve.questions
            colour = _CURVES[n % len(_CURVES)]
            axes.plot(
                x, 100 * (1 - curve.running), "-o", color=colour, markersize=5, markevery=[-1], label=name
            )
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)


def plot_sweep(
    files: Sequence[Path], key: str, values: Sequence[str], curves: Mapping[str, Sequence[float]]
) -> None:
    """One line per name: a figure, 0 to 1, for each value of the setting. Values are evenly spaced, in their
    order."""
    with _drawn(files, key, "%", "lower right") as axes:
        for n, (name, figures) in enumerate(curves.items()):
            colour = _CURVES[n % len(_CURVES)]
            axes.plot(
                range(len(values)),
                [100 * figure for figure in figures],
                "-o",
                color=colour,
                markersize=5,
                label=name,
            )
        axes.set_xticks(range(len(values)), values)


def plot_reliability(files: Sequence[Path], bins: Mapping[str, Sequence[ReliabilityBin]]) -> None:
    """One line per name: the share of right answers against their mean probability, in bins; on the diagonal
    they are equal."""
    with _drawn(files, "mean probability, %", "right, %", "lower right") as axes:
        axes.plot([0, 100], [0, 100], "--", color=_COLOURS["point"], linewidth=1, label="calibrated")
        for n, (name, parts) in enumerate(bins.items()):
            x, y = ([100 * value for value in column] for column in list(zip(*parts, strict=True))[:2])
            axes.plot(x, y, "-o", color=_CURVES[n % len(_CURVES)], markersize=5, label=name)
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)


def plot_agreement(
    files: Sequence[Path], matrix: Floats, heads: Sequence[str], teachers: Sequence[str]
) -> None:
    """A square for each head and teacher: the share, 0 to 1, of the head's correct answers that is the
    teacher's too."""
    with _figure(files) as axes:
        axes.imshow(100 * matrix, cmap="Blues", vmin=0, vmax=100)
        axes.set_xticks(range(len(teachers)), teachers)
        axes.set_yticks(range(len(heads)), heads)
        axes.set_xlabel("teacher")
        axes.set_ylabel("head: % of its correct answers")

        for row, column in np.ndindex(matrix.shape):
            value = 100 * float(matrix[row, column])
            axes.text(
                column,
                row,
                f"{value:.1f}",
                ha="center",
                va="center",
                color="white" if value > 60 else "black",
            )


@contextmanager
def _figure(files: Sequence[Path]) -> Iterator[Axes]:
    """Axes to draw on, which are then written."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever this machine's settings are
        matplotlib.rcParams["svg.hashsalt"] = "answermill"
        matplotlib.rcParams["font.size"] = 11
        matplotlib.rcParams["text.parse_math"] = False  # a file's name may have dollars in it
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        yield figure.add_subplot()
        for file in files:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})


@contextmanager
def _drawn(
    files: Sequence[Path], x: str, y: str, legend: Literal["lower left", "lower right"]
) -> Iterator[Axes]:
    """Axes to draw on, which are then finished and written; `x` and `y` are their names, `legend` is the
    legend's place."""
    with _figure(files) as axes:
        yield axes
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(color="#e3e6ea", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(loc=legend, frameon=True, framealpha=0.9, edgecolor="none", fontsize=9.5)
