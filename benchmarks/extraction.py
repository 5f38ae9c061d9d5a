"""Main text: our two extractors beside Trafilatura's default, readability-lxml and newspaper4k, on pages with a gold text.

Three gold sets. `readability` and `newspaper` have a whole text for each page: precision, recall and F1 are of its runs of four
words, for each page, and then the mean. Their gold is what Mozilla's Readability and newspaper put out and people accepted, so
each favours its own kind. `strings` (Trafilatura's own evaluation, English pages) has texts that must and must not be in the
main text: counted over all pages. The keys without a set are the mean over the pages of `readability` and `newspaper`.

`ours` is what ingest does if nothing is set, `ours_without_comments` is `comments = false`, and `trafilatura_fast` is
`extractor = "trafilatura"`, bullets included. Times are CPU seconds of one process, decoded page to text, without a child.
Trafilatura, readability-lxml and newspaper4k are left out, and named, if they cannot be imported.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import arguments, finish, installed, say, shrink
from indexing.crawl.input_formats import read_pages
from indexing.crawl.raw_page import RawPage
from indexing.documents import html_text
from indexing.documents.parse import decode

SETS = {"readability": "readability", "newspaper": "newspaper", "strings": "trafilatura-en"}
"""Name of a gold set -> its files in web-html/."""
PAGES = 0
"""Pages of each set; 0 = all."""
Extract = Callable[[str], str]
Quality = tuple[float, float, float]
"""Precision, recall, F1."""


@dataclass(frozen=True)
class GoldPage:
    """A page with its gold: a text, or texts that must and must not be in the main text."""

    html: str
    size: int  # bytes, before decoding
    text: str = ""
    required: Sequence[str] = ()
    forbidden: Sequence[str] = ()


def gold_pages(folder: Path, files: str) -> list[GoldPage]:
    """The pages of a set that have a gold, up to PAGES."""
    with gzip.open(folder / f"{files}.gold.jsonl.gz", "rt", encoding="utf-8") as lines:
        gold = {row["url"]: row for row in map(json.loads, lines)}
    pages = []
    for page in read_pages(folder / f"{files}.warc.gz", files, Counter()):
        if isinstance(page, RawPage) and (row := gold.get(page.url)):
            html = decode(page.body, page.charset, page.content_type)
            text = row.get("expected_text") or all_text(row.get("expected_html", ""))
            if html and (text or row.get("with")):
                pages.append(GoldPage(html, len(page.body), text, row.get("with", ()), row.get("without", ())))
        if len(pages) == PAGES:
            break
    return pages


def all_text(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(html, main_content=False, alt_texts=False, list_bullets=False)) if html else ""


def ours(by: html_text.ExtractorName = "resiliparse", comments: bool = True) -> Extract:
    title_and_text = html_text.load(by, comments)
    return lambda html: title_and_text(html)[1]


def trafilatura_default() -> Extract:
    from trafilatura import extract

    return lambda html: extract(html, include_comments=False) or ""


def readability() -> Extract:
    from readability import Document

    return lambda html: all_text(Document(html).summary())


def newspaper() -> Extract:
    from newspaper import Article

    def extract(html: str) -> str:
        article = Article("http://page.invalid/")
        article.download(input_html=html)
        article.parse()
        return str(article.text)

    return extract


EXTRACTORS: dict[str, Callable[[], Extract]] = {
    "ours": ours,
    "ours_without_comments": lambda: ours(comments=False),
    "trafilatura_fast": lambda: ours("trafilatura", comments=False),
    "trafilatura": trafilatura_default,
    "readability_lxml": readability,
    "newspaper4k": newspaper,
}


def timed(extract: Extract, pages: Sequence[GoldPage]) -> tuple[list[str], int, float]:
    """(the texts, how many pages raised an error, CPU seconds); the text of a page with an error is empty."""
    texts, errors, began = [], 0, time.process_time()
    for page in pages:
        try:
            texts.append(extract(page.html))
        except Exception:  # of a library that is measured, whatever it raises
            texts.append("")
            errors += 1
    return texts, errors, time.process_time() - began


def runs_of_four(text: str) -> Counter[tuple[str, ...]]:
    """The runs of four words of a text, each with how often it stands there; a shorter text is one run."""
    words = re.findall(r"\w+", text.lower())
    return Counter(tuple(words[n : n + 4]) for n in range(max(1, len(words) - 3))) if words else Counter()


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def by_text(texts: Sequence[str], pages: Sequence[GoldPage]) -> list[Quality]:
    """The quality of each page's text."""
    qualities = []
    for text, page in zip(texts, pages, strict=True):
        extracted, gold = runs_of_four(text), runs_of_four(page.text)
        both = (extracted & gold).total()
        precision, recall = both / max(1, extracted.total()), both / max(1, gold.total())
        qualities.append((precision, recall, f1(precision, recall)))
    return qualities


def by_strings(texts: Sequence[str], pages: Sequence[GoldPage]) -> Quality:
    """The quality over all pages: how many strings in a text should be there, and how many that should be are."""
    right = wrong = wanted = 0
    for text, page in zip(texts, pages, strict=True):
        folded = " ".join(text.split())
        right += sum(" ".join(string.split()) in folded for string in page.required)
        wrong += sum(" ".join(string.split()) in folded for string in page.forbidden)
        wanted += len(page.required)
    precision, recall = right / max(1, right + wrong), right / wanted
    return precision, recall, f1(precision, recall)


def mean(qualities: Sequence[Quality]) -> Quality:
    precision, recall, f1_of_pages = (statistics.fmean(values) for values in zip(*qualities, strict=True))
    return precision, recall, f1_of_pages


def main() -> None:
    options = arguments("extraction", __doc__ or "")
    folder = options.data / "web-html"
    if options.smoke:
        shrink(globals(), PAGES=3)
        folder = (folder / "README.md").resolve().parent  # the token copy has other pages
    sets = {name: gold_pages(folder, files) for name, files in SETS.items()}
    mb = sum(page.size for pages in sets.values() for page in pages) / 1e6
    result: dict[str, float | int | str] = {f"{name}_pages": len(pages) for name, pages in sets.items()} | {"mb": mb}
    extractors, missing = installed(EXTRACTORS)
    if missing:
        result["not_installed"] = ", ".join(missing)
    times: dict[str, list[float]] = {name: [] for name in extractors}
    for n in range(options.rounds):
        for name, extract in extractors.items():
            outputs = {set_name: timed(extract, pages) for set_name, pages in sets.items()}
            times[name].append(sum(cpu for _, _, cpu in outputs.values()))
            say(f"round {n + 1}: {name} {mb / times[name][-1]:.1f} MB/s")
            if n:
                continue
            of_pages = {s: by_text(outputs[s][0], sets[s]) for s in ("readability", "newspaper")}
            qualities = {f"{s}_": mean(pages) for s, pages in of_pages.items()}
            qualities["strings_"] = by_strings(outputs["strings"][0], sets["strings"])
            qualities[""] = mean([page for pages in of_pages.values() for page in pages])
            for prefix, quality in qualities.items():
                for figure, value in zip(("precision", "recall", "f1"), quality, strict=True):
                    result[f"{prefix}{figure}_{name}"] = value
            if errors := sum(errors for _, errors, _ in outputs.values()):
                result[f"errors_{name}"] = errors
    result |= {f"mb_per_s_{name}": mb / statistics.median(values) for name, values in times.items()}
    finish("extraction", result, options.save)


if __name__ == "__main__":
    main()
