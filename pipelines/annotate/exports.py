"""Exports of annotation tools → annotations. `tools` knows what each tool writes, `files` the files that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipelines.annotate.exports.files import ExportFile
from pipelines.annotate.exports.tools import READERS, Given, Malformed, form_of
from pipelines.errors import BAD_DATA, USAGE, JobError

FORMS = tuple(READERS)


class Export:
    """One export. `records` and `unanswered` count as it is read: tasks, lines or rows, and those that nobody has judged."""

    def __init__(self, path: Path, form: str | None = None) -> None:
        """Recognises the form by the first record. Raises JobError: 66 where the file is missing, 65 where it is no export."""
        if form is not None and form not in READERS:
            raise JobError(f"--form {form}: give one of {', '.join(READERS)}", USAGE)
        self.path, self.file = path, ExportFile(path)
        self.records = self.unanswered = 0
        first = next(self.file.rows(), None)
        if first is None:
            raise JobError(f"{path}: no record in it; leave it out, or export again", BAD_DATA)
        found = form or form_of(first[1], self.file.kind)
        if found is None:
            told = ", ".join(map(str, list(first[1])[:8]))
            raise self.file.bad(first[0], f"no export that is known: it has {told}; name it with --form {'|'.join(READERS)}")
        self.form = found

    def read(self) -> Iterator[Given]:
        """Its annotations, in the order of the file. An annotation without an annotator bears the name of the file, without
        endings. Raises JobError (65) with the place where the file is cut off or is not what it should be."""
        reader, anonymous = READERS[self.form], self.path.name.partition(".")[0]
        self.records = self.unanswered = 0
        for where, row in self.file.rows():
            try:
                given = reader(where, row, anonymous)
            except Malformed as e:
                raise self.file.bad(where, f"not what {self.form} writes: {e}") from e
            self.records += 1
            self.unanswered += not given
            yield from given
