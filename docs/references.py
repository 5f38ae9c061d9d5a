"""The reference pages, read from the code: keys of job and training files, the data dictionary, reasons of
rejects, the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.config.job_file import keys
from answermill.pipelines.config.training_file import keys as keys_of_training
from answermill.pipelines.look.report.pages.reasons import meanings
from answermill.pipelines.specs.registry import folders


def job_keys() -> str:
    head = "# Job keys\n\n**For** writers of job files. `answermill keys` prints the same list.\n\n"
    return head + _sections(keys()) + "**Next:** [jobs](../jobs.md).\n"


def training_keys() -> str:
    head = (
        "# Training keys\n\n**For** writers of training files. `answermill keys --of train` prints the same "
        "list.\n\n"
    )
    return head + _sections(keys_of_training()) + "**Next:** [training](../training.md).\n"


def data_dictionary() -> str:
    """Every column of every folder, as `answermill columns` prints them."""
    lines = [
        "# Data dictionary",
        "",
        "**For** readers of a run's Parquet files. The meanings are stored in the files too.",
        "",
    ]
    for step, folder in folders():
        record = folder.record
        lines += [
            f"## {folder.name}/",
            "",
            f"Written by `{step.name}`. {' '.join((record.__doc__ or '').split())}",
            "",
        ]
        lines += _table(
            ("column", "type", "meaning"),
            ((f"`{name}`", kind, what) for name, kind, what in record.describe()),
        )

    return "\n".join([*lines, "**Next:** [quickstart](../quickstart.md).", ""])


def reasons() -> str:
    """What each reason of a reject means, as reports say it."""
    lines = [
        "# Reasons",
        "",
        "**For** readers of a report, or of a folder of rejects: what each value of `reason` means. Presets",
        "of [`ingest.quality`](job-keys.md) add a reason for each of their rules, such as `gopher_words`.",
        "",
    ]
    folders_of: dict[str, list[tuple[str, str]]] = {}
    for folder, reason, words in meanings():
        folders_of.setdefault(folder, []).append((f"`{reason}`", words))
    for folder, rows in folders_of.items():
        lines += [f"## {folder}/", "", *_table(("reason", "meaning"), rows)]
    return "\n".join([*lines, "**Next:** [report](../report.md).", ""])


def the_command_line() -> str:
    """Every command and option, as `--help` gives them."""
    # How it is run now.
    page = re.sub(r" -m [\w.]+", "", command_line().generate_docs(output_format="markdown"))
    head = "# Command line\n\n**For** users of the terminal. `answermill COMMAND --help` prints the same.\n\n"
    return (
        head
        + page.partition("\n")[2].strip()
        + "\n\n**Next:** [jobs](../jobs.md), [running](../running.md).\n"
    )


def _sections(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """A table per section: key, type, default, meaning."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for key, kind, default, meaning in rows:
        section, _, name = key.rpartition(".")
        tables.setdefault(section, []).append((f"`{name}`", f"`{kind}`", f"`{default}`", meaning))
    lines: list[str] = []
    for section, cells in tables.items():
        brackets = f"[[{section.removesuffix('[]')}]]" if section.endswith("[]") else f"[{section}]"
        lines += [
            f"## `{brackets}`" if section else "## Above all sections",
            "",
            *_table(("key", "type", "default", "meaning"), cells),
        ]
    return "\n".join(lines) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""
