"""Commands about this machine: what is installed, and completion in the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from answermill.pipelines.cli.parameters import CommandLine, LocalOut, write_lines
from answermill.pipelines.errors import UNAVAILABLE

GROUP = Group("This machine", sort_key=5)


def doctor(*, out: LocalOut = Path()) -> int:
    """Report what is installed and what is missing on this machine, and what to type."""
    from answermill.pipelines.look.doctor import examine

    missing = 0
    for finding in examine(out):
        missing += finding.state == "missing"
        write_lines([f"{finding.state:<8} {finding.what:<7} {finding.detail}"])
        if finding.remedy:
            write_lines([f"{'':<16} → {finding.remedy}"])
    return UNAVAILABLE if missing else 0


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell to write the script for.")],
    *,
    app: CommandLine,
) -> None:
    """Print a script that makes the Tab key complete commands and options in a shell.

    In bash: `answermill completion bash > ~/.local/share/bash-completion/completions/answermill`. In zsh
    write it to a file `_answermill` in a folder of `fpath`, in fish to
    `~/.config/fish/completions/answermill.fish`.
    """
    write_lines([app.generate_completion(shell=shell)])


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [doctor, completion]
