"""`answermill runs`: the runs in a folder, one after another, with what changed from each to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

from answermill.files.remote import as_path
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, WORSE, JobError, check_folder
from answermill.pipelines.look.status import status
from answermill.pipelines.nights.night_folder import GOOD, NightRecord, Nights
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.runs.watch.clock import step_times
from answermill.pipelines.runs.watch.live import Running
from answermill.pipelines.specs.ingest import INGEST
from answermill.pipelines.specs.registry import SPECS
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.retrieve import RETRIEVE
from answermill.pipelines.specs.run import Run

FIGURES = ("pages", "rejects", "questions", "answered", "seconds")
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run of a folder. A figure is None if its step is not complete."""

    run: str
    state: str
    """'good', 'complete', 'refused', 'failed (66)', 'damaged', 'running' or 'stopped'."""
    ended: float | None
    """Seconds since 1970; None if the run does not say."""
    pages: int | None
    """Records that ingest has read."""
    rejects: int | None
    """Records that all complete steps have refused."""
    questions: int | None
    answered: int | None
    seconds: float | None
    """By the clock, of all steps."""


def runs_in(folder: Path, last: int) -> list[RunFigures]:
    """The last runs of a folder, the oldest first: by their ends, then by name. Raises JobError: 66 if there
    is no such folder, or no run in it, or it is a run itself; 2 if `last` is less than 1."""
    if last < 1:
        raise JobError(f"--last {last}: give how many runs are shown, 1 or more", USAGE)
    folder = as_path(folder)
    check_folder(folder)
    if Run.open(folder).manifests:
        raise JobError(
            f"{folder} is a run itself: `answermill status` shows it; give the folder that it is in",
            INPUT_MISSING,
        )
    nights = Nights(folder.absolute())
    good = (folder / GOOD).exists() and nights.good()
    places = (path for path in folder.iterdir() if path.is_dir() and path.name != GOOD)
    figures = [each for path in places if (each := _figures(path, nights, good or None)) is not None]
    if not figures:
        raise JobError(
            f"no run in {folder}; `answermill night JOB.toml --runs {folder}` makes one each night",
            INPUT_MISSING,
        )
    now = time()
    shown = sorted(figures, key=lambda each: (now if each.ended is None else each.ended, each.run))[-last:]
    return [
        replace(each, state="damaged") if each.state != "running" and _is_damaged(folder / each.run) else each
        for each in shown
    ]


def _is_damaged(path: Path) -> bool:
    """True if `status` finds damage in the run."""
    try:
        for _ in status(path):
            pass
    except JobError as e:
        return e.code == BAD_DATA
    return False


def _figures(path: Path, nights: Nights, good: str | None) -> RunFigures | None:
    """The figures of a run; None if the folder holds none."""
    run, record = Run.open(path), nights.read(path.name)
    is_begun = any(work_folders(path, name) for name in SPECS)
    if not run.manifests and not run.unreadable and not is_begun and record is None:
        return None
    complete = [spec for spec in SPECS.values() if run.is_complete(spec)]
    times = step_times(path).values()
    asked = run.counts(RETRIEVE).questions if run.is_complete(RETRIEVE) else None
    return RunFigures(
        run=path.name,
        state=_state(run, record, path.name == good, is_begun),
        ended=max((time.ended for time in times), default=None),
        pages=run.counts(INGEST).pages if run.is_complete(INGEST) else None,
        rejects=sum(run.counts(spec).rejects for spec in complete) if complete else None,
        questions=asked,
        answered=run.counts(RERANK).answered if run.is_complete(RERANK) else None,
        seconds=sum(time.seconds for time in times) if times else None,
    )


def _state(run: Run, record: NightRecord | None, is_good: bool, is_begun: bool) -> str:
    running = Running.read(run.path)
    if running is not None and not running.is_gone(time()):
        return "running"
    if is_good:
        return "good"
    if record is not None and record.is_open:
        return "stopped"
    if record is not None and record.code:
        return "refused" if record.code == WORSE else f"failed ({record.code})"
    return "stopped" if is_begun or running is not None else "complete"


def changes(figures: Sequence[RunFigures]) -> list[dict[str, float | None]]:
    """Change of each figure from the last run that has it, as a share; None without one, or from 0.

    >>> first, second = (RunFigures("n", "good", None, pages, 0, None, None, None) for pages in (80, 60))
    >>> [change["pages"] for change in changes([first, second])]
    [None, -0.25]
    """
    before: dict[str, float] = {}
    shares = []
    for each in figures:
        known = {name: value for name in FIGURES if (value := getattr(each, name)) is not None}
        shares.append(
            {
                name: known[name] / old - 1 if name in known and (old := before.get(name)) else None
                for name in FIGURES
            }
        )
        before |= known
    return shares


def table(figures: Sequence[RunFigures]) -> Iterator[str]:
    """Lines of a table for people: a run each, each figure with its change, and a line of small bars."""
    rows = [["run", "state", "ended (UTC)", *FIGURES]]
    for each, change in zip(figures, changes(figures), strict=True):
        ended = "" if each.ended is None else f"{datetime.fromtimestamp(each.ended, UTC):%Y-%m-%d %H:%M}"
        cells = [_cell(getattr(each, name), change[name]) for name in FIGURES]
        rows.append([each.run, each.state, ended, *cells])
    if len(figures) > 1:
        rows.append(["", "", "trend", *(bars([getattr(each, name) for each in figures]) for name in FIGURES)])

    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        texts = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        yield "  ".join(texts + numbers).rstrip()


def _cell(value: float | None, change: float | None) -> str:
    """A figure, with its change if that is not nothing; one that grew tenfold or more says how many times.

    >>> _cell(1200, 0.2), _cell(1200, 0.0), _cell(None, None), _cell(46000, 354.0)
    ('1,200 +20.0%', '1,200', '–', '46,000 ×355')
    """
    if value is None:
        return "–"
    shown = "" if change is None or f"{change:+.1%}"[1:] == "0.0%" else f" {change:+.1%}"
    if change is not None and change >= 9:
        shown = f" ×{1 + change:,.0f}"
    return f"{value:,.0f}{shown}"


def bars(values: Iterable[float | None]) -> str:
    """Values as small bars, from the least to the most; a blank where one is not known.

    >>> bars([10, 20, None, 15, 10])
    '▁█ ▅▁'
    """
    values = list(values)
    known = [value for value in values if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else _BARS[round(scale * (value - low))] for value in values)


def as_json(figures: Sequence[RunFigures]) -> list[dict[str, Any]]:
    """An object each run, with the changes of its figures."""
    pairs = zip(figures, changes(figures), strict=True)
    return [asdict(each) | {"changes": change} for each, change in pairs]
