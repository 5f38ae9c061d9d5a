from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.encodings.page_text import decode

MOON = "これは日本語のページです。月は地球の衛星です。"
RUSSIAN = "Луна, единственный естественный спутник Земли. "


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("naïve".encode(), "", "naïve"),
        ("naïve".encode(), "iso-8859-1", "naïve"),  # UTF-8 under a wrong header
        ("naïve café".encode("latin-1"), "iso-8859-1", "naïve café"),
        ("“naïve”".encode("cp1252"), "iso-8859-1", "“naïve”"),  # as browsers read Latin-1
        ("\ufeffnaïve".encode(), "latin-1", "naïve"),
        ("naïve".encode("utf-16"), "", "naïve"),
        (b"<meta charset='windows-1251'>" + "Луна".encode("cp1251"), "", "<meta charset='windows-1251'>Луна"),
        (b"<meta charset=nonsense>" + "naïve".encode("cp1252"), "unheard-of", "<meta charset=nonsense>naïve"),
        (MOON.encode("iso-2022-jp"), "iso-2022-jp", MOON),
        (MOON.encode("iso-2022-jp"), "", MOON),
        (MOON.encode("euc_jp"), "", MOON),
        (b"", "", ""),
        # NULs, over which browsers pass, and what is no text
        (b"a\0b" + b"c" * 500, "", "ab" + "c" * 500),
        (b"a\0b\0" * 50, "utf-8", "ab" * 50),
        (codecs.BOM_UTF8 + "<td>naïve".encode() + bytes(90), "", "<td>naïve"),
        ("<td>Луна".encode("cp1251") + bytes(90) + b"</td>" * 9, "cp1251", "<td>Луна" + "</td>" * 9),
        (b"<td>\1\0\2\0\3" * 50, "utf-8", None),
        (RUSSIAN.encode("utf-16-le"), "utf-8", None),
        ("naïve".encode() + bytes(4_096), "", "naïve"),  # a block of a fixed size, filled up
        # the header before the page, and both before a guess
        (RUSSIAN.encode("koi8-r"), "koi8-r", RUSSIAN),
        (b"<meta charset=koi8-r>" + RUSSIAN.encode("cp1251"), "cp1251", "<meta charset=koi8-r>" + RUSSIAN),
        (MOON.encode("cp932") + b"\x87\x40", "x-sjis", MOON + "①"),
        # what is declared, and is not so
        (RUSSIAN.encode("cp1251") * 5, "utf-8", RUSSIAN * 5),
        (b"caf\xe9 " + b"plain text " * 20, "shift_jis", "café " + "plain text " * 20),
        (b"It\x92s " + b"plain text " * 20, "utf-8", "It’s " + "plain text " * 20),
        (
            b"It\x92s <meta charset=unicode>" + b"plain text " * 20,
            "",
            "It’s <meta charset=unicode>" + "plain text " * 20,
        ),
        # UTF-16 without a mark
        (f"<p>{MOON}</p>".encode("utf-16-le"), "utf-16le", f"<p>{MOON}</p>"),
        ("<p>naïve</p>".encode("utf-16-be"), "utf-16", "<p>naïve</p>"),
        ("<p>naïve</p>".encode("utf-16-le"), "", "<p>naïve</p>"),
        (MOON.encode("utf-16-le"), "utf-16", MOON),
        (b"plain", "utf-16", "plain"),
        # a byte or two that are wrong
        (
            "élève déjà né ".encode() * 9 + b"caf\xe9" + b" end" * 30,
            "latin1",
            "élève déjà né " * 9 + "caf\ufffd" + " end" * 30,
        ),
        ("élève né à l’œil ".encode() * 3 + b"it\x92s", "utf-8", "élève né à l’œil " * 3 + "it\ufffds"),
        ("naïve ".encode() + b"text " * 30 + b"caf\xc3", "latin1", "naïve " + "text " * 30 + "caf\ufffd"),
        # encodings that the standard does not decode
        (b"<meta charset=hz-gb-2312>~{VP~}", "", None),
        (b"\x1b$)C\x0e1", "iso-2022-kr", None),
        (b"plain", "hz-gb-2312", "plain"),
        (b"plain \x1b[0m", "", "plain \x1b[0m"),
    ],
)
def test_bytes_are_read_in_the_encoding_they_are_in(body: bytes, charset: str, expected: str | None) -> None:
    assert decode(body, charset, "text/html") == expected


def test_a_charset_that_no_browser_would_follow_comes_after_the_pages_own() -> None:
    page = f"<meta charset=windows-1251>{RUSSIAN}"
    assert decode(page.encode("cp1251"), "", "text/html", "koi8-r") == page
    assert decode(RUSSIAN.encode("koi8-r"), "", "text/html", "koi8-r") == RUSSIAN
    assert decode(page.encode("cp1251"), "cp1251", "text/html", "koi8-r") == page


def test_a_page_of_east_asian_letters_is_refused_before_it_is_read_as_western() -> None:
    body = b"\xb5\xee\xb4\xeb\x81 \x9f\x80" * 50
    assert decode(body, "shift_jis", "text/html") is None


def test_plain_text_declares_nothing_in_itself() -> None:
    body = b"<meta charset=koi8-r>" + "“naïve” text of a tutorial".encode("cp1252")
    assert decode(body, "", "text/plain") == body.decode("cp1252")


@given(
    st.binary(max_size=300),
    st.sampled_from(["", "utf-8", "utf-16", "shift_jis", "gb18030", "iso-2022-jp", "x", "idna", "base64"]),
)
def test_any_bytes_are_decoded_or_refused(body: bytes, charset: str) -> None:
    text = decode(body, charset, "text/html")
    written = body.count("\ufffd".encode())
    assert text is None or ("\0" not in text and text.count("\ufffd") - written <= 0.05 * len(text))


def test_letters_that_were_lost_before_are_not_read_as_others() -> None:
    assert decode("\ufffd".encode() * 50, "", "text/html") == "\ufffd" * 50


@pytest.mark.parametrize(
    ("text", "codec", "expected"),
    [
        ("등대는 긴 방파제 끝에 서 있으며 어부들을 위해 세워졌다. ", "cp949", True),
        ("ЛУНА ЯВЛЯЕТСЯ ЕДИНСТВЕННЫМ ЕСТЕСТВЕННЫМ СПУТНИКОМ ЗЕМЛИ. ", "iso8859-5", False),
        ("Le phare — “très” élevé — fut bâti pour les pêcheurs, à côté. ", "cp1252", True),
        ("••••••• ——————— Le phare fut élevé. ", "cp1252", True),
    ],
)
def test_a_page_that_declares_nothing_is_read_or_refused_but_not_garbled(
    text: str, codec: str, expected: bool
) -> None:
    for times in (1, 20):
        page = f"<html><title>T</title><p>{text * times}"
        assert decode(page.encode(codec), "", "text/html") == (page if expected else None)
