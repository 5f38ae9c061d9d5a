"""Values on the disk: what is written comes back, and a file that somebody else wrote runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.engine import disk_values
from answermill.pipelines.engine.disk_values import KeyValues, ValueWriter, no_places, packed, unpacked
from answermill.pipelines.steps.ingest.repeated.boilerplate import FileParagraphs, Paragraphs
from answermill.pipelines.steps.ingest.repeated.verdicts import NearDuplicates

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(0, 9)), inner),
    ),
)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert repr(unpacked(packed(value))) == repr(value)  # as repr, since 1 == 1.0 == True


@pytest.mark.parametrize(
    "numbers", [np.arange(6, dtype=np.uint64).reshape(2, 3), np.zeros((0, 2), np.int64), np.float32([1.5])]
)
def test_an_array_keeps_its_type_and_shape(numbers: Any) -> None:
    back = unpacked(packed(numbers))
    assert (back.dtype, back.shape, back.tolist()) == (numbers.dtype, numbers.shape, numbers.tolist())


def test_named_tuples_keep_their_class_inside_each_other() -> None:
    keys = np.arange(3, dtype=np.uint64)
    back = unpacked(packed(FileParagraphs(4, "ab", Paragraphs(keys, keys, keys.astype(np.int64)))))
    assert (
        type(back) is FileParagraphs
        and type(back.paragraphs) is Paragraphs
        and back.paragraphs.keys.tolist() == [0, 1, 2]
    )
    kept = unpacked(packed(NearDuplicates("ab", keys.astype(np.int64), ("d1", "d2", "d3"))))
    assert type(kept) is NearDuplicates and kept.kept == ("d1", "d2", "d3")


@pytest.mark.parametrize("value", [Path("a"), {1, 2}, np.int64(1), np.array([{}]), object()])
def test_another_class_is_not_written(value: Any) -> None:
    with pytest.raises(
        TypeError, match=f"{type(value).__name__} is no class of which an emitted value may be made"
    ):
        packed([value])


@pytest.mark.parametrize(
    ("module", "name"),
    [("os", "system"), ("subprocess", "Popen"), ("builtins", "tuple"), ("nowhere", "Gone")],
)
def test_a_file_that_names_a_function_runs_nothing(module: str, name: str) -> None:
    content = {None: [disk_values._NAMED_TUPLE, module, name, "true"]}
    with pytest.raises(ValueError, match=f"{module}.{name} is no named tuple"):
        unpacked(msgpack.packb(content))


@pytest.mark.parametrize("level", [b"\x91", b"\x81\xc0", b"\x81\xc0\x92\x00"])
def test_a_value_that_is_too_deep_is_an_error(level: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(100_000 * level + b"\x00")
    value: Any = ()
    for _ in range(1000):
        value = (value,)
    with pytest.raises(ValueError, match="recursion limit"):
        packed(value)


def test_values_of_several_files_are_read_as_often_as_they_are_iterated(tmp_path: Path) -> None:
    places = no_places()
    for number in (0, 1):
        writer = ValueWriter(tmp_path, number)
        for key, start, length in writer.write([("a", number), ("b", "text"), ("a", [number])]):
            places[key].extend((number, start, length))
        writer.close()
    values = KeyValues(tmp_path, places["a"])
    assert list(values) == list(values) == [0, [0], 1, [1]] and list(KeyValues(tmp_path, places["b"])) == [
        "text",
        "text",
    ]
