"""The report of a run: its figures are the run's, its bytes depend on nothing else, and what is not there is
named."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, USAGE, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.report import scored_blocks, shown_questions
from answermill.pipelines.look.report.correct_answers import CorrectAnswers, QuestionValues
from answermill.pipelines.look.report.figures import RunReport
from answermill.pipelines.look.report.pages.run_page import run_page
from answermill.pipelines.look.report.run_report import read_report, write_report
from answermill.pipelines.runs import parquet_folder
from answermill.pipelines.runs.manifests import manifest
from answermill.pipelines.runs.manifests.manifest import Manifest, read_manifest
from answermill.pipelines.runs.watch.clock import CLOCK, record
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.propagate import PROPAGATE, SENTENCE_LABELS, PropagateCounts
from answermill.pipelines.specs.registry import folders
from answermill.pipelines.specs.rerank import ANSWERS, SCORED, StageCounts
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.schemas.labels import PassageLabel, SentenceLabel
from answermill.schemas.ranked import ScoredCandidate
from testing.object_store import ObjectStore
from tests.pipelines.look.report.written_run import commit, passage, write_run

STAGES = ["cosinet", "complete_sentence", "cascade", "peasi.pr", "peasi.easi", "similarity"]


@pytest.fixture(scope="module")
def report(small_run: Path) -> RunReport:
    return read_report(small_run, price_per_hour=3.6)


@pytest.fixture(scope="module")
def rows(small_run: Path) -> list[ScoredCandidate]:
    return list(SCORED.open(small_run).read())


def test_the_funnel_has_what_the_folders_have(
    report: RunReport, small_run: Path, rows: list[ScoredCandidate]
) -> None:
    corpus = {amount.what: amount.count for amount in report.corpus}
    passages = PASSAGES.open(small_run).rows
    assert corpus == {"pages": 70, "documents": 60, "passages": passages}
    candidates = {amount.what: amount.count for amount in report.candidates}
    assert candidates["candidates"] == len(rows) > 1_000
    assert candidates["kept"] == sum(row.fate == "kept" for row in rows) > 0
    assert candidates["retrieved passages"] == RETRIEVED.open(small_run).rows
    (rejects,) = report.rejects
    assert rejects.rows == sum(rejects.reasons.values()) == 10 and rejects.reasons["language"] == 2


def test_what_a_stage_dropped_is_what_the_rows_say_and_nothing_is_lost_between_two(
    report: RunReport, rows: list[ScoredCandidate]
) -> None:
    assert [stage.name for stage in report.stages] == STAGES
    dropped = Counter(row.dropped_by for row in rows)
    assert {stage.name: stage.dropped for stage in report.stages} == {name: dropped[name] for name in STAGES}
    cosinet, complete, cascade, *_, last = report.stages
    assert (cosinet.went, complete.went) == (complete.came, cascade.came)
    assert all(stage.came == stage.went + stage.dropped for stage in (cosinet, complete, cascade, last))
    for stage in report.stages:
        scored = [score for row in rows for score in row.stages if score.stage == stage.name]
        assert sum(each.went + each.left for each in stage.scores) == len(scored) > 0
        assert stage.seconds is not None and stage.dollars == pytest.approx(stage.seconds / 1000)


def test_the_answers_are_counted_by_their_place_in_retrieval(
    report: RunReport, rows: list[ScoredCandidate]
) -> None:
    assert report.answers is not None
    firsts = [row for row in rows if row.rank == 1]
    assert report.answers.questions == 15 and report.answers.answered == len(firsts)
    assert report.answers.retrieved_rank["1"] == sum(row.retrieved_rank == 1 for row in firsts)
    assert report.answers.retrieved_rank["6–10"] == sum(6 <= row.retrieved_rank <= 10 for row in firsts)
    assert sum(report.answers.retrieved_rank.values()) == sum(report.answers.sources.values()) == len(firsts)


@pytest.mark.parametrize(("place", "by"), [(0, "position"), (-1, "final")])
def test_the_quality_is_what_evaluate_says(report: RunReport, small_run: Path, place: int, by: str) -> None:
    assert report.quality is not None
    evaluation = evaluate(str(small_run / "scored"), small_run / "labels/sentences", by=by)
    order = report.quality.orders[place]
    assert evaluation.kept == report.quality.questions > 10
    assert (order.p1, order.mrr) == pytest.approx((evaluation.means["P@1"][0], evaluation.means["MRR"][0]))
    assert order.mrr > 0


def test_every_labelled_question_ends_in_one_way_and_is_not_alive_after_it(report: RunReport) -> None:
    assert report.quality is not None
    ends = {(each.fate, each.stage): each.questions for each in report.quality.outcomes}
    assert sum(ends.values()) == report.quality.questions
    alive = [order.alive for order in report.quality.orders]
    assert alive == sorted(alive, reverse=True)
    assert (
        alive[0] - alive[1] == ends["dropped", "cosinet"]
        and alive[-1] == ends["first", ""] + ends["not first", ""]
    )
    assert alive[0] == report.quality.questions - ends["not retrieved", ""]


def test_a_lost_answer_is_shown_with_the_correct_one(report: RunReport, rows: list[ScoredCandidate]) -> None:
    fates = {(row.question_id, row.text): row for row in rows}
    assert len(report.losses) == 12
    for loss in report.losses:
        row = fates[loss.question_id, loss.correct.text]
        assert loss.correct.is_correct and (loss.first is None or not loss.first.is_correct)
        assert (row.dropped_by or "") == loss.stage and (row.rank is not None) == (loss.fate == "not first")


def test_some_questions_are_shown_with_their_answers_in_their_passages_and_others_by_another_seed(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_questions, "QUESTIONS", 10)
    answers = {answer.question_id: answer for answer in ANSWERS.open(small_run).read()}
    report = read_report(small_run)
    assert len(report.questions) == 10 < len(answers)
    for shown in report.questions:
        first, expected = shown.answers[0], answers[shown.question_id]
        assert (first.text, first.url, first.start) == (expected.answer, expected.url, expected.start)
        assert (first.source_file, first.source_offset) == (expected.source_file, expected.source_offset)
        assert len(shown.answers) <= 3 and [answer.rank for answer in shown.answers] == list(
            range(1, len(shown.answers) + 1)
        )
    assert any(answer.before or answer.after for shown in report.questions for answer in shown.answers)

    others = {each.question_id for each in read_report(small_run, seed=1).questions}
    assert len(others) == 10 and others != {each.question_id for each in report.questions}


def test_the_size_of_blocks_changes_no_figure(
    report: RunReport, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scored_blocks, "ROWS", 300)
    again = read_report(small_run, price_per_hour=3.6)
    assert replace(again, agreement=(), quality=None) == replace(report, agreement=(), quality=None)
    assert (
        again.quality is not None
        and report.quality is not None
        and again.quality.outcomes == report.quality.outcomes
    )

    for one, other in zip(again.agreement, report.agreement, strict=True):
        assert (one.a, one.b, one.questions, one.same_first) == (
            other.a,
            other.b,
            other.questions,
            other.same_first,
        )
        assert one.spearman == pytest.approx(other.spearman)


def test_a_copy_of_a_run_has_the_same_report_to_the_byte(small_run: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        copy = tmp_path / name / "small" / "run"
        shutil.copytree(small_run, copy)
        write_report(copy)
        pages.append([(copy / file).read_bytes() for file in ("report.html", "report.json")])
    assert pages[0] == pages[1]
    assert json.loads(pages[0][1])["run"] == "small/run"
    assert str(tmp_path).encode() not in pages[0][0] + pages[0][1]


def test_a_run_that_is_not_finished_is_reported_as_far_as_it_is(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run, ignore=shutil.ignore_patterns("scored", "answers*", "labels"))
    line = write_report(run)
    assert line.endswith("not complete: rerank")
    report = read_report(run)
    assert [each.state for each in report.missing] == ["has not run"] and not report.stages and report.corpus
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "not all steps are complete" in page and "<b>rerank</b>: has not run" in page


def test_a_run_of_candidates_misses_no_step_that_it_will_never_have(tmp_path: Path) -> None:
    (tmp_path / "set.tsv").write_text("question\tsentence\tlabel\nWhy?\tSo.\t1\nWhy?\tNo.\t0\n")
    write_candidates([tmp_path / "set.tsv"], tmp_path / "run", None)
    assert [missing.step for missing in read_report(tmp_path / "run").missing] == ["rerank"]


def test_a_report_tells_when_the_steps_ended_and_how_long_they_took_by_the_clock(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."))
    assert " by the clock</p>" not in page_of(run)
    for number, step in enumerate(("ingest", "retrieve", "rerank")):
        record(run, step, 30.0 + number, clock=lambda: 1_700_000_000.0)
    shown = page_of(run)
    assert "ended 2023-11-14 22:13 UTC, 0:01:33 by the clock</p>" in shown
    assert "<dt>by the clock</dt><dd>31.0 s</dd>" in shown
    (run / CLOCK).write_text("{")
    assert " by the clock</p>" not in page_of(run)


def page_of(run: Path) -> str:
    write_report(run)
    return (run / "report.html").read_text(encoding="utf-8")


def test_a_metric_has_one_scale_and_a_list_of_bars_one_kind(report: RunReport) -> None:
    page = "".join(run_page(report))
    assert report.quality is not None
    last = report.quality.orders[-1]
    assert page.count(f">{100 * last.p1:.2f}<") >= 2 and f">{last.mrr:.3f}<" not in page
    pages = page[page.index("<h3>Pages</h3>") :]
    assert "passages" not in pages[: pages.index("</ul>")]


def test_marks_follow_the_labels_of_the_candidate(small_run: Path, report: RunReport) -> None:
    labels = {
        (row.question_id, row.sentence_id): bool(row.label) for row in SENTENCE_LABELS.open(small_run).read()
    }
    ids = {(row.question_id, row.url, row.start): row.candidate_id for row in SCORED.open(small_run).read()}
    marks = [
        (answer.is_correct, labels.get((shown.question_id, ids[shown.question_id, answer.url, answer.start])))
        for shown in report.questions
        for answer in shown.answers
    ]
    assert all(mark == label for mark, label in marks) and (None, None) in marks
    assert {loss.correct.is_correct for loss in report.losses} == {True}


def test_a_step_of_which_a_folder_is_not_committed_is_not_complete(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."))
    (run / "answers/_manifest.json").unlink()
    report = read_report(run)
    missing = {each.step: each.state for each in report.missing}
    assert missing == {"index": "has not run", "rerank": "has not committed answers"}
    assert (
        [step.step for step in report.steps] == ["ingest", "retrieve"]
        and not report.stages
        and report.answers is None
    )


def test_a_step_that_was_stopped_is_named_with_what_is_done(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    work = run / "_work/rerank-12345678"
    for name in ("documents", "passages", "rejects"):
        shutil.copytree(small_run / name, run / name)
    work.mkdir(parents=True)
    (work / "unit-00000.json").write_text("{}")
    missing = {each.step: each.state for each in read_report(run).missing}
    assert missing == {
        "index": "has not run",
        "retrieve": "has not run",
        "rerank": "is running or was stopped, with 1 unit done",
    }


def test_labels_may_be_others_than_the_run_s(small_run: Path, tmp_path: Path, report: RunReport) -> None:
    labels = tmp_path / "labels.qrels"
    shown = report.questions[0]
    scored = SCORED.open(small_run).read()
    first = next(row for row in scored if row.question_id == shown.question_id and row.rank == 1)
    labels.write_text(f"{first.question_id} 0 {first.candidate_id} 1\n")
    quality = read_report(small_run, labels).quality
    assert (
        quality is not None
        and quality.questions == 1
        and quality.orders[-1].p1 == 1.0
        and quality.labels == str(labels)
    )

    labels.write_text(f"nr\tantwort\turteil\n{first.question_id}\t{first.candidate_id}\t1\n")
    names = ("question_id=nr", "candidate_id=antwort", "label=urteil")
    with pytest.raises(SystemExit) as e:
        main(["report", str(small_run), "--labels", str(labels), "--out", str(tmp_path), "--columns", *names])
    assert e.value.code in (0, None)
    assert json.loads((tmp_path / "report.json").read_text())["quality"]["questions"] == 1


def test_labels_of_which_none_is_correct_measure_nothing(small_run: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.qrels"
    labels.write_text("q01 0 d@1 0\n")
    write_report(small_run, labels, out=tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["quality"] is None


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A run of one question, whose answer is a passage that its labels call correct."""
    run = write_run(tmp_path / "run", "Why?", passage("Because."), unit="passage")
    rows = {"labels/sentences": [SentenceLabel("q", "d@7", "d", "Because.", 1)]}
    rows["labels/passages"] = [PassageLabel("q", "d#0", "d", 1, ("d@7",))]
    commit(run, PROPAGATE, rows, PropagateCounts(labels=1, used=1))
    return run


def test_a_plan_that_ends_in_passages_is_measured_by_the_labels_of_passages(labelled: Path) -> None:
    quality = read_report(labelled).quality
    assert quality is not None and quality.labels == "labels/passages" and quality.orders[-1].p1 == 1.0


@pytest.mark.parametrize(
    ("folder", "run", "labels"), [(".", "run", None), ("run", ".", None), (".", "run", "labels/passages")]
)
def test_the_way_in_which_paths_are_typed_changes_nothing(
    labelled: Path, monkeypatch: pytest.MonkeyPatch, folder: str, run: str, labels: str | None
) -> None:
    expected = read_report(labelled)
    monkeypatch.chdir(labelled.parent / folder)
    assert read_report(Path(run), labelled / labels if labels is not None else None) == expected
    assert expected.run.endswith("/run")


def test_questions_that_were_not_reranked_count_with_nothing_from_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "labels.qrels").write_text("q1 0 d@7 1\nq2 0 d@7 0\n")
    correct = CorrectAnswers(tmp_path / "labels.qrels", "labels", ())
    assert correct.values == QuestionValues({"q1": 0.0}, {"q1": 0.0})


def test_the_share_of_a_stage_in_which_a_graphics_card_was_at_work_is_told(tmp_path: Path) -> None:
    page = passage("Because.")
    more = {"last": StageCounts(card_microseconds=500_000, card_peak_bytes=2_340_000_000)}  # of two seconds
    on_card = write_run(tmp_path / "card", "Why?", page, more=more)
    assert [stage.card_share for stage in read_report(on_card).stages] == [None, 0.25]
    assert [stage.card_peak_bytes for stage in read_report(on_card).stages] == [None, 2_340_000_000]
    on_processor = write_run(tmp_path / "processor", "Why?", page)
    said = "a graphics card was at work: last 25"
    for run, there in ((on_card, True), (on_processor, False)):
        write_report(run)
        assert (said in (run / "report.html").read_text()) is there
        assert ("that a worker had at once: last 2.3 GB" in (run / "report.html").read_text()) is there


def edit(run: Path, old: str, new: str) -> None:
    manifest = run / "scored/_manifest.json"
    manifest.write_text(manifest.read_text().replace(old, new))


def of_another_version(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    (folder / "_manifest.json").unlink()
    replace(manifest, schema="of-another").write(folder)


def flip(run: Path) -> None:
    (part,) = (run / "scored").glob("part-*")
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "code", "says"),
    [
        (shutil.rmtree, INPUT_MISSING, "no folder"),
        (
            lambda run: [shutil.rmtree(path) for path in run.iterdir() if path.is_dir()],
            INPUT_MISSING,
            "no run in",
        ),
        (lambda run: edit(run, '"format": 5', '"format": 2'), BAD_DATA, "format 2, this version reads 5"),
        (lambda run: of_another_version(run / "scored"), BAD_DATA, "this version reads ScoredCandidate"),
        (flip, BAD_DATA, "was changed since it was written"),
    ],
)
def test_what_is_no_run_of_this_version_is_refused_with_a_sentence(
    damage, code: int, says: str, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."))
    damage(run)
    with pytest.raises(JobError, match=says) as e:
        write_report(run)
    assert e.value.code == code and not (run / "report.html").exists()


def test_a_price_below_nothing_is_refused(small_run: Path) -> None:
    with pytest.raises(JobError, match="price-per-hour -1") as e:
        read_report(small_run, price_per_hour=-1)
    assert e.value.code == USAGE


def test_the_command_writes_where_it_is_told_to(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as e:
        main(["report", str(small_run), "--out", str(tmp_path), "--price-per-hour", "0.5"])
    assert e.value.code == 0 and capsys.readouterr().out == f"report     {tmp_path}/report.html\n"
    assert json.loads((tmp_path / "report.json").read_text())["price_per_hour"] == 0.5


@pytest.mark.parametrize("option", ["--report", "--no-report"])
def test_a_run_ends_with_its_report_unless_it_is_not_wanted(
    small_run: Path, tmp_path: Path, option: str
) -> None:
    shutil.copytree(small_run.parent, tmp_path / "small")
    with pytest.raises(SystemExit) as e:
        main(["run", str(tmp_path / "small/job.toml"), "--out", str(tmp_path / "small/run"), option])
    assert e.value.code == 0
    assert (tmp_path / "small/run/report.html").exists() == (option == "--report")


@pytest.mark.parametrize(
    ("before", "options", "after"), [("", [], ""), ("old", [], "<!DOC"), ("old", ["--no-report"], "old")]
)
def test_a_command_of_one_step_writes_the_report_anew_where_there_is_one(
    small_run: Path, tmp_path: Path, before: str, options: list[str], after: str
) -> None:
    shutil.copytree(small_run.parent, tmp_path / "small")
    page = tmp_path / "small/run/report.html"
    if before:
        page.write_text(before)
    with pytest.raises(SystemExit) as e:
        main(["propagate", str(tmp_path / "small/job.toml"), "--out", str(page.parent), *options])
    assert e.value.code == 0
    assert (page.read_text(encoding="utf-8") if page.exists() else "")[:5] == after


def test_a_run_in_an_object_store_has_its_report_there(s3: ObjectStore, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."))
    there = s3.folder("reports/run")
    there.filesystem.put(f"{run}/", there.key, recursive=True)
    write_report(there)
    write_report(run)
    here = json.loads((run / "report.json").read_text())
    copied = json.loads((there / "report.json").read_text())
    assert copied | {"digests": 0, "sha256": 0} == here | {"run": "reports/run", "digests": 0, "sha256": 0}
    assert (there / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_what_a_plan_predicted_stands_beside_what_came(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    write_report(run)
    assert "Predicted and actual" not in (run / "report.html").read_text(encoding="utf-8")
    counts, seconds = {"pages": 35, "questions": 30}, {"rerank": 1_234.5}
    RunEstimate(counts, seconds, {"rerank": 1.0}, {}, {"scored": 0}, 1, 10**9, "a machine", 8, []).save(run)
    write_report(run)
    predictions = {
        each["what"]: each for each in json.loads((run / "report.json").read_text())["predictions"]
    }
    assert {what: each["predicted"] for what, each in predictions.items()} == {
        "pages": 35, "questions": 30, "bytes of scored": 0, "seconds of rerank": 1_234.5
    }  # fmt: skip

    assert (predictions["pages"]["actual"], predictions["questions"]["actual"]) == (70, 15)
    manifest = read_manifest(run / "scored")
    assert manifest is not None and predictions["bytes of scored"]["actual"] == sum(
        part.bytes for part in manifest.parts
    )
    page = (run / "report.html").read_text(encoding="utf-8")
    assert (
        '<td>pages</td><td class="number">35</td><td class="number">70</td><td class="number">2.00</td>'
        in page
    )


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("Because."))
    (run / "plan.json").write_text("{}")
    with pytest.raises(JobError, match=r"`answermill plan JOB\.toml --out .*` writes it again") as e:
        write_report(run)
    assert e.value.code == BAD_DATA


def test_units_are_listed_by_what_they_took(report: RunReport, small_run: Path) -> None:
    manifest = read_manifest(small_run / "scored")
    assert manifest is not None
    of_rerank = [unit for unit in report.units if unit.step == "rerank"]
    assert len(of_rerank) == len(manifest.units) and of_rerank[0].seconds > 0
    took = [unit.seconds for unit in of_rerank]
    assert took == sorted(took, reverse=True)


def test_the_seconds_of_pages_and_passages_are_told(report: RunReport) -> None:
    work = {one.what: one for one in report.work}
    assert work.keys() >= {
        "ingest: pages parsed",
        "ingest: documents cut",
        "index: BM25",
        "index: dense vectors",
    }
    pages = work["ingest: pages parsed"]
    assert pages.items == 70 and pages.item == "pages" and pages.seconds > 0


def test_the_rates_of_both_indexes_are_told(report: RunReport) -> None:
    work = {one.what: one for one in report.work}
    for name in ("retrieve: BM25", "retrieve: dense vectors"):
        assert (work[name].items, work[name].item) == (15, "questions")
        assert work[name].per_second == pytest.approx(15 / work[name].seconds) and work[name].seconds > 0


def test_a_report_reads_each_manifest_once(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()

    def counting(folder: Path, *rest: object) -> Manifest | None:
        reads[folder.relative_to(small_run).as_posix()] += 1
        return read_manifest(folder, *rest)

    for module in (manifest, parquet_folder):
        monkeypatch.setattr(module, "read_manifest", counting)
    read_report(small_run)
    once = dict.fromkeys((folder.name for _, folder in folders()), 1)
    assert reads == once | {"labels/sentences": 2}  # the second time as labels, which may be of any run
