"""Whole files go to an object store and come from it; what is asked of its paths is answered as by a
disk's."""

from __future__ import annotations

import ast
import os
import pickle
import re
import tempfile
from pathlib import Path

import pytest

from answermill.files import copies, remote
from answermill.files.atomic_files import (
    ListedFile,
    change_of,
    changes,
    file_size,
    replacing,
    sha256,
    write_text,
)
from answermill.files.extras import ExtraMissing
from answermill.files.remote import NotHere, Remote, as_path, listed
from answermill.files.store import CACHE, Changed, fetch, fetch_tree, publishing, remove_tree, store_of
from testing.object_store import ObjectStore

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(
    s3: ObjectStore, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Remote:
    """A folder of the store, and a cache, of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    s3.requests.clear()
    return s3.folder(request.node.name)


def test_a_url_is_a_path() -> None:
    run = as_path("s3://bucket/a/run")
    assert str(run / "scored" / "x.parquet") == "s3://bucket/a/run/scored/x.parquet"
    assert (
        str(run.parent) == "s3://bucket/a"
        and run.name == "run"
        and (run / "scored").relative_to(run) == Path("scored")
    )
    assert (
        as_path(Path("s3://bucket/a/run")) == run
        and as_path(run) == run
        and pickle.loads(pickle.dumps(run)) == run
    )

    assert str((run / "../other/x").resolve()) == "s3://bucket/a/other/x"
    assert as_path("a/b") == Path("a/b") and not isinstance(as_path("a/b"), Remote)


def test_a_url_that_cannot_be_read_is_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotHere, match=r"^hdfs://host/x: of URLs only s3://, gs://, .* are read"):
        as_path("hdfs://host/x")
    monkeypatch.setitem(remote.EXTRAS, "oss", "none")
    with pytest.raises(ExtraMissing, match=r"pip install 'answermill\[none\]'"):
        as_path("oss://host/x")


def test_what_wants_a_file_of_this_machine_refuses_a_url() -> None:
    for ask in (os.fspath, open, os.mkdir, Path.touch, Path.open):
        with pytest.raises(NotHere, match="s3://bucket/x: a path on a mounted file system is needed"):
            ask(Remote("s3://bucket/x"))


def test_a_folder_of_a_store_answers_as_one_of_a_disk(folder: Remote, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    answers = []
    for base in (disk, folder):
        for name in ("unit-1.json", "unit-2.json", "deep/part-[1].txt"):
            write_text(base / name, name)
        (base / "unit-2.json").unlink()
        (base / "absent").unlink(missing_ok=True)
        below = {path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file()}
        answers.append(
            (
                [
                    sorted(path.name for path in each)
                    for each in (base.iterdir(), base.glob("unit-*.json"), base.glob("*/*"))
                ],
                [(base / name).exists() for name in ("", "deep", "deep/part-[1].txt", "unit-2.json", "dee")],
                [(base / name).is_dir() for name in ("", "deep", "deep/part-[1].txt", "unit-2.json", "dee")],
                [(base / name).is_file() for name in ("", "deep", "deep/part-[1].txt", "unit-2.json", "dee")],
                [(base / "deep/part-[1].txt").read_text(), (base / "unit-1.json").stat().st_size],
                sha256(base / "unit-1.json"),
                below,
            )
        )

        with listed(base):
            assert (base / "deep").is_dir() and (base / "unit-1.json").stat().st_size == 11
            assert not (base / "unit-2.json").exists()

        with pytest.raises(FileNotFoundError):
            (base / "unit-2.json").read_text()
        remove_tree(base)
        assert not base.exists()
        remove_tree(base)

    assert answers[0] == answers[1]


def test_a_store_finds_and_reads_files_as_a_disk_does(folder: Remote, tmp_path: Path) -> None:
    answers = []
    for base in (tmp_path / "disk", folder):
        for name in ("a-1.txt", "a-2.txt", "deep/b.txt"):
            write_text(base / name, name)
        store = store_of(base / "a-1.txt")
        with pytest.raises(FileNotFoundError, match=r"no-such: no such file"):
            store_of(base / "no-such").known()
        before = store.version()
        write_text(base / "a-1.txt", "other")
        answers.append(
            (
                sorted(path.relative_to(base).as_posix() for path in store_of(base).files()),
                sorted(path.name for path in store_of(base / "a-*.txt").matches()),
                store.known().name,
                (store.version() == before, store.version() == store_of(base / "a-1.txt").version()),
                [store.read_range(1, 3), store.read_range(3, 99), b"".join(store.blocks(2))],
            )
        )

    assert answers[0] == answers[1]
    assert answers[0][3] == (False, True)


def test_a_place_says_what_may_be_done_in_it(tmp_path: Path) -> None:
    disk, bucket, web = (
        store_of(as_path(path)) for path in (tmp_path, "s3://bucket/run", "https://host/file")
    )
    for store, answers in ((disk, True), (bucket, False), (web, False)):
        assert (store.is_local, store.has_locks, store.has_half_written, store.is_quick) == (answers,) * 4
    assert [store.is_listed for store in (disk, bucket, web)] == [True, True, False]
    assert disk.at_once == 1 < web.at_once < bucket.at_once
    with pytest.raises(NotHere, match="https:// is only read"):
        web.check()


def test_of_a_listed_folder_nothing_more_is_asked(folder: Remote, s3: ObjectStore) -> None:
    for n in range(3):
        write_text(folder / f"part-{n}", "x")
    s3.requests.clear()
    with listed(folder):
        assert [(folder / f"part-{n}").stat().st_size for n in range(3)] == [1, 1, 1] and folder.is_dir()
    assert len(s3.requests) == 1


def test_a_file_s_change_takes_one_request(folder: Remote, s3: ObjectStore, tmp_path: Path) -> None:
    for base in (tmp_path, folder):
        write_text(base / "part", "x")
        write_text(base / "shard" / "codes", "y")
        names = ("part", "absent", "shard", "part/below")
        assert [file_size(base / name) for name in names] == [1, None, None, None]
        assert (
            change_of(base / "part", ListedFile(2, ""), False) == f"{base}/part has 1 bytes, 2 were written"
        )
    s3.requests.clear()
    assert list(changes(folder, {"part": ListedFile(1, "")}, False)) == [] and len(s3.requests) == 1


def test_a_file_gets_its_name_whole_or_not_at_all(folder: Remote, s3: ObjectStore) -> None:
    with pytest.raises(RuntimeError), replacing(folder / "a") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert not folder.exists() and not s3.count("PUT")
    with replacing(folder / "a") as temporary:
        temporary.write_text("one")
    assert [path for path in s3.requests if path[0] in ("PUT", "POST")] == [
        ("PUT", f"/bucket/{folder.name}/a")
    ]
    assert list(CACHE.folder.iterdir()) == []


def test_of_two_that_must_be_new_the_first_stays(folder: Remote) -> None:
    assert write_text(folder / "a", "one", replace=False)
    assert not write_text(folder / "a", "two", replace=False)
    assert (folder / "a").read_text() == "one"
    assert write_text(folder / "a", "three") and (folder / "a").read_text() == "three"


def test_a_folder_is_put_with_the_file_that_lists_it_at_the_end(folder: Remote, s3: ObjectStore) -> None:
    with publishing(folder, "shard.json") as new:
        for name in ("a", "shard.json", "z/b"):
            write_text(new / name, name)
    assert [path for method, path in s3.requests if method == "PUT"][-1].endswith("/shard.json")
    assert {path.name for path in fetch_tree(folder).rglob("*")} == {"a", "shard.json", "z", "b"}


def test_a_copy_comes_once_and_is_checked_when_it_comes(folder: Remote, s3: ObjectStore) -> None:
    write_text(folder / "a.txt", "one")
    digest = sha256(folder / "a.txt")
    s3.requests.clear()
    for _ in range(3):
        assert fetch(folder / "a.txt", digest).read_text() == "one"
    assert s3.count("GET") == 1
    with pytest.raises(Changed, match=r"a.txt was changed since it was written"):
        fetch(folder / "a.txt", "0" * 64)
    with pytest.raises(Changed):
        fetch_tree(folder, {"a.txt": "0" * 64})

    write_text(folder / "a.txt", "two")
    assert fetch(folder / "a.txt").read_text() == "two", "without a digest it is the present one"
    assert fetch(folder / "a.txt", digest).read_text() == "one"


def test_copies_that_were_not_used_for_longest_go_first(
    folder: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CACHE, "limit", 2_500)
    monkeypatch.setattr(copies, "IN_USE_S", -10)
    for n in range(3):
        write_text(folder / str(n), "x" * 1_000)
    first = [fetch(folder / "0"), fetch(folder / "1")]
    for age, copy in zip((100, 200), first, strict=True):
        os.utime(copy.parent, (1_700_000_000 - age,) * 2)
    killed = CACHE.folder / "new-999999999-0"
    killed.mkdir()

    third = fetch(folder / "2")
    assert first[0].exists() and not first[1].exists() and third.exists() and not killed.exists()
    monkeypatch.setattr(copies, "IN_USE_S", 600)
    monkeypatch.setattr(CACHE, "limit", 0)
    fetch(folder / "1")
    assert third.exists(), "who asked for it just now may still open it"


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [(503, OSError, "the store did not do it"), (403, PermissionError, "the store refuses the credentials")],
)
def test_what_a_store_refuses_is_an_error_that_names_the_object(
    folder: Remote, s3: ObjectStore, status: int, error: type[Exception], message: str
) -> None:
    with (
        s3.failing(lambda method, path: status),
        pytest.raises(error, match=re.escape(f"{folder}/a: {message}")),
    ):
        write_text(folder / "a", "one")
    assert not folder.exists()


def test_a_busy_store_is_asked_again(folder: Remote, s3: ObjectStore) -> None:
    refusals = iter([503, 503, 0])
    with s3.failing(lambda method, path: next(refusals, None)):
        write_text(folder / "a", "one")
    assert (folder / "a").read_text() == "one"


def test_a_bucket_that_is_not_there_is_named(s3: ObjectStore) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"s3://nobody/a: no such file in the store, or no such bucket"
    ):
        write_text(Remote("s3://nobody/a"), "one")


def test_nothing_is_streamed_to_its_name() -> None:
    """Only `put` hands anything to a store's library that writes; one place opens objects, to read them."""
    writers = {"put_file", "put", "pipe", "pipe_file", "open", "touch", "mv", "cp_file", "copy", "upload"}
    calls = set()
    for top in ("schemas", "files", "indexing", "ranking", "pipelines", "answermill"):
        for file in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr=method, value=ast.Attribute(attr="filesystem")),
                        args=arguments,
                    ) if method in writers:
                        modes = [
                            argument.value for argument in arguments[1:] if isinstance(argument, ast.Constant)
                        ]
                        calls.add((file.relative_to(ROOT).as_posix(), " ".join([method, *map(str, modes)])))
                    case ast.ImportFrom(module=str(name)) if name.split(".")[0] in (
                        "s3fs",
                        "gcsfs",
                        "adlfs",
                        "cloudpathlib",
                    ):
                        calls.add((file.relative_to(ROOT).as_posix(), name))

    assert calls == {("files/object_store.py", "put_file"), ("files/object_store.py", "open rb")}
