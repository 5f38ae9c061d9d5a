"""Caps on the answers that one page, site or registered domain may give to a question, and the source of a
candidate that they look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from answermill.indexing.documents.domains import ascii_host, domain_of
from answermill.schemas.section import Section


class Source(NamedTuple):
    """A candidate's page, site and domain. Without a URL the page is its document, and the others are ''."""

    page: str
    site: str
    domain: str

    @classmethod
    def of(cls, url: str, doc_id: str) -> Source:
        """Source of a candidate.

        >>> Source.of("http://www.news.example.co.uk/a", "d1")
        Source(page='http://www.news.example.co.uk/a', site='news.example.co.uk', domain='example.co.uk')
        """
        try:
            host = ascii_host(urlsplit(url).hostname or "")
        except ValueError:
            host = ""
        return cls(url or doc_id, host.removeprefix("www."), domain_of(url) if host else "")


class Caps(Section):
    """Most answers of a question that one source may give. The next ones take the places of those left
    out."""

    max_per_page: int = Field(0, ge=0, description="most of a question from one page; 0 = no limit")
    max_per_site: int = Field(
        0, ge=0, description="most of a question from one host, 'www.' left out; 0 = no limit"
    )
    max_per_domain: int = Field(
        0, ge=0, description="most of a question from one registered domain; 0 = no limit"
    )

    @property
    def has_any(self) -> bool:
        return any(self._limits)

    @property
    def _limits(self) -> tuple[int, int, int]:
        return self.max_per_page, self.max_per_site, self.max_per_domain

    def choose(self, sources: Sequence[Source], most: int) -> list[int]:
        """Numbers of the first `most` that no cap forbids, in their order; fewer if there are no more.

        >>> pages = [Source(page, "", "") for page in "aabac"]
        >>> Caps(max_per_page=1).choose(pages, 3)
        [0, 2, 4]
        """
        chosen = list[int]()
        taken: tuple[Counter[str], ...] = Counter(), Counter(), Counter()
        for number, source in enumerate(sources):
            if len(chosen) == most:
                break
            places = list(zip(taken, source, self._limits, strict=True))
            if all(not limit or not name or counts[name] < limit for counts, name, limit in places):
                chosen.append(number)
                for counts, name, _ in places:
                    counts[name] += 1
        return chosen
