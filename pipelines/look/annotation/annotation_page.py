"""annotation.html: progress and agreement of the people who judge, and a table of their conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from answermill.pipelines.look.annotation.annotation_progress import AnnotationFigures, ConflictRow
from answermill.pipelines.look.report.pages.templates import NOTHING, number, page, percent

PAGE = "annotation.html"
SHOWN = 10_000
"""Most conflicts on the page: more would be slow in a browser."""


def annotation_page(run: str, figures: AnnotationFigures, conflicts: Iterable[ConflictRow]) -> Iterator[str]:
    """Pieces of the document. `run`: its name for people."""
    return page(
        "annotation.html.j2",
        run=run,
        figures=figures,
        first_figures=first_figures(figures),
        people=people_rows(figures),
        about_people=about_people(figures),
        pairs=[
            (*pair.people, number(pair.tasks), NOTHING if pair.kappa is None else f"{pair.kappa:.3f}")
            for pair in figures.pairs
        ],
        shown=min(figures.conflicts, SHOWN),
        rows=(row for _, row in zip(range(SHOWN), conflicts, strict=False)),
    )


def first_figures(figures: AnnotationFigures) -> list[tuple[str, str]]:
    """Figures for the top of the page, with their names."""
    judged = figures.tasks - figures.fates.get("not_judged", 0)
    alpha = NOTHING if figures.alpha is None else f"{figures.alpha:.3f}"
    reason = f", undefined: {figures.alpha_reason}" if figures.is_collected and figures.alpha is None else ""
    return [
        (number(figures.tasks), "tasks"),
        (percent(judged / figures.tasks if figures.tasks else None), "of them judged"),
        (number(figures.votes), "labels by people"),
        (number(figures.fates.get("labelled", 0)), "tasks with a label"),
        (number(figures.conflicts), "conflicts"),
        (number(figures.fates.get("open", 0)), "of them open"),
        (alpha, f"Krippendorff's alpha{reason}"),
    ]


def people_rows(figures: AnnotationFigures) -> list[Sequence[str]]:
    """Rows of the table of people."""
    return [
        (
            person.name,
            number(person.dealt),
            number(person.judged),
            number(person.no_label),
            number(person.open),
            percent(person.positive),
            percent(person.with_others),
            f"{person.controls[0]:,} of {person.controls[1]:,}" if person.controls[1] else NOTHING,
        )
        for person in figures.people
    ]


def about_people(figures: AnnotationFigures) -> str:
    """Sentences on the table of people."""
    named = any(person.dealt is not None for person in figures.people)
    dealt = (
        "Given are the tasks that annotate.people dealt to a person; a dash is a name that it does not have, "
        "and answermill collect --people says whose it is. "
        if named
        else "Without annotate.people nobody is given tasks by name, so nobody's open tasks are known. "
    )
    return (
        f"{dealt}No label are tasks that a person skipped or could not tell. As the others: labels like the "
        "majority of those who judged the same task."
    )
