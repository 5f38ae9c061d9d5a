"""The copy of the sample that people edit."""

from __future__ import annotations

import pytest

from answermill.__main__ import main
from answermill.pipelines.data.sample import FILES, copy_to, edited
from answermill.pipelines.errors import OUTPUT_EXISTS


def test_a_second_copy_keeps_what_was_edited_and_brings_back_what_is_missing(tmp_path):
    assert copy_to(tmp_path) == tmp_path / "job.toml"
    copied = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert edited(tmp_path) == [] and sorted(FILES) == sorted(copied)
    for name in FILES:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "labels.tsv").unlink()
    copy_to(tmp_path)
    kept = [tmp_path / name for name in FILES if name != "labels.tsv"]
    assert edited(tmp_path) == kept and all(path.read_bytes() == b"mine" for path in kept)
    assert (tmp_path / "labels.tsv").read_bytes().startswith(b"question_id")


def test_the_command_names_what_it_kept_and_asks_for_a_folder(tmp_path, capsys):
    copy_to(tmp_path)
    (tmp_path / "job.toml").write_text("[ingest]\ninput = ['web.warc.gz']\nwords = 1\n")
    for out, code in ((tmp_path, 78), (tmp_path / "labels.tsv", OUTPUT_EXISTS)):
        with pytest.raises(SystemExit) as e:
            main(["sample", "--out", str(out)])
        assert e.value.code == code
    shown = capsys.readouterr()
    assert shown.out == f"not the sample's, and kept as they are: {tmp_path / 'job.toml'}\n"
    assert shown.err.splitlines()[-1] == f"answermill: {tmp_path / 'labels.tsv'} is a file; give a folder"


def test_without_a_run_the_files_are_written_and_what_to_type_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit) as e:
        main(["sample", "--no-run", "--out", str(tmp_path / "web"), "--plan", "sure"])
    assert e.value.code in (None, 0) and edited(tmp_path / "web") == []
    typed = f"`answermill run {tmp_path / 'web' / 'sure.toml'} --out {tmp_path / 'web' / 'run-sure'}`"
    assert typed in capsys.readouterr().out and not (tmp_path / "web" / "run-sure").exists()
