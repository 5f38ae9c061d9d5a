"""Which options Beam knows. Uses a private method of Beam's, `_add_argparse_args`, and therefore has a separate module; its
test names the releases of Beam that it was tried with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.errors import USAGE, JobError


def check_options(beam_options: Sequence[str]) -> None:
    """Raises JobError (2) for an option that Beam does not know; Beam itself would ignore it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(_FirstWins(parser))  # type: ignore[arg-type]  # Beam has no type for what it takes
    _, unknown = parser.parse_known_args(list(beam_options))
    if unknown:
        raise JobError(f"Beam has no option {' '.join(unknown)}; arguments after -- are passed to Beam", USAGE)


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
