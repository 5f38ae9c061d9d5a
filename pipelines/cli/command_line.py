"""The command line as a whole: its commands in groups, its arguments, and the exit code of each error.

Importing this module loads no model, Beam or spaCy, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

from cyclopts import App, Group

from pipelines.cli import data_commands, evaluation_commands, job_commands, machine_commands, model_commands
from pipelines.errors import BAD_DATA, IO, UNAVAILABLE, JobError

HELP = """Offline answer sentence selection: pages in, ranked answer sentences and labelled passages out.

Start with `answermill sample --out DIR`: it writes a small web, questions and a job file, and runs the job.

A job is a TOML file; `answermill keys` lists all its keys. Steps read and write Parquet folders below --out; a step that is
complete is skipped, and one that was stopped continues where it stopped. Arguments after `--` are passed to Apache Beam:
`answermill run JOB.toml --out RUN -- --runner=FlinkRunner --flink_master=HOST:PORT`.

Exit codes: 0 ok, 2 usage, 3 compared and worse than --margin allows, 65 bad data or too many rejects, 66 input missing,
69 Java or model missing, 73 another job's output is in the way or another process writes into the folder, 74 input/output
error, 78 settings.
"""


def command_line() -> App:
    """All commands, each in its group."""
    app = App(name="answermill", help=HELP, version=lambda: metadata.version("answermill"), help_format="markdown")
    for module in (job_commands, data_commands, model_commands, evaluation_commands, machine_commands):
        for place, command in enumerate(module.commands()):
            app.command(command, group=module.GROUP, sort_key=place)
    app["--help"].group = app["--version"].group = Group("Options", sort_key=9)
    return app


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code; arguments after `--` are Beam's."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    end = tokens.index("--") if "--" in tokens else len(tokens)
    app = command_line()
    extras = {"app": app, "beam_options": tuple(tokens[end + 1 :])}
    try:
        command, bound, unparsed = app.parse_args(tokens[:end])  # exits with 2 on wrong usage
        code = command(*bound.args, **bound.kwargs, **{name: extras[name] for name in unparsed})
    except JobError as e:
        _fail(str(e), e.code)
    except OSError as e:
        _fail(f"{e.filename or ''}: {e.strerror}" if e.strerror else str(e), IO)
    except KeyboardInterrupt:
        _fail("stopped; the same command continues where it stopped", 130)
    except RuntimeError as e:
        if (known := _code_of(e)) is not None:
            _fail(str(e), known)
        traceback.print_exc()
        _exit(1)
    _exit(code if isinstance(code, int) else 0)


def _code_of(error: RuntimeError) -> int | None:
    """The exit code of an error from below `pipelines`; None if it is a defect of ours."""
    from indexing.shards.dense import ModelMissing
    from indexing.shards.jvm import JavaMissing
    from indexing.shards.shard_files import ShardDamaged, ShardMismatch

    if isinstance(error, JavaMissing | ModelMissing):
        return UNAVAILABLE
    if isinstance(error, ShardDamaged | ShardMismatch):
        return BAD_DATA
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, int) else None


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"answermill: {message}\n")
    _exit(code)


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
