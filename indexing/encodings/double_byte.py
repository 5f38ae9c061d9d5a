"""Encodings of Chinese, Japanese and Korean whose letters are two bytes, and some three or four.

Python's codecs of the widest character sets have nearly all letters of the standard's tables; the others are
below. A token is the bytes that the standard's decoder reads at a time, as Latin-1 characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping


class Letters(dict[str, str]):
    """Token → text, filled as tokens are met; tokens that are no letter are one U+FFFD, and their last byte
    again if it is ASCII."""

    def __init__(
        self, tokens: str, read: Callable[[bytes], str], others: Mapping[str, str], runs: str = ""
    ) -> None:
        """`tokens`: expression of the tokens that are not ASCII. `read`: decoder of one token. What it has
        not, or has otherwise: `others`, by their tokens, and `runs` of letters, each behind the two bytes of
        its first."""
        super().__init__(others)
        self._tokens = re.compile(tokens, re.DOTALL)
        self._read = read
        for run in filter(None, runs.split(" ")):
            first, letters = int(run[:4], 16), run[4:]
            self |= {
                chr((first + n) >> 8) + chr((first + n) & 255): letter for n, letter in enumerate(letters)
            }

    def decoded(self, body: bytes) -> str:
        if body.isascii():
            return body.decode("ascii")
        return self._tokens.sub(lambda token: self[token[0]], body.decode("latin-1"))

    def __missing__(self, token: str) -> str:
        try:
            text = self._read(token.encode("latin-1"))
        except UnicodeDecodeError:
            text = "\ufffd" + (token[-1] if token[-1].isascii() else "")
        if len(token) < 4:  # of four bytes there may be a million
            self[token] = text
        return text


def _gb18030(token: bytes) -> str:
    """A letter of GB 18030; four bytes that are none, or are cut, are one U+FFFD."""
    try:
        return token.decode("gb18030")
    except UnicodeDecodeError:
        if token[1:2].isdigit():
            return "\ufffd"
        raise


def _by(codec: str) -> Callable[[bytes], str]:
    return lambda token: token.decode(codec)


def _euc_jp(token: bytes) -> str:
    """A letter of EUC-JP. Two bytes are a row and a cell of the table that Shift_JIS has, and Python's codec
    of Shift_JIS knows more of its rows."""
    if len(token) != 2 or token[0] < 0xA1 or not 0xA1 <= token[1] <= 0xFE:
        return token.decode("euc_jp")
    row, cell = divmod((token[0] - 0xA1) * 94 + token[1] - 0xA1, 188)
    return bytes((row + (0x81 if row < 0x1F else 0xC1), cell + (0x40 if cell < 0x3F else 0x41))).decode(
        "cp932"
    )


_PAIRS = r"[\x81-\xfe].?|[\x80\xff]"
_GB18030_TOKENS = (
    r"[\x81-\xfe][0-9][\x81-\xfe][0-9]"
    r"|[\x81-\xfe](?:[0-9][\x81-\xfe]?)?\Z"  # cut by the end
    r"|[\x81-\xfe](?=[0-9])|[\x81-\xfe].|[\x80\xff]"
)
_GB18030 = (
    "a3a0\u3000 a6d9︐︒︑︓︔︕︖ a6ec︗︘ a6f3︙ a8bcḿ fe59龴 fe61龵 fe66龶龷 fe6d龸 fe7e龹 fe90龺 fea0龻"
)
_BIG5 = (
    "877a㡵𡵓𣚞𦀡㻬 "
    "87a1𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌䄱𣚎堘 "
    "87c9穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋 8e69箸 8e6f簆 8e7e糎 8eab緒 8eb4縝 8ecd者 "
    "8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦覩 8ffe起 906d都 907a銹 90dc靜 90f1響 91bf鼖 9244蔃 "
    "92af兙兛兝兞 92c8鍮 92d1瑹 9447浧 94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁 9b78矗 9b7b纇 9bc6駖 "
    "9bde釔 9bec惞 9bf6澶 9c42輶 9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9cbc尐秣 9cd0婧 9d57輋 9d5a筑 "
    "9dc4拐 9ea9恢 9eef痹 9efd汊 9f60鬮 9f66鼗 9fcb僭 9fd8弌 a063蠏 a077拎 a0d5瑨 a0df煢 a0e4牐 a145‧ "
    "a14e﹑ a1c2¯ a1e3～ a1f2⊕⊙ a241∕﹨ a244￥ a246￠￡ a3c0␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf廴 "
    "c6d3无 c6d5癶 c6d7隶 c6de〃仝 fa5f倩 fa66偽 fabd包 fac5卄 fad5卿 fb48嘅 fbb8婷 fbf3幵 fbf9廐 "
    "fc4f彘 fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 fedd砉"
)

_gbk = Letters(_GB18030_TOKENS, _gb18030, {"\x80": "€", "\x81\x35\xf4\x37": "\ue7c7"}, _GB18030)
LETTERS = {
    "gbk": _gbk,
    "gb18030": _gbk,
    "big5": Letters(_PAIRS, _by("big5hkscs"), {}, _BIG5),
    "euc_kr": Letters(_PAIRS, _by("cp949"), {}),
    "shift_jis": Letters(
        r"[\x81-\x9f\xe0-\xfc].?|[\x80\xa0-\xff]", _by("cp932"), dict.fromkeys("\xa0\xfd\xfe\xff", "\ufffd")
    ),
    "euc_jp": Letters(
        r"\x8f[\xa1-\xfe].?|[\x8e\x8f\xa1-\xfe].?|[\x80-\xff]", _euc_jp, {"\x8f\xa2\xb7": "～"}
    ),
}
"""Encoding → its letters. The standard reads GBK as GB 18030."""
