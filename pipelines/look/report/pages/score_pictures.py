"""Pictures of the scores of each stage: a histogram up and one down, of those that went on and of those that left."""

from __future__ import annotations

from answermill.pipelines.look.report.figures import RunReport, StageFigures
from answermill.pipelines.look.report.pages.markup import Html, element, section, short

_LEAST_BINS = 16
"""Bins that a picture has room for, if there are fewer."""
_TALLEST = 34
"""Units of a picture, above the line and below it."""


def score_section(report: RunReport) -> Html:
    return section(
        "Scores",
        "scores",
        element("div", *map(_histogram, report.stages), class_="figures"),
        about="Above the line: candidates that went on. Below: those that left in the stage. Each side is scaled to its own "
        "tallest bar. Passages that a plan made of sentences have the scores of their best ones, and are counted too.",
    )


def _histogram(stage: StageFigures) -> Html:
    """A picture of the scores of a stage: two bars a bin, up and down."""
    went, left = (max((getattr(each, side) for each in stage.scores), default=0) or 1 for side in ("went", "left"))
    pieces = []
    for place, each in enumerate(stage.scores):
        up, down = (_TALLEST * count / most for count, most in ((each.went, went), (each.left, left)))
        says = f"{short(each.start)} to {short(each.start + stage.bin_width)}: {each.went:,} went on, {each.left:,} left"
        marks = [("went", _TALLEST - up, up), ("left", _TALLEST + 1, down)]
        rectangles = [
            element("rect", x=f"{10 * place + 1}", y=f"{y:.1f}", width="8", height=f"{height:.1f}", class_=kind)
            for kind, y, height in marks
            if height
        ]
        if rectangles:
            pieces.append(element("g", element("title", says), *rectangles))
    width = 10 * max(_LEAST_BINS, len(stage.scores))
    line = element("rect", x="0", y=f"{_TALLEST}", width=f"{width}", height="1", class_="axis")
    picture = element(
        "svg", *pieces, line, view_box=f"0 0 {width} {2 * _TALLEST + 1}", preserve="none", role="img",
        **{"aria-label": f"scores of {stage.name}"},
    )  # fmt: skip
    ends = (stage.scores[0].start, stage.scores[-1].start + stage.bin_width) if stage.scores else None
    axis = [element("span", short(end)) for end in ends] if ends else [element("span", "no scores")]
    counts = f"{sum(each.went for each in stage.scores):,} went on, {sum(each.left for each in stage.scores):,} left"
    caption = element("figcaption", element("b", stage.name), element("small", counts))
    return element("figure", caption, picture, element("div", *axis, class_="axis"))
