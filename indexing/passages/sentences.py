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

from answermill.indexing.passages.abbreviations import NO_NOUNS, followed_in
from answermill.indexing.passages.terminals import TERMINALS, marks_of
from answermill.indexing.passages.text import UNSPACED

Span = tuple[int, int]  # (start, end) in code points of Document.text

_OPENING = "\"'“‘«([{‹„¿¡"
_BASIC, _ALL = "\uffff", "\U0010ffff"
"""The largest character whose marks are looked for: with larger ones `re` takes twenty times as long."""
_BEYOND = re.compile("[\U00010a00-\U0001ebff]")
"""Scripts with larger marks; emoji come after them."""
_WIDE_MARKS = TERMINALS | frozenset("|།༎༏༑")
"""Marks that stand for nothing but an end, if they may be one."""
_UNSPACED = f"{UNSPACED}\uff00-\uff9f"

_BEFORE_LAST = re.compile(r".*[\s\"'“‘«(\[{‹„/—–]", re.DOTALL)
_LONGEST_LAST = 40  # characters before a mark among which its word is looked for
_WORD_AFTER = re.compile(
    r"[\"'“‘«(\[{‹„¿¡ \t\r\f\v\u00a0\u2000-\u200a\u202f\u3000]*(?P<word>[^\s.,;:!?\"”’)\]}…]*)"
)
_ASKING = frozenset("!?;")
_QUOTE_GOES_ON = frozenset("とってなのはがをにでもや")
"""Kana with which a sentence goes on after a quotation."""
_CONTINUES = frozenset(".,;:!?…)]}%-–—/&+=|")
# U.S, p.m, Ph.D: the last dot is the one in question.
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_VERSE = re.compile(r"\s*\d+:\d")
_NUMBER_OR_ROMAN = re.compile(r"\s*[(#]?(?:\d|[IVXLC]+\b)")


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STARTERS = _words(
    "A After All Although An And Another Any As At Because Before Both But By Each Even Every For From He "
    "Her Here His How "
    "However I If In Instead It Its Many Meanwhile Moreover Most My No Not Now On Once One Or Our Perhaps "
    "She Since So Some "
    "Still Such That The Their Then There Therefore These They This Those Though Thus To Today Under Unlike "
    "Until We What "
    "When Where Whether Which While Who Why With Yet You Your"
)
_TITLES = _words(  # a name follows
    "Adm Asst Brig Capt Cmdr Col Cpl Dr Fr Gen Gov Hon Lt Maj Messrs Mlle Mme Mr Mrs Ms Pfc Pres Prof Pvt "
    "Rep Reps Rev Sen "
    "Sens Sgt Ssgt Supt"
)
_LATIN = _words("approx ca cf e.g eg i.e ie v vs viz Approx Ca Cf E.g I.e Vs Viz")  # something follows
_BOOKS = _words(  # of the Bible: a chapter and verse follow
    "Ps Pss Gen Ex Exod Lev Num Deut Josh Judg Sam Kgs Chr Neh Esth Prov Eccl Isa Jer Lam Ezek Dan Hos Mic "
    "Hab Zeph Hag Zech Mal Matt Mt Mk Lk Jn Rom Cor Gal Eph Phil Col Thess Tim Heb Jas Pet Rev"
)
_HALF_DAYS = _words("a.m p.m A.M P.M")
_AFTER_HALF_DAYS = _words(  # the sentence goes on
    "Eastern Central Mountain Pacific Atlantic Hawaiian Alaska Greenwich Local Standard Daylight Coordinated "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun "
    "January February March April May June July August September October November December"
)
_BEFORE_NUMBER = _words(
    "no nos nr fig figs eq eqs sec secs ch chap p pp vol vols art arts tab ref refs par para pt ver op ex "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
_MAYBE_LAST = _words(  # last in a sentence only if the next word is one that starts sentences
    "Ave Bldg Blvd Bros Co Corp Dept Dist Est Ft Inc Jr Ltd Mt Mts Rd Sr St Ste Univ Assn al Jan Feb Mar "
    "Apr Jun Jul Aug Sep "
    "Sept Oct Nov Dec Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Md Mich Minn Miss Mo Mont Neb "
    "Nev Okla Ore Pa Tenn "
    "Tex Va Vt Wash Wis Wyo Ed Eds Ph.D M.D B.A M.A B.Sc M.Sc"
)

_NAMED = frozenset(word.lower() for word in _TITLES | _LATIN | _BOOKS | _BEFORE_NUMBER | _MAYBE_LAST)
"""Words that a rule names."""
_SHORTENED = _BEFORE_NUMBER | _words("approx assn dept dist etc incl univ")


def _plain(language: str) -> str:
    """Condition, after one mark, under which no rule of the language says otherwise than that a sentence
    ends.

    One blank, maybe after a quote or bracket, and a capital or a digit of ASCII follow '?', '!' or a '.' that
    stands after four letters with which no word of a rule ends, after a word of three or two that is none,
    after a year, a decade, a blank, a quote or a bracket.
    """
    named = _NAMED | {word.lower() for word in followed_in(language)}
    written = named | {word.capitalize() for word in named}
    ends = sorted({word[-4:] for word in written if word[-4:].isalpha() and len(word) >= 4})
    three, two = (sorted(word for word in named if word.isalpha() and len(word) == n) for n in (3, 2))
    before = (
        r"(?<=[?!])",
        rf"(?<=[A-Za-z][a-z]{{3}}\.)(?<!(?:{'|'.join(ends)})\.)",
        r"(?<=[ \")\]]\.)",
        rf"(?<= [a-z]{{3}}\.)(?<!(?:{'|'.join(three)})\.)",
        rf"(?<= [a-z]{{2}}\.)(?<!(?:{'|'.join(two)})\.)",
        r"(?<= \d{4}\.)",
        r"(?<=\d[a-z]\.)",
    )
    return f'(?:{"|".join(before)})["”’)\\]]? (?=[A-Z0-9])'


_NEVER = "(?!)"


@cache
def _end(language: str, largest: str, *, by_rules_alone: bool = False) -> re.Pattern[str]:
    """Line ends, and marks that may end a sentence in a language. The name of the last group says which:

    - 'line': the end of a line;
    - 'plain': one mark with which a sentence ends by the rules, whatever else is in the text: most marks are
      so, and no rule is asked;
    - 'closing': marks on which the rules decide, with the closing quotes, brackets and footnote marks, [1]
      [a] [note 2], after them. Other scripts' marks need no blank after them, nor do '!' and '?' between
      letters that are written without blanks.
    """
    plain = _NEVER if by_rules_alone else _plain(language)
    own = marks_of(language)
    listed = re.escape("".join(sorted(mark for mark in TERMINALS if mark <= largest)))
    marks = f".!?…{listed}{re.escape(own)}"
    wide = listed if own.isascii() else listed + own
    return re.compile(
        rf"[{marks}\n](?:(?P<line>(?<=\n))|(?P<plain>{plain})|"
        rf"(?:[{marks}]|(?<=፡)፡)*"
        r"(?P<closing>(?:[\"'”’»›)\]}」』）】》〉〕］｣]|\[[\w ]{1,12}\])*)"
        r"(?:(?=[ \t\r\f\v\u00a0\u2000-\u200a\u202f\u3000])"
        rf"|(?<=[{wide}」』”）])|(?<=[{_UNSPACED}][!?])(?=[{_UNSPACED}])|$))",
        re.MULTILINE,
    )


class EndMark:
    """Marks that may end a sentence inside a line, and the text around them."""

    def __init__(
        self, text: str, sentence: int, line_end: int, match: re.Match[str], language: str = ""
    ) -> None:
        """`match` is a match of `_end` in a sentence that begins at the offset `sentence`."""
        self.text, self.sentence, self.line_end, self.language = text, sentence, line_end, language
        self.start, self.end = match.span()

        marks = text[self.start : match.start("closing")]
        self.wide = not _WIDE_MARKS.isdisjoint(marks)
        self.dots = marks[0] == "…" or marks.startswith("..")
        self.asks = not _ASKING.isdisjoint(marks)  # or it exclaims
        self.closing: str = match["closing"]

        first = max(sentence, self.start - _LONGEST_LAST)
        before = _BEFORE_LAST.match(text, first, self.start)
        self.last = text[before.end() if before else first : self.start]  # word before the marks

        after = _WORD_AFTER.match(text, self.end, line_end)
        assert after is not None  # it matches the empty word
        self.word: str = after["word"]  # word after the marks, '' if none follows
        self.follower = self.word[:1] or text[self.end : line_end].lstrip()[:1]

        # 'he said', but not 'iPhones are'.
        self.goes_on = self.word[:1].islower() and not self.word[1:2].isupper()

    @property
    def before(self) -> str:
        """The sentence up to the word before the marks."""
        return self.text[self.sentence : self.start - len(self.last)]

    @property
    def plain(self) -> str:
        """The word before the marks as lists of abbreviations write it."""
        return self.last.lower().lstrip("-")

    @property
    def is_ordinary(self) -> bool:
        """True if the word before the marks is long, in small letters, and no abbreviation."""
        return (
            len(self.last) > 3
            and self.last.islower()
            and self.last.isalpha()
            and self.plain not in _SHORTENED
        )

    @property
    def is_initial(self) -> bool:
        return len(self.last) == 1 and self.last.isupper()

    @property
    def is_short_form(self) -> bool:
        """True if the word before the marks is an abbreviation with which a sentence may end."""
        return self.is_initial or self.last in _MAYBE_LAST or _DOTTED.fullmatch(self.last) is not None

    @property
    def is_followed(self) -> bool:
        """True if the word before the marks is an abbreviation of the language that something follows."""
        return self.last in followed_in(self.language)

    @property
    def is_spaced_form(self) -> bool:
        """True if a small letter stands before the marks, and one with a full stop after them."""
        after = self.text[self.end : self.line_end].lstrip()
        return len(self.last) == 1 and self.last.islower() and len(self.word) == 1 and after[1:2] == "."

    @property
    def is_ordinal(self) -> bool:
        """True if a number of one or two digits stands before the marks, and a noun of German after them."""
        is_number = self.last.isdecimal() and len(self.last) <= 2
        return self.language == "de" and is_number and self.word[:1].isupper() and self.word not in NO_NOUNS

    @property
    def is_list_number(self) -> bool:
        """True if a number of up to three digits stands before the marks, and only opening quotes before
        it."""
        return self.last.isdigit() and len(self.last) <= 3 and not self.before.strip(_OPENING + " \t")

    @property
    def is_decimal(self) -> bool:
        """True if a full-width stop stands between digits."""
        return self.text[self.start] == "．" and self.last[-1:].isdecimal() and self.follower.isdecimal()

    @property
    def number_follows(self) -> bool:
        return _NUMBER_OR_ROMAN.match(self.text, self.end, self.line_end) is not None

    @property
    def verse_follows(self) -> bool:
        return _VERSE.match(self.text, self.end, self.line_end) is not None

    @property
    def time_ends(self) -> bool:
        """True if a time of day stands before the marks, and a capital after them that begins no time zone,
        day or month: so do all 13 sentences of the corpora that end there, and none of the 27 that go on."""
        if self.last not in _HALF_DAYS or not self.before.rstrip()[-1:].isdigit():
            return False
        word, after = self.word.partition("/")[0], self.text[self.end : self.line_end].lstrip()
        is_zone = word.isupper() and len(word) <= 4
        return word[:1].isupper() and after.startswith(word) and not is_zone and word not in _AFTER_HALF_DAYS


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
        lambda m: m.goes_on and not m.closing and m.is_ordinary,
        True,
        "i went home.| it was cold.",
    ),
    Rule("a small letter", lambda m: m.goes_on, False, "It is 5 p.m.| in Rome."),
    Rule("a title", lambda m: m.last in _TITLES, False, "Dr.| Smith came."),
    Rule("a title of another language", lambda m: m.is_followed, False, "डॉ.| शर्मा चले।", "hi"),
    Rule("letters with blanks", lambda m: m.is_spaced_form, False, "Er kam z.| B. im Mai."),
    Rule("an ordinal", lambda m: m.is_ordinal, False, "Am 3.| Oktober kam er.", "de"),
    Rule("Latin", lambda m: m.last in _LATIN, False, "Jones vs.| Brown"),
    Rule("a book's name", lambda m: m.last in _BOOKS and m.verse_follows, False, "See Ps.| 23:1."),
    Rule("a number's name", lambda m: m.number_follows and m.plain in _BEFORE_NUMBER, False, "See Fig.| 3."),
    Rule("a list's number", lambda m: m.is_list_number, False, "1.| Introduction"),
    Rule("initials", lambda m: m.is_initial and m.word in ("A", "I"), False, "He is J.| A. Brown."),
    Rule("a word that starts sentences", lambda m: m.word in _STARTERS, True, "It left the U.S.| The end."),
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
    start = 0
    for match in marks.finditer(text):
        kind, end = match.lastgroup, match.end()
        if kind == "plain":  # it ends with the blank, and there is rarely one before it
            while text[start].isspace():
                start += 1
            yield start, end - 1
        elif kind == "line" or _ends_at(text, start, match, language):
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


def _ends_at(text: str, sentence: int, match: re.Match[str], language: str) -> bool:
    """True if the rules let a sentence, which begins at an offset, end at the marks inside its line."""
    line_end = text.find("\n", match.end())
    line_end = line_end if line_end >= 0 else len(text)
    return match.end() < line_end and _rule(text, sentence, line_end, match, language).ends


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
