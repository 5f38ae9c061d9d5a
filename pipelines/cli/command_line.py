"""Command line of `answermill`: its commands in groups, and their arguments.

Importing this module loads no model, Beam or spaCy, so that `--help` answers at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from cyclopts import App, CycloptsError, Group, MissingArgumentError
from rich.text import Text

from answermill.pipelines.cli import (
    data_commands,
    evaluation_commands,
    job_commands,
    model_commands,
    question_commands,
    run_commands,
    start_commands,
)
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.parameters.arguments import refuse_urls
from answermill.pipelines.errors import USAGE, JobError
from answermill.schemas.plug_ins import allow_code

HELP = """Offline answer sentence selection: pages in, ranked answer sentences and labelled passages out.

Start with `answermill sample --out DIR`: it writes a small web, questions and a job file, and runs the job.

A job is a TOML file; `answermill keys` lists all its keys. Steps read and write Parquet folders below --out; a step that is
complete is skipped, and one that was stopped continues where it stopped. Arguments after `--` are passed to Apache Beam:
`answermill run JOB.toml --out RUN -- --runner=PortableRunner --job_endpoint=HOST:8099 --environment_type=EXTERNAL
--environment_config=localhost:50000 --parallelism=8` runs on Flink, with a pool of workers beside each TaskManager.

A job or a command may name 'module:attribute' in place of a reranker, a data-set form, an annotation tool or an extractor; that
code is imported only with `--allow-code`, which every command takes. Packages with entry points need no option.

Exit codes: 0 ok, 2 usage, 3 worse than --margin or a night's gate allows, 65 bad data or too many rejects, 66 input missing,
69 Java or model missing, 70 unexpected error, 73 another job's output is in the way or another process writes into the folder,
74 input/output error, 78 settings, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""


ALLOW_CODE = "--allow-code"
"""Option of every command: 'module:attribute' in job files and arguments may be imported."""
MODULES = (
    start_commands,
    job_commands,
    run_commands,
    question_commands,
    data_commands,
    model_commands,
    evaluation_commands,
)


def command_line() -> App:
    """All commands, each in its group."""
    app = App(
        name="answermill",
        help=HELP,
        version=lambda: metadata.version("answermill"),
        help_format="markdown",
        error_formatter=wrong_usage,
    )
    for module in MODULES:
        for place, command in enumerate(module.commands()):
            app.command(command, group=module.GROUP, sort_key=place)
    app["--help"].group = app["--version"].group = Group("Options", sort_key=9)
    return app


def wrong_usage(error: CycloptsError) -> Text:
    """Message about a wrong command line, and the help to read."""
    command = " ".join(("answermill", *(error.command_chain or ())))
    message, argument = str(error), error.argument
    is_missing = isinstance(error, MissingArgumentError) and error.keyword is None
    if is_missing and argument is not None:
        place = argument.names[0].removeprefix("--").upper() if argument.index is not None else argument.name
        unknown = [token for token in error.unused_tokens or () if token.startswith("-")]
        wrong = f"{unknown[0]} is no option of this command, and " if unknown else ""
        message = f"{wrong}{place} is missing. {argument.parameter.help or ''}"
    text = f"{command}: {message.strip()}\nType `{command} --help` for more."
    return Text(text)


def run(tokens: Sequence[str], command: Command) -> int:
    """Run the typed command, with arguments after `--` for Beam; returns its exit code.

    Wrong usage exits with 2, or raises JobError (2).
    """
    end = tokens.index("--") if "--" in tokens else len(tokens)
    if ALLOW_CODE in tokens[:end]:
        allow_code()
        tokens = [token for n, token in enumerate(tokens) if token != ALLOW_CODE or n > end]
        end = tokens.index("--") if "--" in tokens else len(tokens)
    app = command_line()
    function, bound, unparsed = app.parse_args(tokens[:end])
    for value in (*bound.args, *bound.kwargs.values()):
        refuse_urls(value)

    if (rest := tokens[end + 1 :]) and "command" not in unparsed:
        raise JobError(
            f"{tokens[0]} has no work for an engine, so leave out what follows `--`: {' '.join(rest)}", USAGE
        )

    out = bound.arguments.get("out")
    command.folder = out if isinstance(out, Path) else None
    command.beam_options = rest
    extras = {"app": app, "command": command}

    # Libraries log warnings while they are loaded, about parts that we do not use.
    logging.disable(logging.WARNING)
    code = function(*bound.args, **bound.kwargs, **{name: extras[name] for name in unparsed})
    return code if isinstance(code, int) else 0
