"""Effects of ingest's options about pages on real crawl files: language, quality presets, boilerplate.

Language: share of the HTML pages with a declared language (`<html lang>`) and main text that are judged as
they declare: by the first look alone (Resiliparse's nearest language), by the second alone (py3langid), and
by both as in ingest; with the pages a second of each. A declaration is its author's: a site's template may be
wrong for a page.

Quality: of the documents that ingest keeps with no preset, the share that each preset refuses. Boilerplate:
with `boilerplate = 0.3`, the documents that lose a paragraph, how many paragraphs and characters they lose,
and the share of all characters.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from resiliparse.parse.html import HTMLTree
from resiliparse.parse.lang import detect_fast

from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.crawl.raw_page import RawPage
from answermill.indexing.documents import html_text, language
from answermill.indexing.documents.quality import PRESETS, PageText, refusal
from answermill.indexing.encodings.page_text import decode
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST
from answermill.pipelines.steps.ingest.ingest import ingest
from answermill.schemas.corpus import Document
from benchmarks.ingest import CRAWL_FILES, FOLDERS
from testing.harness import arguments, finish, say, shrink

DECIDED = "Nothing ships by it."
SHARE = 0.3
WAYS: dict[str, Callable[[str], str]] = {
    "first_look": lambda text: str(detect_fast(text[: language.FIRST])[0]),
    "second_look": lambda text: language.second_look(text).code,
    "both": lambda text: language.detected(text).code,
}


def declared_pages(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """(declared language, main text) of HTML pages that have both; of pages with equal text the first."""
    title_and_text = html_text.load("resiliparse", comments=True)
    seen: set[str] = set()
    for file in files:
        for page in read_pages(file, file.name, Counter()):
            if not isinstance(page, RawPage) or not (
                html := decode(page.body, page.charset, page.content_type)
            ):
                continue
            code = declared_language(html)
            if len(code) == 2 and code.isalpha() and (text := title_and_text(html)[1]) and text not in seen:
                seen.add(text)
                yield code, text


def declared_language(html: str) -> str:
    """Language of `<html lang>` in two letters, or ''."""
    document = HTMLTree.parse(html).document
    root = document.query_selector("html") if document is not None else None
    declared = (root.getattr("lang") or "" if root is not None else "").replace("_", "-")
    return declared.partition("-")[0].strip().lower()


def judged(pages: Sequence[tuple[str, str]]) -> dict[str, float | int | str]:
    result: dict[str, float | int | str] = {"language_pages": len(pages)}
    for name, way in WAYS.items():
        way("to load what it needs")
        began = time.process_time()
        codes = [way(text) for _, text in pages]
        result[f"language_{name}_pages_per_s"] = len(pages) / max(time.process_time() - began, 1e-9)
        right = sum(code == declared for code, (declared, _) in zip(codes, pages, strict=True))
        result[f"language_{name}_as_declared"] = right / max(len(pages), 1)
        say(f"{name}: {right} of {len(pages)} pages as they declare")
    return result


def refused(documents: Sequence[Document]) -> dict[str, float | int | str]:
    result: dict[str, float | int | str] = {"documents": len(documents)}
    for preset in PRESETS:
        number = sum(
            refusal(PageText(document.text, document.language), [preset]) is not None
            for document in documents
        )
        result[f"refused_by_{preset}"] = number / max(len(documents), 1)
    return result


def main() -> None:
    options = arguments("page_filters", __doc__ or "")
    if options.smoke:
        shrink(globals(), FOLDERS=("web-html",))
    configure_logging()
    files = sorted(file.resolve() for name in FOLDERS for file in (options.data / name).glob(CRAWL_FILES))
    result = judged(list(declared_pages(files)))
    settings = {"input": [str(file) for file in files]}

    with tempfile.TemporaryDirectory() as folder:
        for name, extra in (("plain", {}), ("boilerplate", {"boilerplate": SHARE})):
            say(ingest(Job.model_validate({"ingest": settings | extra}), Path(folder) / name))
        plain, less = (list(DOCUMENTS.open(Path(folder) / name).read()) for name in ("plain", "boilerplate"))
        counts = INGEST.counts_of(DOCUMENTS.manifest(Path(folder) / "boilerplate"))

    result |= refused(plain)
    left = {document.doc_id: document.text for document in less}
    result |= {
        "boilerplate_documents": sum(left.get(document.doc_id, "") != document.text for document in plain),
        "boilerplate_paragraphs": counts.boilerplate_paragraphs,
        "boilerplate_characters": counts.boilerplate_characters,
        "boilerplate_share": counts.boilerplate_characters / sum(len(document.text) for document in plain),
    }
    finish("page_filters", result, options.save)


if __name__ == "__main__":
    main()
