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


def left_out_counts(items: str, reasons: Mapping[Reason, int]) -> dict[str, int]:
    """The counts under their names in a summary.

    >>> left_out_counts("labels", {Reason.UNKNOWN_SENTENCE: 2})
    {'labels_left_out_unknown_sentence': 2}
    """
    return {f"{items}_left_out_{reason}": n for reason, n in reasons.items()}
