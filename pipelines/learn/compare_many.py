"""Compare many: several evaluations of the same questions with the first of them -> one table for a paper,
its p-values corrected for the number of tests (Holm)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import write_text
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import USAGE, JobError, counted
from answermill.pipelines.learn.evaluate.compare import Compared, ComparedSide, MeasuredBy, compare_sides
from answermill.pipelines.runs.shown import Shown
from answermill.ranking.evaluation.metrics import Protocol
from answermill.ranking.evaluation.significance import Comparison, holm

FORMS = (".md", ".tex")
LEVEL = 0.05
_LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
}


@dataclass(frozen=True, slots=True)
class ComparedMany(Shown):
    """Several runs beside the first one, over the same questions."""

    first: str
    pairs: Mapping[str, Compared]
    """Run → comparison with the first."""
    corrected: Mapping[tuple[str, str], float]
    """(run, metric) → p of the randomisation test, corrected for the runs that the metric compares."""

    @property
    def others(self) -> Mapping[str, Mapping[str, Comparison]]:
        """Run → metric → comparison with the first."""
        return {run: pair.metrics for run, pair in self.pairs.items()}

    @property
    def protocol(self) -> str:
        return self._some.protocol

    @property
    def questions(self) -> int:
        return self._some.questions

    @property
    def metrics(self) -> Sequence[str]:
        return list(self._some.metrics)

    @property
    def _some(self) -> Compared:
        return next(iter(self.pairs.values()))

    def table(self) -> Iterator[tuple[str, list[str]]]:
        """(run, cell of each metric): in percent, with `*` where the corrected p is below LEVEL."""
        some = self._some.metrics
        yield self.first, [f"{100 * some[metric].a:.2f}" for metric in self.metrics]
        for run, compared in self.others.items():
            yield (
                run,
                [
                    f"{100 * compared[metric].b:.2f}{'*' * (self.corrected[run, metric] < LEVEL)}"
                    for metric in self.metrics
                ],
            )

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each run but the first, and metric, from 0 to 1."""
        for run, compared in self.others.items():
            for metric, c in compared.items():
                yield {"run": run, "metric": metric, **asdict(c), "p_holm": self.corrected[run, metric]}

    @property
    def legend(self) -> str:
        return (
            f"{self.questions:,} questions, protocol {self.protocol}, in percent. * differs from the first "
            f"row: p < {LEVEL} by a paired randomisation test, corrected by Holm for "
            f"{counted(len(self.others), 'run')}"
        )

    def lines(self) -> Iterator[str]:
        """Lines for people: the table, then each difference with its interval and both p-values."""
        yield (f"the first: {self.first}; {counted(self.questions, 'question')}, protocol {self.protocol}")
        gaps = {self.first: self._some.gaps["A"]} | {run: pair.gaps["B"] for run, pair in self.pairs.items()}
        for run, lacking in gaps.items():
            yield from (f"{run}: {gap}" for gap in lacking)
        yield ""
        width = max(map(len, (*self.others, "run")))
        heads = ("first", "run", "difference", "from", "to", "p", "p (Holm)")
        yield f"{'metric':<10}  {'run':<{width}}" + "".join(f"{head:>12}" for head in heads)
        for metric in self.metrics:
            for run, compared in self.others.items():
                c = compared[metric]
                figures = "".join(f"{100 * v:>12.2f}" for v in (c.a, c.b, c.difference, c.low, c.high))
                yield f"{metric:<10}  {run:<{width}}{figures}{c.p:>12.4f}{self.corrected[run, metric]:>12.4f}"

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [["run", *self.metrics], ["---", *["---:"] * len(self.metrics)]]
        lines += [[run.replace("|", r"\|"), *cells] for run, cells in self.table()]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{self.legend}.\n"

    def latex(self) -> str:
        """The table in LaTeX, with the lines of booktabs."""
        heads = " & ".join(["run", *map(_escaped, self.metrics)])
        rows = [" & ".join([_escaped(run), *map(_starred, cells)]) for run, cells in self.table()]
        return "\n".join(
            [
                f"\\begin{{tabular}}{{l{'r' * len(self.metrics)}}}",
                "\\toprule",
                f"{heads} \\\\",
                "\\midrule",
                *(f"{row} \\\\" for row in rows),
                "\\bottomrule",
                "\\end{tabular}",
                f"% {self.legend}",
                "",
            ]
        )

    def write(self, files: Sequence[Path]) -> None:
        """Write the table into files, in the form that their names' ends say."""
        for file in files:
            write_text(file, self.latex() if file.suffix == ".tex" else self.markdown())


def compare_many(
    runs: Sequence[str],
    *,
    labels: Path | None = None,
    protocol: Protocol | None = None,
    metrics: Sequence[str] | None = None,
    form: Form = None,
    rounds: int = 10_000,
    seed: int = 0,
) -> ComparedMany:
    """Compare every other run with the first one, as `compare_files` compares two.

    Each is evaluated once. Raises JobError: 2 if a run is named twice, or fewer than two are named; else as
    `compare_files`.
    """
    if len(runs) < 2:
        raise JobError("give two or more runs", USAGE)
    if twice := next((run for n, run in enumerate(runs) if run in runs[:n]), None):
        raise JobError(f"{twice} is named twice; name each run once", USAGE)

    measure = MeasuredBy(labels, protocol, metrics, form)
    first, *others = (ComparedSide.of(run, measure) for run in runs)
    pairs = {other.name: compare_sides(first, other, measure, rounds, seed) for other in others}
    corrected: dict[tuple[str, str], float] = {}
    for metric in pairs[runs[1]].metrics:
        values = holm([pair.metrics[metric].p for pair in pairs.values()])
        corrected |= {(run, metric): value for run, value in zip(pairs, values, strict=True)}

    return ComparedMany(first.name, pairs, corrected)


def check_tables(files: Sequence[Path]) -> None:
    """Raise JobError (2) if a file's name does not end as a table's."""
    for file in files:
        if file.suffix not in FORMS:
            raise JobError(f"{file}: give a name that ends in {' or '.join(FORMS)}", USAGE)


def _escaped(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> print(_escaped("P@1 & 5 % of a_b"))
    P@1 \& 5 \% of a\_b
    """
    return "".join(_LATEX.get(character, character) for character in text)


def _starred(cell: str) -> str:
    return cell.replace("*", "$^{*}$")
