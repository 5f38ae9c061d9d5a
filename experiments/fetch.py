"""Data sets that the studies read: a list of them, or the download and conversion of some.

    python -m experiments.fetch                     # what there is, from where, and what is below --data
    python -m experiments.fetch wikiqa selqa        # brings these
    python -m experiments.fetch wikiqa --file PATH  # takes a file that was downloaded by hand

A downloaded file stays in --downloads and is not downloaded again; a broken download continues. The file is
compared with its SHA-256 where one is recorded, and what it becomes with the content that the saved results
were measured on.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from answermill.pipelines.errors import (
    BAD_DATA,
    INPUT_MISSING,
    IO,
    UNAVAILABLE,
    USAGE,
    JobError,
    check_file,
    disk_message,
)
from experiments.published_content import write
from experiments.published_download import Unreachable, checked, downloaded
from experiments.published_readers import readers
from experiments.published_sets import SETS, PublishedSet
from testing.harness import say

UNREADABLE = (KeyError, ValueError, EOFError, csv.Error, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""Errors of a converter on a damaged or different file; json.JSONDecodeError and
UnicodeDecodeError are ValueErrors."""


def listed(data: Path) -> Iterator[str]:
    """Lines of a paragraph for each set."""
    read_by = readers()
    for data_set in SETS.values():
        yield f"{data_set.name}: {data_set.state(data)}. {data_set.about}; licence: {data_set.licence}"
        yield from (f"    from {line}" for line in origins(data_set))
        size = f", {data_set.size / 1e6:,.1f} MB" if data_set.size else ""
        paths = ", ".join(file.path for file in data_set.files[:4])
        yield f"    becomes {paths}{more(len(data_set.files) - 4)}{size}"
        yield f"    read by {', '.join(read_by[data_set.name]) or 'no study'}"
        if data_set.note:
            yield f"    {data_set.note}"


def origins(data_set: PublishedSet) -> Iterator[str]:
    """Origins of a set, a line for each of its first files."""
    if data_set.built_from:
        yield f"the sets {', '.join(data_set.built_from)}"
    for source in data_set.sources[:3]:
        size = f"{source.size / 1e6:,.1f} MB, " if source.size else ""
        yield f"{source.url} ({size}SHA-256 {source.sha256 or 'not recorded'})"
    if len(data_set.sources) > 3:
        yield f"{len(data_set.sources) - 3} files more: experiments/published_sources.tsv"
    if data_set.convert is None:
        yield data_set.page or "the other sets"


def more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def fetch(name: str, data: Path, downloads: Path, brought: Sequence[Path] = ()) -> str:
    """Bring a set below the data folder; returns a line about the result.

    Raises JobError: 65 if a file is another than is recorded or cannot be converted, 66 if one that was
    brought, or a set that it is built from, is missing, 69 if a source cannot be reached or the set was made
    by hand, 2 if a brought file is none of it.
    """
    wanted = SETS[name]
    if not brought and wanted.state(data) == "there":
        return f"{name}: there already, below {data}"
    if wanted.convert is None:
        raise JobError(
            f"{name}: cannot be fetched. {wanted.note} Its sources: {wanted.page or 'the other sets'}",
            UNAVAILABLE,
        )

    for other in wanted.built_from:
        if SETS[other].state(data) in ("not there", "in part"):
            raise JobError(
                f"{name}: is built from {other}, which is not below {data}; type: {command(other)}",
                INPUT_MISSING,
            )

    files = sources(wanted, data, downloads / name, brought)
    try:
        for path, content in wanted.convert(files, data):
            write(data / path, content)
            say(f"{name}: wrote {path}")
    except UNREADABLE as e:
        problem = (
            f"not as it was published, or damaged ({type(e).__name__}: {e}); delete it and fetch it again"
        )
        raise JobError(f"{name}: {', '.join(map(str, files.values()))}: {problem}", BAD_DATA) from e

    return f"{name}: {result(wanted, data)}"


def sources(wanted: PublishedSet, data: Path, folder: Path, brought: Sequence[Path]) -> Mapping[str, Path]:
    """Name → path of the set's published files: the brought ones, and downloads of the others."""
    names = {source.name for source in wanted.sources}
    by_hand = {path.name: path for path in brought}
    if unknown := [path for path in brought if path.name not in names]:
        known = ", ".join(sorted(names))
        raise JobError(f"{unknown[0]}: is no file of {wanted.name}; they are named {known}", USAGE)

    for each in brought:
        check_file(each)

    files = {}
    for source in wanted.sources:
        try:
            path = by_hand.get(source.name)
            files[source.name] = checked(source, path) if path else downloaded(source, folder)
        except Unreachable as e:
            place = f"from {source.url} or {wanted.page}, and put it into {folder} as {source.name}"
            typed = command(
                wanted.name,
                *(f"--file {path}" for path in brought),
                f"--file {source.name}",
                f"--data {data}",
            )
            advice = f"get it by hand, {place}, or type: {typed}"
            raise JobError(f"{source.url}: cannot be reached ({e}); {advice}", UNAVAILABLE) from e

    return files


def command(name: str, *options: str) -> str:
    return " ".join(["python -m experiments.fetch", name, *options])


def result(wanted: PublishedSet, data: Path) -> str:
    """State of the files, compared with those that the saved results were measured on."""
    other = [file.path for file in wanted.files if file.state(data) != "there"]
    if not other:
        checked_ = any(file.sha256 for file in wanted.files)
        return "there, with the content that the saved results were measured on" if checked_ else "there"
    differ = f"{', '.join(other)} differ from what the saved results were measured on"
    return f"there, but {differ}. {wanted.note}".rstrip()


def run(words: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m experiments.fetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="a set; without one, a list")
    data, downloads = Path("../shared/data"), Path("out/downloads")
    parser.add_argument("--data", type=Path, default=data, help="folder of the measuring data")
    parser.add_argument("--downloads", type=Path, default=downloads, help="folder of the published files")

    brought = "a file that was downloaded by hand"
    parser.add_argument("--file", type=Path, action="append", default=[], help=brought)
    options = parser.parse_args(words)
    if unknown := [name for name in options.name if name not in SETS]:
        parser.error(f"no set {unknown[0]}; known: {', '.join(SETS)}")
    if options.file and len(options.name) != 1:
        parser.error("--file is of one set; name it")

    try:
        for line in () if options.name else listed(options.data):
            print(line)
        for name in options.name:
            print(fetch(name, options.data, options.downloads, options.file))
    except JobError as e:
        say(str(e))
        return e.code
    except OSError as e:
        say(disk_message(e, options.data))
        return IO

    return 0


if __name__ == "__main__":
    sys.exit(run())
