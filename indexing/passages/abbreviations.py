"""Abbreviations of the most written languages that something follows, such as titles before a name, each as
it is written before its full stop. Those of English are in sentences.py, among its rules."""

from __future__ import annotations

from functools import cache

_INDIC_DOCTORS = "डॉ डा प्रो पं स्व ড ডা ডঃ প্রো డా డాక్టర్ ప్రొ ડૉ ડો પ્રો ਡਾ ਪ੍ਰੋ ഡോ പ്രൊഫ ಡಾ ಪ್ರೊ"
_FOLLOWED = {
    "de": "bzw evtl ggf inkl sog vgl Hr Hrn Frl Dipl Ing Nr Abs v n",  # 44 v. Chr.
    "es": "Sra Sras Srta Sres Dña Av Avda Pág pág art núm",
    "pt": "Sra Srta Av pág art",
    "it": "sig Sig sigg Sigg dott Dott prof avv Avv ing",
    "fr": "MM Mgr Me",
    "pl": "ul al pl prof dr inż mgr św np im gen ks",
    "ru": "ул просп пл пер проф акад им св см ср стр рис напр",
    "uk": "вул просп пл пров проф акад ім св див напр",
    "tr": "Doç Av Sn",
    "vi": "TS ThS PGS GS BS TP Tp",
    "id": "Jl Ir Bpk Drs",
    **dict.fromkeys(("hi", "mr", "ne", "bn", "as", "te", "gu", "pa", "ml", "kn"), _INDIC_DOCTORS),
}

_NO_NOUNS = """
    Aber Als Am An Auch Auf Aus Bei Da Dabei Damit Danach Dann Das Dem Den Denn Der Die Dies Diese Dieser Doch
    Dort Ein Eine Einen Einer Er Es Für Hier Ich Ihr Im In Ist Jetzt Mit Nach Nur Ob Oder Seit Sie So Und Um
    Von Vor Was Weil Wenn Wer Wie Wir Wo Zu Zum Zur"""
NO_NOUNS = frozenset(_NO_NOUNS.split())
"""Words that begin sentences of German and are no nouns, so that a number before them is no ordinal."""


@cache
def followed_in(language: str) -> frozenset[str]:
    """Abbreviations of a language, an ISO 639 code, with which no sentence ends.

    >>> sorted(followed_in("tr"))
    ['Av', 'Doç', 'Sn']
    """
    return frozenset(_FOLLOWED.get(language, "").split())
