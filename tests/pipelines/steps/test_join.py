"""What a machine makes of a step that another machine leads is what that one would have made: every block of
every step, from the job file and the step's work folder alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.config.step_code import code_of
from answermill.pipelines.engine import runner
from answermill.pipelines.engine.local_engine import LocalEngine, local_engine
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.specs.registry import SPECS, job_steps
from answermill.pipelines.steps.chain import run_steps, steps_of
from testing import tiny_job
from testing.engines import digests
from testing.tiny import write_dense

INGEST = ("ingest.domains=8", "ingest.near_duplicates=0.99", "ingest.boilerplate=0.5")
INDEX = ("index.vectors='IVF2,SQ8'", "index.probes=2", "index.min_recall=0")
RM3 = ("retrieve.title_weight=0", "retrieve.rm3.words=3")


class Joined:
    """In the place of the machine that leads: each block is done by one that joins, and then led."""

    def __init__(self, job: Job, run: Path) -> None:
        self._job, self._run = job, run
        self.blocks: list[str] = []

    @contextmanager
    def opened(self, name: str, work: Path) -> Iterator[Engine]:
        self.blocks.append(name)
        code = code_of(SPECS[name.partition("/")[0]])
        own = code.step_of(self._job, self._run).work
        assert own in (work, *work.parents) and code.join is not None
        with local_engine(1, work) as engine:
            code.join(self._job, self._run, name, engine)
        with local_engine(1, work) as engine:
            yield engine if name in EMITTING else NothingLeft(1, work)


EMITTING = ("ingest", "ingest/domains", "ingest/vanished")
"""Blocks whose units emit something, so that each machine makes all calls."""


class NothingLeft(LocalEngine):
    """An engine of the machine that leads, where the other has done all units."""

    def each(self, label: str, units: object, work: object, after: object = None) -> object:  # type: ignore[override]
        assert list(units.pending()) == []  # type: ignore[attr-defined]
        return None


def job_of(folder: Path, *settings: str) -> Job:
    return load(folder / "job.toml", settings)


def same_by_both(job: Job, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The blocks of a run of the job that another machine has joined; its bytes are those of a run alone."""
    list(run_steps(job, folder / "alone", steps_of(job), ()))
    machine = Joined(job, folder / "joined")
    with monkeypatch.context() as patch:
        patch.setattr(runner, "leading", lambda: machine)
        list(run_steps(job, folder / "joined", steps_of(job), ()))
    assert content(folder / "joined") == content(folder / "alone")
    return machine.blocks


def content(run: Path) -> dict[str, str]:
    """Digests of a run, which need not have come to answers, and its list of vanished pages."""
    (run / "answers.jsonl").touch()
    vanished = run / "vanished.tsv"
    return digests(run) | ({"vanished": vanished.read_text()} if vanished.is_file() else {})


def test_every_step_with_units_can_be_joined() -> None:
    assert all(code_of(spec).join is not None for spec in job_steps().values())


def test_what_a_machine_that_joins_makes_of_each_block_is_what_one_alone_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = str(write_dense(tmp_path / "encoder"))
    tiny_job.write(tmp_path / "job", encoder)
    first = job_of(tmp_path / "job", *INGEST, *INDEX, *RM3)
    assert same_by_both(first, tmp_path / "first", monkeypatch) == [
        "ingest/domains",
        "ingest",
        "index/vectors",
        "index",
        "retrieve",
        "rerank",
        "annotate",
        "propagate/found",
        "propagate",
    ]

    # Of other pages, those of the first run have vanished; of fewer, most shards are taken over.
    shutil.copytree(tmp_path / "job", tmp_path / "later")
    for file in (tmp_path / "later").glob("pages-*.jsonl"):
        file.write_text(file.read_text().replace("metres", "feet").replace("older", "smaller"))
    since = f"ingest.since={tmp_path / 'first' / 'alone'}"
    later = job_of(tmp_path / "later", *INGEST, since).model_copy(update={"retrieve": None, "rerank": None})
    later = later.model_copy(update={"annotate": None, "propagate": None})
    blocks = same_by_both(later, tmp_path / "vanished", monkeypatch)
    assert blocks == ["ingest/domains", "ingest", "ingest/vanished"]

    since = f"index.since={tmp_path / 'first' / 'alone'}"
    fewer = job_of(tmp_path / "job", *INGEST, *INDEX, since)
    pages = ["pages-0.jsonl", "pages-1.jsonl"]
    assert fewer.ingest is not None
    fewer = fewer.model_copy(update={"ingest": fewer.ingest.model_copy(update={"input": pages})})
    assert "index" in same_by_both(fewer, tmp_path / "delta", monkeypatch)
