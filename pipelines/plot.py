"""The cost-accuracy plot of drop schedules (Cascade Transformer Fig. 2), as SVG and PNG with the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from ranking.metrics import Floats

_SIZE, _DPI = (8, 5), 120
_FRONT = "the best for the cost"
_COLOURS = {"point": "#9aa5b1", "front": "#1f4e79", "mark": "#c05621"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A schedule that is named in the legend, by its number; `shape` is matplotlib's."""

    number: int
    name: str
    shape: str
    colour: str = _COLOURS["mark"]


def plot(files: Sequence[Path], cost: Floats, value: Floats, metric: str, front: Sequence[int], marks: Sequence[Mark]) -> None:
    """One point per schedule: `cost` relative to the monolithic model and `value` of the metric, [schedules], both 0 to 1.

    The file names' ends say the form. Schedules at the same place are one point.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever this machine's settings are
        matplotlib.rcParams["svg.hashsalt"] = "answermill"
        matplotlib.rcParams["font.size"] = 11
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        axes = figure.add_subplot()
        places = sorted({(100 * float(c), 100 * float(v)) for c, v in zip(cost, value, strict=True)})
        x, y = zip(*places, strict=True)
        axes.plot(x, y, "o", color=_COLOURS["point"], markersize=3.5, alpha=0.55, markeredgewidth=0, label="a schedule")
        line = [(100 * float(cost[i]), 100 * float(value[i])) for i in front]
        axes.plot(*zip(*line, strict=True), "-", drawstyle="steps-post", color=_COLOURS["front"], linewidth=1.5, label=_FRONT)
        for mark in marks:
            at = [100 * float(cost[mark.number])], [100 * float(value[mark.number])]
            axes.plot(
                *at,
                mark.shape,
                color=mark.colour,
                label=mark.name,
                markersize=14 if mark.shape == "*" else 10,
                markeredgecolor="white",
            )
        axes.set_xlabel("layers × candidates, % of the monolithic model")
        axes.set_ylabel(f"{metric}, %")
        axes.grid(color="#e3e6ea", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9.5)
        for file in files:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})
