"""The decompressed bytes of a file as one stream, plain or gzip, that goes on after broken parts.

The members of a gzip file are separated here, with isal: a member that does not inflate, or whose checksum is
wrong, ends the stream until it is resumed at the next member that can be read.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, BinaryIO

from isal import isal_zlib

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

GZIP = b"\x1f\x8b\x08"
CHUNK = 131_072


class Fault(Exception):
    """The next bytes of the file cannot be read."""


class ByteStream:
    """The decompressed bytes of a file as one stream, with their place in the file.

    `ahead` holds the bytes that were read and not yet dropped; `position` is the decompressed position of its
    first. A gzip member that does not inflate leaves a `fault`: the stream ends there until `resume` is
    called, which goes on at the next member. No byte of the faulty member that is still ahead is certain: its
    checksum was never reached.
    """

    def __init__(self, path: Path, compressed: bool, starts: bytes, start: int = 0) -> None:
        """`start`: the byte of the file with which the stream begins, one of a member if it is compressed;
        positions count from it in a plain file, and from 0 in a compressed one."""
        self.ahead = bytearray()
        self.position = 0 if compressed else start
        self.fault = ""
        self.fault_offset = 0  # in the file
        self.fault_position = 0  # in the stream: the first byte that is uncertain
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._file.seek(start)
        self._compressed = compressed
        self._starts = starts  # first bytes of a member that is believed after a fault
        self._inflater: Any = None

        self._input = b""  # compressed bytes, read and not yet inflated
        self._offset = start  # offset in the file of the first of them
        # (position, offset in the file) of the members of `ahead`
        self._members: deque[tuple[int, int]] = deque([(0, start)])

    def close(self) -> None:
        self._file.close()

    def need(self, count: int) -> int:
        """Read on until `count` bytes are ahead, or the stream ends; returns how many are ahead, at most
        `count`."""
        while len(self.ahead) < count and self._fill():
            pass
        return min(count, len(self.ahead))

    def drop(self, count: int) -> int:
        """Skip `count` bytes, in constant memory; returns how many there were."""
        remaining = count
        while remaining > len(self.ahead):
            remaining -= len(self.ahead)
            self.position += len(self.ahead)
            self.ahead.clear()
            if not self._fill():
                return count - remaining
        del self.ahead[:remaining]
        self.position += remaining
        return count

    def after(self, count: int) -> ByteStream | None:
        """Another stream of the file, which begins `count` bytes after this one's position; None if it ends
        before."""
        start, (position, _) = self.offset(), self._members[0]
        skipped = self.position - position if self._compressed else 0
        stream = ByteStream(self._path, self._compressed, self._starts, start)
        if stream.drop(skipped + count) == skipped + count:
            return stream
        stream.close()
        return None

    def offset(self) -> int:
        """Offset in the file of the next byte, or of the gzip member that holds it."""
        if not self._compressed:
            return self.position
        while len(self._members) > 1 and self._members[1][0] <= self.position:
            self._members.popleft()
        return self._members[0][1]

    def resume(self) -> None:
        """Skip the rest of a faulty member and go to the next one that can be read."""
        self.drop(len(self.ahead))
        self.fault = ""
        self._inflater = None
        self._offset, self._input = next_member(self._file, self.fault_offset + 1, self._starts), b""
        self._file.seek(self._offset)

    def ratio(self) -> float:
        """Bytes of the text for each byte of the file, up to here."""
        return (self.position + len(self.ahead)) / max(1, self._offset)

    def _fill(self) -> bool:
        if self.fault:
            return False

        if not self._compressed:
            chunk = self._file.read(CHUNK)
            self.ahead += chunk
            return bool(chunk)

        try:
            return self._inflate()
        except Fault as fault:
            self.fault = str(fault)
            self.fault_position, self.fault_offset = self._members[-1]
            self._input = b""
            return False

    def _inflate(self) -> bool:
        """Append some more bytes to `ahead`; False if there are no more members."""
        while True:
            if not self._input:
                self._input = self._file.read(CHUNK)

            if self._inflater is None:
                if not self._input:
                    return False
                self._open_member()
                if self._inflater is None:
                    continue

            try:
                chunk = self._inflater.decompress(self._input, CHUNK)
            except _IsalError as e:
                raise Fault(f"gzip member at byte {self._members[-1][1]}: {e}") from e

            rest = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            read = bool(self._input)
            self._offset += len(self._input) - len(rest)
            self._input = rest

            if self._inflater.eof:
                self._inflater = None
            elif not read and not chunk:
                raise Fault(f"gzip member at byte {self._members[-1][1]} is truncated")

            if chunk:
                self.ahead += chunk
                return True

    def _open_member(self) -> None:
        if len(self._input) < 18:
            self._input += self._file.read(CHUNK)

        end = self.position + len(self.ahead)
        if self._input.startswith(GZIP):
            if len(self._members) > 1 and self._members[-1][0] == end:
                self._members.pop()
            self._members.append((end, self._offset))
            self._inflater = isal_zlib.decompressobj(31)
        elif self._input.startswith(b"\0"):  # padding, as tapes and block devices have it
            rest = self._input.lstrip(b"\0")
            self._offset += len(self._input) - len(rest)
            self._input = rest
        else:
            self._members.append((end, self._offset))
            raise Fault(f"no gzip member at byte {self._offset}")


def next_member(file: BinaryIO, offset: int, starts: bytes) -> int:
    """Offset of the first gzip member at or after an offset whose content begins with `starts`; the file's
    size if there is none."""
    overlap = b""
    file.seek(offset)
    while chunk := file.read(CHUNK):
        block = overlap + chunk
        start = offset - len(overlap)
        place = block.find(GZIP)

        while place >= 0:
            file.seek(start + place)
            if inflated_head(file.read(4096), len(starts) or 1).startswith(starts):
                return start + place
            place = block.find(GZIP, place + 1)

        # A member's first bytes may lie in two blocks.
        overlap = block[-2:]
        offset += len(chunk)
        file.seek(offset)

    return offset


def inflated_head(compressed: bytes, size: int = 4096) -> bytes:
    """The first bytes of a gzip member; b'' if it does not inflate."""
    try:
        return bytes(isal_zlib.decompressobj(31).decompress(compressed, size))
    except _IsalError:
        return b""


def inflates(path: Path) -> bool:
    """True if a gzip file inflates to nothing, without a fault."""
    stream = ByteStream(path, True, b"")
    try:
        return stream.need(1) == 0 and not stream.fault
    finally:
        stream.close()
