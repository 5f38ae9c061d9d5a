"""The section `workers` of a job file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from answermill.schemas.section import Count, Section


class Workers(Section):
    """Settings of the work on this machine; other runners have their own options."""

    processes: int = Field(
        1, ge=0, description="worker processes on this machine; 1 = the command's own, 0 = one per core"
    )
    tries: Count = Field(
        3,
        description="how often a unit of work is tried in all, if it fails by an unexpected error, e.g. of "
        "a network disk",
    )
    max_failed_units: int = Field(
        0,
        ge=0,
        description="files of `ingest`, or blocks of questions of `rerank`, that may fail for good: they "
        "become rejects, "
        "unit_failed. More of them, or a unit of another step, end the step with 74 once its other units "
        "are done",
    )
    cache_gb: float = Field(
        20.0,
        ge=0,
        description="gigabytes for copies of what is read from object stores and web servers, on each "
        "machine, in the folder that TMPDIR names; what is in use stays",
    )
    java: str | None = Field(None, description="home folder of a Java 21 or later; found by itself if absent")
    java_heap: str = Field("1g", pattern=r"^\d+[mg]$", description="memory for Lucene, per process")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="where models run, and `retrieve` searches an exact dense index; 'auto' = CUDA if there "
        "is a device",
    )
