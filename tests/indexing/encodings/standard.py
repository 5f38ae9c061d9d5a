"""The labels and the tables of the Encoding standard, as an implementation of others has them.

A digest is the SHA-256 of the decoder's answers to every byte, or to every two bytes of which the first is
above 7F, with line ends between them; its first 16 digits. They were taken from `@exodus/bytes` 1.16, which
passes the web platform's tests.
"""

LABELS = {
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "euc-kr": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 "
        "ksc_5601 windows-949"
    ),
    "gb18030": "gb18030",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "ibm866": "866 cp866 csibm866 ibm866",
    "iso-2022-jp": "csiso2022jp iso-2022-jp",
    "iso-8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso-8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "iso-8859-16",
    "iso-8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": (
        "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988"
    ),
    "iso-8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
        "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso-8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
        "iso_8859-7 iso_8859-7:1987 sun_eu_greek"
    ),
    "iso-8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 "
        "iso_8859-8 iso_8859-8:1988 visual"
    ),
    "iso-8859-8-i": "csiso88598i iso-8859-8-i logical",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "utf-16be": "unicodefffe utf-16be",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 "
        "iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "windows-1253": "cp1253 windows-1253 x-cp1253",
    "windows-1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 "
        "latin5 windows-1254 x-cp1254"
    ),
    "windows-1255": "cp1255 windows-1255 x-cp1255",
    "windows-1256": "cp1256 windows-1256 x-cp1256",
    "windows-1257": "cp1257 windows-1257 x-cp1257",
    "windows-1258": "cp1258 windows-1258 x-cp1258",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "x-user-defined": "x-user-defined",
}
"""Encoding → its labels, with blanks between them."""

DIGESTS = {
    "big5": "708b047dd842085a",
    "euc-jp": "284328afc1c27205",
    "euc-kr": "a70cb0db6c6f738b",
    "gb18030": "ee552985d349aaa6",
    "gbk": "ee552985d349aaa6",
    "ibm866": "e4d6ff5ca5ada13a",
    "iso-8859-10": "4f9e6ea68a80234a",
    "iso-8859-13": "e0dc2e83c4600e7f",
    "iso-8859-14": "cc0467a122c68308",
    "iso-8859-15": "02da73e6cb687359",
    "iso-8859-16": "1695e6848a2fa540",
    "iso-8859-2": "f06000761c8bcf26",
    "iso-8859-3": "202a1b363622d2ae",
    "iso-8859-4": "f7076eceae60e496",
    "iso-8859-5": "93b826201406f5c1",
    "iso-8859-6": "7bd8ab9b93da30d5",
    "iso-8859-7": "6990b4f2c0f41585",
    "iso-8859-8": "3fece254a648dccd",
    "iso-8859-8-i": "3fece254a648dccd",
    "koi8-r": "4864274e118185ef",
    "koi8-u": "0fdfdda8e9261a58",
    "macintosh": "07da6af6067c9558",
    "shift_jis": "dc41c920ca79b540",
    "windows-1250": "01dd09bae2d209f4",
    "windows-1251": "64bc96a197c74f59",
    "windows-1252": "d486335e5257b059",
    "windows-1253": "9e4c70ccbbd0778f",
    "windows-1254": "390edd6fb0372487",
    "windows-1255": "eb0725777360879e",
    "windows-1256": "5526d72d1fce45fa",
    "windows-1257": "6df262bb978fac4d",
    "windows-1258": "4744ca2fc1f4eb72",
    "windows-874": "17408160a539642a",
    "x-mac-cyrillic": "ce302a812a98d7f3",
    "x-user-defined": "eeb486ac8bd5c248",
}
"""Encoding → digest of its decoder's answers, but for UTF-8, UTF-16, ISO-2022-JP and the replacement."""
