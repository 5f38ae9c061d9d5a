"""Well-formed questions (WQA §3.2): a text in; the reason why it is refused, or None, out.

The rules look at a text's form and know no grammar: a question begins as one, has some words, is one
sentence, and holds no placeholder. Upper case and a question mark at the end are not required: web queries
have neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

CountSentences: TypeAlias = Callable[[str], int]
"""A text → its number of sentences."""


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


ASKING = _words("who whom whose what which when where why how")
"""A question begins with one of these, also contracted ('who's', 'whats')."""
AUXILIARIES = _words(
    "is are was were am do does did has have had can could will would shall should may might must "
    "isn't aren't wasn't weren't don't doesn't didn't hasn't haven't hadn't can't couldn't won't wouldn't "
    "shouldn't"
)
"""Or it begins with one of these."""
LEADING = _words(
    "in on at to from for by with of under during after before since until through into about within and so"
)
"""Or with one of these before an asking word that is not 'when', 'where', 'why' or 'how': 'in which year'."""
REQUESTS = _words("name list give tell explain describe define identify")
"""Or it is a request: 'name the planets'. A request may end as a statement does."""

_CONTRACTED = re.compile(r"(who|what|when|where|why|how)(?:['’]?(?:s|re|d|ll))$")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_URL = re.compile(r"https?:|www\.|\w\.(?:com|org|net)/", re.I)
_HTML = re.compile(
    r"</?(?:a|b|i|u|p|br|hr|em|li|ol|ul|td|th|tr|h\d|div|img|pre|sub|sup|code|font|span|strong|script|style|table)\b[^<>]*>"
    r"|&(?:#\d+|#x[\da-f]+|[a-z]{2,8});",
    re.I,
)
_PLACEHOLDER = re.compile(
    r"_{2,}|\[[\w .-]*\]|<[^<>]*>|\{[^{}]*\}|(?<!\w)[Xx]{3,}(?!\w)|(?:\.\s?){3,}|…|\?{3,}"
)
_PAIRS = (("(", ")"), ("“", "”"), ("«", "»"))


@dataclass(frozen=True, slots=True)
class QuestionRules:
    """Bounds of a well-formed question, in words."""

    min_words: int = 3
    max_words: int = 30


def refusal(text: str, count_sentences: CountSentences, rules: QuestionRules | None = None) -> str | None:
    """The reason why a text is no well-formed question, in one word; None if it is one.

    'no_letter', 'markup' (a URL or HTML), 'placeholder' (____, [BLANK], <...>, {...}, XXX, '...'),
    'upper_case', 'too_short', 'too_long', 'unbalanced' (brackets or quotes), 'not_a_question', 'statement'
    (begins as a question and does not end as one) or 'several_sentences': the first that holds, in this
    order.
    """
    rules, text = rules or QuestionRules(), " ".join(text.split())
    words = [word.casefold().replace("’", "'") for word in _WORD.findall(text)]
    reasons = {
        "no_letter": not any(character.isalpha() for character in text),
        "markup": _URL.search(text) or _HTML.search(text),
        "placeholder": _PLACEHOLDER.search(text),
        "upper_case": text.isupper(),
        "too_short": len(words) < rules.min_words,
        "too_long": len(words) > rules.max_words,
        "unbalanced": not _is_balanced(text),
        "not_a_question": not words or not begins_as_question(words),
        "statement": words and words[0] not in REQUESTS and text.rstrip("\"'”’)")[-1:] in tuple(".!:;,"),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)

    return reason or ("several_sentences" if count_sentences(text) > 1 else None)


def begins_as_question(words: list[str]) -> bool:
    """True if words, case folded and at least one, begin as a question does; 'can', 'will' and the like need
    one more word."""
    first, second = words[0], words[1] if len(words) > 1 else ""
    if _is_asking(first) or first in REQUESTS:
        return True
    if first in LEADING:
        return second in ("which", "what", "whose", "whom", "how") or (
            first in ("and", "so") and _is_asking(second)
        )
    return first in AUXILIARIES and second not in ("", "not")


def _is_asking(word: str) -> bool:
    return word in ASKING or _CONTRACTED.fullmatch(word) is not None


def _is_balanced(text: str) -> bool:
    return text.count('"') % 2 == 0 and all(_closes(text, *pair) for pair in _PAIRS)


def _closes(text: str, opening: str, closing: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == opening) - (character == closing)
        if depth < 0:
            return False
    return depth == 0
