"""Values of export records: checked fields, choices, times, and the row of a table that two tools write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from answermill.indexing.crawl.values import whole_number
from answermill.pipelines.data.annotation_tools.tool import QUESTION, ExportedLabel, ExportRow, Malformed

_LABELS = {
    **dict.fromkeys(("correct", "1", "1.0", "yes", "true"), 1),
    **dict.fromkeys(("wrong", "0", "0.0", "no", "false"), 0),
}
_UNDECIDED = "cannot tell"
_ANSWERED = ("label", QUESTION, "annotation_id")
"""Columns of a label; or of an annotation, whose label Label Studio leaves out where none was given."""


def label_of(choices: Sequence[Any]) -> tuple[int | None, str, str]:
    """(label, '', '') of a single choice that is a label, else (None, reason, detail)."""
    if len(choices) != 1:
        return (
            None,
            "not_a_label",
            f"{len(choices)} choices, not one: {_without_surrogates(str(list(choices)))[:120]}",
        )

    choice = text_of(choices[0]).strip().casefold()
    if choice in _LABELS:
        return _LABELS[choice], "", ""
    if choice.replace("_", " ") == _UNDECIDED:
        return None, "skipped", _UNDECIDED

    return (
        None,
        "not_a_label",
        f"{_without_surrogates(str(choices[0]))[:80]!r}; known: correct, wrong, {_UNDECIDED}",
    )


def read_table_row(record: int, row: ExportRow) -> list[ExportedLabel]:
    """The label of a row of CSV or of Label Studio's JSON_MIN: `task_id`, `text_hash`, `label` or `answer`,
    `annotator`.

    An empty label is no annotation, unless the row has an annotation's id: then Label Studio wrote it, whose
    users are null or "None" once they are deleted. Raises Malformed if the row has no place for a label.
    """
    if not any(name in row for name in _ANSWERED):
        raise Malformed(f"no column label, but {', '.join(row)}; if one is it, write --columns label=NAME")
    if "label" in row and QUESTION in row:
        raise Malformed(f"label and {QUESTION}: either may be the label; leave one out, or export it as JSON")
    answer = row.get("label") if "label" in row else row.get(QUESTION)
    if isinstance(answer, dict):
        answer = answer.get("choices")
    choices = answer if isinstance(answer, list) else [answer] if text_of(answer).strip() else []
    if not choices and not row.get("annotation_id"):
        return []

    created_at = time_of(row.get("created_at"))
    changed_at = time_of(row.get("updated_at")) or created_at
    task_id, text_hash = text_of(row.get("task_id")).strip(), text_of(row.get("text_hash")).strip()
    annotation_id = text_of(row.get("annotation_id")).strip()
    name: str | None = user_of(row.get("annotator"))
    if annotation_id and name in ("", "None"):
        name = None

    return [
        ExportedLabel(
            record,
            task_id,
            text_hash,
            name,
            *label_of(choices),
            changed_at,
            annotation_id=annotation_id,
            created_at=created_at,
        )
    ]


def user_of(user: Any) -> str:
    """The name by which an export knows a user: an e-mail address, a user name or a number; '' if it has
    none."""
    if isinstance(user, dict):
        user = user.get("email") or user.get("username") or user.get("id")
    return text_of(user).strip()


def object_at(row: ExportRow, name: str) -> ExportRow:
    """The object `row[name]`; empty if it is missing or null. Raises Malformed if it is something else."""
    value = row.get(name)
    if value is not None and not isinstance(value, dict):
        raise Malformed(f"{name!r} is {str(value)[:60]!r}, not an object")
    return value or {}


def list_at(row: ExportRow, name: str) -> list[Any]:
    """The list `row[name]`; empty if it is missing or null. Raises Malformed if it is something else."""
    value = row.get(name)
    if value is not None and not isinstance(value, list):
        raise Malformed(f"{name!r} is {str(value)[:60]!r}, not a list")
    return value or []


def text_of(value: Any) -> str:
    """Strings, whole numbers and truth values as strings; '' of anything else.

    >>> [text_of(value) for value in ("a", 7, 7.0, True, 7.5, None)]
    ['a', '7', '7', 'True', '', '']
    """
    value = whole_number(value)
    return _without_surrogates(str(value)) if isinstance(value, (str, int)) else ""


def time_of(value: Any) -> float | None:
    """Seconds since 1970, of a number or of ISO 8601; None of anything else.

    >>> [time_of(value) for value in (7, "1970-01-01T00:00:07", float("nan"), 10**400)]
    [7.0, 7.0, None, None]
    """
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            return None
        return seconds if math.isfinite(seconds) else None
    try:
        moment = datetime.fromisoformat(text_of(value).strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced: JSON can hold them, UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
