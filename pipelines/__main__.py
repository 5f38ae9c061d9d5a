"""`python -m pipelines`, which is also the command `answermill`; `cli/` has its commands."""

from __future__ import annotations

from pipelines.cli.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
