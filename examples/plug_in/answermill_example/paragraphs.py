"""An extractor: the text of a page's <p> elements, a line each."""

from __future__ import annotations

from answermill.indexing.documents.html_text import TitleAndText, title_of


def load(comments: bool) -> TitleAndText:
    """The extractor. `comments`: the job's key `ingest.comments`, which makes no difference here."""
    from resiliparse.parse.html import HTMLTree

    def title_and_text(html: str) -> tuple[str, str]:
        tree = HTMLTree.parse(html)
        paragraphs = (" ".join(each.text.split()) for each in tree.document.get_elements_by_tag_name("p"))
        return title_of(tree), "\n".join(filter(None, paragraphs))

    return title_and_text
