"""Quotations that their sentence goes on after, as a word of saying shows. Scripts without capitals show it
by nothing else: “这是对的。”他说。"""

from __future__ import annotations

import re
from functools import cache

_QUOTES = frozenset("\"'”’»」』〞“«")
_NEXT = re.compile(r"[.!?…。！？।॥۔؟።။:：,，、;；“«「『\n]")
"""End of the clause after a quotation. Before a colon, it introduces another one."""
_WORDS = 4  # of the clause among which one says who spoke
_SAYING = {
    "am": "ብሎ ብላ ብለው ብለህ ብዬ አለ አለች አሉ ሲል ስትል ሲሉ",
    "ar": "قال قالت قالوا سأل سألت أجاب أجابت صاح صاحت أضاف أضافت",
    "bn": "বলল বললেন বলেন বলেছেন বলেছিলেন জিজ্ঞাসা জিজ্ঞেস",
    "fa": "گفت گفتند پرسید پرسیدند",
    "gu": "કહ્યું પૂછ્યું બોલ્યો બોલી બોલ્યા",
    "he": "אמר אמרה אמרו שאל שאלה שאלו ענה ענתה",
    "hi": "कहा बोला बोली बोले पूछा चिल्लाया चिल्लाई",
    "ka": "თქვა ჰკითხა იკითხა უპასუხა",
    "kn": "ಎಂದು ಎಂದ ಎಂದನು ಎಂದಳು ಎಂದರು",
    "ko": "말했다 말하였다 물었다 대답했다 외쳤다 소리쳤다 라고 하고 고",
    "ml": "എന്ന് എന്നു",
    "mr": "म्हणाला म्हणाली म्हणाले म्हटले विचारले सांगितले",
    "my": "ဟု ဟူ၍",
    "ne": "भने भनिन् भन्यो सोध्यो सोधे",
    "pa": "ਕਿਹਾ ਪੁੱਛਿਆ ਬੋਲਿਆ ਬੋਲੀ",
    "ta": "என்று என என்றான் என்றாள் என்றார்",
    "te": "అని అన్నాడు అంది అన్నారు",
    "ur": "کہا پوچھا بولا بولی بولے",
}
"""Language, an ISO 639 code → words of saying."""
_CHINESE = re.compile(r"\S{1,8}?(?:(?<!小)[说說]|(?<![知街味渠通管])道|[问問]|答|喊|叫)[道着著了过過]?")
"""A short clause that ends in a verb of saying."""


def is_reported(text: str, closing: str, start: int, end: int, language: str) -> bool:
    """True if a quotation, with these `closing` marks, ends at `start`, and its sentence goes on, up to `end`
    at the latest.

    >>> [is_reported(text, "”", 5, len(text), "zh") for text in ("“来吧。”他说。", "“来吧。”他走了。")]
    [True, False]
    """
    if _QUOTES.isdisjoint(closing) or not (language == "zh" or _saying(language)):
        return False
    following = _NEXT.search(text, start, end)
    clause = text[start : following.start() if following else end]
    if following and following[0] in ":：“«「『":
        return False
    if language == "zh":
        return _CHINESE.fullmatch(clause) is not None
    return not _saying(language).isdisjoint(clause.split()[:_WORDS])


@cache
def _saying(language: str) -> frozenset[str]:
    return frozenset(_SAYING.get(language, "").split())
