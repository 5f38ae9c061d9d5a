from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.encodings.decoders import REPLACEMENT, decoded, encoding_of, utf_8_sequences
from tests.indexing.encodings.standard import DIGESTS, LABELS

ONE_BYTE = [bytes([byte]) for byte in range(256)]
TWO_BYTES = [bytes([lead, trail]) for lead in range(0x80, 0x100) for trail in range(0x100)]
EAST_ASIAN = {"gbk", "gb18030", "big5", "euc-kr", "shift_jis", "euc-jp"}


def test_every_label_of_the_standard_names_its_encoding() -> None:
    named = {
        encoding: {encoding_of(label) for label in labels.split()} for encoding, labels in LABELS.items()
    }
    assert sum(len(labels.split()) for labels in LABELS.values()) == 228
    assert {encoding for encoding, names in named.items() if len(names) != 1 or "" in names} == set()
    # ISO-8859-8-I differs from ISO-8859-8 in the direction of writing alone.
    assert len(set.union(*named.values())) == len(LABELS) - 1


@pytest.mark.parametrize(
    "label", ["", "utf-7", "cp949", "utf8mb4", "none", "latin-10", "utf-32", "idna", "hex"]
)
def test_a_label_that_the_standard_has_not_names_none(label: str) -> None:
    assert encoding_of(label) == ""


def test_labels_are_read_without_their_case_and_blanks() -> None:
    assert encoding_of("\t Windows-31J \n") == encoding_of("shift_jis") == "shift_jis"


@pytest.mark.parametrize("encoding", DIGESTS)
def test_every_letter_is_the_standards(encoding: str) -> None:
    tokens = TWO_BYTES if encoding in EAST_ASIAN else ONE_BYTE
    answers = "\n".join(decoded(token, encoding_of(encoding)) for token in tokens)
    assert sha256(answers.encode()).hexdigest()[:16] == DIGESTS[encoding]


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("shift_jis", b"\x87\x40 \x8a\x94 \xfb\xfc", "① 株 髙"),
        ("euc-kr", b"\xc4\xbf\xc7\xc7\x98\xde", "커피샾"),
        ("big5", b"\xb6\xf0\xf9\xd8 \x88\x62", "塔裏 Ê̄"),
        ("euc-jp", b"\xad\xa1 \x8f\xb0\xa1 \x8e\xb1 \x8f\xa2\xb7", "① 丂 ｱ ～"),
        ("gb2312", b"\x80\xe5 \x81\x30\x81\x30 \xa8\xbc \x90\x30\x81\x30", "€\ufffd \x80 ḿ \U00010000"),
        ("gbk", b"\x81\x35\xf4\x37", "\ue7c7"),
        ("tis-620", b"\x93\xa1\x94", "“ก”"),
        ("x-mac-cyrillic", b"\xcb\xf3\xed\xe0", "Ћуна"),
        ("koi8-u", b"\xae\xa4", "ўє"),
        ("windows-1252", b"\x81\x93", "\x81“"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("iso-2022-jp", b"a\x1b$B7n\x1b(J\\~\x1b(I1\x1b(Bz", "a月¥‾ｱz"),
        ("iso-2022-jp", b"\x1b$B\x1b(B\x1b$B7\x1b(Bz\x1b[0m\x0e", "\ufffd" * 3 + "z\ufffd[0m\ufffd"),
        ("utf-16", b"a\0\x3d\xd8b\0", "a\ufffdb"),
        ("hz-gb-2312", b"~{VP~}", "\ufffd"),
        ("iso-2022-kr", b"", ""),
    ],
)
def test_letters_beyond_pythons_codecs_are_read(encoding: str, body: bytes, text: str) -> None:
    assert decoded(body, encoding_of(encoding)) == text


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("shift_jis", b"\x81<p>\x81", "\ufffd<p>\ufffd"),
        ("shift_jis", b"\x85\x9f\xa0\xfd", "\ufffd\ufffd\ufffd"),
        ("euc-kr", b"\xb0\xff\xb0<\xc9\xa1", "\ufffd\ufffd<\ufffd"),
        ("big5", b"\xa1\x20\x80\xff", "\ufffd \ufffd\ufffd"),
        ("euc-jp", b"\x8f\xa1<\x8e<\xa9\xa1", "\ufffd<\ufffd<\ufffd"),
        ("gb18030", b"\x81\x30\x81<\xff\x81\x7f", "\ufffd0\ufffd<\ufffd\ufffd\x7f"),
        ("gb18030", b"\x84\x32\xa4\x30a", "\ufffda"),
        ("gb18030", b"a\x81\x30", "a\ufffd"),
        ("utf-8", b"\xe2\x82<\xf0\x9f", "\ufffd<\ufffd"),
    ],
)
def test_a_wrong_letter_never_takes_a_tag_with_it(encoding: str, body: bytes, text: str) -> None:
    assert decoded(body, encoding_of(encoding)) == text


@given(st.binary(max_size=200), st.sampled_from(sorted(LABELS)))
def test_any_bytes_are_decoded_and_ascii_is_itself(body: bytes, encoding: str) -> None:
    name = encoding_of(encoding)
    decoded(body, name).encode("utf-8")
    if name not in (REPLACEMENT, "utf-16-le", "utf-16-be", "iso2022_jp"):
        plain = bytes(byte & 0x7F for byte in body)
        assert decoded(plain, name) == plain.decode("ascii")


def test_sequences_of_utf_8_are_counted_but_for_a_cut_one() -> None:
    assert utf_8_sequences("naïve €".encode() + b" \xe9 \xe2\x82") == (2, 1)
    assert utf_8_sequences("\ufffd".encode()) == (1, 0)
    assert utf_8_sequences(b"\xf0\x9f\x98") == utf_8_sequences(b"") == (0, 0)
