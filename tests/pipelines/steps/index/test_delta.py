"""An index that takes whole shards over from that of the crawl before has the rows of one from nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faiss
import pytest

from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.vectors.quantizer import Quantizer
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.look.ask.block_search import search_block
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.specs.index import INDEX, SHARDS, IndexCounts
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.index import delta, index, index_growth
from answermill.pipelines.steps.models import passage_encoder, vector_search
from answermill.pipelines.steps.retrieve.asked_questions import Block, settings_of
from answermill.schemas.corpus import Question
from testing import tiny_job
from testing.tiny import write_dense

STEPS = ("ingest", "index", "retrieve", "rerank")
Page = Mapping[str, Any]


def pages() -> list[Page]:
    return [
        {**page, "id": f"{page['id']}-{n}", "text": page["text"].replace("older", f"{n} years older")}
        for n in range(4)
        for page in tiny_job.pages()
    ]


def added(pages: list[Page], word: str) -> list[Page]:
    """The same pages under other ids, with a word that no other crawl has."""
    return [
        {**page, "id": f"{page['id']}{word}", "text": page["text"].replace("people", word)} for page in pages
    ]


CRAWLS: dict[str, list[Page]] = {
    "first": pages(),
    "second": [
        *(page for n, page in enumerate(pages()[::-1]) if n % 10),
        *({**page, "id": f"moved-{page['id']}"} for page in pages()[-1:-32:-10]),
        *added(pages()[8:20], "persons"),
    ],
    "third": [page for n, page in enumerate(pages()) if n % 13] + added(pages()[30:50], "folk"),
}
"""Crawls that follow each other: the second in another order; pages that were gone are there again."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of three crawls: `first`; `second` and `third`, from nothing; and the same two as deltas,
    `updated`, which takes shards over from `first`, and `again`, which takes them over from `updated`."""
    home = tmp_path_factory.mktemp("delta")
    encoder = str(write_dense(home / "encoder"))
    for name, crawl in CRAWLS.items():
        job_file = tiny_job.write(home / f"crawl-{name}", encoder)
        stored = '"similarity"\ncontext = ["title", "sentence"]\nstored = "fp16"'
        job_file.write_text(job_file.read_text().replace('"similarity"', stored), encoding="utf-8")
        for n in range(3):
            lines = "".join(json.dumps(page) + "\n" for page in crawl[n::3])
            (job_file.parent / f"pages-{n}.jsonl").write_text(lines, encoding="utf-8")

    list(run_steps(job(home, "first"), home / "first", STEPS[:2], ()))
    list(run_steps(job(home, "second"), home / "second", STEPS, ()))
    list(run_steps(job(home, "second", "first"), home / "updated", STEPS, ()))
    list(run_steps(job(home, "third"), home / "third", STEPS[:3], ()))
    list(run_steps(job(home, "third", "updated"), home / "again", STEPS[:3], ()))
    return home


def job(home: Path, crawl: str, since: str | None = None, *overrides: str) -> Job:
    named = [f"index.since='{home / since}'"] if since else []
    return load(home / f"crawl-{crawl}" / "job.toml", [*named, *overrides])


def rows(run: Path, folder: str) -> list[Any]:
    return list(folder_specs()[folder].open(run).read())


def counts(run: Path) -> IndexCounts:
    return INDEX.counts_of(SHARDS.open(run).manifest)


def copied(home: Path, run: str, folder: Path, *names: str) -> Path:
    """A copy of some folders of a run."""
    for name in names:
        shutil.copytree(home / run / name, folder / name)
    return folder


@pytest.mark.parametrize(("anew", "taken"), [("second", "updated"), ("third", "again")])
def test_a_delta_has_the_rows_of_a_run_from_nothing(home: Path, anew: str, taken: str) -> None:
    for name in ("retrieved",) if taken == "again" else ("retrieved", "scored", "answers"):
        assert rows(home / taken, name) == rows(home / anew, name)
    assert rows(home / "second", "retrieved") != rows(home / "third", "retrieved")

    passages = PASSAGES.open(home / taken).rows
    assert 0.6 * passages < counts(home / taken).taken_over < passages == counts(home / taken).passages
    assert counts(home / taken).tombstones > 5 and counts(home / anew).taken_over == 0


def test_a_plan_knows_the_share_of_a_sample_that_the_earlier_run_has(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, second = copied(home, "second", tmp_path, "passages"), job(home, "second", "first")
    former = index.former_of_sample(second, sample)
    passages = PASSAGES.open(sample).rows
    assert former is not None and former.is_same
    # The run leaves out some of the texts that are there twice.
    taken_over = counts(home / "updated").vectors_taken_over
    assert taken_over <= former.known * passages < min(passages, 1.05 * taken_over)
    shards = SHARDS.open(home / "first")
    assert (former.passages, former.shards) == (shards.rows, len(shards.parts))

    monkeypatch.setattr(index_growth, "ROWS_READ", 1)  # one shard stands for all
    few = index.former_of_sample(job(home, "second", "first", "index.language=de"), sample)
    assert few is not None and not few.is_same and few.known == pytest.approx(former.known, abs=0.25)
    assert index.former_of_sample(job(home, "second"), sample) is None


def test_texts_of_a_page_that_has_moved_are_not_encoded_again(home: Path) -> None:
    assert {page["id"] for page in CRAWLS["second"] if page["id"].startswith("moved-")} >= {"moved-d29-3"}
    assert counts(home / "updated").vectors_taken_over > counts(home / "updated").taken_over


def test_a_shard_is_taken_over_again_and_finds_passages_that_have_returned(home: Path) -> None:
    gone = dict[int, dict[str, set[int]]]()  # inode of a shard's vectors → run → its tombstones
    for run in ("first", "updated", "again"):
        for part in SHARDS.open(home / run).parts:
            shard = Shard.open(home / run / "shards" / part.file)
            inode = (shard.folder / "dense.faiss").stat().st_ino
            gone.setdefault(inode, {})[run] = set(shard.gone.tolist())

    twice = [runs for runs in gone.values() if len(runs) == 3]
    assert twice and all(not runs["first"] for runs in twice)
    assert any(runs["updated"] - runs["again"] for runs in twice)
    assert any(runs["again"] - runs["updated"] for runs in twice)


def test_each_passage_is_found_in_one_shard_which_verify_looks_at(home: Path, tmp_path: Path) -> None:
    for run in ("updated", "again"):
        assert list(Verification(home / run).findings()) == []

    # One tombstone less: a passage that is gone counts again.
    copied(home, "updated", tmp_path, "passages", "shards")
    shard = next(path.parents[1] for path in sorted(tmp_path.glob("shards/*/gone/rows.npy")))
    shutil.rmtree(shard / "gone")
    wrong = [str(finding) for finding in Verification(tmp_path).findings()]
    assert any("gone/rows.npy is missing" in finding for finding in wrong)


def test_a_question_that_is_asked_has_the_hits_of_a_run_from_nothing(home: Path) -> None:
    second = job(home, "second")
    block = Block(0, (Question("q", "How many persons have measured the comet of Wales?"),))
    width = vector_search(second, settings_of(second).depth)
    hits = []
    for run in ("second", "updated"):
        shards = [Shard.open(home / run / "shards" / part.file) for part in SHARDS.open(home / run).parts]
        hits.append(list(search_block(block, shards, passage_encoder(second), settings_of(second), width)))
    assert hits[0] == hits[1] and len(hits[0][0]) >= 6


def test_indexes_are_the_earlier_run_s_files_and_passages_are_not(home: Path) -> None:
    first, updated = (
        {path.stat().st_ino: path.name for path in (home / run / "shards").rglob("*") if path.is_file()}
        for run in ("first", "updated")
    )
    same = {name for inode, name in updated.items() if inode in first}
    assert {"dense.faiss", "answers.arrow", "segments_1"} <= same
    assert same.isdisjoint({"passages.parquet", "shard.json", "rows.npy", "_manifest.json"})


def test_a_delta_that_was_stopped_goes_on_and_has_the_same_rows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    copied(home, "updated", tmp_path, "passages")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(index, "build", stopped)
        list(run_steps(job(home, "second", "first"), tmp_path, ("index",), ()))
    done = {path.parent.name for path in tmp_path.glob("shards/0*/shard.json")}

    # What is planned and taken over stays.
    monkeypatch.setattr(delta, "_placed", stopped)
    monkeypatch.setattr(index, "take_over", stopped)
    list(run_steps(job(home, "second", "first"), tmp_path, ("index", "retrieve"), ()))
    assert done and done <= {part.file for part in SHARDS.open(tmp_path).parts}
    assert rows(tmp_path, "retrieved") == rows(home / "second", "retrieved")


def test_a_complete_run_stays_so_whatever_earlier_run_the_job_names(home: Path) -> None:
    for run, crawl, since in (("updated", "second", None), ("second", "second", "first")):
        lines = list(run_steps(job(home, crawl, since), home / run, ("index", "retrieve"), ()))
        assert all(line.endswith("(complete)") for line in lines)


def test_a_lost_shard_is_taken_over_again_from_the_same_run_only(home: Path, tmp_path: Path) -> None:
    copied(home, "updated", tmp_path, "passages", "shards")
    lost = next(path.parents[1] for path in sorted(tmp_path.glob("shards/*/gone/rows.npy")))
    shutil.rmtree(lost)
    for since in (None, "third"):
        with pytest.raises(JobError, match=r"another run than .*; name that run, or give --redo index") as e:
            list(run_steps(job(home, "second", since), tmp_path, ("index",), ()))
        assert e.value.code == SETTINGS
    list(run_steps(job(home, "second", "first"), tmp_path, ("index", "retrieve"), ()))
    assert rows(tmp_path, "retrieved") == rows(home / "second", "retrieved")


def test_a_shard_with_too_many_tombstones_is_built_anew(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "LEAST", 1.0)
    copied(home, "updated", tmp_path, "passages")
    list(run_steps(job(home, "second", "first"), tmp_path, ("index", "retrieve"), ()))
    assert counts(tmp_path).taken_over == 0 < counts(tmp_path).vectors_taken_over
    assert len(SHARDS.open(tmp_path).parts) == 2
    assert rows(tmp_path, "retrieved") == rows(home / "second", "retrieved")


def test_small_shards_do_not_add_up(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "SMALLEST", 0.4)
    sizes = [part.rows for part in SHARDS.open(home / "updated").parts]
    assert min(sizes) < 0.4 * sum(sizes) / 2  # the shard of what was new in `updated`
    copied(home, "again", tmp_path, "passages")
    list(run_steps(job(home, "third", "updated"), tmp_path, ("index", "retrieve"), ()))
    assert len(SHARDS.open(tmp_path).parts) == 3 and counts(tmp_path).taken_over > 0
    assert rows(tmp_path, "retrieved") == rows(home / "third", "retrieved")


def test_other_settings_take_over_vectors_and_no_shard(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(home, "updated", tmp_path, "passages")
    list(run_steps(job(home, "second", "first", "index.language=de"), tmp_path, ("index",), ()))
    assert counts(tmp_path).taken_over == 0 < counts(tmp_path).vectors_taken_over
    assert "of other settings, so no shard is taken over whole" in capsys.readouterr().err


def test_a_changed_file_of_the_earlier_run_is_refused(home: Path, tmp_path: Path) -> None:
    copied(home, "first", tmp_path / "former", "shards")
    copied(home, "second", tmp_path / "run", "passages")
    file = next(tmp_path.glob("former/shards/00000*/dense.faiss"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    second = job(home, "second", None, f"index.since='{tmp_path / 'former'}'")
    with pytest.raises(Exception, match=r"dense\.faiss was changed since it was written"):
        list(run_steps(second, tmp_path / "run", ("index",), ()))


def test_a_delta_of_codes_has_the_rows_of_an_index_by_the_same_quantizer(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = ("index.vectors='IVF4,SQ8'", "index.probes=1", "index.min_recall=0")
    for name in ("first", "updated", "second"):
        copied(home, name, tmp_path / name, "passages")
    first, updated, anew = (tmp_path / name for name in ("first", "updated", "second"))
    list(run_steps(job(home, "first", None, *codes), first, ("index",), ()))
    since = f"index.since='{first}'"
    list(run_steps(job(home, "second", None, since, *codes), updated, ("index", "retrieve"), ()))
    quantizer = first / "shards" / "quantizer.faiss"
    assert (updated / "shards" / "quantizer.faiss").read_bytes() == quantizer.read_bytes()
    assert counts(updated).tombstones > 0 and 0 < counts(updated).recall < 1

    monkeypatch.setattr(Quantizer, "train", lambda *_: Quantizer(faiss.read_index(str(quantizer))))
    list(run_steps(job(home, "second", None, *codes), anew, ("index", "retrieve"), ()))
    assert rows(updated, "retrieved") == rows(anew, "retrieved")
    assert (counts(updated).recall_found, counts(anew).taken_over) == (counts(anew).recall_found, 0)
