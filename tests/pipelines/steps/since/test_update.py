"""A run over the next crawl that takes over what an earlier run has computed has the rows of one from
nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answermill.indexing.shards.shard import Shard
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, JobError
from answermill.pipelines.look.report.manifest_figures import step_work
from answermill.pipelines.specs.index import INDEX, SHARDS, IndexCounts
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.specs.rerank import RERANK, SCORED
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.chain import run_steps
from answermill.schemas.corpus import Document, Passage
from answermill.schemas.ranked import Answer, Hit, ScoredCandidate
from answermill.schemas.record import Record
from testing.crawl_index import write_crawl
from testing.tiny import write_dense, write_job

STEPS = ("ingest", "index", "retrieve", "rerank")
RECORDS: dict[str, tuple[type[Record], str]] = {
    "documents": (Document, "ingest"),
    "passages": (Passage, "ingest"),
    "retrieved": (Hit, "retrieve"),
    "scored": (ScoredCandidate, "rerank"),
    "answers": (Answer, "rerank"),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job on a crawl of three files, and `former`, its run over the first two of them."""
    folder = tmp_path_factory.mktemp("update")
    write_job(folder, every=15)
    write_crawl(folder / "www")
    list(run_steps(job(folder, (0, 1)), folder / "former", STEPS, ()))
    return folder


def job(folder: Path, files: tuple[int, ...], *overrides: str) -> Job:
    inputs = ", ".join(f"'www/crawl-data/warc-{n}.warc.gz'" for n in files)
    return load(folder / "job.toml", [f"ingest.input=[{inputs}]", *overrides])


def rows(run: Path, name: str) -> list[Any]:
    return list(folder_specs()[name].open(run).read())


def index_counts(run: Path) -> IndexCounts:
    return INDEX.counts_of(SHARDS.open(run).manifest)


def vectors(run: Path) -> dict[str, np.ndarray]:
    """Id of each passage → its vector."""
    vectors = {}
    for part in SHARDS.open(run).parts:
        shard = Shard.open(run / "shards" / part.file)
        live = np.flatnonzero(shard.dense.live)
        vectors |= dict(zip(shard.passage_ids(live), shard.dense.vectors[live].copy(), strict=True))
    return vectors


def test_an_updated_run_has_the_rows_of_one_from_nothing(sample: Path, tmp_path: Path) -> None:
    since = [f"{section}.since='{sample / 'former'}'" for section in ("index", "rerank")]
    lines = list(run_steps(job(sample, (1, 2), *since), tmp_path / "updated", STEPS, ()))
    list(run_steps(job(sample, (1, 2)), tmp_path / "anew", STEPS, ()))

    for name in RECORDS:
        assert (
            rows(tmp_path / "updated", name) == rows(tmp_path / "anew", name) != rows(sample / "former", name)
        )

    taken, computed = vectors(tmp_path / "updated"), vectors(tmp_path / "anew")
    assert taken.keys() == computed.keys()
    assert all(np.abs(taken[name] - computed[name]).max() < 1e-6 for name in taken)
    former = {(passage.title, passage.text) for passage in rows(sample / "former", "passages")}
    same = sum((passage.title, passage.text) in former for passage in rows(tmp_path / "updated", "passages"))
    index = index_counts(tmp_path / "updated")
    stage = RERANK.counts_of(SCORED.open(tmp_path / "updated").manifest).stages["similarity"]
    assert 20 < same == index.vectors_taken_over < index.passages
    assert 0 < stage.costs["taken_over"] < stage.incoming
    assert f"{same} vectors taken over" in lines[1] and "scores taken over" in lines[3]


def test_rates_are_of_what_was_indexed(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample / "former" / "passages", tmp_path / "passages")
    (line,) = run_steps(job(sample, (1,), f"index.since='{sample / 'former'}'"), tmp_path, ("index",), ())
    assert "passages taken over with their shards" in line and "passages/s" not in line
    work = step_work(Run.open(tmp_path), None)
    assert {one.what: one.items for one in work if one.what.startswith("index: ")} == {"index: BM25": 0}


def test_another_encoder_takes_no_vector_over(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_dense(tmp_path / "other", seed=5)
    changed = job(sample, (1,), f"index.since='{sample / 'former'}'", f"index.encoder='{other}'")
    shutil.copytree(sample / "former" / "passages", tmp_path / "run" / "passages")
    list(run_steps(changed, tmp_path / "run", ("index",), ()))
    assert index_counts(tmp_path / "run").vectors_taken_over == 0
    assert "is by another encoder, so no vector is taken over" in capsys.readouterr().err


def test_a_run_without_shards_and_the_run_itself_are_refused(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"index\.since: .* is the run itself") as e:
        list(
            run_steps(
                job(sample, (1,), f"index.since='{tmp_path / 'run'}'"),
                tmp_path / "run",
                ("ingest", "index"),
                (),
            )
        )

    assert e.value.code == SETTINGS
    with pytest.raises(JobError) as e:
        list(
            run_steps(
                job(sample, (1,), f"index.since='{tmp_path / 'no'}'"),
                tmp_path / "run",
                ("ingest", "index"),
                (),
            )
        )

    assert e.value.code == INPUT_MISSING and not (tmp_path / "run" / "documents").exists()
