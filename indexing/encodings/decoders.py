"""The decoders of the Encoding standard (https://encoding.spec.whatwg.org), by the names and labels that it
has.

Python's codecs lend their tables, and what the standard has otherwise is written here. Errors are the
standard's: a letter that cannot be read is one U+FFFD, and an ASCII byte behind it, such as the `<` of a tag,
is never part of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import cache

from resiliparse.parse.encoding import map_encoding_to_html5

from answermill.indexing.encodings.double_byte import LETTERS
from answermill.indexing.encodings.iso_2022_jp import iso_2022_jp

REPLACEMENT = "replacement"
"""Encoding of labels whose decoders would let text pass for markup; it reads any page as one U+FFFD."""
_MORE_LABELS = {
    "x-mac-cyrillic": "mac-cyrillic",
    "x-mac-ukrainian": "mac-cyrillic",
    "x-user-defined": "x-user-defined",
} | dict.fromkeys(
    ("csiso2022kr", "hz-gb-2312", "iso-2022-cn", "iso-2022-cn-ext", "iso-2022-kr", REPLACEMENT), REPLACEMENT
)
_SINGLE_BYTE = {"iso8859-11": "cp874"}
"""Encodings of which Python's codec of this name has fewer letters → the codec that has the standard's."""
_CUT = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
_ASCII = re.compile("[\0-\x7f]+")
_OTHER_LETTERS = {"koi8-u": {0xAE: "ў", 0xBE: "Ў"}, "cp1255": {0xCA: "\u05ba"}}


def encoding_of(label: str) -> str:
    """Name of the encoding that has this label in the standard, whatever its case; '' if none has.

    >>> encoding_of(" Latin1 "), encoding_of("x-sjis"), encoding_of("utf-7")
    ('cp1252', 'shift_jis', '')
    """
    name = label.strip("\t\n\f\r ").lower()
    return _MORE_LABELS.get(name) or map_encoding_to_html5(name, fallback_utf8=False) or ""


def decoded(body: bytes, encoding: str) -> str:
    """The text of the bytes in an encoding that `encoding_of` names; what cannot be read is U+FFFD.

    >>> decoded(b"\\x87\\x40 \\x8d\\x82\\x81<p>", "shift_jis")
    '① 高�<p>'
    """
    return _decoder(encoding)(body)


@cache
def _decoder(encoding: str) -> Callable[[bytes], str]:
    if encoding == REPLACEMENT:
        return lambda body: "\ufffd" if body else ""
    if encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        return lambda body: body.decode(encoding, "replace")
    if encoding == "iso2022_jp":
        return iso_2022_jp
    if encoding in LETTERS:
        return LETTERS[encoding].decoded
    table = _table(encoding)
    return lambda body: codecs.charmap_decode(body, "strict", table)[0]


def _table(encoding: str) -> str:
    """The 256 characters of an encoding whose letters are a byte each."""
    if encoding == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    read = bytes(range(256)).decode(_SINGLE_BYTE.get(encoding, encoding), "replace")
    # A byte from 80 to 9F that has no letter is the control character of its number.
    letters = {n: chr(n) for n in range(0x80, 0xA0) if read[n] == "\ufffd"} | _OTHER_LETTERS.get(encoding, {})
    return "".join(letters.get(byte, character) for byte, character in enumerate(read))


def utf_8_sequences(body: bytes) -> tuple[int, int]:
    """Numbers of letters beyond ASCII that are valid UTF-8, and of sequences of bytes that are not; one that
    the end of the page cuts counts as neither.

    >>> utf_8_sequences("naïve café".encode() + b" \\xe9 \\xc3")
    (2, 1)
    """
    text = _CUT.sub(b"", body).decode("utf-8", "replace")
    wrong = text.count("\ufffd") - body.count(b"\xef\xbf\xbd")
    return len(_ASCII.sub("", text)) - wrong, wrong
