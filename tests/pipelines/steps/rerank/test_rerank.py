"""The rerank step: it knows rerankers by their entries alone, and gives each what its entry asks for."""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from answermill.files.model_files import write_sums
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import INPUT_MISSING, JobError
from answermill.pipelines.specs.ingest import DOCUMENTS
from answermill.pipelines.specs.rerank import ANSWERS, SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.pipelines.steps import job_plan
from answermill.pipelines.steps.models import checkpoint_folder
from answermill.pipelines.steps.rerank import rerank
from answermill.ranking.entry import SHIPPED, Entry
from answermill.ranking.reranker import Reranker, Resources
from answermill.ranking.rerankers import registry
from answermill.ranking.rerankers.baselines import complete_sentence
from answermill.schemas.ranked import ScoredCandidate
from testing.command import call
from testing.tiny import SETTINGS, checkpoint, stage_settings
from tests import test_docs
from tests.changed_package import ChangedPackage, with_lines

TOY = {
    "toy/__init__.py": """
from pydantic import Field
from answermill.ranking.entry import Entry, StageSettings

class LettersStage(StageSettings):
    bonus: float = Field(0.0, description="score added for a full stop")

ENTRIES = (Entry("letters", "toy.letters:Letters", settings=LettersStage, checkpoint="letters"),)
""",
    "toy/letters.py": '''
import json
from typing import ClassVar
from answermill.ranking.reranker import order_by
from toy import LettersStage

class Letters:
    """Score = how many of the checkpoint's letters a sentence has."""

    name: ClassVar[str] = "letters"
    reads: ClassVar[str] = "sentence"
    writes: ClassVar[str] = "sentence"

    def __init__(self, letters, bonus):
        self.letters, self.bonus = letters, bonus

    @classmethod
    def load(cls, resources):
        letters = json.loads((resources.folder() / "config.json").read_text())["letters"]
        return cls(letters, resources.stage(LettersStage).bonus)

    def rerank(self, lists):
        return [order_by(ranked, [self.score(c.text) for c in ranked.candidates], self.name) for ranked in lists]

    def score(self, text):
        return sum(text.count(letter) for letter in self.letters) + self.bonus * text.endswith(".")
''',
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reranker that is added as any other: a package, and its line in the registry. Returns a checkpoint of
    it."""
    for name, text in TOY.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    for name, entry in registry.entries(("toy",)).items():
        monkeypatch.setitem(registry.RERANKERS, name, entry)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"format": 1, "model": "letters", "letters": "ae"}))
    return folder


def retrieved(run: Path, folder: Path) -> Path:
    """A run folder in which only reranking is to be done."""
    for name in ("questions", "retrieved"):
        shutil.copytree(run / name, folder / name)
    return folder


def job_of(folder: Path, *stages: str, more: str = "") -> Path:
    """A job file with these stages, each the lines below its heading."""
    path = folder / "job.toml"
    path.write_text(more + "".join(f"[[rerank.stages]]\n{stage}\n" for stage in stages))
    return path


def rows_of(run: Path) -> Iterator[ScoredCandidate]:
    return SCORED.open(run).read()


def test_a_reranker_of_one_entry_is_used_through_the_command_line(toy, small_run, tmp_path, capsys) -> None:
    run = retrieved(small_run, tmp_path / "run")
    job = job_of(tmp_path, 'reranker = "letters"\ncheckpoint = "checkpoint"\nbonus = 2.5\nkeep = 3')
    assert call("rerank", job, "--out", run) == 0
    rows = list(rows_of(run))
    kept = [row for row in rows if row.fate == "kept"]
    assert len(kept) > 30 and len({row.stages[0].score for row in rows}) > 20
    for row in rows:
        assert row.stages[0].score == row.text.count("a") + row.text.count("e") + 2.5 * row.text.endswith(".")
    manifest = SCORED.open(run).manifest
    assert "checkpoint of letters" in manifest.inputs and "'bonus': 2.5" in str(manifest.settings)

    capsys.readouterr()

    assert call("rerank", job, "--out", run) == 0 and "(complete)" in capsys.readouterr().out
    # Another setting is another job.
    assert call("rerank", job, "--out", run, "--set", "rerank.stages.0.bonus=1.0") == 73
    (toy / "config.json").write_text((toy / "config.json").read_text().replace("ae", "io"))
    assert call("rerank", job, "--out", run) == 73  # and so is another checkpoint
    capsys.readouterr()

    assert call("keys") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rerank.stages[].bonus" in said and "letters: score added for a full stop" in said

    assert call("rerank", job, "--out", run, "--set", "rerank.stages.0.bonsu=1.0") == 78
    assert "unknown key rerank.stages.0.bonsu; did you mean 'bonus'?" in capsys.readouterr().err
    without = job_of(tmp_path, 'reranker = "letters"')
    assert call("rerank", without, "--out", retrieved(small_run, tmp_path / "other")) == 78
    assert "rerank.stages.0: letters needs a checkpoint" in capsys.readouterr().err

    lines = [
        "question_id\tquestion\tsentence\tlabel",
        "a\tWho?\tbbb\t0",
        "a\tWho?\tiii\t1",
        "b\tWho?\tooo\t1",
        "b\tWho?\tb\t0",
    ]
    (tmp_path / "set.tsv").write_text("\n".join(lines) + "\n")
    assert (
        call("evaluate", "letters", "--labels", tmp_path / "set.tsv", "--checkpoint", toy, "--metrics", "P@1")
        == 0
    )

    assert "100.00" in capsys.readouterr().out


def test_a_reranker_is_a_package_and_one_line_and_then_in_every_list(tmp_path: Path) -> None:
    """No other file of ours is changed: the rest of this package are links to them."""
    line = '    "answermill.ranking.rerankers.pretrained",'
    added = with_lines("ranking/rerankers/registry.py", {line: line.replace("pretrained", "toy")})
    toy = {name: text.replace("toy", "answermill.ranking.rerankers.toy") for name, text in TOY.items()}
    new = {f"ranking/rerankers/{name}": text for name, text in zip(TOY, toy.values(), strict=True)}
    package = ChangedPackage.write(tmp_path / "package", added | new)

    assert "letters: score added for a full stop" in package.answermill("keys")
    assert "did you mean the reranker 'letters'?" in package.answermill(
        "evaluate", "leters", "--labels", tmp_path
    )
    job = job_of(tmp_path, 'reranker = "leters"')
    assert "Known: bi_encoder, blend, " in (
        said := package.answermill("rerank", job, "--out", tmp_path / "run")
    )
    assert ", late_interaction, letters, " in said

    page = package.prints("from docs.references import job_keys; print(job_keys())")
    assert "letters: score added for a full stop" in page


def test_a_reranker_without_its_rows_in_the_pages_fails_their_test(toy: Path) -> None:
    with pytest.raises(AssertionError, match="letters"):
        test_docs.test_every_folder_and_reranker_is_explained()


def test_answers_need_no_documents_and_name_the_place_in_the_crawl(small_run, tmp_path) -> None:
    run = retrieved(small_run, tmp_path / "run")
    assert call("rerank", job_of(tmp_path, 'reranker = "overlap"\nkeep = 3'), "--out", run) == 0
    lines = [json.loads(line) for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = ANSWERS.open(run)
    questions = QUESTIONS.open(run)
    assert [line["question_id"] for line in lines] == [question.question_id for question in questions.read()]
    assert [each.answer for each in answers.read()] == [line["answer"] for line in lines]
    best = {row.question_id: row for row in rows_of(run) if row.rank == 1}
    assert {line["question_id"]: line["answer"] for line in lines if line["answer"]} == {
        q: best[q].text for q in best
    }

    places = {
        document.doc_id: (document.source_file, document.source_offset, document.source_record)
        for document in DOCUMENTS.open(small_run).read()
    }
    assert len(places) > 30 and len(best) > 10
    for line in lines:
        if line["answer"] is not None:
            assert (line["source_file"], line["source_offset"], line["source_record"]) == places[
                line["doc_id"]
            ]


def test_a_plan_that_keeps_nothing_is_an_error_unless_the_job_allows_it(
    small_run, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(complete_sentence, "is_complete", lambda text: False)
    run = retrieved(small_run, tmp_path / "run")
    assert call("rerank", job_of(tmp_path, 'reranker = "complete_sentence"'), "--out", run) == 65
    error = capsys.readouterr().err
    assert re.search(
        r"rerank kept none of ([\d,]+) candidates of \d+ questions: complete_sentence kept none of the \1 that "
        r"it read; .* set rerank.allow_empty = true\n$",
        error,
    ), error
    assert not (run / "answers.jsonl").exists() and not (run / "scored" / "_manifest.json").exists()
    allowed = job_of(tmp_path, 'reranker = "complete_sentence"', more="[rerank]\nallow_empty = true\n")
    assert call("rerank", allowed, "--out", run) == 0

    assert {row.fate for row in rows_of(run)} == {"dropped"}
    # The key decides no row.
    assert call("rerank", job_of(tmp_path, 'reranker = "complete_sentence"'), "--out", run) == 0


def test_a_score_that_is_no_number_names_stage_checkpoint_question_and_candidate(
    toy, small_run, tmp_path, monkeypatch, capsys
) -> None:
    letters = importlib.import_module("toy.letters").Letters
    monkeypatch.setattr(letters, "score", lambda self, text: math.nan)
    run = retrieved(small_run, tmp_path / "run")
    stage = 'reranker = "letters"\nname = "mine"\ncheckpoint = "checkpoint"'
    assert call("rerank", job_of(tmp_path, stage), "--out", run) == 65
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.search(
        rf"stage mine, checkpoint {tmp_path}/checkpoint: letters: score nan for candidate \S+ of question "
        r"\S+;",
        error,
    )
    assert not (run / "scored" / "_manifest.json").exists()


def test_the_step_names_no_reranker() -> None:
    """What one reranker alone wants is said by its entry; the pipeline's steps hold no name of one."""
    names = set(registry.RERANKERS)
    for path in Path(rerank.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in names if f'"{name}"' in text or f"'{name}'" in text], path
        assert (
            "from answermill.ranking.rerankers.cascade" not in text
            and "from answermill.ranking.rerankers.peasi" not in text
            and "from answermill.ranking.rerankers.hashing" not in text
        )


def test_a_checkpoint_that_ships_is_taken_by_its_name_unless_a_folder_has_it(tmp_path) -> None:
    job = load(job_of(tmp_path, 'reranker = "cascade"\ncheckpoint = "cascade"'))
    (stage,) = job.rerank.stages
    assert checkpoint_folder(job, stage) == SHIPPED / "cascade"
    (tmp_path / "cascade").mkdir()
    assert checkpoint_folder(job, stage) == tmp_path / "cascade"


def test_two_stages_of_one_reranker_work_in_a_plan(small_run, tmp_path) -> None:
    checkpoint("peasi.pr", tmp_path / "peasi")
    checkpoint("cascade", tmp_path / "cascade")
    run = retrieved(small_run, tmp_path / "run")
    job = job_of(
        tmp_path,
        'reranker = "cascade"\ncheckpoint = "cascade"\nname = "rough"\ndrop = [0.5]\nkeep = 9',
        'reranker = "cascade"\ncheckpoint = "cascade"\nname = "fine"\ndrop = [0.2]',
        'reranker = "peasi.pr"\ncheckpoint = "peasi"\nname = "first"\nkeep = 4',
        'reranker = "peasi.pr"\ncheckpoint = "peasi"\nname = "second"',
        'reranker = "peasi.easi"\ncheckpoint = "peasi"\nthreshold = 0.0',
    )
    assert call("rerank", job, "--out", run) == 0

    rows = list(rows_of(run))
    stages = {tuple(score.stage for score in row.stages) for row in rows}
    assert ("rough", "fine", "first", "second", "peasi.easi") in stages
    left_out = {row.dropped_by for row in rows}
    assert {"rough", "fine", "first"} <= left_out


@pytest.mark.nightly
def test_the_confidence_is_of_the_scores_of_the_last_stage_before(small_run, tmp_path) -> None:
    checkpoint("peasi.pr", tmp_path / "one")
    answers = {}
    stage = 'reranker = "peasi.pr"\ncheckpoint = "one"\n'
    easi = 'reranker = "peasi.easi"\ncheckpoint = "one"'
    plans = {
        "plain": (stage, easi),
        "renamed": (stage + 'name = "passages"', easi),
        "taken": ('reranker = "overlap"\nname = "peasi.pr"', easi),  # a name is not a reranker
        "none": (easi,),
    }

    for name, plan in plans.items():
        run = retrieved(small_run, tmp_path / name)
        (tmp_path / f"{name}-job").mkdir()
        shutil.copytree(tmp_path / "one", tmp_path / f"{name}-job" / "one")
        assert call("rerank", job_of(tmp_path / f"{name}-job", *plan), "--out", run) == 0
        answers[name] = {
            (row.question_id, row.candidate_id): row.stages[-1].score
            for row in rows_of(run)
            if row.unit == "sentence"
        }

    assert answers["plain"] == answers["renamed"] != answers["none"]
    shared = [
        (answers["taken"][key], answers["none"][key])
        for key in answers["taken"].keys() & answers["none"].keys()
    ]
    assert len(shared) > 20 and all(a == b for a, b in shared)


def test_the_device_of_the_job_reaches_every_reranker(tmp_path, monkeypatch) -> None:
    # A reranker that takes CUDA by itself fails here.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    devices = {}
    load_entry = Entry.load

    def load_and_note(entry: Entry, resources: Resources) -> Reranker:
        devices[entry.name] = resources.device
        return load_entry(entry, resources)

    monkeypatch.setattr(Entry, "load", load_and_note)
    for name, entry in registry.RERANKERS.items():
        written = checkpoint(name, tmp_path / name)
        assert (written is None) == (entry.checkpoint is entry.pretrained is None)
        stage = f'reranker = "{name}"\n' + (f"checkpoint = '{written}'\n" if written else "")
        stage += "weights = {bm25 = 1.0}\n" if name in SETTINGS else ""
        stage += f"table = '{stage_settings(name, tmp_path)['table']}'\n" if name == "scores" else ""
        if name.startswith("probability"):
            file = stage_settings(name, tmp_path / name)["calibration_file"]
            stage = f"reranker = \"overlap\"\n[[rerank.stages]]\n{stage}calibration_file = '{file}'\n"
        job = load(job_of(tmp_path, stage, more='[workers]\ndevice = "cpu"\n'))
        job_plan.load_stages(job_plan.CheckedPlan.of(job), lambda: None)

    assert devices == dict.fromkeys(registry.RERANKERS, "cpu")


def test_a_process_holds_one_copy_of_each_reranker(tmp_path) -> None:
    written = checkpoint("cascade", tmp_path / "cascade")
    stage = f"reranker = \"cascade\"\ncheckpoint = '{written}'\n"
    job = load(
        job_of(tmp_path, stage + 'name = "a"', stage + 'name = "b"\ndrop = [0.5]', 'reranker = "overlap"')
    )
    first, second = job_plan.load_plan(job), job_plan.load_plan(job)
    assert [a.reranker is b.reranker for a, b in zip(first, second, strict=True)] == [True] * 3
    assert first[0].reranker is not first[1].reranker  # another setting is another reranker
    weights = tmp_path / "cascade" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1

    weights.write_bytes(content)  # trained again
    write_sums(tmp_path / "cascade", ["model.safetensors"])
    assert job_plan.load_plan(job)[0].reranker is not first[0].reranker


def test_a_stage_that_cannot_be_loaded_is_named(tmp_path) -> None:
    job = load(job_of(tmp_path, 'reranker = "overlap"', 'reranker = "cascade"\ncheckpoint = "nowhere"'))
    with pytest.raises(JobError, match=r"rerank\.stages\.1: .*nowhere is no checkpoint of cascade") as e:
        job_plan.check_stages(job)
    assert e.value.code == INPUT_MISSING
