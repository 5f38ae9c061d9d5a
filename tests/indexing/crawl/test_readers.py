"""Crawl files that were damaged at random: no reader raises, loses a sound page, or leaves a record
uncounted.

`python -m benchmarks.fuzz --minutes 60` throws for an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fuzz

CASES = [("records", 1795573746873)]  # no record was fetched
"""(target, seed) of what was once wrong."""


@pytest.fixture(scope="module", autouse=True)
def extractor() -> Iterator[None]:
    yield
    fuzz._extractor().close()
    fuzz._extractor.cache_clear()


@given(target=st.sampled_from(sorted(fuzz.TARGETS)), seed=st.integers(0, 2**40))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, target: str, seed: int
) -> None:
    assert fuzz.wrong(target, tmp_path_factory.mktemp("thrown"), seed) == []


def test_what_was_once_wrong_is_right(tmp_path: Path) -> None:
    assert [case for case in CASES if fuzz.wrong(case[0], tmp_path, case[1])] == []


def test_the_damage_is_real(tmp_path: Path) -> None:
    damaged = [fuzz._damaged(tmp_path / "a.gz", seed) for seed in range(50)]
    assert sum(content != sound for content, sound, _ in damaged) > 45
    assert len({where for _, _, where in damaged}) > 30


def without_the_first(read: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def reader(*arguments: Any) -> Iterator[Any]:
        return iter(list(read(*arguments))[1:] if "sound" not in str(arguments[0]) else read(*arguments))

    return reader


@pytest.mark.parametrize(("target", "name"), [("warc", "read_pages"), ("records", "record_pages")])
def test_a_reader_that_loses_a_page_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, name: str
) -> None:
    fuzz._responses()  # which reads the sample by the sound reader
    monkeypatch.setattr(fuzz, name, without_the_first(getattr(fuzz, name)))
    assert sum(bool(fuzz.wrong(target, tmp_path, seed)) for seed in range(20)) > 5


@pytest.mark.parametrize(("target", "name"), [("gzip", "ByteStream"), ("http", "page"), ("html", "parse")])
def test_a_reader_that_raises_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, name: str
) -> None:
    def raises(*_: object) -> None:
        raise IndexError("out of range")

    fuzz._pages()
    fuzz._responses()
    monkeypatch.setattr(fuzz, name, raises)
    assert fuzz.wrong(target, tmp_path, 1) == ["IndexError: out of range"]
