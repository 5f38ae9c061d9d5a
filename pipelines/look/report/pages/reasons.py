"""What each reason for which a record is refused means, in a sentence: for the report and for
docs/reference/reasons.md."""

from __future__ import annotations

from collections.abc import Iterator

_PAGES = {
    "bad_encoding": "The record's body could not be unpacked (gzip, br, zstd, chunks), or has no end.",
    "blocked": "The page's address is on the block list.",
    "boilerplate": "Too few words were left without the lines that many pages of the domain share.",
    "broken_json": "The line is no JSON.",
    "broken_record": "The record is damaged.",
    "domain": "The page's domain is none of those that are kept.",
    "duplicate": "Another page has the same text.",
    "duplicate_id": "Another page has the same id.",
    "empty_file": "The input file is empty.",
    "extraction_crashed": "The program that finds main texts ended on this page.",
    "extraction_timeout": "To find the page's main text took too long.",
    "http_status": "The server did not answer with the page (status 200) when it was crawled.",
    "language": "The page is in another language than those that are kept.",
    "language_unsure": "The page's language could not be told with enough certainty.",
    "media_type": "The record is of none of the types that are read.",
    "missing_text": "The row has no text.",
    "near_duplicate": "Another page has nearly the same text.",
    "no_content": "No main text was found in the page.",
    "no_record": "No record stands where the index says.",
    "no_title": "The page has no title.",
    "noindex": "The page asks not to be indexed.",
    "not_fetched": "The record could not be fetched.",
    "not_html": "The record is no HTML.",
    "other_record": "Another record stands where the index says.",
    "plain_text": "The record's plain text is for machines, not for readers.",
    "too_large": "The page is larger than a page may be.",
    "too_long": "The page's main text is longer than one may be.",
    "too_short": "The page's main text has too few words.",
    "truncated": "The page was cut when it was crawled.",
    "undecodable": "No encoding makes the page readable, or many characters of its main text are lost.",
    "unit_failed": "The unit of work that held the record failed.",
    "unsupported_format": "The file is in no form that is read.",
}
_QUESTIONS = {
    "duplicate": "Another question has the same text.",
    "markup": "The question holds an address or HTML.",
    "no_letter": "The question has no letter.",
    "not_a_question": "The text does not begin as a question.",
    "not_sampled": "The sample was drawn without the question.",
    "placeholder": "The question has a blank to fill in.",
    "several_sentences": "The text has several sentences.",
    "statement": "The text ends as a statement.",
    "too_long": "The question has too many words.",
    "too_short": "The question has too few words.",
    "unbalanced": "A bracket or a quote of the question has no other half.",
    "upper_case": "The question is in capitals.",
}
_LABELS = {
    "cancelled": "The annotator cancelled the task.",
    "duplicate": "Another line says the same, or the annotator has changed it.",
    "not_a_label": "The vote says neither correct nor wrong.",
    "skipped": "The annotator skipped the task, or cannot tell.",
    "text_changed": "The sentence has another text now.",
    "unknown_sentence": "No passage has the sentence.",
    "unknown_task": "The run has no such task.",
}
_OTHERS = {"unit_failed": "The unit of work that held the record failed."}
_FOLDERS = {
    "rejects": _PAGES,
    "questions_rejects": _QUESTIONS,
    "scored_rejects": _OTHERS,
    "labels/rejects": _LABELS,
    "collected/rejects": _LABELS,
}
_PRESETS = {"c4": "C4", "gopher": "Gopher", "fineweb": "FineWeb"}


def meaning(folder: str, reason: str) -> str:
    """What the reason of a folder's rejects means; '' if it is not known.

    >>> meaning("rejects", "no_title"), meaning("rejects", "gopher_words"), meaning("rejects", "mauve")
    ('The page has no title.', 'The page breaks the rule words of the preset Gopher.', '')
    """
    preset, _, rule = reason.partition("_")
    if preset in _PRESETS and folder == "rejects":
        return f"The page breaks the rule {rule.replace('_', ' ')} of the preset {_PRESETS[preset]}."
    return _FOLDERS.get(folder, _OTHERS).get(reason, _OTHERS.get(reason, ""))


def meanings() -> Iterator[tuple[str, str, str]]:
    """(folder, reason, meaning) of every reason, without the rules of presets."""
    for folder, reasons in _FOLDERS.items():
        for reason in reasons:
            yield folder, reason, meaning(folder, reason)
