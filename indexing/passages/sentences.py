"""A text -> its sentences, each an exact span of it: text[start:end] is the sentence.

Marks are those of Unicode's property Sentence_Terminal (terminals.py), and of the text's language. Sentences
cover every character that is not white space exactly once, and none crosses a line: after
extraction, a line is a block of the page. Inside a line, a decision list decides: of RULES the first that
applies to a mark says whether a sentence ends there.

`python -m experiments.sentences` measures them against libraries, on the sentences of WikiQA's documents: F1
is 97.0 here, 96.8 by BlingFire, 96.2 by pySBD, 95.9 by spaCy's sentencizer and 94.4 by syntok; only BlingFire
is as fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from answermill.indexing.passages.abbreviations import BOOKS, LATIN, TITLES, named, starters
from answermill.indexing.passages.end_marks import EndMark
from answermill.schemas.scripts import TERMINALS, UNSPACED, closing_in, marks_of

Span = tuple[int, int]  # (start, end) in code points of Document.text

_BASIC, _ALL = "\uffff", "\U0010ffff"
"""The largest character whose marks are looked for: with larger ones `re` takes twenty times as long."""
_BEYOND = re.compile("[\U00010a00-\U0001ebff]")
"""Scripts with larger marks; emoji come after them."""
_UNSPACED = f"{UNSPACED}\uff00-\uff9f"


def _plain(language: str) -> str:
    """Condition, after one mark, under which no rule of the language says otherwise than that a sentence
    ends.

    One blank, maybe after a quote or bracket, and a capital or a digit of ASCII follow '?', '!' or a '.' that
    stands after four letters with which no word of a rule ends, after a word of three or two that is none,
    after a year, a decade, a blank, a quote or a bracket.
    """
    words = named(language)
    written = words | {word.capitalize() for word in words}
    ends = sorted({word[-4:] for word in written if word[-4:].isalpha() and len(word) >= 4})
    three, two = (sorted(word for word in words if word.isalpha() and len(word) == n) for n in (3, 2))
    before = (
        r"(?<=[^(\[][?!])",
        rf"(?<=[A-Za-z][a-z]{{3}}\.)(?<!(?:{'|'.join(ends)})\.)",
        r"(?<=[ \")\]]\.)",
        rf"(?<= [a-z]{{3}}\.)(?<!(?:{'|'.join(three)})\.)",
        rf"(?<= [a-z]{{2}}\.)(?<!(?:{'|'.join(two)})\.)",
        r"(?<= \d{4}\.)",
        r"(?<=\d[a-z]\.)",
    )
    return f'(?:{"|".join(before)})["”’)\\]]? (?=[A-Z0-9])'


_NEVER = "(?!)"
_NOTES = "¹²³⁰⁴-⁹"
"""Numbers of footnotes."""


@cache
def _end(language: str, largest: str, *, by_rules_alone: bool = False) -> re.Pattern[str]:
    """Line ends, and marks that may end a sentence in a language. The name of the last group says which:

    - 'line': the end of a line;
    - 'plain': one mark with which a sentence ends by the rules, whatever else is in the text: most marks are
      so, and no rule is asked;
    - 'closing': marks on which the rules decide, with the closing quotes, brackets and footnote marks, [1]
      [a] [note 2], after them. Other scripts' marks need no blank after them, nor do '!' and '?', one or two,
      between letters that are written without blanks. 》 is no end: a title goes on in its sentence.

    Marks beside each other are looked at from the first one on alone: a page may have a million of them.
    """
    plain = _NEVER if by_rules_alone else _plain(language)
    own = marks_of(language)
    listed = re.escape("".join(sorted(mark for mark in TERMINALS if mark <= largest)))
    marks = f".!?…{listed}{re.escape(own)}"
    wide = listed if own.isascii() else listed + own
    closing = f"\"'”’»›)\\]}}」』）】》〉〕］｣{closing_in(language)}"
    spaced = "[ \u00a0\u202f]»" if language == "fr" else _NEVER
    return re.compile(
        rf"[{marks}\n](?:(?P<line>(?<=\n))|(?P<plain>{plain})|"
        rf"(?<![{marks}][{marks}])[{marks}]*"
        rf"(?P<closing>(?:{spaced})?(?:[{closing}]|\[[\w ]{{1,12}}\]|[{_NOTES}]{{1,3}})*)"
        r"(?:(?=[ \t\r\f\v\u00a0\u2000-\u200a\u202f\u3000])"
        rf"|(?<=[{wide}」』”）])|(?<=[{wide}][】〉〕］｣’])"
        rf"|(?:(?<=[{wide}][)\"'\]])|(?<=[{_UNSPACED}][!?])|(?<=[{_UNSPACED}][!?]{{2}}))(?=[{_UNSPACED}])|$))",
        re.MULTILINE,
    )


_QUOTE_GOES_ON = frozenset("とってなのはがをにでもや")
"""Kana with which a sentence goes on after a quotation."""
_CONTINUES = frozenset(".,;:!?…)]}%-–—/&+=|、。，．：；！？）」』】》〉〕］｣")


class Rule(NamedTuple):
    """A line of the decision list."""

    name: str
    applies: Callable[[EndMark], bool]
    ends: bool
    """True if a sentence ends at a mark to which the rule applies."""
    example: str
    """A line in which the rule decides on the marks before '|'."""
    language: str = ""
    """Language of the example, if the rule is for some."""


RULES = (
    Rule("a mark that goes on", lambda m: m.follower in _CONTINUES, False, "Why?| - he asked."),
    Rule(
        "a quotation that goes on",
        lambda m: m.wide and m.closing != "" and m.follower in _QUOTE_GOES_ON,
        False,
        "「来た。」|と聞いた。",
    ),
    Rule("a particle", lambda m: m.particle_follows, False, "“왔다.”|라고 말했다."),
    Rule("half a mark", lambda m: m.is_half, False, "እሱ፡|መጣ፡፡", "am"),
    Rule("a reported quotation", lambda m: m.is_reported, False, "“这是对的。”|他说。", "zh"),
    Rule("letters of a name", lambda m: m.is_spelt, False, "بی۔|بی۔سی نے کہا۔", "ur"),
    Rule("a remark", lambda m: m.is_remark, False, "Es war(!)| Montag.", "de"),
    Rule("a mark in a title", lambda m: m.wide and m.is_titled, False, "看《摔跤吧！|爸爸》了。"),
    Rule("a full-width number", lambda m: m.is_decimal, False, "約３．|５です。"),
    Rule("other scripts' marks", lambda m: m.wide, True, "これは文です。|次の文です。"),
    Rule(
        "dots in a sentence", lambda m: m.dots and (m.goes_on or m.word == "I"), False, "Well...| I think so."
    ),
    Rule("dots", lambda m: m.dots, True, "Wait…| He came."),
    Rule("a quoted question", lambda m: m.asks and m.goes_on and m.closing != "", False, '"Why?"| he asked.'),
    Rule(
        "a name with a mark",
        lambda m: m.asks and m.goes_on and m.last[:1].isupper(),
        False,
        "Yahoo!| is a firm.",
    ),
    Rule("a question", lambda m: m.asks, True, "Why?| No one knows."),
    Rule(
        "no capitals",
        lambda m: m.goes_on and not m.closing and m.is_ordinary and m.is_no_abbreviation,
        True,
        "i went home.| it was cold.",
    ),
    Rule("a middle stop", lambda m: m.is_middle_stop, False, "Նա ասաց.| Ես եկա։", "hy"),
    Rule("a small letter", lambda m: m.goes_on, False, "It is 5 p.m.| in Rome."),
    Rule("a title", lambda m: m.last in TITLES, False, "Dr.| Smith came."),
    Rule("a title of another language", lambda m: m.is_followed, False, "डॉ.| शर्मा चले।", "hi"),
    Rule("letters with blanks", lambda m: m.is_spaced_form, False, "Er kam z.| B. im Mai."),
    Rule("an ordinal", lambda m: m.is_ordinal, False, "Am 3.| Oktober kam er.", "de"),
    Rule("Latin", lambda m: m.last in LATIN, False, "Jones vs.| Brown"),
    Rule("a book's name", lambda m: m.last in BOOKS and m.verse_follows, False, "See Ps.| 23:1."),
    Rule("a number's name", lambda m: m.number_follows, False, "See Fig.| 3."),
    Rule("a list's number", lambda m: m.is_list_number, False, "1.| Introduction"),
    Rule("initials", lambda m: m.is_initial and m.word in ("A", "I"), False, "He is J.| A. Brown."),
    Rule(
        "a word that starts sentences",
        lambda m: m.word in starters(m.language),
        True,
        "It left the U.S.| The end.",
    ),
    Rule("a time of day", lambda m: m.time_ends, True, "It left at 5 p.m.| Passengers slept."),
    Rule("a short form", lambda m: m.is_short_form, False, "John F.| Kennedy came."),
    Rule("a full stop", lambda m: True, True, "It ended.| Nobody came."),
)
"""The first that applies decides."""


def sentence_spans(text: str, language: str = "") -> Iterator[Span]:
    """The sentences of a text, not cut to any length; `language`, an ISO 639 code, adds the marks and
    abbreviations of its own.

    >>> list(sentence_spans("Dr. Smith came. He left."))
    [(0, 15), (16, 24)]
    """
    marks = _end(language, _ALL if may_have_large_marks(text) else _BASIC)
    start = line_end = 0
    for match in marks.finditer(text):
        kind, end = match.lastgroup, match.end()
        if end > line_end:
            line_end = text.find("\n", end)
            line_end = line_end if line_end >= 0 else len(text)
        if kind == "plain":  # it ends with the blank, and there is rarely one before it
            while text[start].isspace():
                start += 1
            yield start, end - 1
        elif kind == "line" or (end < line_end and _rule(text, start, line_end, match, language).ends):
            if (span := stripped(text, start, end)) is not None:
                yield span
        else:
            continue
        start = end

    if (span := stripped(text, start, len(text))) is not None:
        yield span


def may_have_large_marks(text: str) -> bool:
    """True if the text has a letter of a script whose marks are beyond the basic plane."""
    # In UTF-8 what is beyond begins with this byte, or a larger one, which is found at once.
    is_beyond = not text.isascii() and b"\xf0" in text.encode("utf-8", "surrogatepass")
    return is_beyond and _BEYOND.search(text) is not None


def _rule(text: str, sentence: int, line_end: int, match: re.Match[str], language: str) -> Rule:
    mark = EndMark(text, sentence, line_end, match, language)
    return next(rule for rule in RULES if rule.applies(mark))


def decisions(text: str, line: int, line_end: int, language: str = "") -> Iterator[tuple[int, Rule]]:
    """(offset after the marks, the rule that decides on them) of all marks inside a line that may end a
    sentence."""
    sentence = line
    for match in _end(language, _ALL, by_rules_alone=True).finditer(text, line, line_end):
        if match.end() < line_end:
            rule = _rule(text, sentence, line_end, match, language)
            yield match.end(), rule
            if rule.ends:
                sentence = match.end()


def stripped(text: str, start: int, end: int) -> Span | None:
    """The span without white space at its edges; None if nothing remains."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None
