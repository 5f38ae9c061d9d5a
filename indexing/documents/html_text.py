"""Title and main text of a page: by our rules about its blocks, by Resiliparse's rules, by Trafilatura in
its fast mode, or by a plug-in.

In our three, headings, paragraphs, list items and rows of tables are lines of the text, in the order of the
page; the cells of a row stand beside each other. Navigation, footers, forms and scripts are left out.
Resiliparse keeps most, and is the fastest; `python -m experiments.extraction` measures all three. A change
that gives another text raises `REVISION` in pipelines/steps/ingest/ingest.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from answermill.indexing.documents.main_content.blocks import BlockReader
from answermill.indexing.documents.main_content.prose import main_text
from answermill.schemas import plug_ins

TitleAndText: TypeAlias = Callable[[str], tuple[str, str]]
"""A page -> its title and its main text."""

_OG_TITLE = ('meta[property="og:title"]', 'meta[name="og:title"]')
_MAX_TITLE = 1_000  # characters
_BULLET = re.compile("^- ", re.MULTILINE)


def load(by: str, comments: bool) -> TitleAndText:
    """The extractor of that name, ours or a plug-in's, loaded; `comments` keeps readers' texts below an
    article, and in a forum."""
    ours = {"blocks": _blocks, "resiliparse": _resiliparse, "trafilatura": _trafilatura}
    loader = ours[by] if by in ours else plug_ins.load(plug_ins.EXTRACTORS, by)
    extractor: TitleAndText = loader(comments)
    return extractor


def _blocks(comments: bool) -> TitleAndText:
    from resiliparse.parse.html import HTMLTree

    reader = BlockReader()

    def title_and_text(html: str) -> tuple[str, str]:
        tree = HTMLTree.parse(html)
        title = title_of(tree)  # before the reader takes elements out
        return title, main_text(*reader.read(tree), comments)

    return title_and_text


def _resiliparse(comments: bool) -> TitleAndText:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    def title_and_text(html: str) -> tuple[str, str]:
        tree = HTMLTree.parse(html)
        text = extract_plain_text(
            tree, main_content=True, alt_texts=False, list_bullets=False, comments=comments
        )
        return title_of(tree), str(text)

    return title_and_text


def _trafilatura(comments: bool) -> TitleAndText:
    from resiliparse.parse.html import HTMLTree
    from trafilatura import extract

    def title_and_text(html: str) -> tuple[str, str]:
        text = extract(html, fast=True, include_comments=comments) or ""  # None where it finds no main text
        return title_of(HTMLTree.parse(html)), _BULLET.sub("", text)

    return title_and_text


def title_of(tree: Any) -> str:
    """<title>, else og:title, else the first <h1> of a parsed page; white space folded, '' if there is
    none."""
    if title := _folded(tree.title):
        return title
    for selector in _OG_TITLE:
        if (meta := tree.document.query_selector(selector)) is not None and (
            title := _folded(meta.getattr("content"))
        ):
            return title
    heading = tree.document.query_selector("h1")
    return _folded(heading.text) if heading is not None else ""


def _folded(text: str | None) -> str:
    return " ".join((text or "").split())[:_MAX_TITLE].rstrip()
