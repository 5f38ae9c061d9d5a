"""The section of a job or training file: a strict, frozen pydantic model whose fields say what they mean."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
"""A number of things, at least one."""


class Section(BaseModel):
    """Unknown keys, values of another type, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
