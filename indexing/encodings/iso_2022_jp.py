"""ISO-2022-JP, whose bytes mean ASCII, Latin letters of Japan, katakana or kanji, by the escape before
them."""

from __future__ import annotations

import re

from answermill.indexing.encodings.double_byte import LETTERS

_ESCAPE = re.compile(rb"\x1b(\([BJI]|\$[@B])")
_KANJI = re.compile(r"[\x21-\x7e][^\x1b]?|[^\x21-\x7e]")
_ASCII = "".join("\ufffd" if byte > 0x7F or byte in (0x0E, 0x0F, 0x1B) else chr(byte) for byte in range(256))
_LETTERS = {
    b"(B": _ASCII,
    b"(J": _ASCII.replace("\\", "¥").replace("~", "‾"),
    b"(I": "".join(chr(0xFF40 + byte) if 0x21 <= byte <= 0x5F else "\ufffd" for byte in range(256)),
}
"""Escape → the letter of each byte behind it; behind the other escapes, a letter is two bytes."""


def iso_2022_jp(body: bytes) -> str:
    r"""The text of the bytes. An escape that is not known, and one directly behind another, is one U+FFFD.

    >>> iso_2022_jp(b"a\x1b$B7n\x1b(B.")
    'a月.'
    """
    first, *others = _ESCAPE.split(body)
    pieces = [_read(b"(B", first)]
    before = first  # nothing, or bytes, behind the last escape; none was before the first
    for number, (escape, run) in enumerate(zip(others[::2], others[1::2], strict=True)):
        if number and not before:
            pieces.append("\ufffd")
        pieces.append(_read(escape, run))
        before = run
    return "".join(pieces)


def _read(escape: bytes, run: bytes) -> str:
    """The letters of some bytes without an escape that is known."""
    text = run.decode("latin-1")
    if letters := _LETTERS.get(escape):
        return text.translate(letters)
    return _KANJI.sub(_kanji, text)


def _kanji(token: re.Match[str]) -> str:
    """The letter of two bytes, which EUC-JP has with their high bits set."""
    if len(token[0]) == 2 and "\x21" <= token[0][1] <= "\x7e":
        return LETTERS["euc_jp"]["".join(chr(ord(byte) | 0x80) for byte in token[0])]
    return "\ufffd"
