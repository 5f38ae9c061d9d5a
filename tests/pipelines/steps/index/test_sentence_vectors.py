"""The stage `similarity` with `stored`: index stores a vector of each text that it reads, and rerank encodes
questions only."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.shard_files import ShardMismatch
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.rerank import RERANK, SCORED
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps, steps_of
from answermill.pipelines.steps.index import index, sentence_codes
from answermill.pipelines.steps.job_plan import check_stages, load_plan
from answermill.pipelines.steps.rerank import rerank
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import run_stages
from answermill.schemas.ranked import ScoredCandidate
from testing.tiny import write_dense

SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")
FP16 = 'context = ["title", "sentence"]\nstored = "fp16"'
INT8 = FP16.replace("fp16", "int8")
NONE = 'context = ["title", "sentence"]'
JOB = """
[ingest]
input = ["pages.jsonl"]
min_words = 5
passage_words = 20

[index]
shards = {shards}
encoder = "{encoder}"

[retrieve]
questions = "questions.jsonl"
depth = 6
block = {block}

[[rerank.stages]]
reranker = "overlap"
keep = 20

[[rerank.stages]]
reranker = "similarity"
{stage}
keep = 5
"""


def job(folder: Path, encoder: Path, stage: str = FP16, shards: int = 2, block: int = 64) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    pages = [
        {
            "id": f"d{n}",
            "text": " ".join(f"The {subject} of page {n} is seen by {n + 2} people." for subject in SUBJECTS)
            + " All pages end with this sentence.",
            "title": f"Title {n % 4}",
        }
        for n in range(8)
    ]
    questions = [
        {"question_id": f"q{n}", "text": f"Which {subject} is seen?"} for n, subject in enumerate(SUBJECTS)
    ]
    for name, rows in (("pages", pages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    (folder / "job.toml").write_text(JOB.format(shards=shards, block=block, encoder=encoder, stage=stage))
    return load(folder / "job.toml")


def run(this: Job, folder: Path | None = None, *steps: str) -> Path:
    folder = folder or this.folder / "run"
    list(run_steps(this, folder, steps or steps_of(this), ()))
    return folder


def scored(run_folder: Path) -> list[ScoredCandidate]:
    return list(SCORED.open(run_folder).read())


def costs(run_folder: Path, stage: str = "similarity") -> Counter[str]:
    return Counter(RERANK.counts_of(SCORED.open(run_folder).manifest).stages[stage].costs)


def last_scores(rows: list[ScoredCandidate]) -> list[tuple[str, str, float]]:
    """(question, sentence, score) of what the plan kept, in its order."""
    return [(row.question_id, row.candidate_id, row.stages[-1].score) for row in rows if row.fate == "kept"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dense(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> tuple[Job, Path]:
    this = job(tmp_path_factory.mktemp("fp16"), encoder)
    return this, run(this)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    """The run of the same job without `stored`."""
    return run(job(tmp_path_factory.mktemp("plain"), encoder, NONE))


def without_shards(this: Job, done: Path, to: Path) -> Path:
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(done / name, to / name)
    return run(this, to, "rerank")


def test_index_stores_each_text_once_and_rerank_encodes_no_sentence(
    sample: tuple[Job, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    this, folder = sample
    texts = {(p.title, s.text) for p in PASSAGES.open(folder).read() for s in p.sentences}
    counts = INDEX.counts_of(SHARDS.open(folder).manifest)

    # Both shards have the last sentence with each title.
    assert len(texts) == 52 and counts.sentence_vectors == 56
    assert "56 sentence vectors" in index.summary(folder) and not counts.answers
    contents = json.loads(next((folder / "shards").glob("0*/shard.json")).read_text())
    (stored,) = contents["codes"]
    assert (stored["form"], stored["width"]) == ("fp16", 16 * 32)
    assert {f"codes/{stored['model']}/{name}.arrow" for name in ("answers", "bits")} <= contents[
        "files"
    ].keys()
    assert costs(folder)["sentences_encoded"] == 0 < 30 < costs(folder)["sentences_stored"]

    assert "encoded" not in rerank.summary(folder)

    def refuse(*_: object) -> None:
        raise AssertionError("a sentence is encoded")

    asked: list[int] = []
    monkeypatch.setattr(Encoder, "encode_sentences", refuse)
    monkeypatch.setattr(Encoder, "encode_passages", refuse)
    encode = Encoder.encode_questions
    monkeypatch.setattr(
        Encoder, "encode_questions", lambda self, texts: (asked.append(len(texts)), encode(self, texts))[1]
    )
    lists = list(ranked_lists(RETRIEVED.open(folder).read()))
    outcomes = run_stages(lists, load_plan(this, folder))
    assert [row for outcome in outcomes for row in outcome.rows()] == scored(folder) and asked == [6]

    with pytest.raises(AssertionError, match="a sentence is encoded"):
        run_stages(lists, load_plan(this))


def test_the_order_is_that_without_the_store_and_scores_are_near(
    sample: tuple[Job, Path], plain: Path
) -> None:
    with_store, without = last_scores(scored(sample[1])), last_scores(scored(plain))
    assert [row[:2] for row in with_store] == [row[:2] for row in without] and len(without) == 30
    differences = [abs(a[2] - b[2]) for a, b in zip(with_store, without, strict=True)]
    assert max(differences) < 1e-3
    assert len({score for _, _, score in without}) > 20
    assert not [key for key in costs(plain) if "sentences" in key]  # nothing is stored, read or counted
    assert not list((plain / "shards").rglob("codes"))


def test_int8_is_within_a_hundredth_in_half_the_bytes(
    sample: tuple[Job, Path], plain: Path, encoder: Path, tmp_path: Path
) -> None:
    small = run(job(tmp_path, encoder, INT8 + "\nname = 'other'"))
    exact = {
        row.candidate_id + row.question_id: row.stages[-1].score
        for row in scored(plain)
        if len(row.stages) == 2
    }
    rounded = {
        row.candidate_id + row.question_id: row.stages[-1].score
        for row in scored(small)
        if len(row.stages) == 2
    }
    differences = [abs(score - exact[key]) for key, score in rounded.items()]
    assert exact.keys() == rounded.keys() and 0 < max(differences) < 0.01

    assert costs(small, "other")["sentences_encoded"] == 0 < costs(small, "other")["sentences_stored"]
    (stored,) = json.loads(next((small / "shards").glob("0*/shard.json")).read_text())["codes"]
    assert (stored["form"], stored["width"]) == ("int8", 8 * (4 + 32))


def test_what_is_not_stored_is_encoded_and_counted_with_the_same_scores(
    sample: tuple[Job, Path], tmp_path: Path
) -> None:
    this, folder = sample
    anew = without_shards(this, folder, tmp_path)
    assert scored(anew) == scored(folder)
    assert costs(anew)["sentences_encoded"] == costs(folder)["sentences_stored"] > 0
    assert costs(anew)["sentences_stored"] == 0
    number = costs(anew)["sentences_encoded"]
    assert f"similarity: {number} sentences without a stored vector, encoded" in rerank.summary(anew)


def test_three_shards_and_small_blocks_give_the_same_scores(
    sample: tuple[Job, Path], encoder: Path, tmp_path: Path
) -> None:
    other = run(job(tmp_path, encoder, shards=3, block=1))
    assert len(list((other / "shards").glob("0*"))) == 3
    assert scored(other) == scored(sample[1])


@pytest.mark.parametrize("change", ["encoder", "encoder_tokens", "form", "context"])
def test_vectors_of_another_encoder_form_or_context_are_refused(
    sample: tuple[Job, Path], encoder: Path, tmp_path: Path, change: str
) -> None:
    _, folder = sample
    stage = {"form": INT8, "context": 'stored = "fp16"'}.get(change, FP16)
    other = job(tmp_path, write_dense(tmp_path / "other", seed=1) if change == "encoder" else encoder, stage)

    if change == "encoder_tokens":
        text = (tmp_path / "job.toml").read_text().replace("[retrieve]", "encoder_tokens = 32\n\n[retrieve]")
        (tmp_path / "job.toml").write_text(text)
        other = load(tmp_path / "job.toml")

    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("scored", "answers"))
    with pytest.raises(ShardMismatch, match=r"sentence vectors are of encoder and settings .*another --out"):
        run(other, None, "rerank")
    with pytest.raises(JobError, match="holds the output of another job") as refusal:
        index.index(other, tmp_path / "run")
    if change in ("form", "context"):
        assert "sentence vectors of similarity" in str(refusal.value)


def test_two_stages_of_one_form_and_context_share_their_vectors(encoder: Path, tmp_path: Path) -> None:
    again = '\n[[rerank.stages]]\nreranker = "similarity"\nname = "{}"\n{}\n'
    this = job(tmp_path, encoder)
    assert len(sentence_codes.planned(this)) == 1
    stages = "".join(again.format(*each) for each in (("same", FP16), ("small", INT8), ("no", NONE)))
    (tmp_path / "job.toml").write_text((tmp_path / "job.toml").read_text() + stages)
    assert [stage.key for stage in sentence_codes.planned(load(tmp_path / "job.toml")).values()] == [
        "same",
        "small",
    ]


def test_a_job_in_which_nothing_can_hold_vectors_is_refused_at_launch(
    sample: tuple[Job, Path], encoder: Path, tmp_path: Path
) -> None:
    _, folder = sample
    text = (job(tmp_path, encoder).folder / "job.toml").read_text()
    alone = text[: text.index("[retrieve]")] + text[text.index("[[rerank") :]
    (tmp_path / "job.toml").write_text(alone)
    this = load(tmp_path / "job.toml")

    for refused in (lambda: check_stages(this, tmp_path / "run"), lambda: load_plan(this)):
        with pytest.raises(
            JobError, match=r"rerank.stages.1 \(similarity\): stored = 'fp16', but nothing is indexed"
        ) as error:
            refused()
        assert error.value.code == SETTINGS

    check_stages(this, folder)  # whose shards hold them
    (tmp_path / "job.toml").write_text(text.replace('"overlap"', '"overlap"\nstored = "fp16"'))
    with pytest.raises(JobError, match="stored"):
        load(tmp_path / "job.toml")
