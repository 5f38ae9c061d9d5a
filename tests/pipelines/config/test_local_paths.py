"""A URL is refused with exit code 78, and nothing is created under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.__main__ import main
from pipelines.config.local_paths import local_path

SCHEMES = ("s3", "gs", "hdfs", "memory", "file", "https")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("place", ["job", "out", "input", "questions", "sample"])
def test_a_url_is_refused_before_anything_is_created(
    scheme: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert f"{url}: paths on mounted file systems only" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_other_paths_stay_as_they_are_written() -> None:
    for path in ("run", "/data/run:1", "a:b/c", "C:/run"):
        assert local_path(path) == Path(path)
    assert local_path("~/run") == Path.home() / "run"
