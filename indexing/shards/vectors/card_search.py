"""The nearest of a shard's vectors by sums on a graphics card, in float32: one product of matrices for each
block of vectors, of which the best stay.

The vectors are copied to the card once, when they take no more than half of its free memory; else each search
sends them anew, block by block, and the host copies a block while the card works on the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from answermill.indexing.shards.vectors.exact_index import Vectors
from answermill.schemas.arrays import Rows

BLOCK_BYTES = 1 << 28
"""Size of a block of vectors: some milliseconds of the way to the card."""
QUESTIONS = 256
"""Most questions of one product, whose sums with a block are on the card at once."""
_FREE_SHARE = 0.5  # of the card's free memory that a shard takes: other processes may begin to use it


class CardSearch:
    """Vectors [rows, d], at least one, as a torch device searches them."""

    def __init__(
        self, vectors: Vectors, device: str, most_bytes: int | None = None, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """`device`: as torch names it; on 'cpu' nothing is copied. `most_bytes` of vectors stay on the
        device; None: half of what is free."""
        self._vectors, self._device = vectors, torch.device(device)
        row_bytes = max(1, vectors.shape[1] * vectors.itemsize)
        self._step = max(1, block_bytes // row_bytes)
        most = _free_bytes(self._device) if most_bytes is None else most_bytes
        self._kept = list(self._sent()) if vectors.nbytes <= most else None

    def nearest(self, questions: Vectors, fetch: int) -> tuple[Vectors, Rows]:
        """(sums [questions, fetch], the highest first, rows [questions, fetch]) of each question [d] with its
        nearest vectors, `fetch` of them, which is no more than there are.

        >>> search = CardSearch(np.array([[1, 0], [0, 3], [2, 2]], np.float32), "cpu")
        >>> sums, rows = search.nearest(np.array([[1, 0.5]], np.float32), 2)
        >>> sums.tolist(), rows.tolist()
        ([[3.0, 1.5]], [[2, 1]])
        """
        with torch.inference_mode(), _whole_float32():
            asked = torch.split(self._copy(questions.copy()), QUESTIONS)  # a copy of what may be read-only
            best: list[tuple[Tensor, Tensor]] = []
            first = 0
            for block in self._kept if self._kept is not None else self._sent():
                for n, part in enumerate(asked):
                    sums, places = torch.topk(part @ block.T, min(fetch, len(block)))
                    places += first
                    if first:
                        best[n] = _best(*best[n], sums, places, fetch)
                    else:
                        best.append((sums, places))
                first += len(block)

            all_sums, all_rows = (torch.cat(values) for values in zip(*best, strict=True))
            return all_sums.cpu().numpy(), all_rows.cpu().numpy()

    def _sent(self) -> Iterator[Tensor]:
        """The vectors on the device, block by block. A card's memory needs room for two blocks: PyTorch gives
        the next one the memory of one that is done."""
        for start in range(0, len(self._vectors), self._step):
            yield self._copy(self._vectors[start : start + self._step])

    def _copy(self, values: Vectors) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values, np.float32))
        if self._device.type != "cuda":
            return tensor.to(self._device)
        # From other memory the host would wait for the card's earlier work.
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _best(
    sums: Tensor, rows: Tensor, more_sums: Tensor, more_rows: Tensor, fetch: int
) -> tuple[Tensor, Tensor]:
    """The `fetch` highest of two lists for each question, [questions, …] each, and their rows."""
    sums, rows = torch.cat([sums, more_sums], 1), torch.cat([rows, more_rows], 1)
    sums, places = torch.topk(sums, min(fetch, sums.shape[1]))
    return sums, rows.gather(1, places)


def _free_bytes(device: torch.device) -> int:
    """Bytes of vectors that may stay on the device: any number on a processor, where they are already."""
    if device.type != "cuda":
        return 1 << 62
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_FREE_SHARE * (free + unused))


@contextmanager
def _whole_float32() -> Iterator[None]:
    """A block in which products of float32 are not rounded to TF32, whose error is beyond the bound that a
    search relies on. The setting holds for the process, so it is put back."""
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(usual)
