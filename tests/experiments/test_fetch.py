"""A data set is downloaded, with patience and suspicion, or taken from a file that was brought; else the
command says what to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from experiments import fetch, published_download
from experiments.published_readers import readers
from experiments.published_sets import SETS, SOURCES, Source
from testing.listing import commands
from testing.web_server import Fault, WebServer, serving

ASKED = [
    {
        "section": "History",
        "question": "Who dug it?",
        "article": "Canal",
        "answers": [1],
        "candidates": ["", "Two men."],
    }
]
CONTENT = {split: json.dumps(ASKED * 200 if split == "test" else ASKED).encode() for split in ("dev", "test")}
LARGE = "selqa-ass-test.json"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """Has SelQA's files, with other content, whose digests are recorded."""
    (tmp_path / "www").mkdir()
    monkeypatch.setattr(published_download, "RETRIES", 0)
    with serving(tmp_path / "www") as server:
        sources = []
        for split, content in CONTENT.items():
            name = f"selqa-ass-{split}.json"
            (tmp_path / "www" / name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            sources.append(Source(f"{server.url}/{name}", name, len(content), digest))
        monkeypatch.setitem(SOURCES, "selqa", tuple(sources))  # type: ignore[index]
        yield server


def run(folder: Path, *words: str) -> int:
    return fetch.run([*words, "--data", str(folder / "data"), "--downloads", str(folder / "downloads")])


def test_a_set_is_downloaded_and_converted(server: WebServer, tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, "selqa") == 0
    rows = pq.read_table(tmp_path / "data/selqa/selqa-dev.parquet").to_pylist()
    assert [(row["sentence_index"], row["sentence"], row["label"]) for row in rows] == [
        (0, "", 0),
        (1, "Two men.", 1),
    ]
    assert rows[1] | {"sentence_index": 0} == {
        **{"question_id": "selqa-dev-0", "question": "Who dug it?", "sentence": "Two men.", "label": 1},
        **{"document_id": "Canal#History", "document_title": "Canal", "sentence_index": 0},
    }

    shown = capsys.readouterr()
    assert "selqa/selqa-test.parquet differ from what the saved results were measured on" in shown.out
    assert f"{LARGE}: " in shown.err and f" of {len(CONTENT['test']) / 1e6:,.1f} MB" in shown.err


def test_a_download_goes_on_where_it_broke_off(server: WebServer, tmp_path: Path) -> None:
    server.fault = lambda request, n: Fault(cut=5_000) if request.path.endswith(LARGE) and n == 0 else None
    assert run(tmp_path, "selqa") == 69
    part = tmp_path / f"downloads/selqa/{LARGE}.part"
    assert part.read_bytes() == CONTENT["test"][:5_000]

    assert run(tmp_path, "selqa") == 0
    assert server.requests[-1].range == (5_000, None) and not part.exists()
    assert (tmp_path / f"downloads/selqa/{LARGE}").read_bytes() == CONTENT["test"]
    assert server.count("GET") == 3, "what is there is not asked for again"


def test_a_server_without_ranges_gives_the_whole_file(server: WebServer, tmp_path: Path) -> None:
    (tmp_path / "downloads/selqa").mkdir(parents=True)
    (tmp_path / f"downloads/selqa/{LARGE}.part").write_bytes(b"of another time")
    server.fault = lambda request, n: Fault(whole=True)
    assert run(tmp_path, "selqa") == 0
    assert (tmp_path / f"downloads/selqa/{LARGE}").read_bytes() == CONTENT["test"]


def test_a_file_with_another_digest_is_refused(server: WebServer, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "www" / LARGE).write_bytes(CONTENT["dev"])
    assert run(tmp_path, "selqa") == 65
    digest = hashlib.sha256(CONTENT["dev"]).hexdigest()
    assert f"{LARGE}: SHA-256 is {digest}, not " in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "downloads/selqa").iterdir()] == ["selqa-ass-dev.json"]
    assert not (tmp_path / "data").exists()


def test_where_a_source_cannot_be_reached_the_message_says_how_to_bring_it(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    names = [source.name for source in SOURCES["selqa"]]
    nowhere = tuple(Source(f"http://127.0.0.1:9/{name}", name, None, None) for name in names)
    monkeypatch.setitem(SOURCES, "selqa", nowhere)  # type: ignore[index]
    assert run(tmp_path, "selqa") == 69
    message = capsys.readouterr().err
    folder = tmp_path / "downloads/selqa"
    assert "http://127.0.0.1:9/selqa-ass-dev.json: cannot be reached" in message
    assert SETS["selqa"].page in message
    assert f"put it into {folder} as selqa-ass-dev.json" in message

    assert "python -m experiments.fetch selqa --file selqa-ass-dev.json" in message

    for split, content in CONTENT.items():
        (folder / f"selqa-ass-{split}.json").write_bytes(content)
    assert run(tmp_path, "selqa") == 0, "as it said"


def test_a_missing_page_is_no_file(server: WebServer, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "www" / LARGE).unlink()
    assert run(tmp_path, "selqa") == 69
    assert "cannot be reached (HTTP 404" in capsys.readouterr().err


def test_files_that_were_brought_are_converted_without_a_request(server: WebServer, tmp_path: Path) -> None:
    files = [tmp_path / "www" / source.name for source in SOURCES["selqa"]]
    assert run(tmp_path, "selqa", *(word for file in files for word in ("--file", str(file)))) == 0
    assert (tmp_path / "data/selqa/selqa-test.parquet").is_file() and server.requests == []


def test_a_brought_file_is_checked_and_kept(server: WebServer, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / LARGE
    assert run(tmp_path, "selqa", "--file", str(file)) == 66
    file.write_bytes(b"[]")
    assert run(tmp_path, "selqa", "--file", str(file)) == 65 and file.read_bytes() == b"[]"
    assert run(tmp_path, "selqa", "--file", str(file.with_name("test.json"))) == 2
    message = "is no file of selqa; they are named selqa-ass-dev.json, selqa-ass-test.json"
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_bad_data(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    without_digest = tuple(Source(each.url, each.name, None, None) for each in SOURCES["selqa"])
    monkeypatch.setitem(SOURCES, "selqa", without_digest)  # type: ignore[index]
    (tmp_path / "www" / LARGE).write_bytes(CONTENT["test"][:-1])
    assert run(tmp_path, "selqa") == 65
    assert "not as it was published, or damaged (JSONDecodeError: " in capsys.readouterr().err


def test_a_set_made_by_hand_and_one_without_its_parts_say_so(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, "web-html") == 69
    assert "cannot be fetched. Packed by hand" in capsys.readouterr().err
    assert run(tmp_path, "corpus-wiki") == 66
    assert "type: python -m experiments.fetch wikiqa" in capsys.readouterr().err


def test_unknown_names_are_refused(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as e:
        run(tmp_path, "wikipedia")
    assert e.value.code == 2 and "known: wikiqa, selqa" in capsys.readouterr().err


def test_the_list_has_every_set_with_source_licence_and_readers(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    paragraphs = "\n".join(lines).split("\n    ")
    heads = [line.partition(":")[0] for line in lines if ": not there. " in line and "; licence: " in line]
    assert heads == list(SETS)
    assert sum(part.startswith("read by no study") for part in paragraphs) == 4
    assert any(
        part.startswith("from https://download.microsoft") and "467c13f9" in part for part in paragraphs
    )


def test_every_folder_that_a_study_names_is_of_a_set_that_knows_its_readers() -> None:
    read_by, seen = readers(), 0
    for study in commands(Path(fetch.__file__).parent):
        for folder in study.data:
            paths = {name: " ".join(file.path for file in each.files) for name, each in SETS.items()}
            names = [name for name in paths if f"{folder}/" in paths[name]]
            assert any(study.name in read_by[name] for name in names), (study.name, folder)
            seen += 1
    assert seen >= 4 and "retrieval" in read_by["cacm"] and read_by["trecqa"] == []
