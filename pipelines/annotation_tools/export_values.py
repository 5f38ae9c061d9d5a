"""What each annotation tool writes → annotations, one function a tool.

| form | what |
| --- | --- |
| label-studio | JSON: tasks with `data.task_id`, `data.text_hash`, and `annotations` with a choice named `answer` |
| label-studio-min | JSON_MIN: an annotation a record, with `task_id`, `text_hash`, `answer`, `annotator` |
| argilla | Argilla 2: records, nested as `to_json` and the server write them, or flat as `to_list(flatten=True)` |
| prodigy | `db-out`: a judged task a line, with `accept` of a choice, or `answer` alone |
| csv | `task_id`, `text_hash`, `label` (or `answer`), `annotator`; Label Studio's CSV too |

All say "correct", "wrong" or "cannot tell"; also 1 and 0, yes and no, true and false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipelines.annotate.exports.files import Kind

ANSWER = "answer"
LABELS = {"correct": 1, "1": 1, "yes": 1, "true": 1, "wrong": 0, "0": 0, "no": 0, "false": 0}
UNDECIDED = "cannot tell"


class Malformed(ValueError):
    """A record that its tool cannot have written."""


@dataclass(frozen=True, slots=True)
class Given:
    """An annotation as the tool gives it: a label, or the reason why it is none (cancelled, skipped, not_a_label)."""

    where: int
    task_id: str
    text_hash: str
    """'' where the export does not carry it."""
    annotator: str
    label: int | None
    reason: str
    detail: str
    at: float | None
    """Seconds since 1970 at which it was last changed; None where the tool does not say."""
    submitted: bool = True
    """Whether the export says that it was submitted, where the tool keeps drafts beside."""


def label_studio(where: int, row: Mapping[str, Any], anonymous: str) -> list[Given]:
    data = _mapping(row, "data")
    task_id, text_hash = _string(data.get("task_id")), _string(data.get("text_hash"))
    made = []
    for each in _list(row, "annotations"):
        if not isinstance(each, dict):
            raise Malformed(f"an annotation that is no object: {str(each)[:60]!r}")
        by = each.get("completed_by")
        if isinstance(by, dict):
            by = by.get("email") or by.get("username") or by.get("id")
        label, reason, detail = meaning(_choices(each))
        if each.get("was_cancelled"):
            label, reason, detail = None, "cancelled", "skipped in Label Studio"
        at = _time(each.get("updated_at")) or _time(each.get("created_at"))
        made.append(Given(where, task_id, text_hash, _string(by) or anonymous, label, reason, detail, at))
    return made


def _choices(annotation: Mapping[str, Any]) -> list[Any]:
    """What was chosen in the control named `answer`."""
    chosen: list[Any] = []
    for result in _list(annotation, "result"):
        if isinstance(result, dict) and result.get("from_name") == ANSWER:
            chosen += _list(_mapping(result, "value"), "choices")
    return chosen


def table(where: int, row: Mapping[str, Any], anonymous: str) -> list[Given]:
    """A row of CSV or of Label Studio's JSON_MIN. An empty label is no annotation, unless the row has an annotation's id."""
    said = row.get("label") if "label" in row else row.get(ANSWER)
    if isinstance(said, dict):
        said = said.get("choices")
    chosen = said if isinstance(said, list) else [said] if _string(said).strip() else []
    if not chosen and not row.get("annotation_id"):
        return []
    at = _time(row.get("updated_at")) or _time(row.get("created_at"))
    by = row.get("annotator")
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    task_id, text_hash = _string(row.get("task_id")).strip(), _string(row.get("text_hash")).strip()
    return [Given(where, task_id, text_hash, _string(by).strip() or anonymous, *meaning(chosen), at)]


def argilla(where: int, row: Mapping[str, Any], anonymous: str) -> list[Given]:
    task_id = _string(row.get("id") or row.get("external_id"))
    text_hash = _string(_mapping(row, "metadata").get("text_hash") or row.get("text_hash"))
    made = []
    for value, user, status in _responses(row):
        label, reason, detail = meaning([] if value is None else value if isinstance(value, list) else [value])
        if status in ("draft", "discarded"):
            label, reason, detail = None, "skipped", f"{status} in Argilla"
        elif status not in (None, "submitted"):
            label, reason, detail = None, "not_a_label", f"response status {status!r}"
        who = _string(user) or anonymous
        made.append(Given(where, task_id, text_hash, who, label, reason, detail, None, status is not None))
    return made


def _responses(row: Mapping[str, Any]) -> list[tuple[Any, Any, Any]]:
    """(value, user, status or None) of each response to the question `answer`, of any of the three forms."""
    flat = f"{ANSWER}.responses"
    if flat in row:
        values, users, states = (_list(row, name) for name in (flat, f"{flat}.users", f"{flat}.status"))
        if len(users) != len(values) or len(states) not in (0, len(values)):
            raise Malformed(f"{len(values)} responses, {len(users)} users, {len(states)} states")
        return list(zip(values, users, states or [None] * len(values), strict=True))
    responses = row.get("responses") or {}
    if isinstance(responses, dict):
        of_answer = _list(responses, ANSWER)
    else:  # as the server gives them: one response a user, with the values of all questions
        of_answer = [
            {**each, **_mapping(_mapping(each, "values"), ANSWER)} if isinstance(each, dict) else each
            for each in _list(row, "responses")
        ]
    if not all(isinstance(each, dict) for each in of_answer):
        raise Malformed("a response that is no object")
    return [(each.get("value"), each.get("user_id"), each.get("status")) for each in of_answer]


def prodigy(where: int, row: Mapping[str, Any], anonymous: str) -> list[Given]:
    meta, answer = _mapping(row, "meta"), row.get(ANSWER)
    if answer is None:
        return []
    task_id, text_hash = (_string(row.get(name) or meta.get(name)) for name in ("task_id", "text_hash"))
    if answer == "ignore":
        said: tuple[int | None, str, str] = (None, "skipped", "ignored in Prodigy")
    elif "accept" in row or "options" in row:  # a choice: `reject` refuses the task, whatever was chosen
        said = (
            meaning(_list(row, "accept")) if answer == "accept" else (None, "skipped", f"task answered {answer!r} in Prodigy")
        )
    else:
        said = meaning([{"accept": "correct", "reject": "wrong"}.get(answer, answer)])
    who = _string(row.get("_annotator_id") or row.get("_session_id")) or anonymous
    return [Given(where, task_id, text_hash, who, *said, _time(row.get("_timestamp")))]


READERS: dict[str, Callable[[int, Mapping[str, Any], str], list[Given]]] = {
    "label-studio": label_studio,
    "label-studio-min": table,
    "argilla": argilla,
    "prodigy": prodigy,
    "csv": table,
}


def form_of(row: Mapping[str, Any], kind: Kind) -> str | None:
    """Which tool wrote a row, by its keys; None where none did."""
    if kind == "csv":
        return "csv"
    if isinstance(row.get("data"), dict):
        return "label-studio"
    if "annotation_id" in row and "task_id" in row:
        return "label-studio-min"
    if "_server_id" in row or isinstance(row.get("fields"), dict) or f"{ANSWER}.responses" in row:
        return "argilla"
    if "_task_hash" in row or ("answer" in row and ("task_id" in row or isinstance(row.get("meta"), dict))):
        return "prodigy"
    return None


def meaning(chosen: list[Any]) -> tuple[int | None, str, str]:
    """(label, '', '') of one choice, else (None, reason, detail)."""
    if len(chosen) != 1:
        return None, "not_a_label", f"{len(chosen)} choices, not one: {_clean(str(chosen))[:120]}"
    said = _string(chosen[0]).strip().casefold()
    if said in LABELS:
        return LABELS[said], "", ""
    if said.replace("_", " ") == UNDECIDED:
        return None, "skipped", UNDECIDED
    return None, "not_a_label", f"{_clean(str(chosen[0]))[:80]!r}; known: correct, wrong, {UNDECIDED}"


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    if value is not None and not isinstance(value, dict):
        raise Malformed(f"{name!r} is {str(value)[:60]!r}, not an object")
    return value or {}


def _list(row: Mapping[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    if value is not None and not isinstance(value, list):
        raise Malformed(f"{name!r} is {str(value)[:60]!r}, not a list")
    return value or []


def _string(value: Any) -> str:
    """Strings, whole numbers and truth values as strings; '' of anything else."""
    return _clean(str(value)) if isinstance(value, (str, int)) else ""


def _clean(text: str) -> str:
    """Without the lone surrogates that JSON can hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _time(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        at = datetime.fromisoformat(_string(value).strip())
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
