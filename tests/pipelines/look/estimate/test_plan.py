"""`answermill plan`: what a job will take, from a sample of its input."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.pipelines.config.job_file import Ingest, Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError
from answermill.pipelines.look.estimate import input_sample, plan, sample_runs
from answermill.pipelines.look.estimate.actual import actual, predicted_and_actual
from answermill.pipelines.look.estimate.input_sample import InputSample, draw, draw_records, size, write_pages
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.estimate.rates import Rates
from answermill.pipelines.look.estimate.sample_runs import Sample, Sampled
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest, Part
from answermill.pipelines.runs.spec import FolderSpec, StepSpec
from answermill.pipelines.specs.index import SHARDS, IndexCounts
from answermill.pipelines.specs.ingest import DOCUMENTS, PASSAGES, REJECTS, IngestCounts
from answermill.pipelines.specs.rerank import ANSWERS, RERANK, SCORED, RerankCounts, StageCounts
from answermill.pipelines.specs.retrieve import QUESTIONS, QUESTIONS_REJECTS, RETRIEVED, RetrieveCounts
from answermill.pipelines.specs.run import Run
from answermill.pipelines.steps.index.index_growth import EarlierIndex
from testing.crawl_index import write_crawl
from testing.tiny import write_job
from tests.added_step import InThisProcess, added_step

RATES = Rates(
    "a machine",
    item={
        "ingest": 0.01,
        "index": 0.1,
        "retrieve": 0.019,
        "retrieve in each shard": 0.001,
        "rerank first": 0.001,
        "rerank second": 0.01,
        "toy": 0.001,
    },
    startup={"ingest": 2.0, "index": 0.0, "retrieve": 0.0, "rerank": 5.0, "toy": 0.5},
)
SOURCE = InputSample(files=4, pages=1_000, readable=1_000, drawn=())
QUESTIONS_ASKED = 100
ROW_BYTES = 1_000


def sampled(pages: int, seconds: float = 1.0, each: int = 1_000) -> Sampled:
    """A run in which of 5 pages each 4 are documents, with 6 passages a page; 20 hits for each of half as
    many questions. `each`: layers × tokens, and microseconds, of a question."""
    documents, passages, questions, hits = 4 * pages // 5, 6 * pages, pages // 2, 10 * pages
    ingest = IngestCounts(
        pages=pages, documents=documents, passages=passages, rejected={"short": pages - documents}
    )
    retrieve = RetrieveCounts(
        questions_given=questions,
        questions=questions,
        hits=hits,
        bm25=6 * pages,
        dense=6 * pages,
        bm25_ms=3,
        dense_ms=1,
    )

    first = StageCounts(incoming=6 * hits, outgoing=10 * questions, microseconds=each * questions // 4)
    tokens = {"layer_tokens": each * questions}
    second = StageCounts(10 * questions, 10 * questions, microseconds=3 * each * questions // 4, costs=tokens)
    rerank = RerankCounts(
        questions=questions, candidates=6 * hits, kept=6 * hits, stages={"first": first, "second": second}
    )
    folders: list[tuple[FolderSpec[Any], int, StepCounts]] = [
        (DOCUMENTS, documents, ingest),
        (PASSAGES, passages, ingest),
        (REJECTS, pages - documents, ingest),
        (SHARDS, passages, IndexCounts(passages=passages)),
        (QUESTIONS, questions, retrieve),
        (RETRIEVED, hits, retrieve),
        (QUESTIONS_REJECTS, 0, retrieve),
        (SCORED, 6 * hits, rerank),
        (ANSWERS, questions, rerank),
    ]
    manifests = {folder.name: manifest(folder, rows, counts) for folder, rows, counts in folders}

    return Sampled(
        Run(Path(), manifests, {}), dict.fromkeys(("ingest", "index", "retrieve", "rerank"), seconds)
    )


def manifest(folder: Any, rows: int, counts: StepCounts) -> Manifest:
    """Of a folder with one part."""
    part = Part("part-00000.parquet", rows, ROW_BYTES * rows, "")
    return Manifest(folder.maker, "", "", "", {}, {}, "", rows, counts.to_json(), [part])


SAMPLE = Sample(sampled(4), sampled(4), sampled(10), sampled(10), peak_bytes=10**9)


@pytest.fixture
def sample_job(tmp_path: Path) -> Job:
    return load(copy_to(tmp_path / "sample"))


def job_of(**retrieve: Any) -> Job:
    stages = [{"reranker": "overlap", "name": "first", "keep": 10}, {"reranker": "overlap", "name": "second"}]
    sections = {
        "index": {"shards": 5},
        "retrieve": {"questions": "q.tsv", "depth": 12, **retrieve},
        "rerank": {"stages": stages},
    }
    return Job.model_validate({"ingest": {"input": ["x"]}, **sections, "workers": {"processes": 2}})


def predict(
    job: Job,
    source: InputSample = SOURCE,
    sample: Sample = SAMPLE,
    rates: Rates = RATES,
    price: float | None = None,
) -> RunEstimate:
    """The plan of a job that asks QUESTIONS_ASKED questions."""
    steps = list(plan.whole_steps(job, source, QUESTIONS_ASKED, sample))
    return plan.predict(job, source, sample, steps, rates, price_per_hour=price)


def rates_of(sample: Sample) -> Rates:
    """The rates of the machine on which these runs were."""
    return Rates.of(sample, plan.whole_steps(job_of(), SOURCE, QUESTIONS_ASKED, sample))


def section(job: Job) -> Ingest:
    assert job.ingest is not None
    return job.ingest


def test_the_same_pages_are_drawn_each_time(sample_job: Job) -> None:
    few, many = draw(sample_job, section(sample_job), 5), draw(sample_job, section(sample_job), 30)
    assert (len(few.drawn), len(many.drawn)) == (5, 30) and len({page.url for page in many.drawn}) > 20
    assert few == draw(sample_job, section(sample_job), 5)
    assert (
        few.pages
        == many.pages
        == 70
        > few.readable
        == many.readable
        == len(draw(sample_job, section(sample_job), 99).drawn)
    )


def test_what_is_drawn_is_as_long_as_all_that_is_read_and_so_is_a_part_of_it(tmp_path: Path) -> None:
    """Of 2,000 pages one in a hundred has half of the text, in no order."""
    lengths = [100 * 99 if n % 100 == 37 else 100 for n in range(2_000)]
    (tmp_path / "pages.jsonl").write_text(
        "".join(json.dumps({"id": f"{n}", "text": "x" * k}) + "\n" for n, k in enumerate(lengths))
    )
    job = Job.model_validate({"ingest": {"input": [str(tmp_path / "pages.jsonl")]}})
    drawn = draw(job, section(job), 200).drawn
    mean = sum(lengths) / len(lengths)
    for count in (100, 200):
        part = input_sample.spread(drawn, count, size)
        assert len(part) == count and sum(map(size, part)) / count == pytest.approx(mean, rel=0.01)


def test_spread_values_have_the_mean_size_of_their_neighbours() -> None:
    assert input_sample.spread(list(range(12)), 4, float) == [1, 4, 7, 10]
    assert input_sample.spread([0, 1, 2, 5, 6, 13], 2, float) == [1, 6]
    assert input_sample.spread(list(range(3)), 4, float) == [0, 1, 2]
    assert input_sample.spread([], 4, float) == []


def test_pages_that_reading_refuses_become_nothing_but_rejects() -> None:
    all_of_them, some = (predict(job_of(), replace(SOURCE, readable=pages)) for pages in (1_000, 500))
    for name in ("documents", "passages"):
        assert 2 * some.counts[name] == all_of_them.counts[name]
    assert some.counts["pages"] == 1_000
    startup = RATES.startup["ingest"] * 2  # of two workers
    assert some.seconds["ingest"] - startup == pytest.approx((all_of_them.seconds["ingest"] - startup) / 2)
    assert some.bytes["rejects"] == ROW_BYTES * 600


def test_the_pages_of_what_is_not_read_are_counted_by_bytes(
    sample_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_sample, "BYTES_READ", 60_000)
    sample = draw(sample_job, section(sample_job), 30)
    assert len(draw(sample_job, section(sample_job), 99).drawn) < 50
    assert sample.pages == pytest.approx(70, rel=0.25)


def crawl_job(folder: Path, **ingest: Any) -> Job:
    rows = write_crawl(folder / "crawl")
    assert 30 < len(rows) < 200
    index = {"files": [str(folder / "crawl/index.parquet")], "mime": [], "status": []}
    return Job.model_validate(
        {"ingest": {"crawl_index": index, "paths_root": str(folder / "crawl"), **ingest}}
    )


def test_records_of_a_crawl_are_counted_by_its_index_and_some_are_drawn(tmp_path: Path) -> None:
    job = crawl_job(tmp_path)
    query = section(job).crawl_index
    assert query is not None
    few, all_of_them = (draw_records(job, section(job), query, most) for most in (10, 1_000))
    assert few.pages == all_of_them.pages > all_of_them.readable == len(all_of_them.drawn)
    assert len(few.drawn) <= 10 and few == draw_records(job, section(job), query, 10)
    assert set(few.drawn) < set(all_of_them.drawn)


def test_a_job_that_reads_records_of_a_crawl_is_planned(inline: None, tmp_path: Path) -> None:
    planned, _ = plan.plan_of(crawl_job(tmp_path))
    assert (
        planned.counts["pages"]
        == len(pq.read_table(tmp_path / "crawl/index.parquet"))
        > planned.counts["documents"]
        > 0
    )


def test_files_and_records_of_one_job_are_not_planned_together(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="plan each of them") as refused:
        plan.plan_of(crawl_job(tmp_path, input=["pages.jsonl"]))
    assert refused.value.code == SETTINGS


def test_what_is_drawn_is_written_as_it_was_read(sample_job: Job, tmp_path: Path) -> None:
    fetched = draw(sample_job, section(sample_job), 10).drawn
    texts = tuple(
        replace(page, text="A text.", title="T", body=b"", content_type="text/plain", charset="")
        for page in fetched[:3]
    )
    files = write_pages((*fetched, *texts), tmp_path / "drawn")
    assert [Path(file).suffixes for file in files] == [[".warc", ".gz"], [".jsonl"]]

    pages = [
        page for file in files for page in read_pages(Path(file), "x", Counter()) if isinstance(page, RawPage)
    ]
    assert [(p.url, p.body, p.charset, p.content_type) for p in pages[:10]] == [
        (p.url, p.body, p.charset, p.content_type) for p in fetched
    ]
    assert [(p.url, p.text, p.title) for p in pages[10:]] == [(p.url, p.text, p.title) for p in texts]


def test_ten_times_the_pages_take_ten_times_the_passages_and_as_many_candidates() -> None:
    one, ten = (predict(job_of(), replace(SOURCE, pages=n, readable=n)) for n in (1_000, 10_000))
    assert (one.counts["passages"], ten.counts["passages"]) == (6_000, 60_000)
    assert ten.seconds["index"] == pytest.approx(10 * one.seconds["index"]) == pytest.approx(60_000 * 0.1)
    assert ten.counts["candidates"] == one.counts["candidates"] == 6 * one.counts["hits"]
    assert ten.stage_seconds == one.stage_seconds and ten.seconds["retrieve"] == one.seconds["retrieve"]
    assert ten.bytes["shards"] == 10 * one.bytes["shards"] == 60_000 * ROW_BYTES
    assert "questions_rejects" not in ten.bytes, "nothing is said of a folder without a row"


def test_a_question_costs_more_for_each_shard_more() -> None:
    five, nine = (
        predict(Job.model_validate(job_of().model_dump() | {"index": {"shards": n}})) for n in (5, 9)
    )
    assert five.seconds["retrieve"] == pytest.approx(100 * (0.02 + 4 * 0.001))
    assert nine.seconds["retrieve"] - five.seconds["retrieve"] == pytest.approx(100 * 4 * 0.001)
    assert (five.counts["shards"], nine.counts["shards"]) == (5, 9)


def test_a_deeper_retrieval_costs_the_stage_that_reads_all_and_not_the_one_behind_keep() -> None:
    shallow, deep = (predict(job_of(depth=depth)) for depth in (12, 24))
    # 20 a question of the sample, at depth 12.
    assert shallow.counts["hits"] == 100 * 20 and deep.counts["hits"] == 100 * 40
    deeper, shallower = deep.stage_seconds["rerank"], shallow.stage_seconds["rerank"]
    assert deeper["first"] == pytest.approx(2 * shallower["first"])
    assert deeper["second"] == shallower["second"] == pytest.approx(100 * 10 * 0.01)
    assert deep.counts["layer_tokens"] == shallow.counts["layer_tokens"] == 100 * 1_000


def test_no_question_finds_more_passages_than_there_are() -> None:
    few = predict(job_of(), replace(SOURCE, pages=2, readable=2))
    assert few.counts["passages"] == 12 and few.counts["hits"] == 100 * 12
    assert few.counts["candidates"] == 6 * few.counts["hits"]


def test_workers_share_the_work_as_far_as_there_are_units_and_the_clock_is_paid() -> None:
    plan_of_two = predict(job_of(), price=3.6)
    assert plan_of_two.hours["ingest"] == pytest.approx((2.0 + 1_000 * 0.01 / 2) / 3600)
    assert plan_of_two.seconds["ingest"] == pytest.approx(2 * 2.0 + 1_000 * 0.01)
    assert plan_of_two.dollars == pytest.approx(sum(plan_of_two.hours.values()) * 3.6)
    assert plan_of_two.worker_bytes == 10**9 + 6_000 * ROW_BYTES / 5, (
        "a shard of five beside what the steps held"
    )
    alone = predict(job_of(block=100))  # all questions in one unit
    assert alone.hours["rerank"] == pytest.approx((5.0 + sum(alone.stage_seconds["rerank"].values())) / 3600)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[StepSpec[Any]]:
    with added_step(tmp_path) as spec:
        yield spec


def test_a_step_that_is_none_of_ours_grows_with_what_it_reads(toy: StepSpec[Any]) -> None:
    def with_toy(part: Sampled) -> Sampled:
        documents = part.run.manifests["documents"].rows
        copies = manifest(toy.folders[0], documents, toy.counts(documents=documents, letters=100 * documents))
        seconds = {"ingest": 1.0, "toy": 0.5 + 0.1 * documents}
        return Sampled(replace(part.run, manifests={**part.run.manifests, "toy": copies}), seconds)

    small, large = with_toy(SAMPLE.small), with_toy(SAMPLE.large)
    sample = Sample(small, small, large, large)
    rates = rates_of(sample)
    assert rates.item["toy"] == pytest.approx(0.001) and rates.startup["toy"] == pytest.approx(0.5)
    planned = predict(job_of(), sample=sample, rates=rates)
    assert planned.counts["letters"] == 80_000 and planned.bytes["toy"] == 800 * ROW_BYTES
    assert planned.seconds["toy"] == pytest.approx(2 * 0.5 + 80_000 * 0.001)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job file of a job with small models and few questions."""
    return write_job(tmp_path_factory.mktemp("tiny") / "job", every=9)


@pytest.mark.nightly
def test_a_plan_is_kept_with_its_run_and_compared_with_what_came(
    tiny: Path,
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The small run asks 15 questions, and the plan sees 10 of them, and half of the pages."""
    monkeypatch.setattr(plan, "PAGES", 34)
    monkeypatch.setattr(sample_runs, "STEP_S", 30.0)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    shutil.copytree(small_run, tmp_path / "run")
    shutil.copytree(small_run.parent, tmp_path / "job", ignore=shutil.ignore_patterns("run"))
    rates = tmp_path / "rates.json"
    words = [
        "plan",
        str(tmp_path / "job" / "job.toml"),
        "--out",
        str(tmp_path / "run"),
        "--save-rates",
        str(rates),
        "--json",
    ]
    with pytest.raises(SystemExit) as e:
        main([*words, "--price-per-hour", "0.5"])

    captured = capfd.readouterr()
    printed = json.loads(captured.out)
    assert "measures   retrieve" in captured.err and "WARNING" not in captured.err, (
        "what libraries log is no news"
    )
    assert e.value.code == 0 and printed["counts"]["pages"] == 70 and printed["counts"]["questions"] == 15
    assert printed["drawn"] == 34 and printed["dollars"] > 0 and Rates.read(rates).item["ingest"] > 0
    compared = predicted_and_actual(Run.open(tmp_path / "run"))
    assert (
        compared["pages"] == (70, 70) and compared["shards"] == (2, 2) and compared["questions"] == (15, 15)
    )

    for name in ("documents", "passages", "hits", "candidates", "bytes of passages", "bytes of scored"):
        predicted, came = compared[name]
        assert predicted == pytest.approx(came, rel=0.3), name

    steps = {f"seconds of {step}" for step in ("ingest", "index", "retrieve", "rerank")}
    assert compared.keys() >= {*steps, "layer_tokens"}
    assert compared["seconds of ingest"][1] > 0 and compared["seconds of retrieve"][1] > 0
    assert list((tmp_path / "temporary").iterdir()) == [], "what was measured on is gone"


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_runs, "new_process", InThisProcess)


def since(former: EarlierIndex, **rates: float) -> RunEstimate:
    """The plan of 6,000 passages, of which an earlier run has some."""
    sample = replace(SAMPLE, former={"index": former})
    return predict(job_of(), sample=sample, rates=replace(RATES, item=RATES.item | rates))


def test_shards_of_an_earlier_run_are_taken_over_and_new_passages_alone_take_time() -> None:
    planned = since(EarlierIndex(passages=5_000, shards=4, known=0.75, is_same=True))
    named = ("taken_over", "tombstones", "shards", "passages")
    assert [planned.counts[name] for name in named] == [4_500, 500, 6, 6_000]
    assert planned.seconds["index"] == pytest.approx(0.1 * 1_500)
    assert predict(job_of()).seconds["index"] == pytest.approx(0.1 * 6_000)


@pytest.mark.parametrize(
    "former",
    [
        EarlierIndex(passages=5_000, shards=4, known=0.75, is_same=False),
        # Shards of which too many rows would be tombstones.
        EarlierIndex(passages=7_000, shards=4, known=0.75, is_same=True),
    ],
)
def test_vectors_of_an_earlier_run_of_other_settings_or_pages_take_no_time(former: EarlierIndex) -> None:
    planned = since(former, **{"index": 0.04, "index encoding": 0.06})
    assert planned.counts["vectors_taken_over"] == 4_500 and "taken_over" not in planned.counts
    assert planned.counts["shards"] == 5
    assert planned.seconds["index"] == pytest.approx(0.04 * 6_000 + 0.06 * 1_500)


def test_a_measuring_process_that_is_ended_from_outside_is_no_defect(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(InThisProcess):
        def submit(self, *task: Any, **named: Any) -> Future[Any]:
            raise BrokenProcessPool("it was terminated abruptly")

    monkeypatch.setattr(sample_runs, "new_process", Killed)
    with pytest.raises(JobError, match="ingest: the process that measured it has ended, perhaps for lack of"):
        plan.plan_of(load(tiny))


@pytest.mark.nightly
def test_pages_say_what_becomes_of_pages_though_encoding_all_of_them_would_take_too_long(
    tiny: Path,
    small_run: Path,
    inline: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A clock by which every second step, index among them, takes ten seconds."""
    clock = cycle([0.0, 0.1, 0.1, 10.1])
    monkeypatch.setattr(sample_runs, "processor_seconds", lambda: next(clock))
    planned, _ = plan.plan_of(load(tiny))
    lines = capsys.readouterr().err
    assert "index on 32 pages" in lines and "ingest on 66 pages" in lines and "index on 66 pages" not in lines
    ran = PASSAGES.open(small_run).manifest.counts
    assert planned.drawn == 66 and planned.counts["passages"] == ran["passages"], (
        "the small run is of these pages, and of 4 that are none"
    )


def test_seconds_of_a_card_are_not_counted_beside_those_in_which_it_was_at_work(
    small_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_run, tmp_path / "run")
    planned = predict(job_of())
    planned.save(tmp_path / "run")
    was = Run.open(small_run).counts(RERANK)
    stages = {
        name: replace(stage, microseconds=2_000_000, card_microseconds=1_500_000)
        for name, stage in was.stages.items()
    }
    for folder, written in Run.open(small_run).of(RERANK).items():
        (tmp_path / "run" / folder / MANIFEST).unlink()
        replace(written, counts=replace(was, stages=stages).to_json()).write(tmp_path / "run" / folder)

    seconds = 2.0 * len(was.stages)
    assert actual(Run.open(tmp_path / "run"))["seconds of rerank"] == seconds
    assert predicted_and_actual(Run.open(tmp_path / "run"))["seconds of rerank"] == (
        planned.seconds["rerank"],
        seconds,
    )


def test_a_run_without_a_plan_compares_nothing(small_run: Path) -> None:
    assert predicted_and_actual(Run.open(small_run)) == {}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--rates", "absent.json"], INPUT_MISSING, "--rates absent.json: no such file"),
        (["--rates", "BAD"], BAD_DATA, "writes such a file"),
        (["--set", "ingest.input=['absent.warc']"], INPUT_MISSING, "no such file"),
    ],
)
def test_wrong_use_is_refused_with_what_to_type(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit) as e:
        main(["plan", str(tiny), *(str(tmp_path / "bad.json") if word == "BAD" else word for word in words)])
    assert e.value.code == code and message in capsys.readouterr().err


def test_a_job_without_pages_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.toml").write_text('[[rerank.stages]]\nreranker = "overlap"\n', encoding="utf-8")
    with pytest.raises(SystemExit) as e:
        main(["plan", str(tmp_path / "job.toml")])
    assert e.value.code == SETTINGS and "no [ingest] section" in capsys.readouterr().err


def test_a_smaller_run_s_questions_which_find_less_do_not_make_the_larger_one_s_dearer() -> None:
    """1.0 s to begin, 1 µs a layer and token: 2 questions with little to read, and 9 with much."""
    small, large = (
        sampled(4, seconds=1.0 + 2 * 0.1, each=100_000),
        sampled(18, seconds=1.0 + 9 * 1.0, each=1_000_000),
    )
    rates = rates_of(Sample(small, small, large, large))
    assert rates.startup["rerank"] == pytest.approx(1.0)
    assert rates.item["rerank first"] == pytest.approx(9 / 4 / (60 * 18))
    assert rates.item["rerank second"] == pytest.approx(9 * 3 / 4 / 90)
    assert rates.item["retrieve in each shard"] == pytest.approx(3 * rates.item["retrieve"]), "BM25's share"


def test_rates_of_another_job_are_refused(tiny: Path, inline: None, tmp_path: Path) -> None:
    RATES.save(tmp_path / "rates.json")
    with pytest.raises(JobError, match=r"nothing of rerank cascade, rerank .*--save-rates") as refused:
        plan.plan_of(load(tiny), tmp_path / "rates.json")
    assert refused.value.code == BAD_DATA
