"""Sizes of a page's drawings: bars of a list, the two sides of a histogram, and a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from answermill.pipelines.look.report.figures import Amount
from answermill.pipelines.look.report.histogram import Bin


def scaled(amounts: Sequence[Amount]) -> Iterator[tuple[Amount, str]]:
    """Amounts with their bars' widths in percent of the largest one's; '' if there is no bar.

    >>> [width for _, width in scaled([Amount("a", 4), Amount("b", 1), Amount("c", 0)])]
    ['100.00', '25.00', '']
    """
    largest = max((amount.count for amount in amounts), default=0)
    for amount in amounts:
        yield amount, f"{100 * amount.count / largest:.2f}" if amount.count else ""


def score_bars(scores: Sequence[Bin], middle: int) -> Iterator[tuple[Bin, list[tuple[str, int, str, str]]]]:
    """Bins that have scores, with their bars (side, x, y, height): 'went' up from a line at `middle`, and
    'left' as far down. A bin is ten units wide, and a side is scaled to its own tallest bar.

    >>> [bars for _, bars in score_bars([Bin(0.0, 8, 0), Bin(0.5, 0, 0), Bin(1.0, 4, 3)], middle=34)]
    [[('went', 1, '0.0', '34.0')], [('went', 21, '17.0', '17.0'), ('left', 21, '35.0', '34.0')]]
    """
    tallest_up = max((score_bin.went for score_bin in scores), default=0)
    tallest_down = max((score_bin.left for score_bin in scores), default=0)

    for place, score_bin in enumerate(scores):
        x, bars = 10 * place + 1, []
        if score_bin.went:
            height = middle * score_bin.went / tallest_up
            bars.append(("went", x, f"{middle - height:.1f}", f"{height:.1f}"))
        if score_bin.left:
            bars.append(("left", x, f"{middle + 1:.1f}", f"{middle * score_bin.left / tallest_down:.1f}"))
        if bars:
            yield score_bin, bars


SPAN = 1000
"""Width of a timeline, in units of its drawing."""


def spans(times: Sequence[tuple[float, float]]) -> Iterator[tuple[str, str]]:
    """(x, width) of each span of time on a line of SPAN units, from the begin of the first to the end of the
    last; a short one is wide enough to be seen. `times`: (begin, end).

    >>> list(spans([(100.0, 150.0), (150.0, 190.0), (199.9, 200.0)]))
    [('0.0', '500.0'), ('500.0', '400.0'), ('996.0', '4.0')]
    """
    first = min((begin for begin, _ in times), default=0.0)
    whole = max((end for _, end in times), default=0.0) - first
    scale = SPAN / whole if whole else 0.0
    for begin, end in times:
        width = max(4.0, scale * (end - begin))
        yield f"{min(scale * (begin - first), SPAN - width):.1f}", f"{width:.1f}"
