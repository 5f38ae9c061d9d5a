"""The Python API: what `import answermill` gives, with the sample's data."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import answermill as am
from answermill.commands import COMMANDS, function_name
from answermill.schemas.corpus import Passage
from answermill.schemas.ranked import ScoredCandidate
from testing.tiny import write_calibration

ROOT = Path(__file__).parents[2]
QUESTION = "When was the dam completed?"
TEXTS = ["Its lake is deep.", "The dam was completed in 1970.", "A dam holds water."]


def test_importing_it_loads_no_torch_beam_java_or_spacy():
    heavy = "torch apache_beam jnius spacy transformers pandas pyterrier"
    script = f"import sys, answermill; print([name for name in {heavy!r}.split() if name in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize("name", am.__all__)
def test_every_name_is_documented(name):
    assert getattr(am, name).__doc__
    assert name in dir(am)


def test_a_plan_with_probabilities_has_a_bar(tmp_path):
    sure = am.stage("probability", calibration_file=write_calibration(tmp_path / "calibration.json"))
    plan = am.Plan(["overlap", sure], device="cpu")
    assert all(0 <= answer.score <= 1 for answer in plan.rerank(QUESTION, TEXTS))
    assert plan.bar(max_wrong=0.1) == 0.11  # the wrong ones of the calibration have 0.1
    with pytest.raises(am.JobError, match="no bar can promise") as e:
        plan.bar(max_wrong=0.001)
    assert e.value.code == 78
    with pytest.raises(am.JobError, match="the last stage gives none"):
        am.Plan(["overlap"], device="cpu").bar(max_wrong=0.1)


def test_an_unknown_name_is_an_attribute_error_that_names_the_known_ones():
    with pytest.raises(AttributeError, match=r"'rerankk'.*rerank"):
        _ = am.rerankk


def test_texts_are_reranked_best_first_and_point_at_the_text_that_was_given():
    answers = am.rerank(QUESTION, TEXTS, ["overlap"])
    assert [answer.index for answer in answers] == [1, 2, 0]
    assert [answer.rank for answer in answers] == [1, 2, 3]
    assert answers[0].text == TEXTS[1]
    assert answers[0].score > answers[1].score > answers[2].score


def test_keep_and_split_are_those_of_a_job():
    plan = am.Plan([am.stage("overlap", keep=2)])
    first, second = plan.rerank(QUESTION, [" ".join(TEXTS), "The dam was completed late."], split=True)
    assert (first.index, first.start, first.text) == (0, len(TEXTS[0]) + 1, TEXTS[1])
    assert second.index == 1


def test_several_questions_at_once_give_what_each_alone_gives():
    plan = am.Plan(["overlap"])
    asked = [(QUESTION, TEXTS), ("What holds water?", TEXTS[::-1]), ("Nothing?", [])]
    assert plan.rerank_all(asked) == [plan.rerank(*one) for one in asked]
    assert plan.rerank("Nothing?", []) == []


def test_two_stages_of_one_reranker_need_names():
    with pytest.raises(am.JobError, match="two stages are named 'overlap'"):
        am.Plan(["overlap", "overlap"])
    am.Plan(["overlap", am.stage("overlap", name="again")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reranker": "overlapp"}, "did you mean 'overlap'"),
        ({"reranker": "overlap", "drop": [0.1]}, "drop"),
        ({"reranker": "overlap", "kep": 3}, "unknown key .*kep; did you mean 'keep'"),
    ],
)
def test_a_wrong_stage_is_refused_with_what_is_known(settings, message):
    with pytest.raises(am.JobError, match=message) as e:
        am.stage(**settings)
    assert e.value.code == 78


@pytest.mark.parametrize(
    ("text", "what"),
    [(None, "text 1 of the question"), (float("nan"), "is nan"), (b"x", "is b'x'"), ("\ud800", "surrogate")],
)
def test_a_text_that_is_none_is_refused_and_named(text, what):
    with pytest.raises(am.JobError, match=what) as e:
        am.rerank(QUESTION, ["", text], ["overlap"])
    assert e.value.code == 65


def test_one_string_is_no_list_of_texts_or_stages():
    with pytest.raises(am.JobError, match="texts is one string") as e:
        am.rerank(QUESTION, TEXTS[0], ["overlap"])
    assert e.value.code == 78
    with pytest.raises(am.JobError, match=r"stages is one string, 'cosinet'; give a list"):
        am.Plan("cosinet")
    with pytest.raises(am.JobError, match="not a object"):
        am.Plan([object()])


LISTS = [
    (function, parameter.name)
    for function in map(am.__getattr__, set(am.__all__) - set(map(function_name, COMMANDS)))
    if inspect.isfunction(function)
    for parameter in inspect.signature(function).parameters.values()
    if parameter.annotation.startswith("Sequence[") and parameter.default is not parameter.empty
]


@pytest.mark.parametrize(
    ("function", "name"), sorted(LISTS, key=str), ids=lambda value: getattr(value, "__name__", value)
)
def test_one_string_is_no_list(function, name):
    with pytest.raises(
        am.JobError, match=f"{name} is one string, 'text'; give a list, such as \\['text'\\]"
    ) as e:
        function(**{name: "text"})
    assert e.value.code == 78


def test_one_string_is_no_list_of_metrics_runs_or_ids():
    for call, what in (
        (lambda: am.evaluate("overlap", "labels", metrics="P@1"), "metrics is one string, 'P@1'"),
        (lambda: am.compare("a", "b", metrics="P@1"), "metrics is one string, 'P@1'"),
        (lambda: am.compare_many(["a", "b"], metrics="P@1"), "metrics is one string, 'P@1'"),
        (
            lambda: am.compare_many("overlap"),
            r"runs is one string, 'overlap'; give a list, such as \['overlap",
        ),
        (lambda: am.Plan(["overlap"]).rerank_all([(QUESTION, TEXTS)], ids="1"), "ids is one string, '1'"),
        (lambda: am.Plan(["overlap"]).rerank_all(QUESTION), r"questions is one string, .*; give a list\n"),
    ):
        with pytest.raises(am.JobError, match=what) as e:
            call()
        assert e.value.code == 78


def test_an_unknown_step_is_refused_with_the_steps(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text('[ingest]\ninput = ["*.warc"]\n')
    with pytest.raises(am.JobError, match="no step is 'eat'; the steps are ingest,") as e:
        am.run(job, tmp_path / "run", steps=["eat"])
    assert e.value.code == 2


@pytest.mark.parametrize(
    ("reranker", "key"),
    [("scores", "table"), ("blend", "weights_file"), ("probability", "calibration_file")],
)
def test_a_stage_s_missing_file_is_missing_input_wherever_it_is_read(tmp_path, reranker, key):
    none = str(tmp_path / "none.json")
    labels = tmp_path / "set.tsv"
    labels.write_text(f"question_id\tquestion\tsentence\tlabel\n1\t{QUESTION}\t{TEXTS[0]}\t1\n")
    for call in (
        lambda: am.Plan(["overlap", am.stage(reranker, **{key: none})]),
        lambda: am.evaluate(reranker, labels, settings=[f"{key}={none}"]),
    ):
        with pytest.raises(am.JobError, match=f"{none}: no such file; give ") as e:
            call()
        assert e.value.code == 66


def test_ids_are_as_many_as_the_questions():
    with pytest.raises(am.JobError, match="2 questions have 1 ids; give one each") as e:
        am.Plan(["overlap"]).rerank_all([(QUESTION, TEXTS), ("Why?", TEXTS)], ids=["q1"])
    assert e.value.code == 65


def test_a_blank_text_stays_when_texts_are_split():
    answers = am.Plan(["overlap"]).rerank(QUESTION, ["", "  ", TEXTS[1]], split=True)
    assert sorted(answer.index for answer in answers) == [0, 1, 2]


def test_what_a_user_can_cause_is_a_job_error_with_the_exit_code(tmp_path, monkeypatch):
    with pytest.raises(am.JobError, match="no model 'nowhere/nothing'") as e:
        am.Plan([am.stage("cross_encoder", checkpoint="nowhere/nothing")])
    assert e.value.code == 69
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(am.JobError, match="torch finds no CUDA here; give 'cpu' or 'auto'") as e:
        am.Plan(["cascade"], device="cuda")
    assert e.value.code == 78


def test_what_is_stored_is_refused_only_where_a_user_asks_for_it():
    am.Plan(["hashing"])
    am.Plan([am.stage("hashing", stored=False)])
    with pytest.raises(am.JobError, match="nothing is indexed here that could hold vectors"):
        am.Plan([am.stage("hashing", stored=True)])


def test_a_run_is_read_as_records_and_as_arrow(sample_run):
    run = am.open_run(sample_run)
    assert {"documents", "passages", "scored", "labels/sentences"} <= set(run)
    scored = run["scored"].to_arrow()
    assert len(run["scored"]) == scored.num_rows > 1_000
    assert scored.schema.names == ScoredCandidate.schema().names
    assert run["scored"].to_arrow(["question_id", "rank"]).column_names == ["question_id", "rank"]
    assert isinstance(next(iter(run["passages"])), Passage)
    assert sum(batch.num_rows for batch in run["scored"].batches(["rank"])) == scored.num_rows
    for read in (
        run["scored"].to_arrow,
        run["scored"].to_pandas,
        lambda names: [*run["scored"].batches(names)],
    ):
        with pytest.raises(am.JobError, match="columns is one string, 'text'; give a list, such as"):
            read("text")
        with pytest.raises(am.JobError, match="no column 'txt'; the columns are question_id, question,") as e:
            read(["txt"])
        assert e.value.code == 2
        for names in ([], ["rank", "rank"]):
            with pytest.raises(am.JobError, match="name at least one, and each once"):
                read(names)
    answers = list(run.answers())
    assert len(answers) == 90 and answers[0].keys() >= {"question", "answer", "url"}


def test_a_job_runs_step_by_step_and_again_without_work(sample_run, tmp_path):
    job = am.load_job(sample_run.parent / "job.toml", ["ingest.min_words=20"])
    lines: list[str] = []
    run = am.run(job, tmp_path / "run", steps=["ingest"], on_step=lines.append)
    assert len(lines) == 1 and lines[0].startswith("ingest ")
    assert list(run) == ["documents", "passages", "rejects"]
    am.run(job, tmp_path / "run", steps=["ingest"], on_step=lines.append)
    assert lines[1].endswith("(complete)")
    with pytest.raises(am.JobError, match=r"run `answermill rerank JOB.toml --out .*` first"):
        run["scored"]

    with pytest.raises(am.JobError, match=r"answers\.jsonl"):
        run.answers()
    with pytest.raises(KeyError, match="'scores'"):
        run["scores"]


def test_no_run_where_there_is_no_folder(tmp_path):
    with pytest.raises(am.JobError, match="no folder") as e:
        am.open_run(tmp_path / "nothing")
    assert e.value.code == 66


def test_figures_and_their_comparison_are_those_of_the_commands(sample_run):
    labels = sample_run / "labels" / "sentences"
    figures = am.evaluate(sample_run / "scored", labels, metrics=["P@1", "MAP"])
    assert 0.4 < figures.summary()["P@1"] <= 1
    compared = am.compare(sample_run / "scored", sample_run / "scored", labels, metrics=["P@1"], rounds=100)
    assert compared.metrics["P@1"].difference == 0 and not compared.flips


def test_a_data_set_is_read_and_a_checkpoint_trained_and_used(tmp_path):
    rows = [
        f"{question}\t{text}\t{int(n == 1)}"
        for question in (QUESTION, "Is it done?")
        for n, text in enumerate(TEXTS)
    ]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    assert [row.label for row in am.read_dataset(tmp_path / "train.tsv", "tsv")] == [0, 1, 0] * 2
    training = '[model]\nreranker = "cosinet"\nform = "list"\nfilters = 4\n'

    data = '[data]\nname = "tiny"\nlicence = "ours"\ntrain = ["train.tsv"]\ndev = ["dev.tsv"]\nform = "tsv"\n'
    (tmp_path / "train.toml").write_text(training + data + "[train]\nepochs = 1\n")
    checkpoint = am.train(tmp_path / "train.toml", tmp_path / "checkpoint", ["train.seed=3"])
    assert (checkpoint / "model.safetensors").is_file()
    answers = am.rerank(QUESTION, TEXTS, [am.stage("cosinet", checkpoint=str(checkpoint))])
    assert {answer.index for answer in answers} == {0, 1, 2}


def test_a_plan_is_a_pyterrier_transformer():
    pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'answermill[pyterrier]'")
    pt = pytest.importorskip(
        "pyterrier", reason="pyterrier is not installed: pip install 'answermill[pyterrier]'"
    )
    rows = [("q1", QUESTION, f"d{n}", text, 5.0 - n) for n, text in enumerate(TEXTS)] + [
        ("q2", "What holds water?", "d9", TEXTS[2], 1.0)
    ]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "score"])
    pipeline = pt.Transformer.from_df(frame) >> am.PyTerrierReranker([am.stage("overlap", keep=2)])
    ranked = pipeline.transform(frame[["qid", "query"]].drop_duplicates())
    assert ranked[["qid", "docno", "rank"]].to_numpy().tolist() == [
        ["q1", "d1", 0],
        ["q1", "d2", 1],
        ["q2", "d9", 0],
    ]

    assert ranked["answer"].tolist() == [TEXTS[1], TEXTS[2], TEXTS[2]]
    assert (pipeline % 1).transform(frame[["qid", "query"]].drop_duplicates())["docno"].tolist() == [
        "d1",
        "d9",
    ]
    reranker = am.PyTerrierReranker(["overlap"])
    assert reranker.transform_inputs() == ["qid", "query", "docno", "text"]
    assert list(reranker(frame.iloc[:0]).columns) == [*frame.columns, "rank", "answer"]
    with pytest.warns(UserWarning, match="1 of 4 documents have no text"):
        assert len(reranker(frame.assign(text=[None, *frame["text"][1:]]))) == 4
    for wrong, message in (
        (frame.drop(columns="text"), "lacks text"),
        (frame.assign(qid=["q1", None, "q1", "q2"]), "row 1 of the frame has no qid"),
        (frame.assign(query=["a", "b", "a", "c"]), "the query q1 has 2 texts"),
    ):
        with pytest.raises(am.JobError, match=message) as e:
            reranker.transform(wrong)
        assert e.value.code == 65


def examples(folder: Path) -> str:
    """The code of the page, whose training files are written into the folder; it also reads out/sample
    there."""
    (folder / "train.tsv").write_text(
        "".join(f"{QUESTION}\t{text}\t{int(n == 1)}\n" for n, text in enumerate(TEXTS))
    )
    data = (
        '[data]\nname = "tiny"\nlicence = "ours"\ntrain = ["train.tsv"]\ndev = ["train.tsv"]\nform = "tsv"\n'
    )
    model = '[model]\nreranker = "cosinet"\nform = "list"\nfilters = 4\n'
    (folder / "train.toml").write_text(model + data + "[train]\nepochs = 1\n")
    page = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    return "\n".join(blocks)


def test_the_examples_of_the_page_run(sample_run, tmp_path, monkeypatch):
    shutil.copytree(sample_run.parent, tmp_path / "out" / "sample")
    monkeypatch.chdir(tmp_path)
    exec(examples(tmp_path), {})
    assert (tmp_path / "out" / "checkpoint").is_dir()


def test_a_plan_that_ships_is_loaded_by_its_name() -> None:
    texts = ["The dam is 126 m high.", "It was completed in 1970.", "Its lake is named after Nasser."]
    best = am.rerank("When was the dam completed?", texts, "default", device="cpu")[0]
    assert (best.text, best.rank) == (texts[1], 1)
    with pytest.raises(
        am.JobError, match=r"stages is one string, 'deflaut'; .* a plan's name: default, fast, full,"
    ):
        am.Plan("deflaut")  # type: ignore[arg-type]
