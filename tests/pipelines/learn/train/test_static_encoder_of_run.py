"""The command `static-encoder`: what it learns from a run is nearer to the teacher than single tokens are,
serves as the job's encoder, and is refused where it cannot be learnt."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from answermill.files.model_files import SUMS, check_sums
from answermill.indexing.shards.dense import Encoder, Vectors
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS
from answermill.pipelines.steps.models import dense_encoder
from testing import command
from testing.tiny import write_dense

call = partial(command.call, "static-encoder")
TEXTS = ["A cave within the ice.", "What is circular motion?", "wind", "Who sang it? " * 90]


def table(shown: str) -> dict[str, tuple[float, float]]:
    """Line of the table → percentages with the teacher's questions, and with its own."""
    rows = [line.rsplit(maxsplit=4) for line in shown.splitlines() if line.endswith(" %")]
    return {title.strip(): (float(first), float(second)) for title, first, _, second, _ in rows}


@pytest.fixture(scope="module")
def learnt(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The encoder's folder, and what the command has printed. The run's shards have the teacher's vectors, so
    the teacher may encode no passage."""
    out, teacher = tmp_path_factory.mktemp("static") / "encoder", small_run.parent / "encoder"
    encode = Encoder.encode_passages

    def only_static(self: Encoder, texts: list[tuple[str, str]]) -> Vectors:
        assert self.name != str(teacher)
        return encode(self, texts)

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as shown:
        patch.setattr(Encoder, "encode_passages", only_static)
        assert call(small_run, "--out", out, "--teacher", teacher) == 0
    return out, shown.getvalue()


def test_what_is_learnt_finds_more_of_the_teachers_lists_than_single_tokens(
    learnt: tuple[Path, str],
) -> None:
    _, shown = learnt
    shares = table(shown)
    assert "learnt from 140 passages; compared on 35 others" in shown
    assert "of the first 8" in shown and list(shares) == ["single tokens", "learnt"]
    (before, _), (after, _) = shares.values()  # a random model's questions are far from its passages
    assert before + 10 < after


def test_what_is_learnt_loads_in_sentence_transformers_with_the_same_vectors(
    small_run: Path, learnt: tuple[Path, str]
) -> None:
    from sentence_transformers import SentenceTransformer

    out, _ = learnt
    vectors = dense_encoder(str(out)).encode_sentences(TEXTS)
    assert vectors == pytest.approx(SentenceTransformer(str(out), device="cpu").encode(TEXTS), abs=1e-6)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    check_sums(out)
    card = (out / "README.md").read_text()
    assert (out / SUMS).is_file() and str(small_run.parent) not in card
    assert card.count(" %\n") == 2 and "on 140 passages" in card


def test_other_questions_are_compared_and_change_nothing_that_is_learnt(
    small_run: Path, learnt: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "questions.jsonl", tmp_path / "out"
    file.write_text(json.dumps({"question_id": "1", "text": "Where is the ice?"}) + "\n")
    teacher = small_run.parent / "encoder"
    assert call(small_run, "--out", out, "--teacher", teacher, "--questions", file) == 0
    shares = table(capsys.readouterr().out)
    assert shares != table(learnt[1])
    assert all((share / 12.5).is_integer() for pair in shares.values() for share in pair)  # of 8 passages
    first, again = (folder / "model.safetensors" for folder in (learnt[0], out))
    assert first.read_bytes() == again.read_bytes()


def test_what_cannot_be_learnt_is_refused_and_leaves_nothing(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher, full = small_run.parent / "encoder", tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    loose = write_dense(tmp_path / "loose")
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    (loose / "modules.json").write_text(json.dumps(modules))
    refused = {
        OUTPUT_EXISTS: ([small_run, "--out", full, "--teacher", teacher], "has files; give another folder"),
        BAD_DATA: (
            [small_run, "--out", tmp_path / "out", "--teacher", teacher, "--passages", 99],
            "give 99 passages; give 100 or more",
        ),
        INPUT_MISSING: ([tmp_path / "no", "--out", tmp_path / "out"], "no such file or folder"),
        SETTINGS: (
            [small_run, "--out", tmp_path / "out", "--teacher", loose, "--passages", 100],
            "are not of length 1, and those of a static encoder are; give another --teacher",
        ),
    }
    for code, (arguments, reason) in refused.items():
        assert call(*arguments) == code
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_job_takes_the_learnt_encoder_as_it_takes_any(
    small_run: Path, learnt: tuple[Path, str], tmp_path: Path
) -> None:
    """With the teacher for its questions."""
    from answermill.pipelines.config.job_file import load
    from answermill.pipelines.specs.retrieve import RETRIEVED
    from answermill.pipelines.steps.chain import run_steps

    names = {"encoder": str(learnt[0]), "question_encoder": str(small_run.parent / "encoder")}
    job = load(small_run.parent / "job.toml")
    job = job.model_copy(update={"index": job.index.model_copy(update=names)})
    run = tmp_path / "run"
    run.mkdir()
    for name in ("documents", "passages", "rejects", "inputs.json"):
        (run / name).symlink_to(small_run / name)
    list(run_steps(job, run, ["index", "retrieve"], ()))
    assert sum(hit.dense_rank is not None for hit in RETRIEVED.open(run).read()) > 100
