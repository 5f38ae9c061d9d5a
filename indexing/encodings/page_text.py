"""Bytes of a page -> its text: the choice among what its server says, what the page says, and what its bytes
look like."""

from __future__ import annotations

import codecs
import re

from resiliparse.parse.encoding import detect_encoding

from answermill.indexing.encodings.declarations import declared_encoding
from answermill.indexing.encodings.decoders import REPLACEMENT, decoded, encoding_of, utf_8_sequences
from answermill.indexing.encodings.double_byte import LETTERS

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UTF_16 = ("utf-16-le", "utf-16-be")
_EAST_ASIAN = (*LETTERS, "iso2022_jp")
_WESTERN = ("cp1252", "iso8859-15", "mac-roman")
_UNREADABLE = 0.01
"""Share of U+FFFD and control characters in a page from which a decoding is not believed."""
_SPOILT = 0.05
"""Share of U+FFFD up to which a page is UTF-8 all the same, if most of its letters beyond ASCII are."""
_SPARSE = 0.05
"""Share of bytes beyond ASCII up to which a page that declares an East Asian encoding may be Western."""
_VALID = 2
"""Letters of UTF-8 for each sequence of bytes that is none, in a page that is UTF-8 all the same."""
_ESCAPED = re.compile(rb"\x1b|~\{")
"""Marks of encodings that are ASCII with escapes: those of ISO 2022, and HZ."""
_CONTROLS = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")
_NO_TEXT = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Characters that files of machines have beside their NULs."""
_ASCII = re.compile("[\0-\x7f]+")
_HANGUL = re.compile("[가-힣]")
_RUN = re.compile(rb"[\x80-\xff]{4,}")
_BEYOND_ASCII = bytes(range(0x80, 0x100))


def decode(body: bytes, charset: str, content_type: str, likely: str = "") -> str | None:
    """The text of a page, or None if no encoding gives a readable one. `charset`: label in the HTTP header;
    `likely`: one that no browser would follow.

    The first of these decides that gives a readable text: a byte order mark, UTF-16 by its NULs, UTF-8 if the
    bytes are that, the header, the page's own declaration, the likely one, and the encoding that its bytes
    look like.
    Browsers follow the header before the bytes; but other encodings do not look like UTF-8 by chance, and the
    few letters that a cut by the server has spoilt do not change that.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _readable(decoded(body[len(mark) :], encoding))

    header = encoding_of(charset)
    if b"\0" in body and (header in _UTF_16 or not header):
        encoding = _utf_16(body) or header
        if encoding and (text := _readable(decoded(body, encoding))) is not None:
            return text

    if not (body.isascii() and _ESCAPED.search(body)) and (text := _utf_8(body)) is not None:
        return text

    in_page = "" if content_type == "text/plain" else declared_encoding(body, content_type != "text/html")
    declared = list(filter(None, dict.fromkeys((header, in_page, encoding_of(likely)))))
    for encoding in declared:
        if encoding == REPLACEMENT:
            return None
        if (text := _believed(body, encoding)) is not None:
            return text

    return _guessed(body, declared)


def _utf_8(body: bytes) -> str | None:
    try:
        text = body.decode("utf-8")
        # A U+FFFD that stands in the bytes was lost before, and is no other letter in another encoding.
        return _readable(text, text.count("\ufffd"))
    except UnicodeDecodeError:
        valid, wrong = utf_8_sequences(body)
        is_utf_8 = valid >= _VALID * wrong and valid > 0
        return _readable(decoded(body, "utf-8"), share=_SPOILT) if is_utf_8 else None


def _believed(body: bytes, encoding: str) -> str | None:
    """The text in an encoding; None if most of its letters beyond ASCII cannot be read, or many are control
    characters."""
    text = _readable(decoded(body, encoding))
    if text is None or len(_CONTROLS.findall(text)) > _UNREADABLE * len(text):
        return None
    wrong = text.count("\ufffd")
    return None if wrong and 2 * wrong > len(_ASCII.sub("", text)) else text


def _guessed(body: bytes, declared: list[str]) -> str | None:
    """The text in the encoding that the bytes look like, else in the default of the HTML standard."""
    if b"\x1b$" in body and (text := _believed(body, "iso2022_jp")) is not None:
        return text

    guess = detect_encoding(body) or "utf-8"
    beyond_ascii = len(body) - len(body.translate(None, _BEYOND_ASCII))
    is_east_asian = bool(set(declared).intersection(_EAST_ASIAN)) and beyond_ascii > _SPARSE * len(body)
    if not is_east_asian and 2 * _in_runs(body) <= beyond_ascii:
        text = _believed(body, guess)
        return text if text is not None else _believed(body, "cp1252")

    # In a Western encoding each letter of two bytes would be two wrong letters.
    if guess not in _WESTERN and (text := _believed(body, guess)) is not None:
        return text
    korean = _believed(body, "euc_kr") or ""
    return korean if 20 * len(_HANGUL.findall(korean)) > 9 * beyond_ascii else None


def _in_runs(body: bytes) -> int:
    """Bytes beyond ASCII that stand in runs of different ones, as in texts of no Western language."""
    return sum(len(run) for run in _RUN.findall(body) if len(set(run)) > 2)


def _utf_16(body: bytes) -> str:
    """Name of the UTF-16 whose ASCII letters have their NULs where the bytes have; '' if neither's."""
    head = body[:4_096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if 10 * max(even, odd) < len(head) or 10 * min(even, odd) > max(even, odd):
        return ""
    return "utf-16-be" if even > odd else "utf-16-le"


def _readable(text: str, written: int = 0, share: float = _UNREADABLE) -> str | None:
    """The text without its NULs, over which browsers pass; None if more than a share of it is U+FFFD, but for
    those that were `written` so, or control characters beside NULs."""
    unreadable = text.count("\ufffd") - written
    if "\0" in text:  # they fill up blocks and fields of a fixed size
        text = text.replace("\0", "")
        unreadable += len(_NO_TEXT.findall(text))
    return None if unreadable > share * len(text) else text
