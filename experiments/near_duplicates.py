"""Near duplicates by MinHash against the exact Jaccard similarity of all pairs, on real pages.

Pages: those of `warc/` and `web-html/` as ingest extracts them, and once more with readers' comments where
that makes another text, so that there are pairs of all similarities; equal texts count once. A page should be
removed if one with a smaller id has a Jaccard similarity of SIMILARITY or more to it, over runs of five
words: `wanted`. `precision` and `recall` are of the removed pages. `pages_per_s` counts CPU time of one
process, from texts to removed pages; `exact_pages_per_s` is that of all pairs.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.documents import html_text, near_duplicates
from answermill.indexing.documents.exact_duplicates import id_keys
from answermill.indexing.documents.quality import PageText
from answermill.indexing.encodings.page_text import decode
from answermill.indexing.passages.text import fold, normalise
from testing.harness import arguments, finish, say, shrink

DECIDED = "Nothing ships by it."
SIMILARITY = 0.8
MIN_WORDS = 30
PAGES = 0
"""Number of pages to read; 0 = all."""


def texts_of(data: Path) -> list[str]:
    """Different texts, in the order of the files."""
    extractors = [html_text.load("blocks", comments) for comments in (False, True)]
    texts: dict[str, str] = {}
    read = 0

    for file in [*sorted((data / "warc").glob("*.warc.gz")), *sorted((data / "web-html").glob("*.warc.gz"))]:
        for page in read_pages(file, file.name, Counter()):
            if (
                not isinstance(page, RawPage)
                or (html := decode(page.body, page.charset, page.content_type)) is None
            ):
                continue
            if PAGES and read == PAGES:
                return list(texts.values())
            read += 1
            for title_and_text in extractors:
                text = normalise(title_and_text(html)[1])
                if PageText(text).word_count >= MIN_WORDS:
                    texts.setdefault(fold(text), text)

    return list(texts.values())


def ids_of(texts: list[str]) -> list[str]:
    """Ids that do not depend on the order of the pages."""
    return [f"{high:016x}{low:016x}" for high, low in id_keys(texts).tolist()]


def by_signatures(texts: list[str], ids: list[str]) -> set[str]:
    """Ids of the pages to remove, as ingest finds them."""
    ranks = [(1, doc_id) for doc_id in ids]
    signatures, bands = near_duplicates.signatures(texts)
    pairs = [
        (ranks[removed], ranks[kept])
        for band in range(near_duplicates.BANDS)
        for removed, kept in near_duplicates.near_pairs(ranks, bands[:, band], signatures, SIMILARITY)
    ]
    return {removed for _, removed in near_duplicates.kept(pairs)}


def by_all_pairs(texts: list[str], ids: list[str]) -> tuple[set[str], int]:
    """(ids of the pages to remove, number of near pairs), from the exact similarity of each pair."""
    runs = [near_duplicates.runs_of_words(text) for text in texts]
    _, columns = np.unique(np.concatenate(runs), return_inverse=True)
    sizes = np.array([len(run) for run in runs])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    matrix = csr_matrix((np.ones(len(columns), np.int32), columns, starts))
    shared = (matrix @ matrix.T).tocoo()
    different = shared.row != shared.col
    rows, others, both = shared.row[different], shared.col[different], shared.data[different]
    near = both / (sizes[rows] + sizes[others] - both) >= SIMILARITY
    pairs = list(zip(rows[near].tolist(), others[near].tolist(), strict=True))
    return {ids[a] for a, b in pairs if ids[b] < ids[a]}, len(pairs) // 2


def main() -> None:
    options = arguments("near_duplicates", __doc__ or "")
    if options.smoke:
        shrink(globals(), PAGES=20)
    texts = texts_of(options.data)
    ids = ids_of(texts)
    say(f"{len(texts)} texts")
    began = time.process_time()
    wanted, pairs = by_all_pairs(texts, ids)
    exact_seconds = time.process_time() - began

    times, gone = [], set()
    for _ in range(options.rounds):
        began = time.process_time()
        gone = by_signatures(texts, ids)
        times.append(time.process_time() - began)

    right = len(wanted & gone)
    result: dict[str, float | int | str] = {
        "pages": len(texts),
        "near_pairs": pairs,
        "wanted": len(wanted),
        "gone": len(gone),
        "precision": right / len(gone) if gone else 1.0,
        "recall": right / len(wanted) if wanted else 1.0,
        "pages_per_s": len(texts) / statistics.median(times),
        "exact_pages_per_s": len(texts) / exact_seconds,
    }
    finish("near_duplicates", result, options.save)


if __name__ == "__main__":
    main()
