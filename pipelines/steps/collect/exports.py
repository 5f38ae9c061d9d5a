"""Exports of annotation tools → labels of people. `annotation_tools` has the forms of the tools,
`export_files` the reading of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from answermill.pipelines.data.annotation_tools import export_forms
from answermill.pipelines.data.annotation_tools.tool import ExportedLabel, ExportRow, Malformed
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.pipelines.steps.collect.export_files import ExportFile
from answermill.schemas.plug_ins import is_code

_ENDING = re.compile(r"(\.\d+)?(\.(csv|json|jsonl|ndjson|tsv|txt))?(\.gz)?$", re.IGNORECASE)


def stem_of(path: Path) -> str:
    """The name for which a file stands where annotators have none.

    >>> [stem_of(Path(name)) for name in ("anna.csv", "anna.2.csv", "anna.json.gz")]
    ['anna', 'anna', 'anna']
    """
    return _ENDING.sub("", path.name)


class Export:
    """One export. `records` and `unanswered` count as it is read: tasks, lines or rows, and those that nobody
    has judged; `unnamed`: True if a label had no annotator."""

    def __init__(self, path: Path, form: str | None = None, columns: Columns = AS_NAMED) -> None:
        """Recognises the form by the first record. `columns`: as in `ExportFile`. Raises JobError: 66 if the
        file is missing, 65 if it is no export."""
        forms = export_forms(form)
        if form is not None and is_code(form):
            form = None  # one of its tool's forms, which recognises the file
        if form is not None and form not in forms:
            raise JobError(f"--form {form}: give one of {', '.join(forms)}", USAGE)

        self.path, self.file = path, ExportFile(path, columns)
        self.stem = stem_of(path)
        """The annotator of labels that name none."""
        self.records = self.unanswered = 0
        self.unnamed = False
        self._forms = forms
        first = next(self.file.rows(), None)
        if first is None:
            raise JobError(f"{path}: no record in it; leave it out, or export again", BAD_DATA)

        where, row = first
        name = form or self._form_of(row)
        if name is None:
            keys = ", ".join(map(str, list(row)[:8]))
            raise self.file.bad(
                where, f"no export that is known: it has {keys}; name it with --form {'|'.join(forms)}"
            )

        self.form = name

    def _form_of(self, row: ExportRow) -> str | None:
        return next(
            (known.name for known in self._forms.values() if known.recognise(row, self.file.kind)), None
        )

    def read(self) -> Iterator[ExportedLabel]:
        """Its labels, in the order of the file. A label without an annotator gets the name of the file,
        without its ending.

        Raises JobError (65) with the place where the file is cut off or departs from its form, as where a
        record without a label is one of another form.
        """
        self.records = self.unanswered = 0
        form = self._forms[self.form]
        for where, row in self.file.rows():
            try:
                labels = form.read(where, row)
            except Malformed as e:
                raise self.file.bad(where, f"not what {self.form} writes: {e}") from e
            if not labels and not form.recognise(row, self.file.kind) and (other := self._form_of(row)):
                raise self.file.bad(
                    where,
                    f"{other} writes such records, not {self.form}; name each tool's export as it came",
                )
            self.records += 1
            self.unanswered += not labels
            for label in labels:
                self.unnamed |= label.annotator == ""
                yield replace(label, annotator=self.stem) if label.annotator == "" else label
