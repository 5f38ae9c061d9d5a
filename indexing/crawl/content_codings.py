"""Transfer and content codings of an HTTP body (RFC 9110, 9112), undone."""

from __future__ import annotations

import io
import re

import pyarrow as pa
from fastwarc.stream_io import BrotliReader
from isal import isal_zlib

from answermill.indexing.crawl.gzip_stream import GZIP
from answermill.indexing.crawl.media_types import HEAD, is_binary, without_mark
from answermill.indexing.crawl.raw_page import MAX_BODY

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""Start of a frame, or of one that decoders skip (RFC 8878)."""
_CHUNK_SIZE = re.compile(rb"[ \t\r\n]*0*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_NOT_READ = ("compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "aes128gcm")
"""Registered codings that browsers do not undo without more. Other names are no codings, and say nothing."""
_ZLIB = re.compile(rb"[\x08\x18\x28\x38\x48\x58\x68\x78].", re.DOTALL)
_NULS = re.compile(rb"\0*")
_PAGE_END = re.compile(rb"</html[ \t\r\n]*>(?:\s|(?><!--.*?-->))*+\Z", re.DOTALL | re.IGNORECASE)
_TAIL = 1_024
"""Bytes of a body among which the end tag of a page is looked for."""
_PIECE = 4_096
_SHORT = 200
"""Bytes up to which a body must be UTF-8 to be taken for text; longer ones show that they are packed."""


class BadCoding(ValueError):
    """A body that cannot be unpacked."""


class _Cut(ValueError):
    """A body whose coding has no end, with what it holds."""

    def __init__(self, problem: str, content: bytes) -> None:
        super().__init__(problem)
        self.content = content


def unpacked(body: bytes, content_codings: str, transfer_codings: str) -> bytes:
    """The body without its codings, at most MAX_BODY + 1 bytes. Raises BadCoding.

    Crawlers often store the decoded body with the server's header, and servers name codings that are none
    ("utf-8", "none"): a body that is text, or does not begin as its coding does, is used as it is. A
    coding that has no end, because the connection closed, is one all the same if the page's end tag is there.
    """
    # The coding that was applied last is the first to be undone.
    codings = _listed(content_codings) + _listed(transfer_codings)
    cut = ""
    for coding in reversed([coding for coding in codings if coding in _CODINGS]):
        try:
            body = _CODINGS[coding](body)
        except _Cut as e:
            if coding == "chunked" or not _is_text(body):
                cut, body = cut or f"{coding}: {e}", e.content
        except (_IsalError, OSError, EOFError, ValueError) as e:
            if coding == "chunked" or not _is_text(body):
                raise BadCoding(f"{coding}: {e}") from e
        if len(body) > MAX_BODY:
            return body

    packed = [coding for coding in codings if coding in _NOT_READ]
    if packed and not _is_text(body):
        raise BadCoding(f"content encoding {packed[0]!r} is not read")
    if cut and not _PAGE_END.search(body[-_TAIL:]):
        raise BadCoding(cut)
    return body


def _listed(codings: str) -> list[str]:
    names = (coding.partition(";")[0].strip(" \t\"'").lower() for coding in codings.split(","))
    return [name for name in names if name not in ("", "identity")]


def _gzip(body: bytes) -> bytes:
    return _gunzipped(body) if body.startswith(GZIP) else body


def _deflate(body: bytes) -> bytes:
    if body.startswith(GZIP) or (_is_markup(body) and not is_binary(body[:HEAD])):
        return _gzip(body)
    # zlib by the standard, bare deflate in the wild
    return _inflated(body, 15 if _ZLIB.match(body) and int.from_bytes(body[:2]) % 31 == 0 else -15)


def _br(body: bytes) -> bytes:
    if body.startswith(GZIP) or _is_markup(body):
        return _gzip(body)
    return bytes(BrotliReader(io.BytesIO(body)).read(MAX_BODY + 1))


def _zstd(body: bytes) -> bytes:
    if not _ZSTD.match(body):
        return _gzip(body)
    with pa.input_stream(pa.py_buffer(body), compression="zstd") as stream:
        return bytes(stream.read(MAX_BODY + 1))


def _is_markup(body: bytes) -> bool:
    return without_mark(body[:HEAD]).lstrip().startswith(b"<")


def _is_text(body: bytes) -> bool:
    """True for a body that nobody has packed."""
    if _is_markup(body):
        return True
    if is_binary(body[:HEAD]):
        return False
    try:
        return len(body) > _SHORT or bool(body.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _unchunked(body: bytes) -> bytes:
    """The joined chunks of a chunked body, or a body that does not begin with a chunk. Raises ValueError with
    the offset of a chunk that is wrong, _Cut if the last ones are missing."""
    if not _CHUNK_SIZE.match(body):
        return body
    pieces: list[bytes] = []
    offset = 0
    while size := _CHUNK_SIZE.match(body, offset):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces)
        if size.end() + length > len(body):
            problem = f"chunk of {length} bytes at {offset}, where {len(body) - size.end()} are left"
            raise _Cut(problem, b"".join([*pieces, body[size.end() :]]))
        pieces.append(body[size.end() : size.end() + length])
        offset = size.end() + length
        offset += 2 if body[offset : offset + 2] == b"\r\n" else body[offset : offset + 1] == b"\n"
    problem = f"no chunk size at {offset}: {body[offset : offset + 16]!r}"
    if body[offset:].strip(b"0\r\n"):
        raise ValueError(problem)
    raise _Cut(problem, b"".join(pieces))


def _gunzipped(body: bytes) -> bytes:
    """All members of a gzip body (RFC 1952), at most MAX_BODY + 1 bytes of them; what follows them is
    ignored. Raises _Cut if one has no end."""
    pieces: list[bytes] = []
    position, left = 0, MAX_BODY + 1
    while left > 0 and body.startswith(GZIP, position):
        inflater, size = isal_zlib.decompressobj(31), _PIECE
        while left > 0 and not inflater.eof:
            # Small pieces first: a member keeps a copy of what is behind it, and there may be very many.
            packed = body[position : position + size]
            piece = bytes(inflater.decompress(packed, left))
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if not packed and not piece and not inflater.eof:
                raise _Cut(f"ends after {MAX_BODY + 1 - left} bytes", b"".join(pieces))
            position, left, size = (
                position + len(packed) - len(rest),
                left - len(piece),
                min(4 * size, 1 << 20),
            )
            pieces.append(piece)
        position = _NULS.match(body, position).end()  # type: ignore[union-attr]  # padding
    return b"".join(pieces)


def _inflated(body: bytes, window: int) -> bytes:
    """A deflated body inflated, at most MAX_BODY + 1 bytes of it. Raises _Cut if it has no end."""
    inflater = isal_zlib.decompressobj(window)
    whole = bytes(inflater.decompress(body, MAX_BODY + 1))
    if not inflater.eof and len(whole) <= MAX_BODY:
        raise _Cut(f"ends after {len(whole)} bytes", whole)
    return whole


_CODINGS = {
    "chunked": _unchunked,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _br,
    "zstd": _zstd,
}
"""Coding that browsers undo → what undoes it. Raises an error if the body is not so coded."""
