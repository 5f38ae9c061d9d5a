"""The source of a step's pipelines: the numbers of its units, so that the graph has the same size however many they are.

What a unit is, its file, part or range of rows, a DoFn looks up by the number, in what it reads when it loads.
"""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.pvalue import PCollection

from pipelines.execution.manifests.reports import Reports


class Units(beam.PTransform[beam.Pipeline, PCollection[tuple[int]]]):
    """(n,) for each unit n of `count`, from 0, spread over the workers; `but` those that have a report by then."""

    def __init__(self, count: int, but: Reports | None = None) -> None:
        super().__init__()
        self._count, self._but = count, but

    def expand(self, root: beam.Pipeline) -> PCollection[tuple[int]]:
        numbers: PCollection[tuple[int]] = root | beam.Impulse() | beam.FlatMap(_numbers, self._count, self._but)
        spread: PCollection[tuple[int]] = numbers | beam.Reshuffle()
        return spread


def _numbers(_impulse: bytes, count: int, but: Reports | None) -> Iterator[tuple[int]]:
    done = but.numbers() if but is not None else set()
    yield from ((number,) for number in range(count) if number not in done)
