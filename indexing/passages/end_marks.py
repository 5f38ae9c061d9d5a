"""A mark that may end a sentence, and what the rules of sentences.py ask about the text around it."""

from __future__ import annotations

import re

from answermill.indexing.passages.abbreviations import (
    AFTER_HALF_DAYS,
    ENGLISH_LAST,
    HALF_DAYS,
    LETTERS_OF_URDU,
    MAYBE_LAST,
    NO_NOUNS,
    SHORTENED,
    before_number,
    followed_in,
    last_after_number,
)
from answermill.indexing.passages.quotations import is_reported
from answermill.schemas.scripts import HALVES, TERMINALS

_OPENING = "\"'“‘«([{‹„¿¡"
_WIDE_MARKS = TERMINALS | HALVES | frozenset("|།৷༎༏༑")
"""Marks that stand for nothing but an end, if they may be one."""

_BEFORE_LAST = re.compile(r".*[\s\"'“‘«(\[{‹„/—–]", re.DOTALL)
_NEAR = 40
"""Characters before and after a mark that rules look at: a line may be as long as a document, and have a mark
in every third of its characters."""
_TITLE = 200  # characters of a title after a mark in it
_WORD_AFTER = re.compile(
    rf"[\"'“‘«(\[{{‹„¿¡ \t\r\f\v\u00a0\u2000-\u200a\u202f\u3000]*(?P<word>[^\s.,;:!?\"”’)\]}}…]{{0,{_NEAR}}})"
)
_ASKING = frozenset("!?;")
# U.S, p.m, Ph.D: the last dot is the one in question.
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")
_DOTTED_OR_HYPHENATED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")  # and J.-C
_SYLLABLE = (
    "[\u0b85-\u0bb9\u0c05-\u0c39\u0c85-\u0cb9\u0d05-\u0d39]"
    "[\u0bbe-\u0bcd\u0bd7\u0c3e-\u0c56\u0cbe-\u0cd6\u0d3e-\u0d4d\u0d57]{0,2}"
)
_SYLLABLES = re.compile(rf"{_SYLLABLE}(?:\.{_SYLLABLE})*")
"""Initials of Tamil, Telugu, Kannada and Malayalam: letters with their vowel signs."""
_ONE_CASE = re.compile("[\u0620-\u06d3\u0904-\u0dc6\u0e01-\u0e2e\u0e81-\u0eae\u10d0-\u10ff\u1780-\u17a2]")
"""A letter of a script without capitals that writes no word as one letter."""
_GEORGIAN = re.compile("[\u10d0-\u10ff]")
_VOWEL_SIGNS = re.compile("(?=[\u0900-\u17ff])\\W")
"""Signs of vowels, which are no letters of their own to Unicode."""
_LETTER_NAME = re.compile("[\u0904-\u0dc6]{1,2}|[\u05d0-\u05ea]")
"""Name of a letter without its signs: जे is J, and in Hebrew a letter is its own name."""
_DOUBLED = frozenset(("ca", "es", "gl"))
"""Languages that double the letters of a plural: EE. UU., Estados Unidos."""
_BULLETS = "•‣▪◦⁃∙*"
_BEGINNING = re.compile(rf"[{re.escape(_OPENING)} \t]*(?P<first>.?)", re.DOTALL)
_LIST_BEGINNING = re.compile(rf"[{re.escape(_OPENING + _BULLETS)} \t]*")
_VERSE = re.compile(r"\s*\d+:\d")
_NUMBER_OR_ROMAN = re.compile(r"\s*[(#]?(?:\d|[IVXLC]+\b)")
_ROMAN = re.compile("[IVX]+")


class EndMark:
    """Marks that may end a sentence inside a line, and the text around them."""

    def __init__(
        self, text: str, sentence: int, line_end: int, match: re.Match[str], language: str = ""
    ) -> None:
        """`match` is a match of `_end` in a sentence that begins at the offset `sentence`."""
        self.text, self.sentence, self.line_end, self.language = text, sentence, line_end, language
        self.is_english = language in ("", "en")
        self.start, self.end = match.span()

        marks = text[self.start : match.start("closing")]
        self.wide = not _WIDE_MARKS.isdisjoint(marks)
        self.is_half = marks in HALVES
        self.dots = marks[0] == "…" or marks.startswith("..")
        self.asks = not _ASKING.isdisjoint(marks)  # or it exclaims
        self.closing: str = match["closing"]

        first = max(sentence, self.start - _NEAR)
        before = _BEFORE_LAST.match(text, first, self.start)
        self.last = text[before.end() if before else first : self.start]  # word before the marks

        after = _WORD_AFTER.match(text, self.end, line_end)
        assert after is not None  # it matches the empty word
        self.word: str = after["word"]  # word after the marks, '' if none follows
        self.follower = self.word[:1] or self.after[:1]

        # 'he said', but not 'iPhones are'. Letters of Georgian are small ones to Unicode, and have no others.
        self.goes_on = (
            self.word[:1].islower() and not self.word[1:2].isupper() and not _GEORGIAN.match(self.word)
        )

    @property
    def before(self) -> str:
        """The end of the sentence's text before the word before the marks, without blanks after it."""
        end = self.start - len(self.last)
        return self.text[max(self.sentence, end - _NEAR) : end].rstrip()

    @property
    def after(self) -> str:
        """The beginning of the line's text after the marks, without blanks before it."""
        return self.text[self.end : min(self.line_end, self.end + 2 * _NEAR)].lstrip()

    @property
    def plain(self) -> str:
        """The word before the marks as lists of abbreviations write it."""
        return self.last.lower().lstrip("-")

    @property
    def is_ordinary(self) -> bool:
        """True if the word before the marks is long, in small letters, and no abbreviation."""
        return (
            len(self.last) > 3 and self.last.islower() and self.last.isalpha() and self.plain not in SHORTENED
        )

    @property
    def is_no_abbreviation(self) -> bool:
        """True of a word in English, whose abbreviations are all known here, of one of more than six letters,
        and in a sentence that begins with a small letter: there, one may follow the end of a sentence."""
        if self.is_english or len(self.last) > 6:
            return True
        end = min(self.start - len(self.last), self.sentence + _NEAR)
        beginning = _BEGINNING.match(self.text, self.sentence, end)
        return beginning is not None and beginning["first"].islower()

    @property
    def is_initial(self) -> bool:
        if _SYLLABLES.fullmatch(self.last) or self.is_among_initials:
            return True
        if len(self.last) != 1:
            return False
        one_case = self.last.isalpha() and _ONE_CASE.match(self.last) is not None
        return self.last.isupper() or (one_case and not self.follows_number)

    @property
    def is_among_initials(self) -> bool:
        """True if the word before the marks, and one beside it with a full stop, may be letters, or their
        names in a script of India: ए. पी. जे., எம். ஜி."""
        if not _is_letter_name(self.last):
            return False
        before = self.before.split()
        if before and before[-1].endswith(".") and _is_letter_name(before[-1][:-1]):
            return True
        return _is_letter_name(self.word) and self.after[len(self.word) :].startswith(".")

    @property
    def is_doubled(self) -> bool:
        """True if a capital stands twice before the marks, in a language in which that is a plural."""
        return self.language in _DOUBLED and self.last[:1].isupper() and self.last[1:] == self.last[:1]

    @property
    def follows_number(self) -> bool:
        """True if a digit stands before the word before the marks."""
        return self.before[-1:].isdigit()

    @property
    def is_reported(self) -> bool:
        """True if the marks end a quotation, and who said so comes after it."""
        return is_reported(self.text, self.closing, self.end, self.line_end, self.language)

    @property
    def is_spelt(self) -> bool:
        """True if a stop of Urdu stands between names of letters, without a blank: بی۔بی۔سی."""
        if self.text[self.start] != "۔" or self.text[self.end : self.end + 1].isspace():
            return False
        return (
            self.last.rpartition("۔")[2] in LETTERS_OF_URDU and self.word.partition("۔")[0] in LETTERS_OF_URDU
        )

    @property
    def is_remark(self) -> bool:
        """True if the marks stand alone in brackets: (!), [...]. English pages are cut there, as before, so
        that their rows stay what models and figures are of."""
        bracketed = self.text[max(self.sentence, self.start - 1) : self.start] + self.closing[:1]
        return not self.is_english and bracketed in ("()", "[]")

    @property
    def is_titled(self) -> bool:
        """True if the marks stand within the brackets of a title of Chinese or Japanese."""
        _, opening, title = self.text[max(self.sentence, self.end - _TITLE) : self.end].rpartition("《")
        following = self.text[self.end : min(self.line_end, self.end + _TITLE)]
        return opening != "" and "》" not in title and "》" in following

    @property
    def is_middle_stop(self) -> bool:
        """True if a full stop of ASCII follows a letter of Armenian: it joins clauses there, and another mark
        ends sentences."""
        return self.text[self.start] == "." and "\u0531" <= self.last[-1:] <= "\u0587"

    @property
    def is_short_form(self) -> bool:
        """True if the word before the marks is an abbreviation with which a sentence may end."""
        if self.is_initial or self.is_doubled or self.last in MAYBE_LAST:
            return True
        if self.is_english and self.last in ENGLISH_LAST:
            return True
        form = _DOTTED if self.is_english else _DOTTED_OR_HYPHENATED
        return form.fullmatch(_VOWEL_SIGNS.sub("", self.last)) is not None

    @property
    def is_followed(self) -> bool:
        """True if the word before the marks is an abbreviation of the language that something follows."""
        if self.last not in followed_in(self.language):
            return False
        # Also 'and so on' of Russian and Ukrainian: и т. д.
        may_be_last = self.last in last_after_number(self.language)
        return not may_be_last or not (self.follows_number or self.before.endswith("т."))

    @property
    def is_spaced_form(self) -> bool:
        """True if a small letter stands before the marks, and one with a full stop after them."""
        return len(self.last) == 1 and self.last.islower() and len(self.word) == 1 and self.after[1:2] == "."

    @property
    def is_ordinal(self) -> bool:
        """True if a number of one or two digits, or millions, stand before the marks, and a noun of German
        after them; or a Roman number in Hungarian or Turkish, which write it before a name."""
        if self.language in ("hu", "tr"):
            return _ROMAN.fullmatch(self.last) is not None and self.word[:1].isupper()
        number = self.last.lstrip("-")  # 1. -3.
        is_number = (number.isdecimal() and len(number) <= 2) or number in ("Mio", "Mrd")
        return self.language == "de" and is_number and self.word[:1].isupper() and self.word not in NO_NOUNS

    @property
    def is_list_number(self) -> bool:
        """True if a number of up to three digits stands before the marks, and only bullets and opening quotes
        before it."""
        number = self.last.lstrip(_BULLETS)
        if not number.isdigit() or len(number) > 3:
            return False
        word = self.start - len(self.last)
        if word - self.sentence > _NEAR:
            return False
        return _LIST_BEGINNING.fullmatch(self.text, self.sentence, word) is not None

    @property
    def is_decimal(self) -> bool:
        """True if a full-width stop stands between digits."""
        return self.text[self.start] == "．" and self.last[-1:].isdecimal() and self.follower.isdecimal()

    @property
    def particle_follows(self) -> bool:
        """True if a syllable of Korean stands directly behind a quotation: a particle begins with it."""
        return self.closing != "" and "가" <= self.text[self.end : self.end + 1] <= "힣"

    @property
    def number_follows(self) -> bool:
        """True if the word before the marks is one that a number follows, and one does."""
        if self.plain not in before_number(self.language):
            return False
        return _NUMBER_OR_ROMAN.match(self.text, self.end, self.line_end) is not None

    @property
    def verse_follows(self) -> bool:
        return _VERSE.match(self.text, self.end, self.line_end) is not None

    @property
    def time_ends(self) -> bool:
        """True if a time of day stands before the marks, and a capital after them that begins no time zone,
        day or month: so do all 13 sentences of the corpora that end there, and none of the 27 that go on."""
        if self.last not in HALF_DAYS or not self.follows_number:
            return False
        word = self.word.partition("/")[0]
        if not word[:1].isupper() or (word.isupper() and len(word) <= 4):
            return False
        return self.after.startswith(word) and word not in AFTER_HALF_DAYS


def _is_letter_name(word: str) -> bool:
    return _LETTER_NAME.fullmatch(_VOWEL_SIGNS.sub("", word)) is not None
