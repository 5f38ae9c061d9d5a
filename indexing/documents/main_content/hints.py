"""Hints in a block-level element's tag, class, id and role at its content: menus, teasers, comments and the
like.

A class or id has words between its blanks, '-', '_' and changes of letter case: `siteFooter` has `site` and
`footer`. A hint is a guess: `prose.py` does not follow one that would cost a page most of its prose.
"""

from __future__ import annotations

import re
from enum import IntEnum


class Hint(IntEnum):
    """A hint at an element's content. Of several the highest counts."""

    NONE = 0
    WIDGET = 1
    """Small things that stand in an article: buttons to share it, its tags, its byline. Such words also name
    elements around it."""
    COMMENT = 2
    """Texts that readers have written."""
    SURROUNDING = 3
    """Menus, teasers, advertisements and notices around the main text, and the forms around comments."""
    HIDDEN = 4
    """Content that is not shown before a script shows it."""


TAGS = {
    "nav": Hint.SURROUNDING,
    "footer": Hint.SURROUNDING,
    "aside": Hint.SURROUNDING,
    "menu": Hint.SURROUNDING,
    "dialog": Hint.SURROUNDING,
    "noscript": Hint.SURROUNDING,
    # The text goes on around a picture; a sentence of its caption would interrupt it.
    "figcaption": Hint.SURROUNDING,
}
_WIDGET = """
    shar(?:e|es|ing) social addthis follow jump skip toc tags taglist rating votes? metadata (?:post|entry|article)-meta
    byline dateline timestamp credits?"""
_SURROUNDING = """
    nav navbar navigation navi menu submenu breadcrumbs? crumbs? pagination pager paging prev\\w* next-(?:post|article)
    sidebar rail widgets? footer foot masthead banner topbar toolbar
    relateds? recirc\\w* recommend\\w* trending popular most-(?:read|viewed|popular|shared) more-(?:stories|news|from|on)
    read-?(?:more|next) also-(?:like|read) see-also up-?next teasers? carousel slideshow player
    promos? promotions? sponsor\\w* advert\\w* ads? adsense dfp outbrain taboola donat\\w+
    newsletters? subscri\\w+ sign-?up login signin cookies? gdpr consent modal popup overlay lightbox
    author-?(?:bio|box|info) about-?author sharedaddy hidden screen-reader\\w* sr-only print-only copyright disclaimer
    respond comments?-?form reply-?(?:form|title)"""
_COMMENT = "comments? commentlist disqus\\w* livefyre repl(?:y|ies) discussion"

_ATTRIBUTES = re.compile(r'\b(?:class|id|role|itemprop|data-testid|data-component)="([^"]*)"')
_NOT_SHOWN = re.compile(
    r'(?:^|\s)(?:hidden(?:=|\s|$)|aria-hidden="true"|style="[^"]*display:\s*none)', re.IGNORECASE
)
_LETTER_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORDS = re.compile(
    r"(?<![^\s_-])(?:"
    + "|".join(  # of words that begin at the same place the first counts
        f"(?P<{hint.name}>{'|'.join(words.split())})"
        for hint, words in (
            (Hint.SURROUNDING, _SURROUNDING),
            (Hint.COMMENT, _COMMENT),
            (Hint.WIDGET, _WIDGET),
        )
    )
    + r")(?![^\s_-])"
)


def hint_of(attributes: str) -> Hint:
    """The hint in an element's attributes, as HTML: ' class="a b" id="c"'."""
    if _NOT_SHOWN.search(attributes):
        return Hint.HIDDEN
    words = " ".join(_ATTRIBUTES.findall(attributes))
    if not words.islower():
        words = _LETTER_CASE.sub("-", words).lower()
    hint = Hint.NONE
    for match in _WORDS.finditer(words):
        hint = max(hint, Hint[match.lastgroup or ""])
    return hint
