"""The section `ingest.crawl_index`: conditions on the wanted records of a crawl, by columns of its index."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Self

from pydantic import Field, model_validator

from answermill.schemas.section import Section

_DATE = Field(pattern=r"^(\d{4}-\d\d-\d\d)?$")


class CrawlIndex(Section):
    """A query on CommonCrawl's columnar index. The job reads the records that fulfil every condition, and
    nothing else."""

    files: Annotated[list[str], Field(min_length=1)] = Field(
        description="Parquet files of the index: paths, folders, globs, or lists of paths "
        "(cc-index-table.paths.gz), of "
        "which those of subset=warc are read"
    )
    domains: list[str] = Field([], description="registered domains, such as 'example.co.uk'; [] = every one")
    languages: list[str] = Field(
        [],
        description="ISO 639-3 codes such as 'eng', as the index has them; a page's first language counts; "
        "[] = every one",
    )
    mime: list[str] = Field(
        ["text/html", "application/xhtml+xml"], description="detected MIME types; [] = every one"
    )
    status: list[int] = Field([200], description="HTTP status codes of the fetch; [] = every one")
    fetched_from: Annotated[str, _DATE] = Field(
        "", description="first day of the fetch, such as '2024-03-01' (UTC); '' = any"
    )
    fetched_before: Annotated[str, _DATE] = Field("", description="day before which it was; '' = any")
    max_records: int = Field(
        0, ge=0, description="size of a sample, chosen by hash, of the wanted records; 0 = all of them"
    )

    @model_validator(mode="after")
    def _days(self) -> Self:
        for day in (self.fetched_from, self.fetched_before):
            if day:
                date.fromisoformat(day)
        if self.fetched_from and self.fetched_before and self.fetched_from >= self.fetched_before:
            raise ValueError(f"no day is from {self.fetched_from} on and before {self.fetched_before}")
        return self
