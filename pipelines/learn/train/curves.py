"""Curves of a training: loss and dev score by step, as CSV and as SVG beside the card, and for TensorBoard.

The SVG is drawn here, since a card has it whether or not matplotlib is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from answermill.files.atomic_files import write_text
from answermill.ranking.training.loop import TrainingProgress
from answermill.ranking.training.state import History

CURVES, TABLE, EVENTS = "curves.svg", "curves.csv", "tensorboard"
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 150, 60, 30, 60
_COLOURS = ("#c05621", "#1f4e79")


def write_curves(folder: Path, history: History, metric: str) -> None:
    """Write the evaluations of a training as curves.csv and curves.svg."""
    rows = [f"{e.step},{e.epoch:.4f},{e.loss:.6f},{e.dev:.6f}\n" for e in history.evaluations]
    write_text(folder / TABLE, f"step,epoch,loss,dev_{metric}\n" + "".join(rows))
    write_text(folder / CURVES, curves_svg(history, metric))


def curves_svg(history: History, metric: str) -> str:
    """Two panels, one below the other: the mean loss since the evaluation before, and the dev score in
    percent, with a dot at the best."""
    steps = [e.step for e in history.evaluations]
    best = history.best
    panels = (
        ("loss", [e.loss for e in history.evaluations], None),
        (f"dev {metric}, %", [100 * e.dev for e in history.evaluations], None if best is None else best.step),
    )
    height = 2 * _HEIGHT + _TOP + _GAP + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        'font-size="12" role="img">',
        f"<title>Loss and dev {metric} by step</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for n, (name, values, marked) in enumerate(panels):
        top = _TOP + n * (_HEIGHT + _GAP)
        lines += _panel(name, steps, values, top=top, colour=_COLOURS[n], marked=marked)
    lines.append(f'<text x="{_WIDTH / 2}" y="{height - 8}" text-anchor="middle">step</text>')
    return "\n".join([*lines, "</svg>", ""])


def _panel(
    name: str, steps: Sequence[int], values: Sequence[float], *, top: int, colour: str, marked: int | None
) -> Iterator[str]:
    """Frame, bounds and line of one curve; `marked`: the step with a dot."""
    low, high = min(values), max(values)
    x = [_place(step, min(steps), max(steps), _LEFT, _WIDTH - 20) for step in steps]
    y = [_place(value, low, high, top + _HEIGHT, top) for value in values]
    bottom, end = top + _HEIGHT, _WIDTH - 20
    yield f'<text x="{_LEFT}" y="{top - 8}">{name}</text>'
    yield f'<path d="M{_LEFT} {top}V{bottom}H{end}" fill="none" stroke="#9aa5b1"/>'
    for value, height in dict.fromkeys([(high, top), (low, bottom)]):
        yield f'<text x="{_LEFT - 6}" y="{height + 4}" text-anchor="end">{value:.4g}</text>'
    for step, place in dict.fromkeys([(steps[0], x[0]), (steps[-1], x[-1])]):
        yield f'<text x="{place:.1f}" y="{bottom + 16}" text-anchor="middle">{step:,}</text>'

    points = [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for step, point in zip(steps, points, strict=True):
        a, b = point.split(",")
        yield f'<circle cx="{a}" cy="{b}" r="{5 if step == marked else 2.5}" fill="{colour}"/>'


def _place(value: float, low: float, high: float, first: float, last: float) -> float:
    """Place of a value between two bounds on a line from `first` to `last`; its middle if the bounds are
    equal.

    >>> _place(2, 0, 8, 100, 0), _place(3, 3, 3, 0, 10)
    (75.0, 5.0)
    """
    return first + (last - first) * (value - low) / (high - low) if high > low else (first + last) / 2


@contextmanager
def tensorboard(folder: Path | None, metric: str) -> Iterator[Callable[[TrainingProgress], None]]:
    """Function that adds a step's loss, or an evaluation's, to the events in the folder, for `tensorboard
    --logdir`; it does nothing without a folder. After a resume the events go on at the step of the last
    evaluation."""
    if folder is None:
        yield lambda state: None
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:

        def add(state: TrainingProgress) -> None:
            if state.dev is None:
                writer.add_scalar("loss/step", state.loss, state.step)
            else:
                writer.add_scalar("loss/mean", state.loss, state.step)
                writer.add_scalar(f"dev/{metric}", state.dev, state.step)
                writer.flush()

        yield add
