"""A URL that cannot be read is refused, and nothing is created under its name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.pipelines.config.local_paths import local_path

SCHEMES = ("hdfs", "memory", "file", "ftp")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("place", ["job", "out", "input", "questions", "sample"])
def test_a_url_is_refused_before_anything_is_created(
    scheme: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"{scheme}://bucket/folder/x.jsonl"
    lines = {"input": f'[ingest]\ninput = ["{url}"]\n', "questions": f'[retrieve]\nquestions = "{url}"\n'}
    (tmp_path / "pages.jsonl").write_text('{"id": "1", "text": "Ice."}\n')
    (tmp_path / "job.toml").write_text(lines.get(place, '[ingest]\ninput = ["pages.jsonl"]\n'))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    command = ["run", url if place == "job" else "job.toml", "--out", url if place == "out" else "run"]
    with pytest.raises(SystemExit) as e:
        main(["sample", "--out", url] if place == "sample" else command)
    assert e.value.code == 78

    why = (
        "paths on mounted file systems only here"
        if place == "sample"
        else "of URLs only s3://, gs://, abfs://, abfss://, https://, http:// are read"
    )
    assert f"{url}: {why}" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_run_is_written_to_a_web_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages.jsonl").write_text('{"id": "1", "text": "Ice."}\n')
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["pages.jsonl"]\n')
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as e:
        main(["run", "job.toml", "--out", "https://host.example/run"])
    assert e.value.code == 78
    assert "https://host.example/run: https:// is only read" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(find_spec("gcsfs") is not None, reason="runs where gcsfs is not installed")
def test_a_store_whose_library_is_missing_is_refused_with_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as e:
        main(["status", "gs://bucket/run"])
    assert e.value.code == 69
    assert "gs://bucket: gs:// needs `pip install 'answermill[gcs]'`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "sample --out URL",
        "evaluate overlap --labels x --json URL",
        "collect URL x.json",
        "dataset URL",
        "candidates URL --out run",
        "passages URL --out out",
        "sentences URL --out out --name x --licence y",
        "publish URL --out out --name x --licence y",
        "train train.toml --out URL",
        "train URL --out out",
    ],
)
def test_a_command_that_reads_no_store_says_so_in_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as e:
        main(command.replace("URL", "s3://bucket/x").split())
    said = capsys.readouterr().err
    assert (e.value.code, said.count("\n")) == (78, 1), said
    assert "s3://bucket/x: " in said and "mounted file system" in said
    assert list(tmp_path.iterdir()) == []


def test_other_paths_stay_as_they_are_written() -> None:
    for path in ("run", "/data/run:1", "a:b/c", "C:/run"):
        assert local_path(path) == Path(path)
    assert local_path("~/run") == Path.home() / "run"
