"""Convert: an AS2 data set in any of its forms -> the papers' row of statistics, and one Parquet file."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from answermill.pipelines.data.convert.statistics import PUBLISHED, DatasetStatistics, Tokens, table
from answermill.pipelines.data.formats import describe_formats, read_dataset, recognise
from answermill.pipelines.data.formats.format import Form, table_form
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.runs.parquet_folder import ROWS_PER_GROUP, whole_file
from answermill.pipelines.runs.watch.progress import print_line
from answermill.schemas.labels import LabelledCandidate

REPORT_SECONDS = 30.0


def convert(
    files: Sequence[Path],
    form: Form,
    options: Mapping[str, Any],
    out: Path | None,
    *,
    tokens: Tokens = "spacy",
    published: str | None = None,
) -> Iterator[str]:
    """Read the files as one data set; yields the lines of the statistics table, and the readers' counts.

    Memory grows with the number of questions only. `out` appears when it is complete, and never replaces a
    file.

    Raises JobError: 2 if `published` or an option is unknown or wrong, 65 if a file is wrong or two have the
    same question id, 73 if `out` exists.
    """
    name, columns = table_form(form)
    if name == "list":
        yield from describe_formats()
        return

    if published == "list":
        yield from sorted("/".join(key) for key in PUBLISHED)
        return

    known = {"/".join(key): row for key, row in PUBLISHED.items()}
    if published is not None and published not in known:
        raise JobError(f"--published {published}: no paper's row; known: {', '.join(sorted(known))}", USAGE)
    if not files:
        raise JobError("give at least one file", USAGE)
    if out is not None and out.exists():
        raise JobError(f"{out} exists already; name another --out", OUTPUT_EXISTS)

    statistics, counted = DatasetStatistics(tokens), Counter[str]()
    with contextlib.nullcontext() if out is None else whole_file(out, LabelledCandidate) as write:
        for block in _candidates(files, form, options, counted):
            statistics.add(block)
            if write is not None:
                write(block)

    read_as = name or recognise(files[0], columns)
    yield f"{', '.join(map(str, files))} as {read_as}; lengths in {tokens} tokens"
    yield from table(statistics, known.get(published or "", ()))
    yield from (f"{count:,} {name}" for name, count in sorted(counted.items()) if count)
    if out is not None:
        yield f"written: {out}"


def _candidates(
    files: Sequence[Path], form: Form, options: Mapping[str, Any], counted: Counter[str]
) -> Iterator[list[LabelledCandidate]]:
    """The candidates of all files, some thousands at a time; reports their number so far on stderr."""
    began = reported = time.monotonic()
    read, block, seen = 0, list[LabelledCandidate](), dict[str, Path]()

    for path in files:
        for candidate in read_dataset(path, form, counted=counted, **options):
            if len(files) > 1 and seen.setdefault(candidate.question_id, path) != path:
                first = seen[candidate.question_id]
                raise JobError(f"{path}: question {candidate.question_id} is in {first} already", BAD_DATA)

            block.append(candidate)
            read += 1
            if len(block) == ROWS_PER_GROUP:
                yield block
                block = []
                if time.monotonic() - reported > REPORT_SECONDS:
                    reported = time.monotonic()
                    state = {
                        "step": "dataset",
                        "file": str(path),
                        "rows": read,
                        "elapsed_s": round(reported - began),
                    }
                    print_line(json.dumps(state))

    yield block
