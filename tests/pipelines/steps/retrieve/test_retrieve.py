"""However the questions and shards are cut, retrieval gives what a plain loop gives; each shard is opened a
known number of times; and a run that was stopped goes on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import faiss
import numpy as np
import pytest
import torch
from pydantic import ValidationError

from answermill.indexing.shards.lucene.jvm import Java
from answermill.indexing.shards.lucene.statistics import GlobalStatistics
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.shard_files import PASSAGES, ShardDamaged
from answermill.indexing.shards.vectors.vector_kinds import EXACT
from answermill.pipelines.config.job_file import Job, Retrieve, Rm3
from answermill.pipelines.engine.beam_engine import BeamEngine
from answermill.pipelines.errors import IO, JobError
from answermill.pipelines.look.ask.block_search import search_block
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.parquet_folder import Folder, Part, PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs import retrieve as specs
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.models import passage_encoder
from answermill.pipelines.steps.retrieve import (
    asked_questions,
    open_shards,
    passes,
    retrieve,
    shard_search,
    write_blocks,
)
from answermill.pipelines.steps.retrieve.asked_questions import AskedQuestions, Block
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import define
from answermill.pipelines.steps.retrieve.retrieve import plan, step_of
from answermill.pipelines.steps.retrieve.shard_search import (
    QuestionVectors,
    SearchShard,
    search,
)
from answermill.pipelines.steps.retrieve.word_counts import WordCount, read_statistics
from answermill.pipelines.steps.retrieve.write_blocks import WriteBlocks
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import Hit
from testing.smoke_data import small_encoder
from tests.pipelines.steps.retrieve import plain_retrieval

SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")
QUESTIONS = [
    Question(f"q{n}", f"Which {SUBJECTS[n % 6]} or {SUBJECTS[n % 4]} is number {n}?") for n in range(13)
]


def job(folder: Path, shards: int, **retrieve: object) -> Job:
    """Pages of which many tie; in blocks of two questions."""
    pages = [
        {"id": f"d{n}", "text": f"{' '.join(SUBJECTS[: n % 6 + 1])} number {n}.", "title": title}
        for n, title in enumerate(["", "", "River and violin", "Comet"] * 16)
    ]
    questions = [{"question_id": question.question_id, "text": question.text} for question in QUESTIONS]
    for name, rows in (("pages", pages), ("questions", [*questions, {"question_id": "none", "text": "zzz"}])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return Job.model_validate(
        {
            "ingest": {"input": [str(folder / "pages.jsonl")], "min_words": 1, "language": ""},
            "index": {"shards": shards, "encoder": str(small_encoder())},
            "retrieve": {"questions": str(folder / "questions.jsonl"), "depth": 7, "block": 2} | retrieve,
        }
    )


@dataclass(frozen=True)
class Indexed:
    """A job and its run with shards, and a run of the same shards for each test."""

    job: Job
    run: Path

    def copy(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.run / "shards", folder / "shards")
        return folder

    def retrieve(self, folder: Path) -> Path:
        list(run_steps(self.job, folder, ["retrieve"], ()))
        return folder


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Indexed]:
    """The job with a number of shards, built once."""
    built: dict[int, Indexed] = {}
    source = tmp_path_factory.mktemp("input")

    def index(shards: int) -> Indexed:
        if shards not in built:
            run = tmp_path_factory.mktemp(f"shards-{shards}")
            built[shards] = Indexed(job(source, shards), run)
            list(run_steps(built[shards].job, run, ["ingest", "index"], ()))
            assert len(list((run / "shards").glob("0*"))) == shards
        return built[shards]

    return index


@pytest.fixture
def small_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of eight questions, in groups of two blocks; some hits are merged at a time, and the passages
    of a block are in memory."""
    monkeypatch.setattr(asked_questions, "QUESTIONS_PER_BATCH", 8)
    monkeypatch.setattr(asked_questions, "QUESTIONS_PER_GROUP", 4)
    monkeypatch.setattr(shard_search, "ROWS_PER_GROUP", 3)
    monkeypatch.setattr(write_blocks, "HITS_AT_ONCE", 40)
    monkeypatch.setattr(write_blocks, "PASSAGES_AT_ONCE", 2)


@dataclass(frozen=True)
class Openings:
    """Name of a shard → how often it was opened, and how often its checksums were compared."""

    opened: Counter[str]
    verified: Counter[str]


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Openings:
    monkeypatch.setattr(open_shards, "_sound", set())
    counts = Openings(Counter(), Counter())
    open_shard = Shard.open

    def counted(
        folder: Path, java: Java | None = None, heap: str = "1g", verify: bool = True, **options: Any
    ) -> Shard:
        counts.opened[folder.name] += 1
        counts.verified[folder.name] += verify
        return open_shard(folder, java, heap, verify, **options)

    monkeypatch.setattr(Shard, "open", counted)
    return counts


def written(run: Path) -> list[str]:
    """The names of the parts of questions/ and retrieved/, in which the bytes are hashed."""
    return sorted(
        path.name for folder in ("questions", "retrieved") for path in (run / folder).glob("*.parquet")
    )


def expected(indexed: Indexed, folder: Path) -> list[str]:
    """The same of a plain loop."""
    asked = [*QUESTIONS, Question("none", "zzz")]
    size = plain_retrieval.settings_of(indexed.job).block
    for number in range(-(-len(asked) // size)):
        block = asked[number * size : (number + 1) * size]
        writers = (
            PartWriter(folder / "questions", Question, number),
            PartWriter(folder / "retrieved", Hit, number),
        )
        with writers[0] as questions, writers[1] as retrieved:
            questions.write(block)
            retrieved.write(plain_retrieval.hits(indexed.job, indexed.run, block))
    return written(folder)


@pytest.mark.parametrize(
    ("shards", "sources"),
    [
        (1, ("bm25", "dense")),
        (3, ("bm25", "dense")),
        pytest.param(8, ("bm25", "dense"), marks=pytest.mark.nightly),
        pytest.param(64, ("bm25", "dense"), marks=pytest.mark.nightly),
        (3, ("bm25",)),
        (3, ("dense",)),
    ],
)
@pytest.mark.usefixtures("small_cuts")
def test_any_number_of_shards_gives_the_bytes_of_a_plain_loop(
    indexed: Callable[[int], Indexed], shards: int, sources: tuple[str, ...], tmp_path: Path
) -> None:
    """In batches of four blocks; the plain loop is over one shard."""
    section = plain_retrieval.settings_of(indexed(1).job).model_copy(update={"sources": list(sources)})
    one, many = (
        Indexed(each.job.model_copy(update={"retrieve": section}), each.run)
        for each in (indexed(1), indexed(shards))
    )
    parts = written(many.retrieve(many.copy(tmp_path / "run")))
    assert parts == expected(one, tmp_path / "plain")
    assert len(parts) == 14


@pytest.mark.usefixtures("small_cuts")
def test_titles_of_three_shards_weigh_what_they_weigh_in_one(
    indexed: Callable[[int], Indexed], tmp_path: Path
) -> None:
    section = plain_retrieval.settings_of(indexed(1).job)
    weighed = section.model_copy(update={"sources": ["bm25"], "title_weight": 0.6})
    one, three = (
        Indexed(indexed(shards).job.model_copy(update={"retrieve": weighed}), indexed(shards).run)
        for shards in (1, 3)
    )
    parts = written(three.retrieve(three.copy(tmp_path / "run")))
    assert parts == expected(one, tmp_path / "plain") and len(parts) == 14
    without = section.model_copy(update={"sources": ["bm25"]})
    usual = Indexed(one.job.model_copy(update={"retrieve": without}), one.run)
    assert parts != expected(usual, tmp_path / "usual")


@pytest.mark.usefixtures("small_cuts")
def test_words_of_feedback_from_three_shards_are_those_of_one(
    indexed: Callable[[int], Indexed], tmp_path: Path
) -> None:
    section = plain_retrieval.settings_of(indexed(1).job)
    fed = section.model_copy(update={"rm3": Rm3(passages=3, words=2, question_weight=0.6)})
    one, three = (
        Indexed(indexed(shards).job.model_copy(update={"retrieve": fed}), indexed(shards).run)
        for shards in (1, 3)
    )
    run = three.retrieve(three.copy(tmp_path / "run"))
    parts = written(run)
    assert parts == expected(one, tmp_path / "plain") and len(parts) == 14
    assert parts != expected(indexed(1), tmp_path / "usual")

    asked = list(specs.QUESTIONS.open(run).read())
    shards = RunShards.of(three.job, run)
    with ExitStack() as stack:
        opened = [stack.enter_context(shards.open(number)) for number in range(3)]
        lists = search_block(Block(0, tuple(asked)), opened, passage_encoder(three.job), fed, EXACT)
        assert [hit for hits in lists for hit in hits] == list(RETRIEVED.open(run).read())


def test_a_job_without_feedback_is_the_step_that_it_was(
    indexed: Callable[[int], Indexed],
) -> None:
    job, run = indexed(3).job, indexed(3).run
    fed = plain_retrieval.settings_of(job).model_copy(update={"rm3": Rm3()})
    assert "rm3" not in step_of(job, run).settings
    assert step_of(job.model_copy(update={"retrieve": fed}), run).settings["rm3"]["passages"] == 10


@pytest.mark.parametrize(
    ("keys", "message"),
    [({"title_weight": 0.5}, "give title_weight = 0"), ({"sources": ["dense"]}, "add 'bm25'")],
)
def test_feedback_with_titles_or_without_bm25_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Retrieve.model_validate({"questions": "q.tsv", "rm3": {}} | keys)


def test_cuts_of_the_usual_size_give_the_same(indexed: Callable[[int], Indexed], tmp_path: Path) -> None:
    assert written(indexed(3).retrieve(indexed(3).copy(tmp_path / "run"))) == expected(
        indexed(1), tmp_path / "plain"
    )


def test_a_shard_is_opened_once_to_count_once_to_search_once_to_fetch_and_read_whole_once(
    indexed: Callable[[int], Indexed], openings: Openings, tmp_path: Path
) -> None:
    indexed(3).retrieve(indexed(3).copy(tmp_path))
    # Two where no passage is wanted.
    assert len(openings.opened) == 3 and set(openings.opened.values()) <= {2, 3}
    assert set(openings.verified.values()) == {1}


@pytest.mark.usefixtures("small_cuts")
def test_of_several_batches_each_opens_a_shard_once(
    indexed: Callable[[int], Indexed], openings: Openings, tmp_path: Path
) -> None:
    indexed(3).retrieve(indexed(3).copy(tmp_path))
    # Fourteen questions are two batches, and seven blocks whose passages are fetched alone.
    assert all(1 + 2 < times <= 1 + 2 + 7 for times in openings.opened.values())
    assert set(openings.verified.values()) == {1}


@pytest.mark.usefixtures("small_cuts")
def test_a_group_is_merged_from_one_part_of_each_shard_that_is_read_once(
    indexed: Callable[[int], Indexed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()

    def noted(part: passes.PlacedPart) -> Any:
        read[part[1].file] += 1
        return passes.by_block(part)

    monkeypatch.setattr(write_blocks, "by_block", noted)
    indexed(3).retrieve(indexed(3).copy(tmp_path))
    assert set(read.values()) == {1}
    assert len(read) == 3 * 4  # fourteen questions are four groups


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(shard, block) of each search."""
    calls: list[tuple[int, int]] = []

    def noted(shard: Shard, number: int, block: Block, *rest: Any, **options: Any) -> Any:
        calls.append((number, block.number))
        return search(shard, number, block, *rest, **options)

    monkeypatch.setattr(shard_search, "search", noted)
    return calls


def test_a_run_that_was_stopped_in_the_search_does_not_search_finished_shards_again(
    indexed: Callable[[int], Indexed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    searched: list[tuple[int, int]],
) -> None:
    many = indexed(8)
    run = many.copy(tmp_path / "run")
    noted = shard_search.search

    def stopped(*arguments: Any, **options: Any) -> Any:
        if len(searched) == 30:  # 7 blocks of 4 shards, and 2 blocks of the next
            raise KeyboardInterrupt
        return noted(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shard_search, "search", stopped)
        many.retrieve(run)

    blocks = Counter(shard for shard, _ in searched)
    finished = {shard for shard, count in blocks.items() if count == 7}
    assert len(finished) == 4
    searched.clear()
    assert written(many.retrieve(run)) == expected(indexed(1), tmp_path / "plain")
    assert {shard for shard, _ in searched} == set(range(8)) - finished
    assert [path.name for path in run.iterdir() if path.name == "_work"] == []


def test_a_block_that_is_lost_is_searched_alone(
    indexed: Callable[[int], Indexed], tmp_path: Path, searched: list[tuple[int, int]]
) -> None:
    run = indexed(3).retrieve(indexed(3).copy(tmp_path))
    before = written(run)
    next((run / "retrieved").glob("part-00002-*")).unlink()
    searched.clear()
    assert written(indexed(3).retrieve(run)) == before
    assert sorted(searched) == [(0, 2), (1, 2), (2, 2)]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is a second further each time it is read, so that each piece of work takes one."""
    reads = count()
    monkeypatch.setattr(passes, "time", SimpleNamespace(perf_counter=lambda: float(next(reads))))


def times(run: Path) -> dict[str, int]:
    """The milliseconds in the manifest, which no unit has."""
    manifest = specs.QUESTIONS.open(run).manifest
    assert not any("_ms" in counts for counts in manifest.units.values())
    return {name: n for name, n in manifest.counts.items() if name.endswith("_ms")}


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("shards", [1, 3])
def test_the_manifest_counts_what_each_index_took(
    indexed: Callable[[int], Indexed], shards: int, tmp_path: Path
) -> None:
    run = indexed(shards).retrieve(indexed(shards).copy(tmp_path))
    spent = times(run)
    # A shard's size, the words and the search of seven blocks.
    assert spent["bm25_ms"] == 1000 * shards * (1 + 7 + 7)
    assert spent["dense_ms"] == 1000 * (1 + 7 * shards)  # all questions are encoded at once
    assert spent["lists_ms"] > 0


def test_another_device_searches_exact_vectors_with_the_rows_and_scores_of_a_processor(
    indexed: Callable[[int], Indexed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(indexed(3).retrieve(indexed(3).copy(tmp_path / "before")))
    asked = list[str]()
    # Torch's name of the processor, where FAISS answers to 'cpu'.
    monkeypatch.setattr(shard_search, "device_of", lambda setting: asked.append(setting) or "cpu:0")
    monkeypatch.setattr(faiss.IndexFlatIP, "search", None)  # is not called
    assert written(indexed(3).retrieve(indexed(3).copy(tmp_path / "after"))) == before
    assert {*asked} == {"auto"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_manifest_tells_the_time_on_a_card(indexed: Callable[[int], Indexed], tmp_path: Path) -> None:
    spent = times(indexed(3).retrieve(indexed(3).copy(tmp_path)))
    assert spent["dense_card_ms"] == spent["dense_ms"] > 0


@pytest.mark.usefixtures("ticking")
def test_work_on_a_card_is_counted_among_that_of_dense_vectors() -> None:
    counts = list[tuple[int, int]]()
    for on_card in (True, False):
        timer = passes.Timer(on_card)
        with timer.on("dense"):
            pass
        counts.append((timer.counts().dense_ms, timer.counts().dense_card_ms))
    assert counts == [(1000, 1000), (1000, 0)]


@pytest.mark.usefixtures("ticking", "small_cuts")
@pytest.mark.nightly
def test_a_run_that_was_stopped_four_times_counts_what_one_that_was_not_does(
    indexed: Callable[[int], Indexed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    searched: list[tuple[int, int]],
) -> None:
    """In the search of a shard, between two groups, within a group, and before the commit."""
    many = indexed(8)
    whole = times(many.retrieve(many.copy(tmp_path / "whole")))
    run = many.copy(tmp_path / "run")

    def stop_at(kind: type[Any], method: str, call: int) -> None:
        work, calls = getattr(kind, method), count()

        def stopping(self: Any, *arguments: Any) -> Any:
            if next(calls) == call:
                raise KeyboardInterrupt
            return work(self, *arguments)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(kind, method, stopping)
            many.retrieve(run)

    stop_at(Shard, "passage_ids", 40)
    stop_at(WriteBlocks, "work", 1)
    stop_at(WriteBlocks, "_write", 1)
    assert len(list((run / "retrieved").glob("*.parquet"))) == 3
    stop_at(Commit, "finish", 0)
    assert len(list((run / "retrieved").glob("*.parquet"))) == 7
    searched.clear()
    assert times(many.retrieve(run)) == whole
    assert not searched  # its seconds are those of the runs before


def test_what_it_took_decides_no_digest(
    indexed: Callable[[int], Indexed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = indexed(3).retrieve(indexed(3).copy(tmp_path / "first"))
    reads = count(0, 5)
    monkeypatch.setattr(passes, "time", SimpleNamespace(perf_counter=lambda: float(next(reads))))
    second = indexed(3).retrieve(indexed(3).copy(tmp_path / "second"))
    assert times(first) != times(second)
    one, two = (RETRIEVED.open(run) for run in (first, second))
    assert (one.digest(), one.manifest.fingerprint) == (two.digest(), two.manifest.fingerprint)
    assert written(first) == written(second)


def test_a_block_that_is_lost_counts_anew_and_the_others_keep_their_counts(
    indexed: Callable[[int], Indexed], tmp_path: Path
) -> None:
    run = indexed(3).retrieve(indexed(3).copy(tmp_path))
    before = dict(specs.QUESTIONS.open(run).manifest.units)
    assert "questions/s" in retrieve.summary(run)
    next((run / "retrieved").glob("part-00002-*")).unlink()
    after = dict(specs.QUESTIONS.open(indexed(3).retrieve(run)).manifest.units)
    assert (
        before.keys() == after.keys()
        and json.loads(after["2"])["questions"] == json.loads(before["2"])["questions"] > 0
    )
    assert {unit: counts for unit, counts in before.items() if unit != "2"} == {
        unit: counts for unit, counts in after.items() if unit != "2"
    }
    assert times(run) == {} and "questions/s" not in retrieve.summary(run)  # it would be that of a block


class FailingSearch(SearchShard):
    """Fails for shard 1, while the run has a file `fail`."""

    def work(self, unit: int) -> None:
        if unit == 1 and (self._shards.folder.path.parent / "fail").is_file():
            raise KeyError("colour")
        super().work(unit)


def test_a_search_that_fails_is_named_when_the_others_are_done_and_tried_again_alone(
    indexed: Callable[[int], Indexed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    searched: list[tuple[int, int]],
) -> None:
    monkeypatch.setattr(retrieve, "SearchShard", FailingSearch)
    run = indexed(3).copy(tmp_path / "run")
    (run / "fail").touch()

    with pytest.raises(
        JobError, match=r"unit 1 of retrieve/hits failed, 2 of 3 are done: unit 1: KeyError: 'colour'"
    ) as e:
        indexed(3).retrieve(run)

    assert e.value.code == IO
    assert {shard for shard, _ in searched} == {0, 2}
    searched.clear()
    (run / "fail").unlink()
    assert written(indexed(3).retrieve(run)) == expected(indexed(1), tmp_path / "plain")
    assert {shard for shard, _ in searched} == {1}


def test_a_group_that_fails_to_be_written_is_named_by_its_pass(
    indexed: Callable[[int], Indexed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise KeyError("colour")

    monkeypatch.setattr(WriteBlocks, "_write", failing)
    with pytest.raises(
        JobError, match=r"unit 0 of retrieve/lists failed, 0 of 1 are done: unit 0: KeyError: 'colour'"
    ) as e:
        indexed(3).retrieve(indexed(3).copy(tmp_path))
    assert e.value.code == IO


def test_a_part_that_a_pass_left_damaged_is_made_again(
    indexed: Callable[[int], Indexed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    searched: list[tuple[int, int]],
) -> None:
    run = indexed(3).copy(tmp_path / "run")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(WriteBlocks, "work", stopped)
        indexed(3).retrieve(run)

    part = next(run.glob("_work/retrieve-*/hits/part-00001-*"))
    whole = part.read_bytes()
    part.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    searched.clear()
    assert written(indexed(3).retrieve(run)) == expected(indexed(1), tmp_path / "plain")
    assert {shard for shard, _ in searched} == {1}


@pytest.mark.usefixtures("small_cuts")
def test_a_block_that_is_damaged_while_the_run_is_stopped_is_written_again(
    indexed: Callable[[int], Indexed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group was done, or was stopped when the other block of the group was to be written."""
    run, work, calls = indexed(3).copy(tmp_path / "run"), WriteBlocks._write, count()

    def stopping(self: WriteBlocks, *arguments: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return work(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(WriteBlocks, "_write", stopping)
        indexed(3).retrieve(run)
    assert len(list((run / "retrieved").glob("*.parquet"))) == 3
    for part in (next((run / "retrieved").glob(f"part-0000{block}-*")) for block in (0, 2)):
        part.write_bytes(part.read_bytes()[:-1] + b"?")
    assert written(indexed(3).retrieve(run)) == expected(indexed(1), tmp_path / "plain")


def test_words_that_two_shards_count_differently_are_not_added_up(tmp_path: Path) -> None:
    words = passes.Pass(
        Step(tmp_path, specs.RETRIEVE, {}, {}).within("words", {"words": WordCount}, specs.PassCounts, {}), 2
    )
    for shard, counted in enumerate(({"glacier": 3, "river": 0}, {"glacier": 1, "senate": 2})):
        with (writer := PartWriter(words.folder, WordCount, shard)):
            writer.write([WordCount(word, passages) for word, passages in counted.items()])
        words.write(shard, writer.parts, specs.PassCounts())
    with pytest.raises(RuntimeError, match="shard 1 has counted other words than shard 0"):
        read_statistics(words)


@pytest.mark.nightly
def test_the_graph_of_a_million_questions_and_five_thousand_shards_is_below_a_megabyte(
    indexed: Callable[[int], Indexed],
) -> None:
    settings, step = plain_retrieval.settings_of(indexed(1).job), step_of(indexed(1).job, indexed(1).run)

    def size(questions: int, shards: int) -> int:
        asked = AskedQuestions.cut(step.work / "asked", Part("part", questions, 0, "0" * 64), 64)
        turns = plan(asked, replace(RunShards.of(indexed(1).job, step.run), count=shards), settings, step)
        root = beam.Pipeline()
        define(BeamEngine(root), turns)
        return int(root.to_runner_api().ByteSize())

    assert size(1_000_000, 5_000) < 1_000_000


def test_a_worker_that_sees_other_shards_is_refused(indexed: Callable[[int], Indexed]) -> None:
    shards = RunShards(indexed(1).job, Folder(indexed(1).run / "shards", SHARDS, "0" * 32), 1)
    with pytest.raises(JobError, match="do all workers see that folder") as e, shards.open(0):
        pass
    assert e.value.code == IO


@pytest.fixture
def copied(indexed: Callable[[int], Indexed], tmp_path: Path, openings: Openings) -> RunShards:
    """Shards that a test may change, of a process that has not opened any."""
    return RunShards.of(indexed(1).job, indexed(1).copy(tmp_path / "run"))


def test_a_shard_that_was_closed_opens_again_without_reading_it_all(
    copied: RunShards, openings: Openings
) -> None:
    for _ in range(2):
        with copied.open(0) as shard:
            assert shard.passages([0])
    assert set(openings.opened.values()) == {2} and set(openings.verified.values()) == {1}


def test_a_shard_whose_bytes_were_changed_is_refused(copied: RunShards) -> None:
    file = next(copied.folder.path.glob("0*/passages.parquet"))
    whole = file.read_bytes()
    file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ShardDamaged, match=r"passages\.parquet"), copied.open(0):
        pass


def test_of_a_shard_that_is_opened_for_passages_only_these_are_compared(copied: RunShards) -> None:
    vectors = next(copied.folder.path.glob("0*/dense.faiss"))
    vectors.write_bytes(vectors.read_bytes()[:-1] + b"?")
    with copied.open(0, only=PASSAGES) as shard:
        assert shard.passages([0])
    with pytest.raises(ShardDamaged, match=r"dense\.faiss"), copied.open(0):
        pass
    passages = next(copied.folder.path.glob("0*/passages.parquet"))
    passages.write_bytes(passages.read_bytes()[:-1] + b"?")
    open_shards._sound.clear()
    with pytest.raises(ShardDamaged, match=r"passages\.parquet"), copied.open(0, only=PASSAGES):
        pass


def test_a_shard_json_that_is_not_the_one_in_the_manifest_is_refused(copied: RunShards) -> None:
    file = next(copied.folder.path.glob("0*/shard.json"))
    changed = file.read_text().replace('"format": 1,', '"format": 2,')
    assert changed != file.read_text()
    file.write_text(changed)
    with pytest.raises(ShardDamaged, match=r"shard\.json was changed since it was written"), copied.open(0):
        pass


@pytest.mark.parametrize("source", ["bm25", "dense"])
def test_a_retrieval_score_that_is_no_number_stops_it_with_shard_and_question(source: str) -> None:
    rows = np.arange(2)

    def hits(*_: object) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(rows, np.array([2.0, 1.0])), (rows, np.array([2.0, np.nan]))]

    index: Any = SimpleNamespace(search=hits)
    shard: Any = SimpleNamespace(
        coded=None, folder=Path("shards/0"), bm25=index, dense=index, check_encoder=lambda _: None
    )
    block = Block(0, (Question("q1", "Who?"), Question("q2", "When?")))
    settings = Retrieve(questions="q.tsv", sources=[source])
    vectors = QuestionVectors(np.ones((2, 4), np.float32), "e") if source == "dense" else None

    with pytest.raises(
        ShardDamaged, match=f"shards/0: {source} gives question q2 a score that is NaN or infinite; `"
    ):
        search(shard, 0, block, vectors, GlobalStatistics(), settings=settings)


def test_a_question_that_no_index_knows_is_written_without_hits(
    indexed: Callable[[int], Indexed], tmp_path: Path
) -> None:
    section = plain_retrieval.settings_of(indexed(3).job).model_copy(update={"sources": ["bm25"]})
    run = indexed(3).copy(tmp_path)
    list(run_steps(indexed(3).job.model_copy(update={"retrieve": section}), run, ["retrieve"], ()))
    asked = [question.question_id for question in specs.QUESTIONS.open(run).read()]
    answered = {hit.question_id for hit in RETRIEVED.open(run).read()}
    assert set(asked) - answered == {"none"} and len(asked) == 14
