"""Distillation from a table: which row teaches which pair, what is refused, and whole trainings of every
strategy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.training_file import load_job
from answermill.pipelines.data.convert.as_run import write_candidates
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.pipelines.learn.train.heads import write_heads
from answermill.pipelines.learn.train.teachers import Lessons, teach
from answermill.pipelines.learn.train.train import build, run
from answermill.pipelines.steps.chain import run_steps
from answermill.ranking.rerankers.multihead.multihead import MultiHeadModel
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.loop import Dev
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import write_body
from tests.pipelines.learn.train.test_train import TRANSFORMER

TEACHERS = ("t1", "t2", "t3")


def rows(questions: int = 4) -> list[list[LabelledCandidate]]:
    texts = [("It left .", 0), ("She sang it .", 1), ("Left .", 0)]
    return [
        [
            LabelledCandidate(f"q{n}", f"Who sang {n} ?", f"c{i}", "", "", i, text, label)
            for i, (text, label) in enumerate(texts)
        ]
        for n in range(questions)
    ]


def table(path: Path, drop: tuple[str, ...] = (), **columns: list) -> Path:
    """The training pairs with a score of every teacher: 10 · teacher + row."""
    pairs = [row for question_rows in rows() for row in question_rows]
    values = {
        "question_id": [row.question_id for row in pairs],
        "candidate_id": [row.candidate_id for row in pairs],
        "question": [row.question for row in pairs],
        "sentence": [row.text for row in pairs],
    }
    values |= {name: [10.0 * t + n for n in range(len(pairs))] for t, name in enumerate(TEACHERS, 1)}
    values |= columns
    pq.write_table(pa.table({name: column for name, column in values.items() if name not in drop}), path)
    return path


def learnt(lessons: Lessons) -> list[int]:
    """Candidates of each question that all teachers have scored."""
    return [int(np.isfinite(logits).all(1).sum()) for logits in lessons.logits]


def test_rows_are_joined_by_id_where_the_text_is_the_same(tmp_path: Path) -> None:
    lessons = teach([table(tmp_path / "t.parquet")], TEACHERS, rows())
    assert lessons.questions == rows() and [each.shape for each in lessons.logits] == [(3, 3)] * 4
    assert lessons.logits[1].tolist() == [[13, 23, 33], [14, 24, 34], [15, 25, 35]]
    assert "12 of 12 pairs, 0 of them by text; 0 left out, 0 of them correct" in lessons.report


def test_rows_of_other_ids_are_joined_by_their_folded_texts(tmp_path: Path) -> None:
    pairs = [row for question_rows in rows() for row in question_rows]
    other = {
        "question_id": [f"x{n}" for n in range(12)],
        "sentence": [row.text.upper() + "  " for row in pairs],
    }
    lessons = teach([table(tmp_path / "t.parquet", **other)], TEACHERS, rows())
    assert lessons.logits[3].tolist() == [[19, 29, 39], [20, 30, 40], [21, 31, 41]]
    assert "12 of 12 pairs, 12 of them by text" in lessons.report


def test_other_scores_of_equal_texts_are_counted_and_the_first_is_taken(tmp_path: Path) -> None:
    tables = [
        table(tmp_path / f"{n}.parquet", ("question_id", "candidate_id"), t1=[n] * 12) for n in range(2)
    ]
    lessons = teach(tables, TEACHERS, rows())
    assert [logits[:, 0].tolist() for logits in lessons.logits] == [[0, 0, 0]] * 4
    assert lessons.report.endswith("; 12 other scores of equal texts, of which the first was taken")


def test_an_id_with_another_text_teaches_nothing_and_is_told(tmp_path: Path) -> None:
    texts = [row.text for question_rows in rows() for row in question_rows]
    texts[4] = "He sang it ."
    lessons = teach([table(tmp_path / "t.parquet", sentence=texts)], TEACHERS, rows())
    assert lessons.questions == rows() and learnt(lessons) == [3, 2, 3, 3]
    assert (
        "11 of 12 pairs, 0 of them by text; 1 left out, 1 of them correct: 1 that no teacher"
        in lessons.report
    )
    assert lessons.report.endswith("1 ids with another text")


def test_a_table_without_texts_is_joined_by_id_and_one_without_ids_by_text(tmp_path: Path) -> None:
    by_id = teach([table(tmp_path / "a.parquet", ("question", "sentence"))], TEACHERS, rows())
    by_text = teach([table(tmp_path / "b.parquet", ("question_id", "candidate_id"))], TEACHERS, rows())
    assert all(np.array_equal(a, b) for a, b in zip(by_id.logits, by_text.logits, strict=True))
    assert "0 of them by text" in by_id.report and "12 of them by text" in by_text.report


def test_teachers_of_different_candidates_and_tables_meet_in_what_all_have_scored(tmp_path: Path) -> None:
    first = table(tmp_path / "a.parquet", ("t3",), t2=[None, *[1.0] * 11])
    third = table(tmp_path / "b.parquet", ("t1", "t2"), t3=[*[2.0] * 10, None, None])
    lessons = teach([first, third], TEACHERS, rows())
    assert lessons.questions == rows() and learnt(lessons) == [2, 3, 3, 1]
    assert (
        "3 left out, 1 of them correct: 0 that no teacher has scored, 3 that not all have" in lessons.report
    )
    assert np.isnan(lessons.logits[0][0]).all() and lessons.logits[0][1:].tolist() == [[11, 1, 2], [12, 1, 2]]


@pytest.mark.parametrize(
    ("columns", "drop", "code", "says"),
    [
        ({"t2": [float("nan"), *[1.0] * 11]}, (), BAD_DATA, "row 0: t2 is nan; score the pair again"),
        ({"t2": [*[1.0] * 11, float("inf")]}, (), BAD_DATA, "row 11: t2 is inf"),
        ({"t2": ["a"] * 12}, (), BAD_DATA, "t2 is 'a', no number"),
        ({}, ("t2",), SETTINGS, "no t2 in .*t.parquet, which has t1, t3; score the pairs with it"),
        ({}, ("question_id", "question"), BAD_DATA, "give question_id, candidate_id, or question, sentence"),
        ({"question": ["x"] * 12}, (), BAD_DATA, "no pair of the training data was scored by all teachers"),
        (
            {"candidate_id": ["c0"] * 12, "question_id": ["q0"] * 12},
            ("question", "sentence"),
            BAD_DATA,
            "in a row before",
        ),
    ],
)
def test_a_table_that_cannot_teach_is_refused(
    tmp_path: Path, columns: dict, drop: tuple, code: int, says: str
) -> None:
    with pytest.raises(JobError, match=says) as e:
        teach([table(tmp_path / "t.parquet", drop, **columns)], TEACHERS, rows())
    assert e.value.code == code


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no table of teachers; give a Parquet, or a run") as e:
        teach([tmp_path / "nowhere"], TEACHERS, rows())
    assert e.value.code == INPUT_MISSING


# Whole trainings


DISTIL = """
[distil]
tables = ["{table}"]
teachers = {teachers}
strategy = "{strategy}"
tau = 3.0
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set, a tiny body, three teachers trained from it by seed, and the run that has their
    scores."""
    folder = tmp_path_factory.mktemp("distil")
    pq.write_table(
        LabelledCandidate.table([row for question_rows in rows(6) for row in question_rows]),
        folder / "train.parquet",
    )
    write_body(folder / "tiny")
    for n, name in enumerate(TEACHERS):
        list(run(load_job(job(folder, "pointwise", name), [f"train.seed={n}"]), folder / name))
    write_candidates([folder / "train.parquet"], folder / "run")
    stages = [{"reranker": "pointwise", "name": name, "checkpoint": str(folder / name)} for name in TEACHERS]
    list(run_steps(Job.model_validate({"rerank": {"stages": stages}}), folder / "run", ["rerank"], ()))
    return folder


def job(
    folder: Path, reranker: str, name: str, more: str = "", encoder: str = "tiny", distil: str = ""
) -> Path:
    text = TRANSFORMER.format(reranker=reranker, more=more, epochs=2)
    body = folder / encoder if (folder / encoder).is_dir() else encoder
    text = text.replace("\nlayers = 2", f'\nencoder = "{body}"')
    path = folder / f"{name}.toml"
    path.write_text(text.replace("train.tsv", "train.parquet").replace("fp16", "fp32") + distil)
    return path


def distil(strategy: str, count: int = 3, scores: str = "run") -> str:
    return DISTIL.format(table=scores, teachers=json.dumps(TEACHERS[:count]), strategy=strategy)


@pytest.mark.parametrize(
    ("name", "reranker", "strategy", "count", "more", "encoder"),
    [
        ("kd", "pointwise", "single", 1, "", "tiny"),
        pytest.param("kd_sum", "pointwise", "sum", 3, "", "tiny", marks=pytest.mark.nightly),
        ("kd_rr", "pointwise", "round_robin", 3, "", "tiny"),
        ("cascade_kd", "cascade", "sum", 2, "exits = [1, 2]", "tiny"),
        pytest.param("mhs", "multihead", "mhs", 3, "", "tiny", marks=pytest.mark.nightly),
        ("mhs_of_checkpoint", "multihead", "mhs", 3, 'average = "probabilities"', "t1"),
        pytest.param("mhs_single", "multihead", "single", 1, "heads = 2", "tiny", marks=pytest.mark.nightly),
        ("mhs_with_exit", "multihead", "mhs", 2, "exits = [1]\ndrop = [0.3]", "tiny"),
    ],
)
def test_every_strategy_trains_and_serves_with_its_dev_score(
    work: Path, name: str, reranker: str, strategy: str, count: int, more: str, encoder: str
) -> None:
    training = load_job(job(work, reranker, name, more, encoder, distil(strategy, count)))
    lines = list(run(training, work / f"{name}-out"))
    assert lines[1].startswith(f"teachers {', '.join(TEACHERS[:count])}: 18 of 18 pairs, 0 of them by text")
    settings = {"drop": [0.3]} if "drop" in more else {}
    loaded = load_reranker(reranker, work / f"{name}-out", model=find_model, **settings)
    score = Dev(rows(6)).score(loaded, "MAP", "answerable")
    assert f"best dev MAP {100 * score:.2f}" in lines[-1]
    config = json.loads((work / f"{name}-out" / "config.json").read_text())
    assert config["model"] == reranker and config.get("heads", 1) == (
        1 if reranker != "multihead" else 2 if "2" in more else count or 3
    )

    card = (work / f"{name}-out" / "README.md").read_text()
    assert '"strategy"' in card and "_manifest.json" in card and str(work / "run") not in card


def test_heads_without_a_teacher_learn_from_the_labels_and_exits_come_later(work: Path) -> None:
    list(run(load_job(job(work, "multihead", "plain", "heads = 2")), work / "plain-out"))
    lines = list(run(load_job(job(work, "multihead", "late", "exits = [1]", "plain-out")), work / "late-out"))
    assert "begun with plain-out" in lines[1]
    assert json.loads((work / "late-out" / "config.json").read_text())["exits"] == [1]
    evaluation = evaluate(
        "multihead",
        work / "train.parquet",
        ranker=RankOptions(checkpoint=str(work / "late-out")),
        metrics=("MAP",),
    )
    assert 0 < evaluation.means["MAP"][0] <= 1


def test_each_head_is_written_as_a_checkpoint_that_serves_and_that_another_training_begins_with(
    work: Path,
) -> None:
    list(run(load_job(job(work, "multihead", "pair", "heads = 2")), work / "pair-out"))
    assert write_heads(work / "pair-out", work / "heads") == [
        f"written: {work / 'heads' / n}" for n in ("1", "2")
    ]
    assert {path.name for path in (work / "heads").iterdir()} == {"1", "2"}
    options = [RankOptions(str(work / "heads" / n)) for n in "12"]
    evaluations = [
        evaluate("multihead", work / "train.parquet", metrics=("MAP",), ranker=each) for each in options
    ]
    assert all(0 < each.means["MAP"][0] <= 1 for each in evaluations)

    lines = list(run(load_job(job(work, "multihead", "of_head", "", "heads/2")), work / "of_head-out"))
    assert "begun with 2; " in lines[1]
    assert json.loads((work / "of_head-out" / "config.json").read_text())["heads"] == 1
    with pytest.raises(JobError, match=r"2 is a checkpoint with heads 1; leave out transformer\.heads"):
        list(run(load_job(job(work, "multihead", "three", "heads = 3", "heads/2")), work / "three-out"))


@pytest.mark.parametrize(
    ("reranker", "says"), [("pointwise", "pointwise cannot begin with it"), ("hashing", "its heads'; give")]
)
def test_what_needs_a_whole_body_does_not_begin_with_a_student(work: Path, reranker: str, says: str) -> None:
    list(run(load_job(job(work, "multihead", "begun", "heads = 2")), work / "begun-out"))
    path = job(work, "pointwise", f"after_{reranker}", encoder="begun-out")
    if reranker == "hashing":
        section = (
            path.read_text()
            .replace("[transformer]", "[hashing]")
            .replace('reranker = "pointwise"', 'variant = "pooling"')
        )
        path.write_text(section)
    with pytest.raises(JobError, match=says) as e:
        list(run(load_job(path), work / "after-out"))
    assert e.value.code == SETTINGS


def test_a_cascade_s_exits_become_those_of_the_student(work: Path) -> None:
    list(run(load_job(job(work, "cascade", "ct", "exits = [1, 2]")), work / "ct-out"))
    learn = list(by_question(read_dataset(work / "train.parquet")))
    task, *_ = build(load_job(job(work, "multihead", "ct_mhs", "", "ct-out")), learn, learn)
    assert (
        isinstance(task.model, MultiHeadModel) and task.model.exits == (1, 2) and len(task.model.heads) == 3
    )


def test_another_table_is_another_training(work: Path) -> None:
    training = job(work, "pointwise", "again", distil=distil("single", 1, "again.parquet"))
    scores = [float(n % 3 == 1) for n in range(12)]
    table(work / "again.parquet", t1=scores)
    list(run(load_job(training), work / "again-out"))
    table(work / "again.parquet", t1=[score + 1 for score in scores])
    with pytest.raises(JobError, match="holds another training: "):
        list(run(load_job(training), work / "again-out"))


@pytest.mark.parametrize(
    ("reranker", "strategy", "count", "more", "encoder", "says"),
    [
        (
            "multihead",
            "mhs",
            2,
            "heads = 3",
            "tiny",
            "3 heads for 2 teachers; each head learns from another teacher",
        ),
        ("pointwise", "mhs", 3, "", "tiny", "'mhs' for a student without heads"),
        ("pointwise", "single", 3, "", "tiny", "distil: strategy 'single' with 3 teachers"),
        ("pointwise", "sum", 3, "heads = 3", "tiny", "unknown key transformer.heads: multihead has it"),
        (
            "multihead",
            "mhs",
            3,
            "head_layers = 2",
            "tiny",
            "heads of 2 layers, but the encoder has 2: b . h cannot be more",
        ),
        ("multihead", "mhs", 3, "exits = [2]", "tiny", "no exit can come after it"),
        ("multihead", "mhs", 3, "layers = 3", "all-MiniLM-L6-v2", None),
        (
            "multihead",
            "mhs",
            3,
            "layers = 7",
            "all-MiniLM-L6-v2",
            "it has 6 layers; the first 7 cannot be had",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    work: Path, reranker: str, strategy: str, count: int, more: str, encoder: str, says: str | None
) -> None:
    path = job(work, reranker, "refused", more, encoder, distil(strategy, count))
    if says is None:
        training = load_job(path)
        learn = list(by_question(read_dataset(work / "train.parquet")))
        task, *_ = build(training, learn, learn)
        assert isinstance(task.model, MultiHeadModel) and task.model.encoder.shape.layers == 2
        return
    with pytest.raises(JobError, match=says) as e:
        list(run(load_job(path), work / "refused-out"))
    assert e.value.code == SETTINGS and not (work / "refused-out").exists()


def test_distil_is_for_transformers(work: Path) -> None:
    path = job(work, "pointwise", "cosinet", distil=distil("sum"))
    path.write_text(path.read_text().replace("[transformer]", "[model]"))
    with pytest.raises(JobError):
        load_job(path)


def test_an_albert_is_refused_as_a_body_and_teaches_by_a_column(work: Path) -> None:
    """Its logit is the difference of the two classes' logits."""
    torch.manual_seed(0)
    shape = {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "embedding_size": 8,
    }
    albert = transformers.AlbertForSequenceClassification(
        transformers.AlbertConfig(vocab_size=30_522, **shape)
    ).eval()
    albert.save_pretrained(work / "albert")

    with pytest.raises(JobError, match="holds an ALBERT, whose layers are one and the same"):
        list(run(load_job(job(work, "multihead", "of_albert", encoder="albert")), work / "of_albert-out"))
    tokenizer = transformers.BertTokenizerFast.from_pretrained(work / "tiny", local_files_only=True)
    pairs = [row for question_rows in rows(6) for row in question_rows]

    with torch.no_grad():
        batch = tokenizer(
            [p.question for p in pairs], [p.text for p in pairs], padding=True, return_tensors="pt"
        )
        logits = albert(**batch).logits

    columns = {"question": [p.question for p in pairs], "sentence": [p.text for p in pairs]}
    columns["albert"] = (logits[:, 1] - logits[:, 0]).tolist()
    pq.write_table(pa.table(columns), work / "albert.parquet")
    text = DISTIL.format(table="run", teachers='["t1", "albert"]', strategy="mhs")
    training = job(work, "multihead", "two", distil=text.replace('"run"', '"run", "albert.parquet"'))
    lines = list(run(load_job(training), work / "two-out"))
    assert lines[1].startswith("teachers t1, albert: 18 of 18 pairs, 18 of them by text; 0 left out")
