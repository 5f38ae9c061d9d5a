"""Section of a job or training file: a strict, frozen pydantic model with a description of each field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
"""A count of at least one."""


class Section(BaseModel):
    """A section that refuses unknown keys, values of another type, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
