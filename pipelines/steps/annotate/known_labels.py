"""Known labels of a file, which become the controls among the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from answermill.indexing.labels.given_labels import Contradiction
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.label_tables import label_batches
from answermill.pipelines.errors import BAD_DATA, JobError


@dataclass(frozen=True, slots=True)
class KnownLabel:
    """A label of the file, and its line."""

    number: int
    label: int
    text: str | None = None
    """Folded text of a label by id; None if the file has none."""


class KnownLabels:
    """The known labels of a file, by question and sentence; none without a file."""

    def __init__(self, path: Path | None, columns: Columns = AS_NAMED) -> None:
        """Raises JobError: 66 if there is no such file, 65 with the line if it is wrong or contradicts
        itself."""
        self._by_id: dict[tuple[str, str], KnownLabel] = {}
        self._by_text: dict[tuple[str, str], KnownLabel] = {}

        batches = label_batches(path, columns) if path is not None else ()
        for row in (row for batch in batches for row in batch.to_pylist()):
            text = None if row["sentence_id"] is None or row["text"] is None else fold(row["text"])
            known = KnownLabel(row["number"], row["label"], text)
            if row["sentence_id"] is not None:
                first = self._by_id.setdefault((row["question_id"], row["sentence_id"]), known)
            else:
                first = self._by_text.setdefault((row["question_id"], fold(row["text"])), known)
            if first.label != known.label:
                contradiction = Contradiction(known.number, known.label, first.number)
                raise JobError(f"{path}:{known.number}: {contradiction}", BAD_DATA)

    @property
    def count(self) -> int:
        """Labels of different sentences: one that the file repeats counts once."""
        return len(self._by_id) + len(self._by_text)

    def find(self, question_id: str, sentences: Mapping[str, str]) -> dict[str, KnownLabel]:
        """Sentence id → its known label, for these sentences (id → text); a label by id takes precedence over
        one by text, and does not hold for a sentence of another text."""
        labels = {}
        for sentence_id, text in sentences.items():
            known = self._by_id.get((question_id, sentence_id))
            if known is not None and known.text not in (None, fold(text)):
                known = None
            if known is None and self._by_text:
                known = self._by_text.get((question_id, fold(text)))
            if known is not None:
                labels[sentence_id] = known
        return labels
