"""Reasons for which records are refused, in words for people."""

from __future__ import annotations

_PAGES = {
    "bad_encoding": "the record's text is in no encoding that was declared or recognised",
    "blocked": "its address is on the block list",
    "boilerplate": "too few words were left without the lines that many pages of its domain share",
    "broken_json": "the line is no JSON",
    "broken_record": "the record is damaged",
    "domain": "its domain is none of those that are kept",
    "duplicate": "another page has the same text",
    "duplicate_id": "another page has the same id",
    "empty_file": "the input file is empty",
    "extraction_crashed": "the program that finds main texts ended on it",
    "extraction_timeout": "to find its main text took too long",
    "http_status": "the server did not answer 200",
    "language": "it is in another language than those that are kept",
    "language_unsure": "its language could not be told with enough certainty",
    "media_type": "its type is none of those that are read",
    "near_duplicate": "another page has nearly the same text",
    "no_content": "no main text was found in it",
    "no_title": "it has no title",
    "noindex": "it asks not to be indexed",
    "not_fetched": "the record could not be fetched",
    "not_html": "it is no HTML",
    "plain_text": "its plain text is for machines, not for readers",
    "too_large": "it is larger than a page may be",
    "too_long": "its main text is longer than a page's may be",
    "too_short": "its main text has too few words",
    "truncated": "it was cut when it was crawled",
    "undecodable": "its bytes are no text in the charset that it declares",
    "unit_failed": "the unit of work that it was in failed",
    "unsupported_format": "the file is in no form that is read",
}
_QUESTIONS = {
    "duplicate": "another question has the same text",
    "markup": "it holds an address or HTML",
    "no_letter": "it has no letter",
    "not_a_question": "it does not begin as a question",
    "not_sampled": "the sample was drawn without it",
    "placeholder": "it has a blank to fill in",
    "several_sentences": "it has several sentences",
    "statement": "it ends as a statement",
    "too_long": "it has too many words",
    "too_short": "it has too few words",
    "unbalanced": "a bracket or a quote has no other half",
    "upper_case": "it is in capitals",
}
_LABELS = {
    "cancelled": "the annotator cancelled it",
    "duplicate": "another line says the same, or the annotator has changed it",
    "not_a_label": "it says neither correct nor wrong",
    "skipped": "the annotator skipped it, or cannot tell",
    "text_changed": "the sentence has another text now",
    "unknown_sentence": "no passage has the sentence",
    "unknown_task": "the run has no such task",
}
_OTHERS = {"unit_failed": "the unit of work that it was in failed"}
_FOLDERS = {
    "rejects": _PAGES,
    "questions_rejects": _QUESTIONS,
    "labels/rejects": _LABELS,
    "collected/rejects": _LABELS,
}
_PRESETS = {"c4": "C4", "gopher": "Gopher", "fineweb": "FineWeb"}


def meaning(folder: str, reason: str) -> str:
    """The reason of a folder's rejects in words; '' if it is not known.

    >>> meaning("rejects", "no_title"), meaning("rejects", "gopher_words"), meaning("rejects", "mauve")
    ('it has no title', 'it breaks the rule words of the preset Gopher', '')
    """
    preset, _, rule = reason.partition("_")
    if preset in _PRESETS and folder == "rejects":
        return f"it breaks the rule {rule.replace('_', ' ')} of the preset {_PRESETS[preset]}"
    return _FOLDERS.get(folder, _OTHERS).get(reason, _OTHERS.get(reason, ""))
