from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import pytest

from pipelines.errors import OUTPUT_EXISTS, JobError
from pipelines.execution.parquet_folder import PartWriter, read_manifest
from pipelines.execution.step import WORK, Report, Step, total
from schemas.corpus import Question


def make(run, revision=1, **settings):
    return Step(run, "retrieve", {"questions": Question}, {"depth": 10, **settings}, {"shards": "abc"}, revision)


def work(step, unit, *texts):
    with PartWriter(step.run / "questions", Question, unit) as writer:
        writer.write([Question(f"{unit}.{n}", text) for n, text in enumerate(texts)])
    step.reports.write(Report(unit, {"questions": writer.part}, {"rows": len(texts)}))


def finish(step):
    reports = step.reports.read()
    step.finish(reports.values(), total(reports.values()))


def test_a_step_is_complete_when_its_manifest_is_there_and_its_work_folder_gone(tmp_path):
    step = make(tmp_path)
    assert not step.is_complete()
    step.begin()
    work(step, 1, "b")
    work(step, 0, "a", "c")
    assert not step.is_complete()
    finish(step)
    assert step.is_complete()
    assert not (tmp_path / WORK).exists()
    manifest = read_manifest(tmp_path / "questions")
    assert (manifest.rows, manifest.counts, [part.rows for part in manifest.parts]) == (3, {"rows": 3}, [2, 1])


def test_units_that_have_reported_are_done_when_the_step_begins_again(tmp_path):
    step = make(tmp_path)
    step.begin()
    work(step, 0, "a")
    with PartWriter(tmp_path / "questions", Question, 1) as unreported:
        unreported.write([Question("1.0", "killed before its report")])
    again = make(tmp_path)
    again.begin()
    assert list(again.reports.read()) == [0]
    assert not (tmp_path / "questions" / unreported.part.file).exists()
    assert (tmp_path / "questions" / again.reports.read()[0].parts["questions"].file).exists()


def test_the_leftovers_of_other_settings_are_not_taken_for_ours(tmp_path):
    step = make(tmp_path)
    step.begin()
    work(step, 0, "a")
    other = make(tmp_path, depth=20)
    other.begin()
    assert other.reports.read() == {}


def test_units_are_counted_while_the_step_runs_and_none_before_and_after(tmp_path):
    step = make(tmp_path)
    assert step.reports.count() == 0
    step.begin()
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
                step.reports.write(Report(unit))
            shutil.rmtree(step.work)
    finally:
        ended.set()
        counting.join()
    assert {0, 2} <= counts <= {0, 1, 2}


def test_reports_are_in_the_order_of_their_numbers_beyond_a_hundred_thousand_units(tmp_path):
    reports = make(tmp_path).reports
    for unit in (100_000, 99_999, 7):
        reports.write(Report(unit))
    assert list(reports.read()) == [7, 99_999, 100_000]


@pytest.mark.parametrize("change", [{"depth": 20}, {"sources": ["bm25"]}])
def test_the_output_of_another_job_is_not_touched(tmp_path, change):
    step = make(tmp_path)
    step.begin()
    finish(step)
    with pytest.raises(JobError, match=r"holds the output of another job: settings \w+ = .* there, .* here") as e:
        make(tmp_path, **change).is_complete()
    assert e.value.code == OUTPUT_EXISTS
    assert step.is_complete()


def test_the_output_of_another_input_is_not_touched(tmp_path):
    step = make(tmp_path)
    step.begin()
    finish(step)
    with pytest.raises(JobError, match="holds the output of another job: input shards = 'abc' there, 'abd' here") as e:
        replace(step, inputs={"shards": "abd"}).is_complete()
    assert e.value.code == OUTPUT_EXISTS


def test_the_output_of_another_revision_of_the_code_is_not_touched(tmp_path):
    step = make(tmp_path)
    step.begin()
    finish(step)
    with pytest.raises(JobError, match=r"the code of retrieve gives another output since \(revision 1 there, 2 here\)") as e:
        make(tmp_path, revision=2).is_complete()
    assert e.value.code == OUTPUT_EXISTS
    interrupted = make(tmp_path / "other")
    interrupted.begin()
    work(interrupted, 0, "a")
    again = make(tmp_path / "other", revision=2)
    again.begin()
    assert again.reports.read() == {}


def test_the_counts_of_all_units_are_added_up():
    assert total([Report(0, {}, {"a": 1, "b": 2}), Report(1, {}, {"b": 3})]) == {"a": 1, "b": 5}
