"""Tasks of a part of the sample run: who is asked what, and that it is the same however it is made."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.annotation_tools.spreadsheet import unquote
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step, work_folders
from answermill.pipelines.specs.annotate import ANNOTATE, TASKS
from answermill.pipelines.specs.rerank import RERANK, SCORED, RerankCounts
from answermill.pipelines.specs.retrieve import RETRIEVE, RETRIEVED, RetrieveCounts
from answermill.pipelines.steps.annotate.annotate import annotate
from answermill.pipelines.steps.annotate.known_labels import KnownLabels
from answermill.pipelines.steps.annotate.run_packs import text_digest
from answermill.pipelines.steps.annotate.sampling import estimate
from answermill.pipelines.steps.chain import check, steps_of
from answermill.schemas.annotation import ResolvedLabel, Task
from answermill.schemas.ranked import ScoredCandidate


def job(sample_run: Path, *overrides: str) -> Job:
    return load(sample_run.parent / "job.toml", overrides)


QUESTIONS = 18


@pytest.fixture(scope="module")
def fewer(sample_run, tmp_path_factory) -> Path:
    """Every fifth question of the sample's run, in two parts as there."""
    run = tmp_path_factory.mktemp("fewer")
    asked = sorted({hit.question_id for hit in RETRIEVED.open(sample_run).read()})[::5]
    assert len(asked) == QUESTIONS
    for spec, source, counts in ((RETRIEVE, RETRIEVED, RetrieveCounts()), (RERANK, SCORED, RerankCounts())):
        step = Step(run, spec, source.open(sample_run).manifest.settings, {})
        Commit(step).begin()

        for unit, questions in enumerate((asked[:12], asked[12:])):
            parts = {}
            for folder in spec:
                with PartWriter(run / folder.name, folder.record, unit) as writer:
                    if folder.name == source.name:
                        writer.write(list(source.open(sample_run).where("question_id", set(questions))))
                parts[folder.name] = writer.parts
            step.reports.write(Report(unit, parts, counts))
        Commit(step).finish(Commit(step).reported(2))

    return run


@pytest.fixture
def run(fewer, tmp_path) -> Path:
    """A run without tasks, to write into."""
    for name in ("scored", "retrieved"):
        shutil.copytree(fewer / name, tmp_path / "run" / name)
    return tmp_path / "run"


def tasks(run: Path) -> list[Task]:
    return list(TASKS.open(run).read())


def scored(run: Path) -> list[ScoredCandidate]:
    """The sentences: passages that a stage dropped are candidates too, and nobody judges them."""
    return [row for row in SCORED.open(run).read() if row.unit == "sentence"]


def test_the_top_is_the_plan_s_result_then_those_that_left_last(sample_run, run):
    line = annotate(job(sample_run, "annotate.top=40"), run)
    assert "756 tasks = 720 top + 36 random + 0 control" in line
    rows = [row for row in scored(run) if row.question_id == "q01"]
    top = {
        each.sentence_id: each for each in tasks(run) if each.question_id == "q01" and each.stratum == "top"
    }
    assert set(top) == {row.candidate_id for row in rows[:40]}
    kept = sum(row.rank is not None for row in rows)
    assert 0 < kept < 40  # the others are of those that left

    assert sorted(each.rank for each in top.values() if each.rank) == list(range(1, kept + 1))
    assert all(row.fate != "kept" for row in rows[kept:40])
    by_id = {row.candidate_id: row for row in rows}
    assert all(each.score == by_id[each.sentence_id].stages[-1].score for each in top.values())


def test_a_cap_leaves_out_of_the_top_what_is_of_the_same_page(sample_run, run):
    annotate(job(sample_run, "annotate.top=5", "annotate.max_per_page=1"), run)
    rows = [row for row in scored(run) if row.question_id == "q01"]
    first_of_pages = {row.url: row.candidate_id for row in reversed(rows)}
    best = [row.candidate_id for row in rows if row.candidate_id in first_of_pages.values()][:5]
    top = {task.sentence_id for task in tasks(run) if (task.question_id, task.stratum) == ("q01", "top")}
    assert top == set(best) and len(top) == 5
    assert top != {row.candidate_id for row in rows[:5]}


def test_a_task_shows_its_sentence_in_the_passage_that_was_retrieved(sample_run, run):
    annotate(job(sample_run), run)
    hits = {(h.question_id, h.passage.passage_id): h.passage for h in RETRIEVED.open(run).read()}
    asked = tasks(run)

    for each in asked:
        assert each.passage[each.start : each.end] == each.sentence
        assert each.passage == hits[each.question_id, each.passage_id].text
        assert each.task_id == text_digest(each.question_id, each.sentence_id)
        assert each.text_hash == text_digest(each.question, each.sentence)

    assert len({each.task_id for each in asked}) == len(asked) == 17 * QUESTIONS
    groups = [
        each.question_id
        for n, each in enumerate(asked)
        if n == 0 or asked[n - 1].question_id != each.question_id
    ]
    assert len(groups) == QUESTIONS == len(set(groups))


def test_known_labels_are_controls_and_blind(sample_run, run):
    known_rows = [
        row for batch in label_batches(sample_run.parent / "labels.tsv") for row in batch.to_pylist()
    ]
    control = (
        "annotate.controls=labels.tsv",
        "annotate.control_share=0.2",
        "annotate.top=3",
        "annotate.tools=['csv']",
    )
    annotate(job(sample_run, *control), run)

    known = {(g["question_id"], fold(g["text"])): g["label"] for g in known_rows}
    asked = tasks(run)
    for each in asked:
        assert each.expected == known.get((each.question_id, fold(each.sentence)))
    strata = Counter((each.stratum, each.expected is not None) for each in asked)
    assert strata["control", False] == 0 < strata["control", True] and strata["top", True] > 20
    assert all(0 < each.probability <= 1 for each in asked if each.stratum == "control")
    counts = ANNOTATE.counts_of(TASKS.open(run).manifest)
    assert counts.controls_given == len(known_rows) == counts.controls_found + counts.controls_not_found

    pack = (run / "packs/csv/tasks-00001.csv").read_text(encoding="utf-8")
    assert not any(word in pack.splitlines()[0] for word in ("stratum", "expected", "rank", "probability"))


def test_labels_by_id_are_controls_too_and_files_of_another_corpus_are_refused(sample_run, run):
    row = next(row for row in scored(run) if row.question_id == "q06" and row.rank is None)
    controls = run.parent / "controls.jsonl"
    controls.write_text(
        2 * (json.dumps({"question_id": "q06", "sentence_id": row.candidate_id, "label": 1}) + "\n")
    )
    annotate(
        job(sample_run, f"annotate.controls={controls}", "annotate.top=1", "annotate.control_share=0.5"), run
    )
    (control,) = [each for each in tasks(run) if each.expected is not None]
    assert (control.sentence_id, control.expected) == (row.candidate_id, 1)

    counts = ANNOTATE.counts_of(TASKS.open(run).manifest)
    assert (counts.controls_given, counts.controls_not_found) == (1, 0)  # the repeated one is one
    shutil.rmtree(run / "tasks")
    shutil.rmtree(run / "packs")
    controls.write_text(json.dumps({"question_id": "q06", "sentence_id": "other@1", "label": 1}) + "\n")
    with pytest.raises(JobError, match="of its 1 label none is of a sentence that was scored") as e:
        annotate(job(sample_run, f"annotate.controls={controls}"), run)
    assert e.value.code == BAD_DATA and not (run / "packs").exists()


def test_the_strata_of_the_sample_estimate_what_its_labels_say(sample_run, run):
    """With every sentence labelled by whether it has the word 'the', which no plan ranks by."""
    annotate(job(sample_run, "annotate.random=12"), run)
    population = [" the " in row.text for row in scored(run)]
    rows = [
        ResolvedLabel(
            question_id=each.question_id,
            question=each.question,
            sentence_id=each.sentence_id,
            doc_id=each.doc_id,
            sentence=each.sentence,
            label=" the " in each.sentence,
            votes=1,
            positive=1.0,
            stratum=each.stratum,
            probability=each.probability,
        )
        for each in tasks(run)
    ]
    overall, by_question = estimate(rows)
    assert overall.sentences == pytest.approx(len(population)) and len(by_question) == QUESTIONS

    truth = sum(population) / len(population)
    assert 0.2 < truth < 0.8 and 0 < overall.prevalence_se < 0.04
    assert abs(overall.prevalence - truth) < 3 * overall.prevalence_se


def test_overlap_goes_to_a_share_of_the_tasks(sample_run, run):
    annotate(job(sample_run, "annotate.annotators=3", "annotate.overlap_share=0.2"), run)
    many = Counter(each.annotators for each in tasks(run))
    assert set(many) == {1, 3} and 0.15 < many[3] / (17 * QUESTIONS) < 0.25
    files = json.loads((run / "packs/packs.json").read_text())["files"]
    assert files["prodigy/3-annotators/tasks-00001.jsonl"] == many[3]


def test_people_get_packs_of_their_own_that_overlap_as_the_tasks_say(sample_run, run):
    people = "annotate.people=['anna', 'ben@example.org', 'chris']"
    some = ("annotate.annotators=2", "annotate.overlap_share=0.25", "annotate.tools=['csv', 'argilla']")
    line = annotate(job(sample_run, *some, people), run)
    dealt = json.loads((run / "packs/people.json").read_text())
    assert set(dealt) == {"anna", "ben@example.org", "chris"}
    times = Counter(task_id for task_ids in dealt.values() for task_id in task_ids)
    assert times == {each.task_id: each.annotators for each in tasks(run)}
    assert sorted(Counter(times.values())) == [1, 2]
    sizes = {person: len(task_ids) for person, task_ids in dealt.items()}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert line.endswith("; dealt to " + ", ".join(f"{who} {many}" for who, many in sizes.items()))

    for person, task_ids in dealt.items():
        with (run / f"packs/csv/{person}/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [unquote(row["task_id"]) for row in rows] == task_ids
        assert {row["annotator"] for row in rows} == {person} and {row["label"] for row in rows} == {""}
        settings = json.loads((run / f"packs/argilla/{person}/.argilla/settings.json").read_text())
        assert settings["distribution"]["min_submitted"] == 1

    # The order of the names is no other deal; other names are, and packs may hold answers.
    assert annotate(job(sample_run, *some, people.replace("'anna', ", "").replace("]", ", 'anna']")), run)
    with pytest.raises(JobError, match="packs of another job: people =") as e:
        annotate(job(sample_run, *some, "annotate.people=['anna', 'ben']"), run)
    assert e.value.code == OUTPUT_EXISTS


@pytest.mark.parametrize(
    ("people", "says"),
    [
        ("['anna', 'Anna']", "a name comes twice"),
        ("['Zo\u00eb', 'Zoe\u0308']", "a name comes twice"),
        ("['../anna']", "cannot name a folder"),
        ("['anna']", "annotators = 2, but people has 1 names"),
    ],
)
def test_names_that_cannot_be_dealt_to_are_refused(sample_run, people, says):
    with pytest.raises(JobError, match=says) as e:
        job(sample_run, "annotate.annotators=2", f"annotate.people={people}")
    assert e.value.code == SETTINGS


def test_a_name_whose_accents_are_characters_of_their_own_is_the_usual_one(sample_run):
    settings = job(sample_run, "annotate.people=['Zoe\u0308']").annotate
    assert settings.people == ["Zo\u00eb"]


def test_a_further_batch_is_dealt_by_itself(sample_run, run):
    people = ("annotate.people=['anna', 'ben', 'chris']", "annotate.tools=['csv']")
    annotate(job(sample_run, *people), run)
    annotate(job(sample_run, *people, "annotate.batch=2", "annotate.top=20"), run)
    first, second = (
        json.loads((run / folder / "people.json").read_text()) for folder in ("packs", "batches/2/packs")
    )
    new = sum(map(len, second.values()))
    assert 0 < new < sum(map(len, first.values()))
    assert {len(task_ids) for task_ids in second.values()} <= {new // 3, new // 3 + 1}
    assert not set().union(*first.values()) & set().union(*second.values())


def test_tasks_are_the_same_bytes_however_the_step_went(sample_run, run, tmp_path):
    annotate(job(sample_run), run)
    again = tmp_path / "again"
    for name in ("scored", "retrieved"):
        shutil.copytree(run / name, again / name)
    with pytest.raises(IndexError):  # a step that was killed after its first unit
        _annotate_and_stop(job(sample_run), again)
    assert work_folders(again, "annotate") and not (again / "tasks/_manifest.json").exists()
    annotate(job(sample_run), again)
    files = sorted(
        path.relative_to(run)
        for name in ("tasks", "packs")
        for path in (run / name).rglob("*.*")
        if path.is_file()
    )
    assert len(files) >= 12

    assert all((run / file).read_bytes() == (again / file).read_bytes() for file in files)


def _annotate_and_stop(run_job: Job, run: Path) -> None:
    from answermill.pipelines.steps.annotate.annotate import annotate_step, settings_of, write_part
    from answermill.pipelines.steps.annotate.known_labels import KnownLabels

    step = annotate_step(run_job, run)
    Commit(step).begin()
    candidates, hits = SCORED.open(run), RETRIEVED.open(run)
    assert len(candidates.parts) == 2
    write_part(0, candidates, hits, step, settings=settings_of(run_job), known=KnownLabels(None))
    raise IndexError


def test_a_complete_step_writes_missing_packs_again_and_touches_no_others(sample_run, run):
    annotate(job(sample_run), run)
    filled = run / "packs/csv/tasks-00001.csv"
    filled.write_text("filled in", encoding="utf-8")
    assert annotate(job(sample_run), run).endswith("(complete)")
    assert filled.read_text(encoding="utf-8") == "filled in"
    with pytest.raises(JobError, match="tools = ") as e:
        annotate(job(sample_run, "annotate.tools=['csv']"), run)
    assert e.value.code == OUTPUT_EXISTS and filled.read_text(encoding="utf-8") == "filled in"
    shutil.rmtree(run / "packs")
    assert annotate(job(sample_run, "annotate.tools=['csv']"), run).endswith("packs/ for csv")
    assert {path.name for path in (run / "packs").iterdir()} == {"csv", "packs.json"}


def test_packs_leave_out_what_an_earlier_run_asked(sample_run, run, tmp_path):
    first = tmp_path / "first"
    for name in ("scored", "retrieved"):
        shutil.copytree(run / name, first / name)
    annotate(job(sample_run, "annotate.top=10"), first)
    line = annotate(job(sample_run, f"annotate.since={first}", "annotate.tools=['label-studio']"), run)
    asked = {each.task_id for each in tasks(first)}
    shown = json.loads((run / "packs/label-studio/tasks-00001.json").read_text(encoding="utf-8"))
    new = [each["data"]["task_id"] for each in shown]
    assert set(new) == {each.task_id for each in tasks(run)} - asked
    assert 4 * QUESTIONS < len(new) < 7 * QUESTIONS
    assert f"306 tasks = 270 top + 36 random + 0 control; {len(new)} of them new" in line
    shutil.rmtree(run / "packs")
    assert "; 0 of them new" in annotate(job(sample_run, f"annotate.since={run}"), run)


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ("annotate.controls=absent.tsv", INPUT_MISSING, "absent.tsv: no such file"),
        ("annotate.guidelines=absent.md", INPUT_MISSING, "annotate.guidelines"),
        ("annotate.since=absent", INPUT_MISSING, "run `answermill annotate JOB.toml --out "),
        (
            "rerank.stages=[{reranker='cosinet_passages'}]",
            SETTINGS,
            "the plan ends in passages (cosinet_passages)",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(sample_run, run, settings, code, says):
    with pytest.raises(JobError) as e:
        check(job(sample_run, settings), run, ["annotate"])
    assert says in str(e.value) and e.value.code == code


@pytest.mark.parametrize(
    "setting", ["annotate.tools=['csv','csv']", "annotate.tasks_per_file=20000", "annotate.control_share=1.0"]
)
def test_settings_out_of_bounds_are_refused(sample_run, setting):
    with pytest.raises(JobError) as e:
        job(sample_run, f"annotate.{setting}")
    assert e.value.code == SETTINGS


def test_a_job_runs_the_step_if_it_has_the_section(sample_run):
    assert "annotate" not in steps_of(job(sample_run))
    steps = steps_of(job(sample_run, "annotate.top=5"))
    assert steps.index("rerank") + 1 == steps.index("annotate") == steps.index("propagate") - 1


def test_the_command_needs_no_section_and_tells_what_it_made(sample_run, run, capsys):
    with pytest.raises(SystemExit) as e:
        main(["annotate", str(sample_run.parent / "job.toml"), "--out", str(run)])
    assert e.value.code == 0
    said = f"annotate   {QUESTIONS} questions, {len(scored(run)):,} sentences; 306 tasks = "
    assert said in capsys.readouterr().out


def test_a_known_label_is_not_of_a_sentence_whose_text_has_changed(tmp_path):
    rows = [{"question_id": "q", "sentence_id": "d@0", "sentence": "It  IS old.", "label": 1}]
    rows += [{"question_id": "q", "sentence_id": "d@9", "label": 0}]
    (tmp_path / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = KnownLabels(tmp_path / "known.jsonl")
    assert [each.label for each in known.find("q", {"d@0": "It is old.", "d@9": "Whatever."}).values()] == [
        1,
        0,
    ]
    assert not known.find("q", {"d@0": "It was old."})
