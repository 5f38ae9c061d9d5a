"""Hints in a block-level element's tag, class, id and role at its content: menus, teasers, comments and the
like.

A class or id has words between its blanks, '-', '_' and changes of letter case: `siteFooter` has `site` and
`footer`. Names of attributes count, and of values only those that name the element. A hint is a guess:
`belief.py` says which ones are followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

HIDDEN = "hidden="  # key of hidden elements


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


class Word(NamedTuple):
    """A word that hints at an element's content."""

    text: str
    hint: Hint
    of_id: bool = False
    """True if the id has it: pages name their sections so, by the words of their headings."""
    is_topic: bool = False
    """True for words that pages are about as well: a player, a menu, cookies."""
    slug: str = ""
    """The class that has it, if it has other words too, as a heading may have them: `copyright-law`."""


class Signs(NamedTuple):
    """What an element's attributes say about its content."""

    words: tuple[Word, ...] = ()
    hidden: bool = False
    identity: str = ""
    """The id of a hidden element: a button elsewhere may open it."""
    is_panel: bool = False
    """True for the roles of what a tab or a heading opens, and for an answer, if it is hidden."""
    keys: tuple[tuple[str, Hint], ...] = ()
    """What it has in common with its like, each with its hint: words, and that it is hidden."""


NO_SIGNS = Signs()
TAGS = {
    name: Signs((Word(f"<{name}", Hint.SURROUNDING),))
    # The text goes on around a picture; a sentence of its caption would interrupt it.
    for name in ("nav", "footer", "menu", "dialog", "noscript", "figcaption")
}
"""Tag → what it says about its element, whatever its attributes say."""
ASIDE, NOTE = Word("<aside", Hint.SURROUNDING), Word("<note", Hint.SURROUNDING)
"""What an <aside> says, and one that is named as a note to the text around it."""

_WIDGET = """
    shar(?:e|es|ing) social addthis follow jump skip toc tags taglist rating votes? metadata (?:post|entry|article)-meta
    byline dateline timestamp credits?"""
_SURROUNDING = """
    nav navbar navigation navi submenu breadcrumbs? crumbs? pagination pager paging prev\\w* next-(?:post|article)
    sidebar rail widgets? footer foot masthead banner topbar toolbar
    relateds? recirc\\w* recommend\\w* trending most-(?:read|viewed|popular|shared) more-(?:stories|news|from|on)
    read-?(?:more|next) also-(?:like|read) see-also up-?next teasers? carousel slideshow
    promos? promotions? sponsor\\w* advert\\w* ads? adsense dfp outbrain taboola
    newsletters? subscri\\w+ sign-?up modal popup overlay lightbox
    author-?(?:bio|box|info) about-?author sharedaddy screen-reader\\w* sr-only print-only copyright disclaimer
    respond comments?-?form reply-?(?:form|title)"""
_TOPIC = "menu player popular donat\\w+ login signin cookies? gdpr consent"
_COMMENT = "comments? commentlist disqus\\w* livefyre repl(?:y|ies) discussion"

# No value has a quote in it, so that what follows another value's last quote is a name.
_NAME = r'(?:^|(?<=[^=]"))\s'
_NAMES = re.compile(rf'{_NAME}(class|id|role|itemprop|data-testid|data-component)="([^"]*)"')
_NOT_SHOWN = re.compile(
    rf'{_NAME}(?:hidden="(?!until-found")|aria-hidden="true"|style="(?:[^"]*;)?\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b)',
    re.IGNORECASE,
)
"""A panel that is hidden until it is found is one that a search opens."""
_HIDDEN_CLASS = re.compile(r"(?<!\S)(?:(?:is|js|visually)-|visually)?hidden(?!\S)", re.IGNORECASE)
_SHOWN_CLASS = re.compile(r"\S:(?:block|inline|flex|grid|table|contents|flow|list)")
"""Class of Tailwind by which a hidden element is shown on wide screens or in print."""
_PANELS = frozenset({"region", "tabpanel"})
_ANSWERS = frozenset({"acceptedAnswer", "suggestedAnswer"})  # of schema.org
_NOTE = re.compile(
    r"(?<![^\s_-])(?:notes?|tips?|hint|warning|caution|important|admonition|callout)(?![^\s_-])"
)
_STYLE = re.compile(r"(?<!\S)Mso[A-Z]\w*")
"""Name of a style of Word, such as MsoFooter, which any paragraph may have."""
_NOTE_CLASS = re.compile(r"(?<!\S)admonition(?!\S)")
"""Class of a note in documentation; the classes beside it say which kind it is."""
_LETTER_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OF_ANOTHER = "".join(f"(?<!{word}[-_])" for word in ("with", "without", "has", "no", "not"))
"""`with-sidebar`: the element is the one beside a sidebar."""
_WORDS = re.compile(
    rf"(?<![^\s_-]){_OF_ANOTHER}(?:"
    + "|".join(  # of words that begin at the same place the first counts
        f"(?P<{name}>{'|'.join(words.split())})"
        for name, words in (
            ("SURROUNDING", _SURROUNDING),
            ("TOPIC", _TOPIC),
            ("COMMENT", _COMMENT),
            ("WIDGET", _WIDGET),
        )
    )
    + r")(?![^\s_-])"
)


def signs_of(name: str, attributes: str) -> Signs:
    """What an element's attributes say, as HTML: ' class="a b" id="c"'."""
    values = _NAMES.findall(attributes)
    words = [word for key, value in values for word in _words(value, key == "id")]
    if name == "aside":
        words.append(NOTE if any(_NOTE.search(value.lower()) for _, value in values) else ASIDE)

    classes = next((value for key, value in values if key == "class"), "")
    hidden = _HIDDEN_CLASS.search(classes) and not _SHOWN_CLASS.search(classes)
    if hidden or _NOT_SHOWN.search(attributes):
        named = dict(values)
        is_panel = named.get("role", "").strip() in _PANELS or named.get("itemprop", "") in _ANSWERS
        return Signs(
            tuple(words), True, named.get("id", ""), is_panel, (*_keys(words), (HIDDEN, Hint.HIDDEN))
        )

    return Signs(tuple(words), keys=_keys(words)) if words else NO_SIGNS


def _keys(words: Sequence[Word]) -> tuple[tuple[str, Hint], ...]:
    """The words of attributes that name layout: readers' comments are many, and a tag means the same wherever
    it stands."""
    layout = {word.text: word.hint for word in words if word.hint != Hint.COMMENT}
    return tuple((text, hint) for text, hint in layout.items() if text not in (ASIDE.text, NOTE.text))


def _words(value: str, of_id: bool) -> list[Word]:
    if "Mso" in value:
        value = _STYLE.sub("", value)
    if not value.islower():
        value = _LETTER_CASE.sub("-", value).lower()
    matches = [(match[0], match.lastgroup or "", match.start()) for match in _WORDS.finditer(value)]
    if matches and _NOTE_CLASS.search(value):
        return []
    return [
        Word(
            text,
            Hint.SURROUNDING if group == "TOPIC" else Hint[group],
            of_id,
            group == "TOPIC",
            "" if of_id else _slug(value, text, start),
        )
        for text, group, start in matches
    ]


def _slug(value: str, word: str, start: int) -> str:
    """The name in a class that a word is in, at an offset; '' if it is all of the name."""
    name = value[value.rfind(" ", 0, start) + 1 :].split(" ", 1)[0]
    return "" if name == word else name
