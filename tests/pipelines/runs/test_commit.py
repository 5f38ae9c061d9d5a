from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace

import pytest

from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import Part, read_manifest
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import MARK, WORK, work_folders
from answermill.pipelines.specs.rerank import RerankCounts, StageCounts
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, made_step, report


def make(run, revision=1, **settings):
    return made_step(
        run,
        "retrieve",
        {"questions": Question},
        {"depth": 10, **settings},
        {"shards": "abc"},
        revision=revision,
        units_stand_alone=True,
    )


def work(step, unit, *texts):
    with PartWriter(step.run / "questions", Question, unit) as writer:
        writer.write([Question(f"{unit}.{n}", text) for n, text in enumerate(texts)])
    step.reports.write(report(unit, {"questions": writer.parts}, rows=len(texts)))


def finish(step):
    Commit(step).finish(Outcome.of(Rows(), step.reports.each()))


def test_a_step_is_complete_when_its_manifest_is_there_and_its_work_folder_gone(tmp_path):
    step = make(tmp_path)
    assert not Commit(step).is_complete()
    Commit(step).begin()
    work(step, 1, "b")
    work(step, 0, "a", "c")
    assert not Commit(step).is_complete()
    finish(step)
    assert Commit(step).is_complete()
    assert not (tmp_path / WORK).exists()

    manifest = read_manifest(tmp_path / "questions")
    assert (manifest.rows, manifest.counts, [part.rows for part in manifest.parts]) == (
        3,
        {"rows": 3},
        [2, 1],
    )


def test_units_that_have_reported_are_done_when_the_step_begins_again(tmp_path):
    step = make(tmp_path)
    Commit(step).begin()
    work(step, 0, "a")
    with PartWriter(tmp_path / "questions", Question, 1) as unreported:
        unreported.write([Question("1.0", "killed before its report")])
    again = make(tmp_path)
    Commit(again).begin()
    assert list(again.reports.read()) == [0]
    assert not (tmp_path / "questions" / unreported.part.file).exists()
    assert (tmp_path / "questions" / again.reports.read()[0].parts["questions"][0].file).exists()


def test_a_job_with_other_settings_leaves_the_work_of_this_one_until_it_is_complete(tmp_path):
    step, other = make(tmp_path), make(tmp_path, depth=20)
    Commit(step).begin()
    work(step, 0, "a")
    Commit(other).begin()
    assert (step.work / MARK).is_file() and list(step.reports.read()) == [0]
    assert work_folders(tmp_path, "retrieve")[0] == other.work != step.work
    work(other, 0, "b")
    finish(other)
    assert not (tmp_path / WORK).exists()  # its workers, if an engine still runs them, are told so


def test_the_leftovers_of_other_settings_are_not_taken_for_ours(tmp_path):
    step = make(tmp_path)
    Commit(step).begin()
    work(step, 0, "a")
    other = make(tmp_path, depth=20)
    Commit(other).begin()
    assert other.reports.read() == {}


def test_units_are_counted_while_the_step_runs_and_none_before_and_after(tmp_path):
    step = make(tmp_path)
    assert step.reports.count() == 0
    Commit(step).begin()
    work(step, 0, "a")
    work(step, 1, "b")
    assert step.reports.count() == 2
    finish(step)
    assert step.reports.count() == 0


def test_counting_never_fails_while_the_step_begins_and_ends(tmp_path):
    step, counts, ended = make(tmp_path), set(), threading.Event()

    def count():
        while not ended.is_set():
            counts.add(step.reports.count())

    counting = threading.Thread(target=count)
    counting.start()
    try:
        while not {0, 2} <= counts and counting.is_alive():
            for unit in range(2):
                step.reports.write(report(unit))
            time.sleep(0.001)  # or the other thread may never have its turn now
            shutil.rmtree(step.work)
    finally:
        ended.set()
        counting.join()

    assert {0, 2} <= counts <= {0, 1, 2}


def test_reports_are_in_the_order_of_their_numbers_beyond_a_hundred_thousand_units(tmp_path):
    reports = make(tmp_path).reports
    for unit in (100_000, 99_999, 7):
        reports.write(report(unit))
    assert list(reports.read()) == [7, 99_999, 100_000]


@pytest.mark.parametrize("change", [{"depth": 20}, {"sources": ["bm25"]}])
def test_the_output_of_another_job_is_not_touched(tmp_path, change):
    step = make(tmp_path)
    Commit(step).begin()
    finish(step)
    with pytest.raises(
        JobError, match=r"holds the output of another job: settings \w+ = .* there, .* here"
    ) as e:
        Commit(make(tmp_path, **change)).is_complete()
    assert e.value.code == OUTPUT_EXISTS
    assert Commit(step).is_complete()


def test_the_output_of_another_input_is_not_touched(tmp_path):
    step = make(tmp_path)
    Commit(step).begin()
    finish(step)
    with pytest.raises(
        JobError, match="holds the output of another job: input shards = 'abc' there, 'abd' here"
    ) as e:
        Commit(replace(step, inputs={"shards": "abd"})).is_complete()
    assert e.value.code == OUTPUT_EXISTS


def test_the_output_of_another_revision_of_the_code_is_not_touched(tmp_path):
    step = make(tmp_path)
    Commit(step).begin()
    finish(step)

    with pytest.raises(
        JobError, match=r"the code of retrieve gives another output since \(revision 1 there, 2 here\)"
    ) as e:
        Commit(make(tmp_path, revision=2)).is_complete()

    assert e.value.code == OUTPUT_EXISTS
    interrupted = make(tmp_path / "other")
    Commit(interrupted).begin()
    work(interrupted, 0, "a")
    again = make(tmp_path / "other", revision=2)
    Commit(again).begin()
    assert again.reports.read() == {}


def test_the_counts_of_all_units_are_added_up():
    assert Outcome.of(Rows(), [report(0, rows=1, others=2), report(1, others=3)]).counts == Rows(
        rows=1, others=5
    )
    stages = [RerankCounts(stages={"x": StageCounts(incoming=1, card_peak_bytes=peak)}) for peak in (3, 7, 5)]
    (stage,) = Outcome.of(
        RerankCounts(), [Report(n, {}, each) for n, each in enumerate(stages)]
    ).counts.stages.values()
    assert (stage.incoming, stage.card_peak_bytes) == (3, 7), "the largest of all workers"


def complete(step):
    """Two units, done and committed."""
    Commit(step).begin()
    work(step, 0, "a", "b")
    work(step, 1, "c")
    finish(step)
    assert Commit(step).is_complete()
    return [step.run / "questions" / part.file for part in read_manifest(step.run / "questions").parts]


@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])]
)
def test_of_a_complete_step_only_the_unit_whose_part_is_lost_is_done_again(tmp_path, capsys, damage):
    step = make(tmp_path)
    first, second = complete(step)
    before = read_manifest(tmp_path / "questions")
    damage(second)
    assert not Commit(step).is_complete()
    Commit(step).begin()
    assert str(second) in capsys.readouterr().err
    assert list(step.reports.read()) == [0] and first.is_file() and not second.exists()
    assert read_manifest(tmp_path / "questions") is None
    work(step, 1, "c")
    finish(step)
    assert Commit(step).is_complete() and read_manifest(tmp_path / "questions") == before


def test_two_commands_may_open_a_damaged_folder_at_once(tmp_path, monkeypatch):
    step = make(tmp_path)
    complete(step)[0].unlink()
    read = Commit(step)._manifests()
    Commit(make(tmp_path)).begin()  # as another command does that shares a store, where nothing is locked
    monkeypatch.setattr(Commit, "_manifests", lambda self: read)
    Commit(step).begin()
    assert list(step.reports.read()) == [1] and read_manifest(tmp_path / "questions") is None


def test_a_step_whose_units_need_each_other_is_done_again_as_a_whole(tmp_path):
    step = made_step(tmp_path, "retrieve", {"questions": Question}, {"depth": 10}, {"shards": "abc"})
    complete(step)[0].unlink()
    assert not Commit(step).is_complete()
    Commit(step).begin()
    assert step.reports.read() == {} and list((tmp_path / "questions").iterdir()) == []


def test_only_a_look_at_every_byte_finds_a_part_of_the_same_size(tmp_path):
    step = make(tmp_path)
    path = complete(step)[0]
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    assert Commit(step).is_complete() and not Commit(step).is_complete(checksums=True)


def test_a_file_beside_the_folder_is_compared_with_it(tmp_path):
    step = make(tmp_path)
    Commit(step).begin()
    work(step, 0, "a")
    (tmp_path / "answers.jsonl").write_text("{}\n")
    Commit(step).finish(Outcome.of(Rows(), step.reports.each()), [Part("answers.jsonl", 1, 3, "0" * 64)])
    assert Commit(step).is_complete()
    (tmp_path / "answers.jsonl").write_text("{}")
    assert not Commit(step).is_complete()
    Commit(step).begin()
    assert list(step.reports.read()) == [0]


@pytest.mark.parametrize(
    "change", ["gone", "flipped", "unit-00000.json emptied", "unit-00000.json of another shape"]
)
def test_a_unit_whose_part_or_report_is_damaged_is_not_done(tmp_path, capsys, change):
    step = make(tmp_path)
    Commit(step).begin()
    work(step, 0, "a")
    work(step, 1, "b")
    part = tmp_path / "questions" / step.reports.read()[0].parts["questions"][0].file
    report = step.work / "unit-00000.json"

    if change == "gone":
        part.unlink()
    elif change == "flipped":
        part.write_bytes(bytes([part.read_bytes()[0] ^ 1]) + part.read_bytes()[1:])
    else:
        report.write_text("" if "emptied" in change else '{"unit": 0}')
        with pytest.raises(JobError, match=r"unit-00000\.json") as e:
            step.reports.read()
        assert e.value.code == BAD_DATA

    Commit(make(tmp_path)).begin()
    assert list(step.reports.read()) == [1]
    assert str(part if change in ("gone", "flipped") else report) in capsys.readouterr().err


def test_a_conflict_names_all_that_is_in_the_way_and_the_key_of_a_stage(tmp_path):
    stages = [
        {"name": None, "reranker": "cosinet", "keep": 30},
        {"name": None, "reranker": "cascade", "keep": 3},
    ]
    step = make(tmp_path, stages=stages)
    complete(step)
    complete(made_step(tmp_path, "rerank", {"questions_scored": Question}, {}, {"questions": "abc"}))
    complete(made_step(tmp_path, "annotate", {"tasks": Question}, {}, {"questions_scored": "abc"}))
    with pytest.raises(JobError) as e:
        Commit(make(tmp_path, stages=[stages[0], {**stages[1], "keep": 5}])).is_complete()
    assert "settings stages.cascade.keep = 3 there, 5 here;" in str(e.value)

    assert (
        "in the way: questions, questions_scored (its input questions), tasks (its input questions_scored)."
        in str(e.value)
    )
    assert f"`answermill run JOB.toml --out {tmp_path} --redo retrieve`" in str(e.value)
    with pytest.raises(JobError, match="settings stages = cosinet, cascade there, cosinet here;"):
        Commit(make(tmp_path, stages=stages[:1])).is_complete()
    assert Commit(step).is_complete()
