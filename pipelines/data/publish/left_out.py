"""Reasons why something is left out of training data, and their counts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """Reason why a label, a window, a retrieved passage or a candidate is left out; counts have these
    names."""

    # Labels, of every kind of set.
    NOT_IN_SPLIT_FILE = "not_in_split_file"
    UNKNOWN_QUESTION = "unknown_question"
    UNKNOWN_SENTENCE = "unknown_sentence"
    QUESTION_OF_ANOTHER_SPLIT = "question_of_another_split"
    DOCUMENT_OF_ANOTHER_SPLIT = "document_of_another_split"

    # Windows and retrieved passages.
    CORRECT = "correct"
    LOOKS_CORRECT = "looks_correct"
    WITHOUT_SENTENCE = "without_sentence"
    SAME_AS_WINDOW = "same_as_window"

    # Sentences of lists.
    QUESTION_WITHOUT_ANSWER = "question_without_answer"
    SAME_TEXT = "same_text"
    TEXT_OF_A_RIGHT_ONE = "text_of_a_right_one"
    RIGHT_FOR_A_NEAR_QUESTION = "right_for_a_near_question"
    ANSWER_STRING = "answer_string"
    NOT_DRAWN = "not_drawn"


_WORDS = {
    Reason.NOT_IN_SPLIT_FILE: "of a question that the file of splits lacks",
    Reason.UNKNOWN_QUESTION: "of a question that the run does not have",
    Reason.UNKNOWN_SENTENCE: "of a sentence that its document does not have",
    Reason.QUESTION_OF_ANOTHER_SPLIT: "of a question that is nearly one of another split",
    Reason.DOCUMENT_OF_ANOTHER_SPLIT: "of a document that is in another split",
    Reason.CORRECT: "with a correct sentence",
    Reason.LOOKS_CORRECT: "that may hold a correct sentence, by its text",
    Reason.WITHOUT_SENTENCE: "without a whole sentence",
    Reason.SAME_AS_WINDOW: "that are windows already",
    Reason.QUESTION_WITHOUT_ANSWER: "of a question without a correct sentence",
    Reason.SAME_TEXT: "with a text that is there already",
    Reason.TEXT_OF_A_RIGHT_ONE: "with the text of a correct one",
    Reason.RIGHT_FOR_A_NEAR_QUESTION: "that are correct for nearly the same question",
    Reason.ANSWER_STRING: "that hold an answer",
    Reason.NOT_DRAWN: "that were not drawn",
}


def count_in_words(name: str, number: int) -> str:
    """A count of a summary, for people.

    >>> count_in_words("labels_left_out_unknown_sentence", 2), count_in_words("questions_left_out", 3)
    ('2 labels of a sentence that its document does not have', '3 questions left out')
    """
    what, left_out, reason = name.partition("_left_out")
    items = {"retrieved": "retrieved passages"}.get(what, what.replace("_", " "))
    items = items.removesuffix("s") if number == 1 else items
    fate = _WORDS[Reason(reason.removeprefix("_"))] if reason else left_out.replace("_", " ").strip()
    return f"{number:,} {items} {fate}".strip()


def left_out_counts(items: str, reasons: Mapping[Reason, int]) -> dict[str, int]:
    """The counts under their names in a summary.

    >>> left_out_counts("labels", {Reason.UNKNOWN_SENTENCE: 2})
    {'labels_left_out_unknown_sentence': 2}
    """
    return {f"{items}_left_out_{reason}": n for reason, n in reasons.items()}
