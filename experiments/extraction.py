"""Main text: our extractors beside Trafilatura's default, readability-lxml and newspaper4k, on pages with a
gold text.

Three gold sets. `readability` and `newspaper` have a whole text for each page: precision, recall and F1 are
of its runs of four words, for each page, and then the mean. Their gold is output of Mozilla's Readability and
newspaper that people accepted, so each favours its own kind. A gold of `newspaper` that shares no run of four
words with its page is a note about newspaper ("EXTRACTED NOTHING"), and that page is left out. `strings`
(Trafilatura's own evaluation, English pages) has texts that must and must not be in the main text: counted
over all pages. The keys without a set are the mean over the pages of `readability` and `newspaper`.

`ours` is the default of ingest, `ours_with_comments` is `comments = true`, `resiliparse` and
`trafilatura_fast` are `extractor = "resiliparse"` and `"trafilatura"`, bullets included. Times are CPU
seconds of one process, decoded page to text, without a child. Trafilatura, readability-lxml and newspaper4k
are left out, and named, if they cannot be imported.

The rules of `ours` were chosen on the pages of each set whose URL's hash is even
(`<set>_f1_<name>_chosen_on`); the others are held out (`…_held_out`). `<set>_f1_ours_over_<name>_held_out` is
the difference there, `_low` and `_high` its bootstrapped 95 % interval over pages.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.documents import html_text
from answermill.indexing.encodings.page_text import decode
from answermill.ranking.evaluation.significance import compare
from testing.harness import arguments, finish, installed, say, shrink

TAKES = "beside pip install readability-lxml newspaper4k"
DECIDED = (
    "The rules of `blocks`, the default of `ingest.extractor`, chosen on a half of each set's pages; and "
    "that readers' comments are left out by default: on all three sets the text is better without them."
)

SETS = {"readability": "readability", "newspaper": "newspaper", "strings": "trafilatura-en"}
"""Name of a gold set -> its files in web-html/."""
PAGES = 0
"""Pages of each set; 0 = all."""
OTHERS = ("resiliparse", "trafilatura_fast", "trafilatura", "readability_lxml")
"""Extractors with which `ours` is compared on the pages that are held out."""
DRAWS = 10_000
Extract = Callable[[str], str]
Quality = tuple[float, float, float]
"""Precision, recall, F1."""


@dataclass(frozen=True)
class GoldPage:
    """A page with its gold: a text, or texts that must and must not be in the main text."""

    url: str
    html: str
    size: int  # bytes, before decoding
    text: str = ""
    required: Sequence[str] = ()
    forbidden: Sequence[str] = ()

    @property
    def held_out(self) -> bool:
        return bool(hashlib.sha256(self.url.encode()).digest()[0] % 2)


def gold_pages(folder: Path, files: str) -> list[GoldPage]:
    """Pages of a set that have a gold, up to PAGES."""
    with gzip.open(folder / f"{files}.gold.jsonl.gz", "rt", encoding="utf-8") as lines:
        gold = {row["url"]: row for row in map(json.loads, lines)}
    pages = []
    for page in read_pages(folder / f"{files}.warc.gz", files, Counter()):
        if isinstance(page, RawPage) and (row := gold.get(page.url)):
            html = decode(page.body, page.charset, page.content_type)
            text = row.get("expected_text") or all_text(row.get("expected_html", ""))
            if html and (row.get("with") or shares_words(text, all_text(html))):
                pages.append(
                    GoldPage(
                        page.url, html, len(page.body), text, row.get("with", ()), row.get("without", ())
                    )
                )
        if len(pages) == PAGES:
            break

    return pages


def all_text(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return (
        str(extract_plain_text(html, main_content=False, alt_texts=False, list_bullets=False)) if html else ""
    )


def shares_words(text: str, page: str) -> bool:
    """True if a text has a run of four words of its page.

    >>> shares_words("Tea is old, they say.", "So tea is old, they say."), shares_words("NONE", "Tea is old.")
    (True, False)
    """
    return bool(runs_of_four(text).keys() & runs_of_four(page).keys())


def ours(by: str = "blocks", comments: bool = False) -> Extract:
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
        # With images it would request their sizes from the network.
        article = Article("http://page.invalid/", fetch_images=False)
        article.download(input_html=html)
        article.parse()
        return str(article.text)

    return extract


EXTRACTORS: dict[str, Callable[[], Extract]] = {
    "ours": ours,
    "ours_with_comments": lambda: ours(comments=True),
    "resiliparse": lambda: ours("resiliparse"),
    "resiliparse_with_comments": lambda: ours("resiliparse", comments=True),
    "trafilatura_fast": lambda: ours("trafilatura"),
    "trafilatura": trafilatura_default,
    "readability_lxml": readability,
    "newspaper4k": newspaper,
}


def timed(extract: Extract, pages: Sequence[GoldPage]) -> tuple[list[str], int, float]:
    """(texts, number of pages that raised an error, CPU seconds); the text of a page with an error is
    empty."""
    texts, errors, began = [], 0, time.process_time()
    for page in pages:
        try:
            texts.append(extract(page.html))
        except Exception:  # any error of a library that is measured
            texts.append("")
            errors += 1
    return texts, errors, time.process_time() - began


def runs_of_four(text: str) -> Counter[tuple[str, ...]]:
    """Runs of four words of a text, each with its number; a shorter text is one run."""
    words = re.findall(r"\w+", text.lower())
    return Counter(tuple(words[n : n + 4]) for n in range(max(1, len(words) - 3))) if words else Counter()


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def by_text(texts: Sequence[str], pages: Sequence[GoldPage]) -> list[Quality]:
    """Quality of each page's text."""
    qualities = []
    for text, page in zip(texts, pages, strict=True):
        extracted, gold = runs_of_four(text), runs_of_four(page.text)
        both = (extracted & gold).total()
        precision, recall = both / max(1, extracted.total()), both / max(1, gold.total())
        qualities.append((precision, recall, f1(precision, recall)))
    return qualities


def strings_of(texts: Sequence[str], pages: Sequence[GoldPage]) -> list[tuple[int, int, int]]:
    """(right strings in its text, wrong strings in its text, all right strings) of each page."""
    counts = []
    for text, page in zip(texts, pages, strict=True):
        folded = " ".join(text.split())
        right = sum(" ".join(string.split()) in folded for string in page.required)
        wrong = sum(" ".join(string.split()) in folded for string in page.forbidden)
        counts.append((right, wrong, len(page.required)))
    return counts


def by_strings(counts: Sequence[tuple[int, int, int]]) -> Quality:
    """Quality over all pages: share of the strings found that are right, and share of the right ones that are
    found."""
    right, wrong, wanted = (sum(column) for column in zip(*counts, strict=True))
    precision, recall = right / max(1, right + wrong), right / max(1, wanted)
    return precision, recall, f1(precision, recall)


def strings_interval(
    a: Sequence[tuple[int, int, int]], b: Sequence[tuple[int, int, int]]
) -> tuple[float, float]:
    """(low, high) of B's F1 less A's over pages drawn with replacement, the same pages for both."""
    drawn = np.random.default_rng(0).integers(0, len(a), (DRAWS, len(a)))

    def f1_of_draws(counts: Sequence[tuple[int, int, int]]) -> npt.NDArray[np.float64]:
        right, wrong, wanted = np.array(counts).T[:, drawn].sum(axis=2)
        drawn_f1: npt.NDArray[np.float64] = 2 * right / np.maximum(1, right + wrong + wanted)
        return drawn_f1

    low, high = np.percentile(f1_of_draws(b) - f1_of_draws(a), (2.5, 97.5))
    return float(low), float(high)


def mean(qualities: Sequence[Quality]) -> Quality:
    precision, recall, mean_f1 = (statistics.fmean(values) for values in zip(*qualities, strict=True))
    return precision, recall, mean_f1


def halves(outputs: dict[str, dict[str, list[str]]], sets: dict[str, list[GoldPage]]) -> dict[str, float]:
    """F1 of each extractor on both halves of each set, and the gain of `ours` on the half that is held
    out."""
    result: dict[str, float] = {}
    for set_name, pages in sets.items():
        for half in ("chosen_on", "held_out"):
            numbers = [n for n, page in enumerate(pages) if page.held_out == (half == "held_out")]
            if not numbers:
                continue

            half_pages = [pages[n] for n in numbers]
            texts = {name: [set_texts[set_name][n] for n in numbers] for name, set_texts in outputs.items()}
            key = f"{set_name}_f1_{{}}_{half}"
            result[f"{set_name}_pages_{half}"] = len(numbers)

            if set_name == "strings":
                counts = {name: strings_of(outputs, half_pages) for name, outputs in texts.items()}
                result |= {key.format(name): by_strings(strings)[2] for name, strings in counts.items()}
            else:
                f1s = {
                    name: np.array([q[2] for q in by_text(own_texts, half_pages)])
                    for name, own_texts in texts.items()
                }
                result |= {key.format(name): float(pages_f1.mean()) for name, pages_f1 in f1s.items()}

            for other in OTHERS if half == "held_out" else ():
                if other not in texts:
                    continue
                if set_name == "strings":
                    low, high = strings_interval(counts[other], counts["ours"])
                else:
                    comparison = compare(f1s[other], f1s["ours"], rounds=DRAWS)
                    low, high = comparison.low, comparison.high
                over = key.format(f"ours_over_{other}")
                result |= {over: result[key.format("ours")] - result[key.format(other)]}
                result |= {f"{over}_low": low, f"{over}_high": high}

    return result


def main() -> None:
    options = arguments("extraction", __doc__ or "")
    folder = options.data / "web-html"
    if options.smoke:
        shrink(globals(), PAGES=3, DRAWS=20)
        folder = (folder / "README.md").resolve().parent  # the token copy has other pages

    sets = {name: gold_pages(folder, files) for name, files in SETS.items()}
    mb = sum(page.size for pages in sets.values() for page in pages) / 1e6
    result: dict[str, float | int | str] = {f"{name}_pages": len(pages) for name, pages in sets.items()}
    result["mb"] = mb
    extractors, missing = installed(EXTRACTORS)
    if missing:
        result["not_installed"] = ", ".join(missing)
    times: dict[str, list[float]] = {name: [] for name in extractors}
    texts: dict[str, dict[str, list[str]]] = {}

    for n in range(options.rounds):
        for name, extract in extractors.items():
            outputs = {set_name: timed(extract, pages) for set_name, pages in sets.items()}
            times[name].append(sum(cpu for _, _, cpu in outputs.values()))
            say(f"round {n + 1}: {name} {mb / times[name][-1]:.1f} MB/s")
            if n:
                continue

            texts[name] = {set_name: own_texts for set_name, (own_texts, _, _) in outputs.items()}
            page_qualities = {s: by_text(texts[name][s], sets[s]) for s in ("readability", "newspaper")}
            qualities = {f"{s}_": mean(pages) for s, pages in page_qualities.items()}
            qualities["strings_"] = by_strings(strings_of(texts[name]["strings"], sets["strings"]))
            qualities[""] = mean([page for pages in page_qualities.values() for page in pages])
            for prefix, quality in qualities.items():
                for figure, value in zip(("precision", "recall", "f1"), quality, strict=True):
                    result[f"{prefix}{figure}_{name}"] = value

            if errors := sum(errors for _, errors, _ in outputs.values()):
                result[f"errors_{name}"] = errors

    result |= halves(texts, sets)
    result |= {f"mb_per_s_{name}": mb / statistics.median(values) for name, values in times.items()}
    finish("extraction", result, options.save)


if __name__ == "__main__":
    main()
