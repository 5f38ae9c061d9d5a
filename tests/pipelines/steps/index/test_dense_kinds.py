"""A dense index that is not exact: trained once, the same rows from any number of shards, and refused where
it finds too little."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.rank_fusion import Best
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import QUANTIZER, ShardMismatch
from answermill.indexing.shards.vectors.vector_kinds import VectorsUnfit, empty_index
from answermill.pipelines.config.job_file import Job, Retrieve, load
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.parquet_folder import Part
from answermill.pipelines.specs.index import INDEX, SHARDS, IndexCounts
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED
from answermill.pipelines.steps import models
from answermill.pipelines.steps.chain import foreseen, run_steps
from answermill.pipelines.steps.index.index import check, index, step_of
from answermill.pipelines.steps.index.recall import as_near
from answermill.pipelines.steps.retrieve import retrieve as retrieve_step
from answermill.pipelines.steps.retrieve.asked_questions import Block
from answermill.pipelines.steps.retrieve.passes import Pass
from answermill.pipelines.steps.retrieve.retrieve import retrieve
from answermill.pipelines.steps.retrieve.shard_hits import QuestionVectors, search
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import Hit
from testing.tiny import write_static

NARROW = ("index.vectors=ivfrabitq", "index.probes=3", "index.rescore=2", "index.min_recall=0")
WIDE = ("index.vectors=IVF8,SQ8", "index.probes=8")


def job_of(small_run: Path, *overrides: str) -> Job:
    return load(small_run.parent / "job.toml", overrides)


def indexed(small_run: Path, run: Path, *overrides: str) -> Path:
    """A run of the small one's passages, indexed anew."""
    if not run.exists():
        shutil.copytree(small_run / "passages", run / "passages")
    index(job_of(small_run, *overrides), run)
    return run


def hits(small_run: Path, run: Path, *overrides: str) -> list[Hit]:
    retrieve(job_of(small_run, *overrides), run)
    return [hit for part in RETRIEVED.open(run).parts for hit in RETRIEVED.read_part(run, part)]


def counts(run: Path) -> IndexCounts:
    return INDEX.counts_of(SHARDS.manifest(run))


def built(run: Path) -> dict[str, int]:
    """Shard → the time at which it was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (run / "shards").glob("*/shard.json")}


@pytest.fixture(scope="module")
def wide(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an index of cells, for reading only."""
    return indexed(small_run, tmp_path_factory.mktemp("wide") / "run", *WIDE)


def test_three_shards_give_the_rows_that_one_gives(small_run: Path, tmp_path: Path) -> None:
    rows = []
    for shards in ("1", "3"):
        keys = (*NARROW, "retrieve.depth=5", f"index.shards={shards}")
        rows.append(hits(small_run, indexed(small_run, tmp_path / shards, *keys), *keys))
    assert rows[0] == rows[1] and any(hit.dense_rank for hit in rows[0])
    one, three = (tmp_path / shards / "shards" for shards in ("1", "3"))
    assert (one / QUANTIZER).read_bytes() == (three / QUANTIZER).read_bytes()
    assert len(built(tmp_path / "3")) == 3


@pytest.mark.parametrize("first", [1, 5])
def test_shards_that_send_a_few_candidates_and_then_those_that_are_wanted_give_the_rows_of_one(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    keys = ("index.vectors=IVF8,SQ8", "index.probes=8", "retrieve.depth=6", 'retrieve.sources=["dense"]')
    one = hits(small_run, indexed(small_run, tmp_path / "one", *keys, "index.shards=1"), *keys)
    sent, write_part = Counter[str](), Pass.write

    def counted(target: Pass, unit: int, parts: Sequence[Part], counts: StepCounts) -> None:
        sent[target.step.name.rpartition("/")[2]] += sum(part.rows for part in parts)
        write_part(target, unit, parts, counts)

    monkeypatch.setattr(Pass, "write", counted)
    monkeypatch.setattr(retrieve_step, "first_for", lambda candidates, shards: first)
    run = indexed(small_run, tmp_path / "many", *keys, "index.shards=12")
    assert hits(small_run, run, *keys) == one and len(built(run)) == 12

    questions, candidates = RETRIEVE.counts_of(RETRIEVED.open(run).manifest).questions, 6 * 8
    assert sent["hits"] == questions * 12 * first
    assert questions * candidates < sent["hits"] + sent["more"]
    assert 0 < sent["wanted"] <= questions * candidates / first
    if first == 5:
        assert sent["more"] < questions * candidates / 2


def best(scores: Sequence[float], first: int = 0) -> Best:
    rows = np.arange(first, first + len(scores))
    return Best.of(0, rows, [f"0#{row}" for row in rows], np.array(scores, np.float64))


def test_of_passages_that_tie_with_the_last_of_the_nearest_any_is_as_good() -> None:
    """A crawl repeats passages: by their names half of what a search finds would be missed."""
    nearest = best([0.9] * 10 + [0.5] * 90)
    assert as_near(nearest, best([0.9] * 10 + [0.5] * 90, first=10_000)) == 100
    assert as_near(nearest, best([0.9] * 10 + [0.500002] * 500)) == 100
    assert as_near(nearest, best([0.9] * 8 + [0.5] * 40 + [0.4] * 52)) == 48
    assert as_near(best([]), best([])) == as_near(nearest, best([])) == 0


def test_a_recall_below_the_bar_fails_and_the_shards_stay(small_run: Path, tmp_path: Path) -> None:
    run, kind = tmp_path / "run", NARROW[0]
    with pytest.raises(
        JobError, match=r"recall@100 is 0\.\d+, below index.min_recall = 0\.95.*Raise index.probes"
    ) as e:
        indexed(small_run, run, kind, "index.probes=1", "index.rescore=1")
    assert e.value.code == SETTINGS and SHARDS.manifest(run) is None
    before = built(run)
    indexed(small_run, run, kind, "index.rescore=2")
    assert built(run) == before and counts(run).recall >= 0.95
    assert 0 < counts(run).recall_questions <= 256


def test_the_narrowest_width_that_finds_enough_is_chosen_and_searched_with(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, depth, two = NARROW[0], "retrieve.depth=5", "index.rescore=2"
    narrow = hits(small_run, indexed(small_run, tmp_path / "given", kind, two), kind, depth, two)

    # One candidate for each passage that is wanted is too few, two are enough.
    monkeypatch.setattr(models, "rescore_for", lambda kind: 1)
    run, low = tmp_path / "run", "index.min_recall=0"
    indexed(small_run, run, kind, low)
    assert counts(run).recall_times == 1 and 0 < counts(run).recall < 0.95
    assert hits(small_run, run, kind, low, depth) != narrow

    # A complete run keeps its width, unless it finds too little for the job as it is now.
    before = built(run)
    index(job_of(small_run, kind), run)
    assert (counts(run).recall_times, counts(run).recall_candidates) == (2, 200) and built(run) == before
    assert counts(run).recall >= 0.95 and "at 1 × the usual width" in capsys.readouterr().err
    assert index(job_of(small_run, kind), run).endswith("at 2 × the usual width (complete)")
    with pytest.raises(JobError, match="times"):
        retrieve(job_of(small_run, kind, depth), run)
    list(run_steps(job_of(small_run, kind, depth), run, ["retrieve"], (), redo="retrieve"))
    assert [hit for part in RETRIEVED.open(run).parts for hit in RETRIEVED.read_part(run, part)] == narrow


def test_another_width_is_measured_again_on_the_same_shards(
    small_run: Path, wide: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(wide, run)
    before = built(run)
    assert index(job_of(small_run, *WIDE), run).endswith("(complete)")
    assert "recall@100 1.000" in index(job_of(small_run, *WIDE), run)
    indexed(small_run, run, WIDE[0], "index.probes=1", "index.min_recall=0.1")
    assert counts(run).recall < 1 and counts(run).recall_probes == 1 and built(run) == before
    with pytest.raises(JobError, match=r"below index.min_recall = 0\.95"):
        index(job_of(small_run, WIDE[0], "index.probes=1"), run)


def test_retrieve_is_done_again_for_another_width_alone(small_run: Path, wide: Path, tmp_path: Path) -> None:
    assert step_of(job_of(small_run, *WIDE), wide).fingerprint() == (
        step_of(job_of(small_run, WIDE[0], "index.rescore=3"), wide).fingerprint()
    )
    run = tmp_path / "run"
    shutil.copytree(wide, run)
    hits(small_run, run, *WIDE)
    with pytest.raises(JobError, match="rescore"):
        retrieve(job_of(small_run, *WIDE, "index.rescore=3"), run)


def test_a_shard_of_another_quantizer_is_refused(small_run: Path, wide: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(wide, run)
    other = indexed(small_run, tmp_path / "other", *NARROW)
    shutil.copyfile(other / "shards" / QUANTIZER, run / "shards" / QUANTIZER)
    with pytest.raises(
        JobError, match=r"its codes are by the quantizer \w{16}, and .* is another.*--redo index"
    ):
        retrieve(job_of(small_run, *WIDE), run)
    assert ShardMismatch.exit_code == 65


def test_shards_of_another_kind_than_the_job_s_are_refused(wide: Path) -> None:
    shard = Shard.open(next((wide / "shards").glob("*/shard.json")).parent)
    assert shard.encoder is not None
    vectors = QuestionVectors(np.ones((1, shard.encoder.dimension), np.float32), shard.encoder.fingerprint)
    settings = Retrieve(questions="q.tsv", sources=["dense"])
    block = Block(0, (Question("q1", "Who?"),))
    with pytest.raises(
        ShardMismatch, match=r"its dense index is IVF8,SQ8, .* give IVF8,SQ8, or .*--redo index"
    ):
        search(shard, 0, block, vectors, GlobalStatistics(), settings=settings)


def test_verify_finds_a_flipped_bit_and_the_step_mends_it(
    small_run: Path, wide: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(wide, run)
    codes = sorted((run / "shards").glob("*/dense/codes.npy"))[0]
    for path in (codes, run / "shards" / QUANTIZER):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    findings = [finding.path for finding in Verification(run).findings()]
    for path in (codes, run / "shards" / QUANTIZER):
        assert path.relative_to(run).as_posix() in findings

    # A quantizer that is gone is trained again, to the same bytes, so that the other shards stay.
    (run / "shards" / QUANTIZER).unlink()
    shutil.rmtree(codes.parents[1])
    before = built(run)
    index(job_of(small_run, *WIDE), run)
    assert (run / "shards" / QUANTIZER).read_bytes() == (wide / "shards" / QUANTIZER).read_bytes()
    assert before.items() < built(run).items()
    retrieve(job_of(small_run, *WIDE), run)


def test_vectors_are_taken_over_by_a_run_that_stores_them_in_the_same_form(
    small_run: Path, wide: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    since = f"index.since={wide}"
    same = indexed(small_run, tmp_path / "same", *WIDE, since)
    assert counts(same).vectors_taken_over == counts(same).passages
    for path in sorted((wide / "shards").glob("*/dense/*.npy")):
        shard = path.parents[1].name.rpartition("-")[0]
        (twin,) = (same / "shards").glob(f"{shard}-*/dense/{path.name}")
        assert twin.read_bytes() == path.read_bytes()

    exact = indexed(small_run, tmp_path / "exact", since)
    assert counts(exact).vectors_taken_over == 0
    assert "stores its vectors as fp16, so no vector is taken over" in capsys.readouterr().err


def test_an_exact_index_has_the_fingerprint_and_the_files_that_it_had_before(small_run: Path) -> None:
    manifest = SHARDS.manifest(small_run)
    assert manifest is not None and not manifest.beside
    assert not {"vectors", "stored_vectors", "probes", "rescore", "min_recall"} & manifest.settings.keys()
    for listing in (small_run / "shards").glob("*/shard.json"):
        assert "coded" not in json.loads(listing.read_text()) and (listing.parent / "dense.faiss").is_file()


def test_a_kind_that_does_not_fit_the_encoder_is_refused_before_any_work(
    small_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(VectorsUnfit, match=r"FAISS makes no 'IVF4,PQ7' of vectors of \d+ numbers"):
        check(job_of(small_run, "index.vectors=IVF4,PQ7"), tmp_path)


def test_vectors_of_a_static_encoder_are_indexed_in_any_kind(small_run: Path, tmp_path: Path) -> None:
    encoder = write_static(
        tmp_path / "static", np.random.default_rng(0).normal(size=(30_522, 12)).astype("f4")
    )
    chosen = f"index.encoder={json.dumps(str(encoder))}"
    run = indexed(small_run, tmp_path / "run", chosen, *WIDE)
    assert QUANTIZER in {path.name for path in (run / "shards").rglob("*")}
    with pytest.raises(VectorsUnfit, match="of vectors of 12 numbers"):
        check(job_of(small_run, chosen, "index.vectors=IVF4,PQ7"), run)


@pytest.mark.parametrize("kind", ["ivfpq", "IVF64,PQ4x8"])
def test_a_redo_that_is_refused_for_too_few_passages_removes_nothing(
    small_run: Path, wide: Path, tmp_path: Path, kind: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(wide, run)
    before = built(run)
    job = job_of(small_run, f"index.vectors='{kind}'")
    with pytest.raises(
        VectorsUnfit, match=r"cannot be trained on \d+ vectors, it has 256 centroids; give flat"
    ):
        list(run_steps(job, run, ["index"], (), redo="index"))
    with pytest.raises(VectorsUnfit, match="256 centroids"):
        list(foreseen(job, run, ["index"], redo="index"))
    assert built(run) == before and SHARDS.manifest(run) is not None


@pytest.mark.parametrize(
    ("kind", "size"), [("IVF0,PQ8", "0"), ("RR0,IVF4,PQ8", "0"), ("HNSW0", "0"), ("HNSW1", "HNSW1")]
)
def test_a_size_with_which_faiss_ends_the_process_is_refused(kind: str, size: str) -> None:
    with pytest.raises(VectorsUnfit, match=f"has the size {size}, which is too small"):
        empty_index(kind, 32, 100)
    assert empty_index("IVF10,PQ8", 32, 100).nlist == 10
