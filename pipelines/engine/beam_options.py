"""Check of options against those that Beam knows. It uses private parts of Beam and therefore has a separate
module; its test names the releases of Beam that it was tried with."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions

from answermill.pipelines.errors import USAGE, JobError

IN_PROCESS = ("DirectRunner", "FnApiRunner")
"""Runners that run here. Others may pass options on to a job server, which has some of its own."""
ALIKE = 0.92
"""Least likeness to a known option, `difflib.SequenceMatcher.ratio`, for an unknown one to count as a slip.
Of the options that only Flink's job server knows, --max_cache_memory_usage_mb_class is the nearest to a known
one, with 0.90."""


def check_options(beam_options: Sequence[str]) -> None:
    """Raises JobError (2) for an option that Beam does not know, which Beam itself would ignore, and for
    workers at anything but one address.

    If the runner is not in IN_PROCESS, only a misspelt option of Beam's is refused.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(_FirstWins(parser))  # type: ignore[arg-type]  # Beam has no type for what it takes
    known, unknown = parser.parse_known_args(list(beam_options))
    if unknown and (known.runner or "DirectRunner") in IN_PROCESS:
        raise JobError(
            f"Beam has no option {' '.join(unknown)}; arguments after -- are passed to Beam", USAGE
        )
    if known.environment_type == "EXTERNAL" and not _is_address(known.environment_config):
        raise JobError(
            f"--environment_config={known.environment_config}: give one HOST:PORT, that of the pool of "
            "workers; Beam takes one pool",
            USAGE,
        )
    names = [name for action in parser._actions for name in action.option_strings]
    for argument in unknown:
        for name in difflib.get_close_matches(argument.partition("=")[0], names, 1, ALIKE):
            raise JobError(f"Beam has no option {argument}; is {name} meant?", USAGE)


def _is_address(text: str | None) -> bool:
    """True for HOST:PORT, for JSON, which may name more, and where other options say what Beam needs.

    >>> [_is_address(text) for text in ("a:50000", "a:50000,b:50000", "a", None)]
    [True, False, False, True]
    """
    return text is None or text.startswith("{") or re.fullmatch(r"[^\s,;]+:\d+", text) is not None


class _FirstWins:
    """A parser to which an option may be added again, as Beam's option groups do; the first counts."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **settings: object) -> None:
        try:
            self._parser.add_argument(*names, **settings)  # type: ignore[arg-type]
        except argparse.ArgumentError:
            return

    def __getattr__(self, name: str) -> object:
        return getattr(self._parser, name)
