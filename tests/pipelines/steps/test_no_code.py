"""No model folder runs code: what would need it is refused before any work, and a terminal is never asked."""

from __future__ import annotations

import ast
import json
import os
import pty
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.model_files import code_in
from answermill.indexing.shards.dense import ModelMissing, find_model, load_encoder
from answermill.pipelines.steps.models import load_transformer
from testing.tiny import checkpoint, write_dense

ROOT = Path(__file__).parents[3]
PRODUCT = ("schemas", "files", "indexing", "ranking", "pipelines", "answermill", "benchmarks")
LOADERS = {"from_pretrained", "CrossEncoder", "SentenceTransformer"}
MODELLING = """
from pathlib import Path
Path({mark!r}).write_text("it ran")
from transformers import BertConfig, BertModel
class MineConfig(BertConfig):
    model_type = "mine"
class MineModel(BertModel):
    config_class = MineConfig
"""


def plant(folder: Path, mark: Path) -> Path:
    """A model whose code writes a file as soon as it is imported."""
    write_dense(folder)
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "modelling.MineConfig", "AutoModel": "modelling.MineModel"}
    config |= {"model_type": "mine", "architectures": ["MineModel"], "auto_map": names}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modelling.py").write_text(MODELLING.format(mark=str(mark)))
    return folder


def test_the_planted_code_would_run(tmp_path: Path) -> None:
    import transformers

    plant(tmp_path / "model", tmp_path / "mark")
    transformers.AutoModel.from_pretrained(tmp_path / "model", trust_remote_code=True)
    assert (tmp_path / "mark").is_file()


@pytest.fixture
def on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Function that gives exit code and output of a command on a terminal at which somebody types y and
    Enter."""
    ours, theirs = pty.openpty()
    os.write(ours, b"y\ny\ny\n")

    def call(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as e:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(e.value.code or 0), said.out + said.err

    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield call
    os.close(ours)


def test_the_code_of_an_encoder_s_folder_never_runs(
    small_run: Path, tmp_path: Path, on_a_terminal: Callable[..., tuple[int, str]]
) -> None:
    plant(tmp_path / "planted", tmp_path / "mark")
    run = tmp_path / "run"
    shutil.copytree(small_run / "passages", run / "passages")
    (tmp_path / "job.toml").write_text('[index]\nencoder = "planted"\n[retrieve]\nquestions = "q.tsv"\n')
    code, output = on_a_terminal("index", tmp_path / "job.toml", "--out", run)
    line = output.splitlines()[-1]
    assert code == 69, output
    assert f"{tmp_path}/planted: its config.json names Python code (auto_map) for 'mine'" in line
    assert "[y/N]" not in output and "Traceback" not in output
    assert not (tmp_path / "mark").exists() and not (run / "shards").exists()


def test_the_code_of_a_checkpoint_s_transformer_never_runs(
    small_run: Path, tmp_path: Path, on_a_terminal: Callable[..., tuple[int, str]]
) -> None:
    checkpoint("cosinet", tmp_path / "cosinet")
    for name in ("vectors.safetensors", "sha256.json"):
        (tmp_path / "cosinet" / name).unlink()
    words = json.loads((tmp_path / "cosinet" / "words.json").read_text())
    planted = plant(tmp_path / "planted", tmp_path / "mark")
    words["source"] = {"model": str(planted), "sha256": "0" * 64, "dimension": 8}
    (tmp_path / "cosinet" / "words.json").write_text(json.dumps(words))
    shutil.copytree(small_run / "retrieved", tmp_path / "run" / "retrieved")
    (tmp_path / "job.toml").write_text('[[rerank.stages]]\nreranker = "cosinet"\ncheckpoint = "cosinet"\n')

    code, output = on_a_terminal("run", tmp_path / "job.toml", "--out", tmp_path / "run")
    assert code == 69, output
    assert "names Python code (auto_map)" in output.splitlines()[-1]
    assert (
        "[y/N]" not in output
        and not (tmp_path / "mark").exists()
        and not (tmp_path / "run" / "scored").exists()
    )


@pytest.mark.parametrize(
    ("file", "settings", "says"),
    [
        (
            "config.json",
            {"auto_map": {"AutoModel": "a.B"}, "model_type": "bert", "architectures": ["JinaBertModel"]},
            "config",
        ),
        (
            "config.json",
            {"auto_map": {"AutoModel": "a.B"}, "model_type": "none", "architectures": ["BertModel"]},
            "config",
        ),
        (
            "config.json",
            {"auto_map": {"AutoModel": "a.B"}, "model_type": "bert", "architectures": ["_LazyModule.x"]},
            "config",
        ),
        (
            "tokenizer_config.json",
            {"auto_map": {"AutoTokenizer": ["a.B", None]}, "tokenizer_class": "B"},
            "tokenizer_config",
        ),
        ("modules.json", [{"type": "custom_st.Transformer", "path": ""}], "custom_st.Transformer"),
    ],
)
def test_what_needs_code_of_its_own_is_refused(
    file: str, settings: object, says: str, tmp_path: Path
) -> None:
    write_dense(tmp_path)
    assert code_in(tmp_path) is None
    (tmp_path / file).write_text(json.dumps(settings))
    with pytest.raises(ModelMissing, match=rf"{says}.*never run here, give another model"):
        find_model(str(tmp_path))


def test_a_model_that_transformers_knows_is_loaded_by_transformers_own_code(tmp_path: Path) -> None:
    folder = write_dense(tmp_path)
    plain = load_encoder(load_transformer, str(folder)).encode_sentences(["ice"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "auto_map": {"AutoModel": "modelling.MineModel"}})
    )
    (folder / "modelling.py").write_text(MODELLING.format(mark=str(tmp_path / "mark")))
    assert load_encoder(load_transformer, str(folder)).encode_sentences(["ice"]) == pytest.approx(
        plain, abs=1e-5
    )
    assert not (tmp_path / "mark").exists()


def test_every_call_that_loads_a_model_says_that_no_code_is_trusted() -> None:
    calls = {}
    for path in (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if any(name in source for name in LOADERS) else ():
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "attr", getattr(node.func, "id", "")) in LOADERS
            ):
                trusts = [key.value for key in node.keywords if key.arg == "trust_remote_code"]
                calls[f"{path.relative_to(ROOT)}:{node.lineno}"] = [ast.unparse(value) for value in trusts]
    assert len(calls) >= 4
    assert {where: said for where, said in calls.items() if said != ["False"]} == {}
