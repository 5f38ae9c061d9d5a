"""Tune: a cascade and a dev set -> drop schedules with their cost and accuracy, and the ones to take.

The model sees the dev set once, with nothing dropped; every schedule is then replayed from its exits' scores
(Cascade Transformer §5.5). The folder holds exit_scores.parquet, schedules.parquet, the plot of Fig. 2 as
cost.svg and cost.png, and, written last, schedules.json with the chosen ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from answermill.files.atomic_files import write_text
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import (
    BAD_DATA,
    USAGE,
    JobError,
    check_file,
    counted,
    setting_error,
)
from answermill.pipelines.learn.evaluate.plot import PlotMark, plot
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.steps.models import device_of
from answermill.ranking.evaluation.metrics import METRICS
from answermill.ranking.lists import ranked_list
from answermill.ranking.reranker import naming
from answermill.ranking.rerankers.cascade.exits import ExitModel, ExitRows, ExitScores
from answermill.ranking.rerankers.cascade.guarantee import Guaranteed, guarantee
from answermill.ranking.rerankers.cascade.replay import Replayed, replay
from answermill.ranking.rerankers.cascade.schedule import Schedule, check, cost, grid
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.record import Record
from answermill.schemas.schedule import ExitScore, ScheduleScore

UNIFORM = {0.3: "^", 0.4: "D", 0.5: "s"}
"""The paper's three runs (Table 3), with their marks in the plot."""
MOST = 100_000
"""Most schedules in a grid."""
_LISTS = 64  # handed to the model at once


@dataclass(frozen=True, slots=True)
class Aims:
    """The schedules that are tried, and the aims by which they are chosen."""

    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    """Shares of the grid."""
    budget: float = 0.6
    metric: str = "P@1"
    delta: float = 0.05
    epsilon: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.shares or not all(0 <= share < 1 for share in self.shares):
            raise JobError(
                f"--grid {_written(self.shares)}: give shares of at least 0 and below 1, e.g. 0.1,0.2,0.3",
                USAGE,
            )
        if not 0 < self.budget <= 1:
            raise JobError(
                f"--budget {self.budget:g}: give a cost above 0 and up to 1, the monolithic model's", USAGE
            )

        if self.metric not in METRICS:
            raise JobError(f"--metric {self.metric}: unknown; known: {', '.join(METRICS)}", USAGE)

        for name, value in (("delta", self.delta), ("epsilon", self.epsilon)):
            if not 0 < value < 1:
                raise JobError(f"--{name} {value:g}: give a probability above 0 and below 1", USAGE)


@dataclass(frozen=True, slots=True)
class Tuned:
    """All schedules on the dev set, the chosen ones by name, and these on the held-out set where there is
    one."""

    checkpoint: str
    dev: str
    held_out: str | None
    aims: Aims
    table: ExitScores
    candidate_ids: tuple[str, ...]
    replayed: Replayed
    chosen: Mapping[str, Schedule]
    """Name → schedule: 'none' drops nothing; 'uniform_0.3' ..; 'budget' and 'guarantee' are the answers."""
    guaranteed: Guaranteed
    held: Replayed | None
    """The `chosen` schedules on the held-out set, in their order."""

    def number(self, name: str) -> int:
        return self.replayed.schedules.index(self.chosen[name])

    def summary(self) -> dict[str, Any]:
        """One flat object; costs and metrics from 0 to 1."""
        flat: dict[str, Any] = {
            "checkpoint": self.checkpoint,
            "dev": self.dev,
            "held_out": self.held_out,
            "questions": len(self.table.question_ids),
            "answerable": self.replayed.answerable,
            "candidates": len(self.table.question),
            "depth": self.table.depth,
            "exits": list(self.table.exits),
            "grid": list(self.aims.shares),
            "schedules": len(self.replayed.schedules),
            "metric": self.aims.metric,
            "budget": self.aims.budget,
            "delta": self.aims.delta,
            "epsilon": self.aims.epsilon,
            "seed": self.aims.seed,
        }
        for place, (name, schedule) in enumerate(self.chosen.items()):
            flat[f"{name}_drops"] = list(schedule)
            flat |= {
                f"{name}_{key}": value for key, value in _figures(self.replayed, self.number(name)).items()
            }
            if self.held is not None:
                flat |= {f"{name}_held_out_{key}": value for key, value in _figures(self.held, place).items()}

        flat |= {
            "guarantee": self.guaranteed.statement(),
            "guarantee_p": self.guaranteed.p,
            "guarantee_tested_on": self.guaranteed.questions,
            "guarantee_tested_lost": self.guaranteed.lost,
        }

        return flat

    def lines(self) -> Iterator[str]:
        """The tables for people; costs, metrics and loss in percent."""
        counts = f"{len(self.table.question_ids):,} questions, {self.replayed.answerable:,} answerable"
        exits = f"exits after layers {_written(self.table.exits)} of {self.table.depth}"
        yield f"{self.dev}: {counts}, {len(self.table.question):,} candidates; {exits}"
        yield (
            f"{len(self.replayed.schedules):,} schedules. In percent: layers × candidates (cost) and layers "
            "× tokens; 100 is"
        )
        yield "all through all layers; the metrics; answerable questions that lost every correct candidate"
        yield ""
        yield from self._rows(self.replayed, [self.number(name) for name in self.chosen])
        yield ""
        yield f"budget: the best {self.aims.metric} of those that cost at most {100 * self.aims.budget:g} %"

        yield f"guarantee: {self.guaranteed.statement()}"
        if self.held is not None:
            yield ""
            yield f"{self.held_out}, held out: {self.held.answerable:,} answerable questions"
            yield ""
            yield from self._rows(self.held, range(len(self.chosen)))

    def _rows(self, replayed: Replayed, numbers: Sequence[int]) -> Iterator[str]:
        drops = [_written(schedule) for schedule in self.chosen.values()]
        widths = max(map(len, self.chosen)) + 2, max(len(drop) for drop in (*drops, "drops")) + 2
        heads = ("cost", "tokens", *METRICS, "lost")
        yield f"{'':<{widths[0]}}{'drops':<{widths[1]}}" + "".join(f"{head:>9}" for head in heads)
        for name, drop, number in zip(self.chosen, drops, numbers, strict=True):
            figures = _figures(replayed, number)
            cells = [figures[key] for key in ("cost", "token_cost", *METRICS, "loss")]
            yield f"{name:<{widths[0]}}{drop:<{widths[1]}}" + "".join(f"{100 * cell:>9.2f}" for cell in cells)

    def write(self, out: Path) -> None:
        """Write the folder; schedules.json is removed first and written last."""
        out.mkdir(parents=True, exist_ok=True)
        (out / "schedules.json").unlink(missing_ok=True)
        _parquet(out / "exit_scores.parquet", ExitScore, self._exit_scores())
        _parquet(out / "schedules.parquet", ScheduleScore, self._schedule_scores())
        values = self.replayed.metrics[self.aims.metric]
        marks = [PlotMark(self.number("none"), "nothing dropped", "o", "#1f4e79")]
        marks += [
            PlotMark(self.number(f"uniform_{share}"), f"α = {share} everywhere", shape)
            for share, shape in UNIFORM.items()
        ]

        aim = f"best at cost ≤ {100 * self.aims.budget:g} %"
        marks.append(
            PlotMark(self.number("budget"), f"{aim}: {_written(self.chosen['budget'])}", "*", "#b00020")
        )
        aim = f"loses all with P ≤ {self.aims.delta:g}" if self.guaranteed.p is not None else "no guarantee"
        marks.append(
            PlotMark(self.number("guarantee"), f"{aim}: {_written(self.chosen['guarantee'])}", "P", "#2e7d32")
        )
        files = [out / "cost.svg", out / "cost.png"]

        front = self.replayed.front(values)
        plot(files, self.replayed.cost, values, metric=self.aims.metric, front=front, marks=marks)
        write_text(out / "schedules.json", json.dumps(self.summary(), indent=1, ensure_ascii=False) + "\n")

    def _exit_scores(self) -> list[ExitScore]:
        t = self.table
        columns = (t.question, t.position, t.label, t.tokens, t.scores)
        rows = zip(self.candidate_ids, *(column.tolist() for column in columns), strict=True)
        return [
            ExitScore(t.question_ids[question], candidate, position, label, tokens, t.exits, tuple(scores))
            for candidate, question, position, label, tokens, scores in rows
        ]

    def _schedule_scores(self) -> list[ScheduleScore]:
        r = self.replayed
        columns = (r.cost, r.token_cost, *(r.metrics[metric] for metric in METRICS), r.lost, r.loss)
        return [
            ScheduleScore(*row)
            for row in zip(r.schedules, *(column.tolist() for column in columns), strict=True)
        ]


def tune_files(
    checkpoint: str, dev: Path, aims: Aims, *, held_out: Path | None = None, form: Form = None
) -> Tuned:
    """Tune the cascade of a checkpoint. Raises JobError: 66 where a file is missing, 78 where it is no
    cascade's checkpoint."""
    for file in (dev, held_out):
        if file is not None:
            check_file(file)
    try:
        model = load_reranker("cascade", checkpoint, model=find_model, device=device_of("auto"))
    except ValueError as e:
        raise setting_error(e) from e
    with naming("tune", Path(checkpoint)):
        return tune(cast(ExitModel, model), dev, aims, held_out=held_out, form=form, checkpoint=checkpoint)


def tune(
    model: ExitModel,
    dev: Path,
    aims: Aims,
    *,
    held_out: Path | None = None,
    form: Form = None,
    checkpoint: str = "",
) -> Tuned:
    """Replay every schedule of the grid, and the uniform ones, on the dev set; choose; try the chosen on the
    held-out set.

    Raises JobError: 2 if no schedule can be within the budget, the grid is too large, or the held-out set is
    the dev set; 65 if the data or the model's scores are unusable.
    """
    if held_out is not None and held_out.resolve() == dev.resolve():
        raise JobError(
            f"--held-out {held_out} is the dev set; what was chosen on it cannot be checked on it", USAGE
        )

    lists = _questions(dev, form)
    schedules = _schedules(model, aims)
    _check_budget(model, aims, schedules, [len(rows) for rows in lists])
    held_lists = _questions(held_out, form) if held_out is not None else []
    table = _table(model, dev, lists)
    replayed = replay(table, schedules)
    guaranteed = guarantee(table, schedules, aims.delta, aims.epsilon, aims.seed)
    deep = len(model.exits) - 1
    chosen = {"none": (0.0,) * deep} | {f"uniform_{share}": (share,) * deep for share in UNIFORM}
    chosen["budget"] = schedules[replayed.best_under(aims.budget, aims.metric)]

    chosen["guarantee"] = guaranteed.schedule
    held = (
        replay(_table(model, held_out, held_lists), list(chosen.values())) if held_out is not None else None
    )
    ids = tuple(row.candidate_id for rows in lists for row in rows)
    name = str(held_out) if held_out is not None else None

    return Tuned(checkpoint, str(dev), name, aims, table, ids, replayed, chosen, guaranteed, held)


def shares(written: str) -> tuple[float, ...]:
    """'0.1,0.2' as numbers. Raises JobError (2) if a part is no number."""
    try:
        return tuple(float(part) for part in written.replace(",", " ").split())
    except ValueError as e:
        raise JobError(f"--grid {written}: not numbers with commas between, e.g. 0.1,0.2,0.3", USAGE) from e


def _questions(file: Path, form: Form) -> list[list[LabelledCandidate]]:
    lists = list(by_question(read_dataset(file, form)))
    if not any(row.label > 0 for rows in lists for row in rows):
        raise JobError(f"{file}: {counted(len(lists), 'question')}, none with a correct candidate", BAD_DATA)
    return lists


def _schedules(model: ExitModel, aims: Aims) -> list[Schedule]:
    """The grid, the paper's uniform schedules, and the one that drops nothing."""
    deep = len(model.exits) - 1
    check(model.exits, (0.0,) * deep)
    if (count := len(set(aims.shares)) ** deep) > MOST:
        raise JobError(
            f"--grid {_written(aims.shares)}: {count:,} schedules for {deep + 1} exits; {MOST:,} is the most",
            USAGE,
        )
    extra = [(share,) * deep for share in (0.0, *UNIFORM)]
    return sorted({*grid(aims.shares, model.exits), *extra})


def _check_budget(model: ExitModel, aims: Aims, schedules: Sequence[Schedule], counts: Sequence[int]) -> None:
    """Check the budget before the model runs: costs follow from the lists' lengths alone, and the last
    schedule drops most."""
    least = sum(cost(k, model.exits, schedules[-1]) for k in counts) / (model.depth * sum(counts))
    if least > aims.budget:
        cheapest = f"the cheapest schedule, {_written(schedules[-1])}, costs {least:.3f}"
        raise JobError(
            f"--budget {aims.budget:g}: {cheapest}; raise it, or give a larger share in --grid", USAGE
        )


def _table(model: ExitModel, file: Path, lists: Sequence[Sequence[LabelledCandidate]]) -> ExitScores:
    """One pass of the model over the questions, with progress on stderr."""
    rows: list[ExitRows] = []
    with progress("tune", len(lists), lambda: len(rows), what="questions"):
        for first in range(0, len(lists), _LISTS):
            rows += model.exit_scores(
                [ranked_list(candidates) for candidates in lists[first : first + _LISTS]]
            )

    labels = [[row.label for row in candidates] for candidates in lists]
    try:
        return ExitScores.of(
            model.exits, model.depth, [candidates[0].question_id for candidates in lists], labels, rows
        )
    except ValueError as e:
        raise JobError(f"{file}: {e}", BAD_DATA) from e


def _figures(replayed: Replayed, number: int) -> dict[str, float]:
    metrics = {metric: float(values[number]) for metric, values in replayed.metrics.items()}
    costs = {"cost": float(replayed.cost[number]), "token_cost": float(replayed.token_cost[number])}
    return costs | metrics | {"lost": int(replayed.lost[number]), "loss": float(replayed.loss[number])}


def _parquet(file: Path, record: type[Record], rows: Sequence[Record]) -> None:
    pq.write_table(record.table(rows), file, compression="zstd", write_page_checksum=True)


def _written(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
