"""The section [ingest] of a job file: every key with type, default, bounds and meaning."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from answermill.schemas import plug_ins
from answermill.schemas.section import Count, Section

OUR_EXTRACTORS = ("blocks", "resiliparse", "trafilatura")
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


class Ingest(Section):
    """Pages in, documents and passages out."""

    may_be_empty = frozenset({"language"})

    input: list[str] = Field(
        [],
        description="WARC, WET, JSONL or Parquet files, plain or gzip: paths, folders, globs, or lists of "
        "paths as CommonCrawl "
        "has them (warc.paths.gz)",
    )
    paths_root: str = Field(
        "",
        description="folder or URL below which the paths in lists and in crawl_index are; '' = "
        "s3://commoncrawl/ for a list or "
        "index at s3://, else https://data.commoncrawl.org/",
    )
    paths_range: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=2)] = Field(
        [],
        description="[first, end]: paths of each list that are read, counted from 0, without `end`; [] = all",
    )
    crawl_index: CrawlIndex | None = None
    domains: int = Field(
        0,
        ge=0,
        description="number of registered domains to keep: those with most pages, or domain_list's first; 0 "
        "= all",
    )
    domain_list: str = Field(
        "",
        description="keep pages of the domains of this file: one a line, or the first column but ranks of "
        "TSV or CSV",
    )
    block_list: str = Field(
        "",
        description="refuse pages of this file's hosts and addresses, one a line: 'example.org', "
        "'example.org/shop'",
    )
    language: str | list[str] = Field(
        "en",
        description="ISO 639-1 code of the pages to keep, or a list of codes; '' keeps every language",
    )
    language_confidence: float = Field(
        0.0,
        ge=0,
        le=1,
        description="pages whose language has a lower probability are refused (language_unsure): 0.65, say; "
        "0 refuses none",
    )
    min_words: int = Field(30, ge=0, description="pages with fewer words of main text are refused")
    max_characters: Count = Field(1_000_000, description="pages with a longer main text are refused")
    require_title: bool = Field(True, description="refuse HTML pages without a title")
    media_types: list[Literal["text/html", "application/xhtml+xml", "text/plain"]] = Field(
        ["text/html", "application/xhtml+xml"],
        min_length=1,
        description="media types of the pages of WARC files that are read; with 'text/plain', no robots.txt, "
        "playlists, programs, logs, data or markup all the same",
    )
    quality: list[Literal["c4", "gopher", "fineweb"]] = Field(
        [],
        description="presets of rules about a page's text, by the corpora they cleaned; each rule is a "
        "reject reason",
    )
    refuse_noindex: bool = Field(
        False, description="refuse HTML pages whose robots meta tag says noindex or none"
    )
    mask: list[Literal["email", "phone"]] = Field(
        [],
        description="what is replaced by [email] or [phone] in the text of pages, before anything is "
        "counted in it",
    )
    near_duplicates: float = Field(
        0.0,
        ge=0,
        le=1,
        description="0.8 or more: of pages whose runs of five words have this Jaccard similarity, only the "
        "one with the "
        "smallest id is kept; 0 = only pages of equal text are duplicates",
    )
    since: str | None = Field(
        None,
        description="folder of an earlier run, or 'latest', the last good one beside this: vanished.tsv "
        "lists its documents whose pages are not in this one; with "
        "near_duplicates, pages near one of its documents, or equal to it, are refused",
    )
    boilerplate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="0.3, say: paragraphs that stand on at least this share of the pages of their domain "
        "are left out of "
        "documents; 0 = none",
    )
    boilerplate_pages: int = Field(
        10,
        ge=2,
        description="pages of its domain that a paragraph must stand on, at the least, to be boilerplate",
    )
    passages: Literal["sentences", "dpr"] = Field(
        "sentences",
        description="'sentences' packs whole sentences; 'dpr' cuts blocks of exactly passage_words words",
    )
    passage_words: Count = Field(
        100, description="words that a passage is filled up to; of scripts without blanks, two characters"
    )
    passage_tokens: int = Field(
        200, ge=10, description="spaCy tokens that no passage exceeds ('sentences' only)"
    )
    extractor: str = Field(
        "blocks",
        description="what extracts main text from HTML: 'blocks' weighs prose, links and the names of "
        "elements; 'resiliparse' "
        "takes less time and leaves more of what surrounds an article in; 'trafilatura' takes longer, and "
        "needs "
        "`pip install 'answermill[trafilatura]'`; or the name of a plug-in",
    )
    comments: bool = Field(
        False, description="readers' comments are main text, below an article and in a forum"
    )
    page_seconds: float = Field(
        10.0, gt=0, description="CPU seconds at the most for extracting one page's main text"
    )
    max_reject_share: float = Field(
        1.0, ge=0, le=1, description="the job fails (65) if a larger share of the pages is refused"
    )

    @property
    def languages(self) -> list[str]:
        """The codes of the languages to keep; [] keeps every one."""
        return list(filter(None, [self.language] if isinstance(self.language, str) else self.language))

    @field_validator("extractor")
    @classmethod
    def _is_there(cls, name: str) -> str:
        if name not in OUR_EXTRACTORS and not plug_ins.is_known(plug_ins.EXTRACTORS, name):
            known = ", ".join((*OUR_EXTRACTORS, *plug_ins.installed(plug_ins.EXTRACTORS)))
            raise ValueError(f"no extractor is named {name!r}; known: {known}")
        return name

    @model_validator(mode="after")
    def _has_codes(self) -> Self:
        for code in self.languages:
            if not (code.isascii() and code.isalpha() and len(code) in (2, 3)):
                raise ValueError(
                    f"language has {code!r}, which is no ISO 639 code; give codes of two or three letters: "
                    "'en', or ['en', 'de']"
                )
            if len(code) == 3 and not _is_found(code.lower()):
                raise ValueError(
                    f"language has {code!r}, and no page is found to be in that; give the language's ISO "
                    "639-1 code, which has two letters: 'en', not 'eng'"
                )
        return self

    @model_validator(mode="after")
    def _has_pages(self) -> Self:
        if not self.input and self.crawl_index is None:
            raise ValueError("ingest.input is missing, and so is crawl_index: one of them says what is read")
        if len(self.paths_range) == 1 or (self.paths_range and self.paths_range[0] >= self.paths_range[1]):
            raise ValueError(f"paths_range is [first, end], the end larger, not {self.paths_range}")
        return self

    @model_validator(mode="after")
    def _near_enough(self) -> Self:
        if 0 < self.near_duplicates < 0.8:
            raise ValueError(
                f"near_duplicates is 0 or from 0.8 to 1, not {self.near_duplicates:g}: fewer would be found "
                "of less similar"
            )
        return self


def _is_found(code: str) -> bool:
    from answermill.indexing.documents.language import is_found  # its models take a tenth of a second

    return is_found(code)
