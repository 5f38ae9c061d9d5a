"""A JSON file with its own SHA-256: no bit of it can be another one unnoticed."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from answermill.files.atomic_files import WrongShape
from answermill.files.sealed_json import read_sealed, sealed, write_sealed


@dataclass(frozen=True)
class Sizes:
    name: str
    rows: dict[str, int]


@pytest.mark.parametrize("indent", [None, 1])
def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "sizes.json"
    assert write_sealed(file, {"name": "ä \\ b", "rows": {"a": 1}}, indent=indent)
    assert read_sealed(file, Sizes) == Sizes("ä \\ b", {"a": 1})
    content = file.read_bytes()
    changed = [bytearray(content) for _ in range(8 * len(content))]
    for bit, each in enumerate(changed):
        each[bit // 8] ^= 1 << bit % 8

    for other in (
        *changed,
        *(content[:length] for length in range(len(content))),
        content + b" ",
        content * 2,
    ):
        file.write_bytes(other)
        with pytest.raises(WrongShape, match=r"sizes\.json"):
            read_sealed(file, Sizes)


def test_an_error_has_the_file_and_its_fault_as_fields(tmp_path: Path) -> None:
    file = tmp_path / "sizes.json"
    file.write_text('{"name": "a", "rows": {}}', encoding="utf-8")
    with pytest.raises(WrongShape) as e:
        read_sealed(file, Sizes)
    assert (e.value.file, e.value.fault) == (file, "was changed since it was written (SHA-256)")
    assert str(e.value) == f"{file} {e.value.fault}"

    file.write_text('{"name": 1, "rows": {}}', encoding="utf-8")
    with pytest.raises(WrongShape, match=f"^{file}: name: ") as e:
        read_sealed(file, Sizes)
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_it_is_json_whose_last_member_is_the_digest(tmp_path: Path) -> None:
    values = json.loads(sealed({"rows": {}}))
    assert list(values) == ["rows", "sha256"] and len(values["sha256"]) == 64


def test_the_first_of_two_stays_if_that_is_asked_for(tmp_path: Path) -> None:
    assert write_sealed(tmp_path / "a", {"rows": 1}, replace=False)
    assert not write_sealed(tmp_path / "a", {"rows": 2}, replace=False)
    assert '"rows": 1' in (tmp_path / "a").read_text()
