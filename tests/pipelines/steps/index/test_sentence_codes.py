"""The stage `hashing` over a run: index stores the bits of its sentences, rerank reads them, and scores do
not feel it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from answermill.files.atomic_files import sha256
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.indexing.shards.sentence_codes import SentenceCodes
from answermill.indexing.shards.shard import stored_codes
from answermill.indexing.shards.shard_files import ShardDamaged, ShardMismatch
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.rerank import RERANK, SCORED, StageCounts
from answermill.pipelines.steps import job_plan, models
from answermill.pipelines.steps.chain import run_steps, steps_of
from answermill.pipelines.steps.index import index, sentence_codes
from answermill.pipelines.steps.index.passage_rows import rows_between
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.context import Reading
from answermill.ranking.rerankers.hashing import hashing_model
from answermill.ranking.rerankers.hashing.hashing import AnswerCoder, Hashing
from answermill.ranking.rerankers.hashing.hashing_model import SENTENCE, HashingModel, Variant
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.schemas.ranked import ScoredCandidate
from testing.tiny import checkpoint as write_checkpoint

SHAPE = Shape(layers=2, width=32, heads=2, inner=64, vocabulary=30_522, positions=64)
LIMIT = 12
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine")
JOB = """
[ingest]
input = ["pages.jsonl"]
min_words = 5
passage_words = 20

[index]
shards = {shards}

[retrieve]
questions = "questions.jsonl"
depth = 6
block = {block}

[[rerank.stages]]
reranker = "overlap"
keep = 20

[[rerank.stages]]
reranker = "hashing"
checkpoint = "{checkpoint}"
keep = 5
"""


def checkpoint(folder: Path, seed: int = 0, variant: Variant = "has", reading: Reading = SENTENCE) -> str:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(seed)
    model = HashingModel(LayeredEncoder(SHAPE), variant, 8, reading=reading)
    for weight in model.parameters():
        weight.data *= 4
    hashing_model.save(folder, model, Tokeniser(find_model(DEFAULT), LIMIT))
    return str(folder)


def sentence(subject: str, number: int) -> str:
    return (
        f"The {subject} of page {number} is seen by {number + 2} "
        f"people{' who came from very far away' * (number % 3)}."
    )


def job(folder: Path, checkpoint_folder: str, shards: int = 2, block: int = 64) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    pages = [
        {
            "id": f"d{n}",
            "text": " ".join([*(sentence(s, n) for s in SUBJECTS), "All pages end with this sentence."]),
            "title": "T",
        }
        for n in range(8)
    ]
    questions = [
        {"question_id": f"q{n}", "text": f"Which {subject} is seen?"} for n, subject in enumerate(SUBJECTS)
    ]
    for name, rows in (("pages", pages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    (folder / "job.toml").write_text(JOB.format(shards=shards, block=block, checkpoint=checkpoint_folder))
    return load(folder / "job.toml")


def run(hashing_job: Job) -> Path:
    list(run_steps(hashing_job, hashing_job.folder / "run", steps_of(hashing_job), ()))
    return hashing_job.folder / "run"


def scored(run_folder: Path) -> list[ScoredCandidate]:
    return list(SCORED.open(run_folder).read())


def stage_counts(run_folder: Path) -> StageCounts:
    return RERANK.counts_of(SCORED.open(run_folder).manifest).stages["hashing"]


def costs(run_folder: Path) -> Counter[str]:
    return Counter(stage_counts(run_folder).costs)


def rerank_without_shards(hashing_job: Job, done: Path, to: Path) -> Path:
    for name in ("documents", "questions", "retrieved"):
        shutil.copytree(done / name, to / name)
    list(run_steps(hashing_job, to, ["rerank"], ()))
    return to


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    folder = tmp_path_factory.mktemp("hashing")
    hashing_job = job(folder, checkpoint(folder / "checkpoint"))
    return hashing_job, run(hashing_job)


def test_index_stores_each_sentence_once_in_a_shard_and_rerank_encodes_none(sample: tuple[Job, Path]) -> None:
    hashing_job, folder = sample
    counts = INDEX.counts_of(SHARDS.open(folder).manifest)
    texts = [s.text for p in PASSAGES.open(folder).read() for s in p.sentences]
    assert len(texts) > len(set(texts)) == 49
    # The last sentence of all pages is in both shards.
    assert counts.answers == 50 and counts.answers_cut > 10
    assert f"50 answers as bits, {counts.answers_cut} of them cut" in index.summary(folder)
    spent = costs(folder)
    assert 60 < stage_counts(folder).incoming <= 120 and spent["answers_stored"] > 40
    assert spent["answers"] == 0 < spent["answers_cut"]
    assert len(sentence_codes.planned(hashing_job)) == 1


def test_the_score_is_the_same_with_and_without_the_store(sample: tuple[Job, Path], tmp_path: Path) -> None:
    hashing_job, folder = sample
    without = rerank_without_shards(hashing_job, folder, tmp_path)
    assert scored(without) == scored(folder)
    assert costs(without)["answers"] == costs(folder)["answers_stored"] > 0
    assert costs(without)["answers_cut"] == costs(folder)["answers_cut"]
    assert costs(without)["answers_stored"] == 0
    last = [row.stages[-1].score for row in scored(folder) if row.fate == "kept"]
    assert len(last) == 30 and len(set(last)) > 20


def test_the_codes_of_a_checkpoint_that_reads_more_are_of_all_that_it_reads(
    sample: tuple[Job, Path], tmp_path: Path
) -> None:
    _, of_sentences = sample
    folder = run(
        job(
            tmp_path / "with",
            checkpoint(tmp_path / "reads", reading=Reading(("title", "sentence", "previous"))),
        )
    )
    assert costs(folder)["answers"] == 0 < costs(folder)["answers_stored"]
    assert costs(folder)["without_previous"] > 0 == costs(folder)["without_title"]

    (tmp_path / "without").mkdir()
    assert scored(
        rerank_without_shards(load(tmp_path / "with/job.toml"), folder, tmp_path / "without")
    ) == scored(folder)
    assert {row.candidate_id: row.stages for row in scored(folder)} != {
        r.candidate_id: r.stages for r in scored(of_sentences)
    }


def test_a_stage_that_stores_nothing_gives_the_same_scores(sample: tuple[Job, Path], tmp_path: Path) -> None:
    hashing_job, folder = sample
    unstored = job(tmp_path, str(hashing_job.path("checkpoint")))
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(
        text.replace('reranker = "hashing"', 'reranker = "hashing"\nstored = false')
    )
    without = run(load(tmp_path / "job.toml"))
    assert sentence_codes.planned(unstored) and not sentence_codes.planned(load(tmp_path / "job.toml"))
    assert scored(without) == scored(folder)
    assert costs(without)["answers"] == costs(folder)["answers_stored"] > 0
    assert not list((without / "shards").rglob("*.arrow"))


def test_three_shards_and_small_blocks_give_the_same_scores(sample: tuple[Job, Path], tmp_path: Path) -> None:
    hashing_job, folder = sample
    other = run(job(tmp_path, str(hashing_job.path("checkpoint")), shards=3, block=1))
    assert len(list((other / "shards").glob("0*"))) == 3
    assert scored(other) == scored(folder)


def test_an_index_that_was_stopped_ends_with_the_same_codes(sample: tuple[Job, Path], tmp_path: Path) -> None:
    hashing_job, folder = sample
    shutil.copytree(folder / "passages", tmp_path / "passages")
    this = index.step_of(hashing_job, tmp_path)
    Commit(this).begin()
    passages = PASSAGES.open(tmp_path)
    units = index.ranges(passages.rows, 2, 1)
    coders = sentence_codes.coders(hashing_job)
    settings = index.shard_settings(hashing_job, passage_encoder(hashing_job), coders)
    index.build(units[1], rows_between(passages, units[1].start, units[1].stop), settings, this)

    index.index(hashing_job, tmp_path)
    stopped, undisturbed = (sorted((run / "shards").rglob("*.arrow")) for run in (tmp_path, folder))
    assert len(undisturbed) == 4
    assert list(map(sha256, stopped)) == list(map(sha256, undisturbed))


def test_a_sentence_that_is_not_in_the_store_is_encoded_and_counted(sample: tuple[Job, Path]) -> None:
    hashing_job, folder = sample
    (digest,) = sentence_codes.planned(hashing_job)
    half = stored_codes(sorted((folder / "shards").glob("0*"))[:1], digest)
    assert isinstance(half, SentenceCodes)
    model, tokeniser = hashing_model.load(hashing_job.path("checkpoint"))
    texts = sorted({s.text for p in PASSAGES.open(folder).read() for s in p.sentences})
    there = [answer is not None for answer in half.find([(text,) for text in texts])]
    assert 10 < sum(there) < 40
    whole = AnswerCoder(model, tokeniser).encode([(text,) for text in texts])
    bits, finite = Hashing(model, tokeniser, half)._bits([(text,) for text in texts])
    assert b"".join(map(bytes, bits)) == whole.bits.tobytes() and finite.all()

    reranker = Hashing(model, tokeniser, half)
    reranker._bits([(text,) for text in texts])
    spent = reranker.costs()
    assert (spent["answers_stored"], spent["answers"]) == (sum(there), len(texts) - sum(there))
    assert spent["answers_cut"] == (whole.cut > 0).sum() and spent["tokens_cut"] == whole.cut.sum()


def test_the_store_of_another_model_is_refused_with_what_to_do(
    sample: tuple[Job, Path], tmp_path: Path
) -> None:
    _, folder = sample
    other = job(tmp_path, checkpoint(tmp_path / "other", seed=1))
    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("scored", "answers"))
    with pytest.raises(
        ShardMismatch, match=r"sentence codes are of checkpoint .*, the job's is .*another --out"
    ):
        list(run_steps(other, tmp_path / "run", ["rerank"], ()))
    with pytest.raises(JobError, match="holds the output of another job: input checkpoints of hashing"):
        index.index(other, tmp_path / "run")
    assert (
        rerank_without_shards(other, folder, tmp_path / "anew") and costs(tmp_path / "anew")["answers"] > 40
    )


def test_a_store_cut_short_is_refused_before_any_worker_starts(
    sample: tuple[Job, Path], tmp_path: Path
) -> None:
    hashing_job, folder = sample
    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("scored", "answers"))
    path = next((tmp_path / "run" / "shards").rglob("bits.arrow"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ShardDamaged, match=r"bits.arrow has .* bytes, .* were written"):
        list(run_steps(hashing_job, tmp_path / "run", ["rerank"], ()))


def test_models_that_do_not_hash_and_plans_without_them_store_nothing(
    sample: tuple[Job, Path], tmp_path: Path
) -> None:
    _, folder = sample
    floats = job(tmp_path, checkpoint(tmp_path / "attention", variant="attention"))
    assert sentence_codes.planned(floats) == {} and sentence_codes.coders(floats) == []
    shutil.copytree(folder / "passages", tmp_path / "run" / "passages")
    assert "checkpoints of hashing" not in index.step_of(floats, tmp_path / "run").inputs
    with pytest.raises(ValueError, match="variant 'attention' makes no bits"):
        AnswerCoder(*hashing_model.load(tmp_path / "attention"))
    missing = job(tmp_path / "missing", "nowhere")
    with pytest.raises(JobError, match=r"rerank.stages.1: .*nowhere is no checkpoint of hashing"):
        sentence_codes.planned(missing)


def test_a_rerank_command_checks_its_plan_and_digests_its_models_once(
    sample: tuple[Job, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashing_job, folder = sample
    shutil.copytree(folder, tmp_path / "run", ignore=shutil.ignore_patterns("scored", "answers"))
    write_checkpoint("cascade", tmp_path / "cascade")
    file, stage = tmp_path / "job.toml", '[[rerank.stages]]\nreranker = "cascade"\ncheckpoint = "cascade"\n'
    file.write_text((hashing_job.folder / "job.toml").read_text() + stage + 'missing_context = "refuse"\n')

    called = Counter[str]()

    def count(module: ModuleType, name: str, what: Callable[..., str]) -> None:
        function = getattr(module, name)

        def counted(*arguments: object) -> object:
            called[what(*arguments)] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, counted)

    count(job_plan, "check_plan", lambda stages: "plan")
    count(models, "folder_digest", lambda folder: folder.name)
    count(sentence_codes, "codes_digest", lambda job, number, stage, models: f"codes of {stage.key}")
    list(run_steps(load(file), tmp_path / "run", ["rerank"], ()))
    assert called == dict.fromkeys(
        ("plan", "checkpoint", "cascade", "codes of overlap", "codes of hashing", "codes of cascade"), 1
    )
    assert costs(tmp_path / "run")["answers_stored"] > 40


def test_hashing_stands_between_cosinet_and_peasi(sample: tuple[Job, Path], tmp_path: Path) -> None:
    _, folder = sample
    job(tmp_path, checkpoint(tmp_path / "hashing"))
    peasi_model.save(
        tmp_path / "peasi", PeasiModel(LayeredEncoder(SHAPE), "joint", 4), Tokeniser(find_model(DEFAULT), 64)
    )
    text = (tmp_path / "job.toml").read_text().replace('reranker = "overlap"', 'reranker = "cosinet"')
    text += "".join(
        f'[[rerank.stages]]\nreranker = "{name}"\ncheckpoint = "peasi"\n'
        for name in ("peasi.pr", "peasi.easi")
    )
    (tmp_path / "job.toml").write_text(text)

    rows = scored(rerank_without_shards(load(tmp_path / "job.toml"), folder, tmp_path / "run"))
    best = [row for row in rows if row.rank == 1]
    assert len(best) == len(SUBJECTS) and {row.unit for row in best} == {"sentence"}
    stages = {tuple(score.stage for score in row.stages) for row in rows}
    assert ("cosinet", "hashing", "peasi.pr", "peasi.easi") in stages and ("cosinet", "hashing") in stages
