"""Facts of the scripts of the world: which are written without blanks, and the marks that end sentences:
Unicode's property Sentence_Terminal, and the marks that do so in some languages alone."""

from __future__ import annotations

import re
from functools import cache

UNSPACED = (
    "\u0e00-\u0e3e\u0e40-\u0eff\u1000-\u109d\u1780-\u17da\u17dc-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
)
"""Letters of scripts that are written without blanks, as ranges: Thai, Lao, Burmese, Khmer, Chinese,
Japanese; without their signs of money, and the hexagrams."""
_SENTENCE_TERMINAL = """
    589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E 1735-1736
    17D4-17D5 1803 1809 1944-1945 1AA8-1AAB 1B4E-1B4F 1B5A-1B5B 1B5E-1B5F 1B7D-1B7F 1C3B-1C3C 1C7E-1C7F
    2024 203C-203D 2047-2049 2CF9-2CFB 2E2E 2E3C 2E53-2E54 2E60-2E61 3002 A4FF A60E-A60F A6F3 A6F7
    A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE12 FE15-FE16 FE52 FE56-FE57 FF01 FF0E
    FF1F FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD
    111DE-111DF 11238-11239 1123B-1123C 112A9 113D4-113D5 1144B-1144C 115C2-115C3 115C9-115D7
    11641-11642 1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44
    16A6E-16A6F 16AF5 16B37-16B38 16B44 16D6E-16D6F 16E98 1BC9F 1DA88"""
"""The property in Unicode 17.0.0 (PropList.txt), as code points and ranges, without the '.', '!' and '?' of
ASCII."""
_WITHIN = frozenset("\u2024\u104a")
"""Of these, those that stand in sentences as well: a dot of a leader, and Burmese's comma."""
_INDIC = "as awa bh bho bn brx doi gom gu hi hne kn kok mag mai ml mr ne new or pa sa sat sd ta te".split()  # noqa: SIM905
HALVES = frozenset("፡၊")
"""Ethiopic's blank and Burmese's comma: two of them are a full stop, as many type it."""
_OF_LANGUAGE = {
    **dict.fromkeys(("am", "ti", "tig", "gez", "byn"), "፡"),
    "as": "|৷",  # the second looks like a danda
    "bn": "|৷",
    "bo": "།༎༏༑",  # a shad ends phrases as well, and there is no other mark
    "dz": "།༎༏༑",
    "hy": ":",  # on keyboards that lack ։
    "my": "၊",
    "el": ";",  # the question mark, which Unicode folds into it
    "cu": ";",
}

_CLOSING = {
    "“": "be bg bs cs da de dsb et hr hsb is ka lb lt lv mk ru sk sl sr uk".split(),  # noqa: SIM905
    "«": "cs da de hr hu sk sl sr".split(),  # noqa: SIM905
}
"""Quotation marks that open in English or French, and the languages in which they close: „…“, »…«."""


def _listed(ranges: str) -> frozenset[str]:
    codes = (part.partition("-") for part in ranges.split())
    return frozenset(
        chr(code) for first, _, last in codes for code in range(int(first, 16), int(last or first, 16) + 1)
    )


TERMINALS = _listed(_SENTENCE_TERMINAL) - _WITHIN
"""Marks that end a sentence wherever they stand."""
TERMINAL_SET = re.escape("".join(sorted(TERMINALS)))
"""The same for between the brackets of a regular expression."""


@cache
def marks_of(language: str) -> str:
    """Marks that end sentences in one language, an ISO 639 code, but not in all: '|' is a danda on keyboards
    that lack one.

    >>> marks_of("el"), marks_of("hi"), marks_of("en")
    (';', '|', '')
    """
    return _OF_LANGUAGE.get(language, "|" if language in _INDIC else "")


@cache
def closing_in(language: str) -> str:
    """Quotation marks that close in one language, an ISO 639 code, and open in others.

    >>> closing_in("de"), closing_in("uk"), closing_in("en")
    ('“«', '“', '')
    """
    return "".join(mark for mark, languages in _CLOSING.items() if language in languages)
