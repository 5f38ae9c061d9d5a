"""`python -m answermill`, which is also the command `answermill`; `cli/` has its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from answermill.pipelines.cli.ending import Command, run_to_the_end


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code; arguments after `--` are Beam's."""

    def work(command: Command) -> int:
        from answermill.pipelines.cli.command_line import run

        return run(sys.argv[1:] if arguments is None else arguments, command)

    run_to_the_end(work, is_process=arguments is None)


if __name__ == "__main__":
    main()
