from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.schemas.corpus import Passage, Sentence
from answermill.schemas.labels import LabelledSentence, PassageLabel
from answermill.schemas.ranked import Hit
from answermill.schemas.record import Record, column, many, record


@record
class Leaf(Record):
    """A leaf."""

    name: str = column(pa.string(), "its name")
    weight: float | None = column(pa.float64(), "in grams; null where nobody weighed it")


@record
class Branch(Record):
    """Some leaves."""

    leaves: tuple[Leaf, ...] = many(Leaf, "from the stem on")
    tags: tuple[str, ...] = column(pa.list_(pa.string()), "what people call it")


BRANCH = Branch((Leaf("a", 1.5), Leaf("b", None)), ("long", "dry"))


def test_rows_come_back_from_arrow_as_they_went_in() -> None:
    rows = [BRANCH, Branch((), ())]
    assert Branch.rows(Branch.table(rows)) == rows


def test_a_record_is_frozen_and_has_no_other_attributes() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BRANCH.tags = ()  # type: ignore[misc]
    assert not hasattr(BRANCH, "__dict__")


def test_only_a_column_whose_annotation_admits_none_is_nullable() -> None:
    schema = Leaf.schema()
    assert [field.nullable for field in schema] == [False, True]


def test_a_missing_value_in_a_column_that_needs_one_is_refused_on_writing(tmp_path) -> None:
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        pq.write_table(Leaf.table([Leaf(None, 1.0)]), tmp_path / "leaf.parquet")  # type: ignore[arg-type]


def test_the_data_dictionary_travels_inside_the_parquet_file(tmp_path) -> None:
    pq.write_table(Hit.table([]), tmp_path / "hits.parquet")
    schema = pq.read_schema(tmp_path / "hits.parquet")
    assert schema.metadata[b"record"] == b"Hit"
    assert schema.field("rank").metadata[b"description"] == b"rank after fusion"


def test_describe_lists_nested_columns_under_their_outer_one() -> None:
    described = {name: kind for name, kind, _ in Branch.describe()}
    assert described == {
        "leaves": "list of Leaf",
        "leaves.name": "string",
        "leaves.weight": "double or null",
        "tags": "list<item: string>",
    }


def test_every_column_of_every_record_says_what_it_means() -> None:
    for kind in (Passage, Sentence, Hit, PassageLabel):
        assert all(len(meaning) > 3 for _, _, meaning in kind.describe())


def test_the_fingerprint_follows_types_and_not_descriptions() -> None:
    @record
    class Same(Record):
        name: str = column(pa.string(), "another description")
        weight: float | None = column(pa.float64(), "")

    @record
    class Other(Record):
        name: str = column(pa.string(), "its name")
        weight: float = column(pa.float64(), "in grams")

    assert Same.fingerprint() == Leaf.fingerprint()
    assert Other.fingerprint() != Leaf.fingerprint()


def test_a_fingerprint_is_the_same_under_every_release_of_pyarrow() -> None:
    assert Leaf.fingerprint() == "f44b515a685cb911"
    assert Branch.fingerprint() == "382cd6b7b7a5d31f"


def test_a_nested_name_type_or_nullability_changes_the_fingerprint() -> None:
    def branch(leaf: type[Record], tag: pa.DataType) -> str:
        @record
        class Twig(Record):
            leaves: tuple[Any, ...] = many(leaf, "")
            tags: tuple[Any, ...] = column(pa.list_(tag), "")

        return Twig.fingerprint()

    @record
    class Renamed(Record):
        title: str = column(pa.string(), "")
        weight: float | None = column(pa.float64(), "")

    @record
    class Retyped(Record):
        name: str = column(pa.string(), "")
        weight: float | None = column(pa.float32(), "")

    @record
    class Required(Record):
        name: str = column(pa.string(), "")
        weight: float = column(pa.float64(), "")

    never_null = pa.field("element", pa.string(), nullable=False)
    assert branch(Leaf, pa.string()) == Branch.fingerprint()
    different = [branch(leaf, pa.string()) for leaf in (Leaf, Renamed, Retyped, Required)]
    different += [
        branch(Leaf, pa.int8()),
        branch(Leaf, pa.list_(pa.string())),
        branch(Leaf, pa.struct([never_null])),
    ]
    assert len(set(different)) == 7


def test_the_data_dictionary_names_the_setting_that_the_fused_score_depends_on() -> None:
    from answermill.pipelines.config.job_file import Retrieve

    meanings = {name: meaning for name, _, meaning in Hit.describe()}
    assert "1 / (retrieve.fusion_k + rank)" in meanings["fused_score"]
    assert "1 / (k + rank)" in (Retrieve.model_fields["fusion_k"].description or "")


def test_a_row_from_before_an_optional_column_is_read() -> None:
    sentence = {"sentence_id": "d@0", "text": "It is so.", "label": 1}
    assert LabelledSentence.from_dict(sentence).judged is None
    with pytest.raises(KeyError, match="label"):
        LabelledSentence.from_dict({"sentence_id": "d@0", "text": "It is so."})
