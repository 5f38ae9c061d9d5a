"""Section of a job or training file: a strict, frozen pydantic model with a description of each field."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Count = Annotated[int, Field(ge=1)]
"""A count of at least one."""


class Section(BaseModel):
    """A section that refuses unknown keys, values of another type, NaN and infinity; and an empty text, alone
    or in a list, which would name the file's own folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    may_be_empty: ClassVar[frozenset[str]] = frozenset()
    """Keys to which an empty text has a meaning, beside those whose default it is."""

    @field_validator("*")
    @classmethod
    def _names_something(cls, value: Any, info: ValidationInfo) -> Any:
        is_empty = value == "" or (isinstance(value, list | tuple) and "" in value)
        key = info.field_name or ""
        if is_empty and key not in cls.may_be_empty and cls.model_fields[key].default != "":
            raise ValueError("'' names nothing; leave it out, or write a value")
        return value
