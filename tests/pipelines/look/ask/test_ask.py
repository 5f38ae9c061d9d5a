"""`answermill ask`: the answers of the batch, one question at a time."""

from __future__ import annotations

import errno
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.cli.question_commands import question_lines
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.rerank_section import AnswerSettings
from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, UNAVAILABLE, USAGE, JobError
from answermill.pipelines.look.ask.ask import answer_questions
from answermill.pipelines.look.ask.run_plan import job_of
from answermill.pipelines.look.ask.session import Reply, Seconds, Session, opened
from answermill.pipelines.specs.index import INDEX, IndexCounts
from answermill.pipelines.specs.rerank import RERANK, SCORED, RerankCounts
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVE, RetrieveCounts
from answermill.pipelines.steps.job_plan import CheckedPlan
from answermill.pipelines.steps.rerank.answers import AnswerRule
from answermill.schemas.corpus import Question
from answermill.schemas.ranked import ScoredCandidate
from tests.pipelines.look.report.written_run import commit
from tests.pipelines.steps.rerank.bridge_rows import outcome


@pytest.fixture(scope="module")
def session(small_run: Path) -> Iterator[Session]:
    with opened(small_run, job_of(small_run), Seconds()) as session:
        yield session


def of_batch(run: Path, questions: int) -> Iterator[tuple[Question, list[ScoredCandidate]]]:
    """Some questions of a run, with their rows of scored/."""
    asked = list(QUESTIONS.open(run).read())
    asked = asked[:: max(1, len(asked) // questions)][:questions]
    scored = SCORED.open(run)
    rows = list(scored.where("question_id", {question.question_id for question in asked}))
    for question in asked:
        yield question, [row for row in rows if row.question_id == question.question_id]


def test_the_rows_are_those_of_the_batch_with_all_their_scores(small_run: Path, session: Session) -> None:
    for question, rows in of_batch(small_run, 15):
        asked = [replace(row, question_id=question.question_id) for row in session.ask(question.text).rows]
        assert asked == rows and len(rows) > 100


@pytest.mark.nightly
def test_so_are_those_of_the_shipped_models(fresh_sample_run: Path) -> None:
    with opened(fresh_sample_run, job_of(fresh_sample_run), Seconds()) as session:
        for question, rows in of_batch(fresh_sample_run, 3):
            asked = [
                replace(row, question_id=question.question_id) for row in session.ask(question.text).rows
            ]
            assert asked == rows and rows[0].rank == 1


def test_below_the_bar_it_says_none_and_shows_the_candidates(session: Session, small_run: Path) -> None:
    question = next(iter(QUESTIONS.open(small_run).read()))
    asked = session.ask(question.text)
    low = replace(asked.rows[0].stages[-1], score=0.25)
    rows = [replace(asked.rows[0], stages=(low,)), *asked.rows[1:]]
    reply = replace(asked, rows=rows, rule=AnswerRule(probability_stage="probability", bar=0.5))
    assert list(reply.lines(2))[1] == "  none: the best candidate has probability 0.25, and the bar is 0.5"
    assert reply.json(1)["answered"] is False and reply.json(1)["answers"][0]["text"] == rows[0].text
    at_the_bar = replace(reply, rule=AnswerRule(probability_stage="probability", bar=0.25))
    assert "none" not in list(at_the_bar.lines(1))[1] and at_the_bar.json(1)["answered"] is True


def test_an_answer_comes_with_its_page_and_its_place_in_the_crawl(small_run: Path, session: Session) -> None:
    batch = [
        json.loads(line) for line in (small_run / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    expected = next(answer for answer in batch if answer["answer"] is not None)
    asked = session.ask(expected["question"])
    (best,) = asked.json(answers=1)["answers"]
    renamed = {"answer": "text"}
    assert {
        name: best[renamed.get(name, name)] for name in expected if name not in ("question_id", "question")
    } == {name: value for name, value in expected.items() if name not in ("question_id", "question")}

    lines = list(asked.lines(2))
    assert lines[0] == expected["question"] and lines[2] == f"      {expected['title']}, {expected['url']}"
    assert len(lines) == 1 + 2 * min(2, sum(row.rank is not None for row in asked.rows))


def test_what_says_the_same_is_one_answer_with_its_pages_and_caps_hold() -> None:
    ranked, rows = outcome()
    passages = {c.hit.passage.passage_id: c.hit.passage for c in ranked.candidates}
    lines = list(Reply("When?", rows, passages, Seconds()).lines(2))
    assert lines == [
        "When?",
        "  1  9  The bridge was opened in May 1932.",
        "      T, http://www.a.org/1; 3 pages of 3 sites, 2019-01-01 to 2020-02-01",
        "  2  8  It is old.",
        "      T, http://a.org/2",
    ]
    rule = AnswerRule(AnswerSettings(max_per_domain=1))
    capped = Reply("When?", rows, passages, Seconds(), rule).json(2)["answers"]
    assert [(each["rank"], each["pages"]) for each in capped] == [(1, 3), (4, 1)]


def test_the_plan_of_a_run_has_its_caps(small_run: Path) -> None:
    job = job_of(small_run, ["rerank.answers.max_per_site=2"])
    assert job.rerank is not None and job.rerank.answers.max_per_site == 2 and job.rerank.answers.most == 1


def test_a_question_that_finds_nothing_has_no_answer(small_run: Path) -> None:
    with opened(small_run, job_of(small_run, ["retrieve.sources=['bm25']"]), Seconds()) as session:
        asked = session.ask("Xyzzyx?")
    assert not asked.rows and list(asked.lines(3)) == ["Xyzzyx?", "  no answer: no index returned a passage"]


def test_a_setting_laid_over_the_plan_counts(small_run: Path) -> None:
    with opened(
        small_run, job_of(small_run, ["retrieve.depth=3", "rerank.stages.0.keep=4"]), Seconds()
    ) as session:
        asked = session.ask("Why does the sea taste of salt?")
    assert 3 <= len(asked.passages) <= 6
    sentences = [row for row in asked.rows if row.unit == "sentence" and row.dropped_by == "cosinet"]
    assert {row.stages[0].rank for row in sentences} == set(range(5, 5 + len(sentences)))


def test_a_job_without_stages_answers_by_passages(small_run: Path, tmp_path: Path) -> None:
    text = (small_run.parent / "job.toml").read_text(encoding="utf-8")
    job = small_run.parent / "retrieval.toml"
    (tmp_path / job.name).write_text(
        text[: text.index("[[rerank.stages]]")] + text[text.index("[propagate]") :], encoding="utf-8"
    )
    for name in ("questions.jsonl", "labels.tsv"):
        shutil.copy(small_run.parent / name, tmp_path / name)
    (line,) = answer_questions(small_run, ["What are tides?"], tmp_path / job.name, answers=2, as_json=True)
    first, second = json.loads(line)["answers"]
    assert first["unit"] == second["unit"] == "passage" and "score" in first


def test_a_plan_whose_files_are_not_beside_the_run_is_not_guessed(small_run: Path, tmp_path: Path) -> None:
    shutil.copytree(small_run, tmp_path / "apart" / "run")
    with pytest.raises(JobError, match=r"checkpoints/cosinet.* name the job file with --job JOB.toml") as e:
        job_of(tmp_path / "apart" / "run")
    assert e.value.code == INPUT_MISSING
    shutil.copytree(small_run.parent / "checkpoints", tmp_path / "apart" / "checkpoints")
    assert job_of(tmp_path / "apart" / "run").folder == (tmp_path / "apart").resolve()
    (tmp_path / "apart" / "checkpoints" / "cosinet" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(JobError, match="as they were when it was made"):
        job_of(tmp_path / "apart" / "run")


def test_a_run_that_searched_by_bm25_alone_needs_no_encoder(tmp_path: Path) -> None:
    commit(tmp_path, INDEX, {}, IndexCounts(), encoder="absent")
    commit(tmp_path, RETRIEVE, {}, RetrieveCounts(), sources=["bm25"])
    commit(tmp_path, RERANK, {}, RerankCounts(), stages=[{"reranker": "overlap"}])
    assert job_of(tmp_path).index.encoder == "absent"


@pytest.mark.parametrize(
    ("encoder", "stages", "code", "message"),
    [
        ("/absent/encoder", ["overlap"], UNAVAILABLE, "no model '/absent/encoder': looked for the folder"),
        ("all-MiniLM-L6-v2", ["overlap", "overlap"], SETTINGS, "overlap"),
    ],
)
def test_a_plan_that_can_be_used_from_no_place_says_why(
    tmp_path: Path, encoder: str, stages: list[str], code: int, message: str
) -> None:
    commit(tmp_path, INDEX, {}, IndexCounts(), encoder=encoder)
    commit(tmp_path, RETRIEVE, {}, RetrieveCounts(), sources=["bm25", "dense"])
    commit(tmp_path, RERANK, {}, RerankCounts(), stages=[{"reranker": stage} for stage in stages])
    with pytest.raises(
        JobError, match=rf"its plan cannot be used: .*{message}.*; mend that, or name the job file with"
    ) as e:
        job_of(tmp_path)
    assert e.value.code == code


def test_a_plan_whose_files_cannot_be_read_says_why(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(small_run, tmp_path / "apart" / "run"))

    def refuses(job: Job) -> CheckedPlan:
        if job.folder == run.parent:
            raise PermissionError(errno.EACCES, "Permission denied", str(run.parent / "checkpoints"))
        return checked(job)

    checked = CheckedPlan.of
    monkeypatch.setattr(CheckedPlan, "of", refuses)

    with pytest.raises(
        JobError, match=r"as they were when it was made \(.*Permission denied: .*/apart/checkpoints'\); name"
    ) as e:
        job_of(run)

    assert e.value.code == INPUT_MISSING


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("shards", "run `answermill index JOB.toml --out"),
        ("scored", "rerank is not complete, so it does not say by which plan"),
    ],
)
def test_a_run_that_lacks_shards_or_a_plan_is_refused(
    small_run: Path, tmp_path: Path, removed: str, message: str
) -> None:
    shutil.copytree(small_run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / removed)
    with pytest.raises(JobError, match=message) as e:
        list(answer_questions(tmp_path / "run", ["What are tides?"]))
    assert e.value.code == INPUT_MISSING


def test_the_command_reads_questions_from_stdin_and_writes_nothing_into_the_run(
    small_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in small_run.rglob("*")}
    monkeypatch.setattr("sys.stdin", io.StringIO("What are tides?\n\n  Which   mammals can fly?\n"))
    with pytest.raises(SystemExit) as e:
        main(["ask", str(small_run), "--json", "--answers", "1"])
    printed = capsys.readouterr()
    answers = [json.loads(line) for line in printed.out.splitlines()]
    assert e.value.code == 0 and [answer["question"] for answer in answers] == [
        "What are tides?",
        "Which mammals can fly?",
    ]
    assert all(
        len(answer["answers"]) <= 1 and answer["seconds"].keys() == {"search", "rerank"} for answer in answers
    )

    assert "ready after " in printed.err and "encoder" in printed.err and "Lucene" in printed.err
    assert {path: path.stat().st_mtime_ns for path in small_run.rglob("*")} == before


def test_asking_by_the_plan_of_the_sample_loads_neither_beam_nor_scipy() -> None:
    """Each takes about as long to load as a question to answer."""
    code = (
        "import sys, answermill.pipelines.look.ask.ask\n"
        "import answermill.ranking.rerankers.cosinet.cosinet, answermill.ranking.rerankers.cascade.cascade\n"
        "import answermill.ranking.rerankers.blend.blend\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'apache_beam', 'scipy', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['torch']\n"


def test_at_a_terminal_each_question_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert list(question_lines(Terminal("a\nb\n"))) == ["a\n", "b\n"]
    assert capsys.readouterr().err == "question> " * 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["absent", "a?"],
            INPUT_MISSING,
            f"no folder {Path.cwd() / 'absent'}; `answermill run JOB.toml --out ",
        ),
        (["RUN", "a?", "--answers", "0"], USAGE, "--answers 0: give 1 or more"),
        (["RUN", "a?", "--set", "retrieve.dept=3"], SETTINGS, "did you mean 'depth'?"),
        (["RUN", "a?", "--job", "absent.toml"], INPUT_MISSING, "absent.toml: no such file"),
    ],
)
def test_wrong_use_is_refused_with_what_to_type(
    small_run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    with pytest.raises(SystemExit) as e:
        main(["ask", *(str(small_run) if each == "RUN" else each for each in arguments)])
    assert e.value.code == code and message in capsys.readouterr().err
