"""Faults of web pages: responses whose header, codings, letters or media type are wrong, and are read all the
same, as browsers do, or become a reject with its reason."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from benchmarks.fault_list.damage import written
from benchmarks.fault_list.fault import Fault, Place, Right, documents

URL = "http://a.org/lighthouse"
TEXT = "The lighthouse was built in the year 1871 for the herring boats of the northern coast. “It stands.”"
HTML = f"<!DOCTYPE html><html><head><title>T</title></head><body><p>{TEXT}</p></body></html>"
BODY = HTML.encode()
HALF = len(BODY) // 2
COMMAND = (
    "ingest JOB --out WORK/new --set ingest.input='[\"page.warc\"]' --set ingest.language='' "
    "--set ingest.min_words=1"
)
LETTERS = {
    "ibm866 iso-8859-5 koi8-r cp1251 x-mac-cyrillic": "Маяк был построен в 1871 году для рыбаков.",
    "koi8-u windows-1251": "Маяк збудовано 1871 року для рибалок, їх ґанок є.",
    "iso-8859-2 windows-1250": "Latarnię zbudowano w 1871 roku dla żeglarzy, śledzi i łososi.",
    "iso-8859-3": "La lumturo konstruiĝis en 1871 por ŝipoj ĉe la ĵetejo.",
    "iso-8859-4 iso-8859-13 windows-1257": "Tuletorn ehitati 1871. aastal kaluritele, šarž ja žürii.",
    "iso-8859-6 windows-1256": "بنيت المنارة سنة للصيادين على الساحل.",
    "iso-8859-7 windows-1253": "Ο φάρος χτίστηκε το 1871 για τους ψαράδες.",
    "iso-8859-8 iso-8859-8-i windows-1255": "המגדלור נבנה בשנת 1871 לדייגים.",
    "iso-8859-9 windows-1254": "Fener 1871 yılında balıkçılar için yapıldı, ışığı güçlü.",
    "iso-8859-10": "Vitinn var byggður árið 1871 fyrir þá sem veiða.",
    "iso-8859-14": "Tógadh an teach solais sa ḃliain 1871 do na hiascairí.",
    "iso-8859-15 windows-1252 macintosh": "Le phare fut bâti en 1871 pour 10 € par les pêcheurs, à l'œil.",
    "iso-8859-16": "Farul a fost construit în 1871 pentru pescari și țărani.",
    "windows-1258": "Hải đăng được xây".encode("cp1258", "ignore").decode("cp1258") + " 1871.",
    "windows-874 tis-620": "ประภาคารสร้างขึ้นในปี 1871 “สำหรับชาวประมง”",
    "shift_jis x-sjis euc-jp": "灯台は①髙い防波堤の先に建てられました。㈱№のものです。",
    "iso-2022-jp": "灯台は高い防波堤の先に建てられました。",
    "euc-kr ks_c_5601-1987": "등대는 긴 방파제 끝에 서 있다. 커피샾은 문을 연다.",
    "big5 big5-hkscs": "燈塔位於長防波堤的盡頭，塔裏住著守燈人，恒久不變，嘅。",
    "gb2312 gbk gb18030": "灯塔位于长防波堤的尽头，塔裡住着镕守灯人。",
    "utf-8 unicode": "Phyllis’s naïve café — 灯台 маяк.",
}
"""Labels, with blanks between them → a text that pages under these labels have."""
CODECS = {
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "tis-620": "cp874",
} | {
    **dict.fromkeys(("shift_jis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    **dict.fromkeys(("big5", "big5-hkscs"), "big5hkscs"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **{"iso-8859-8-i": "iso8859-8", "unicode": "utf-8"},
}
"""Label → Python's codec of the letters that its pages have, if it is another."""
ALSO_HTML = (
    *("", "html", "text/html charset=utf-8", '"text/html"', "text/html:charset=utf-8", "text/html/", "*/*"),
    *("text/ html", "text/html\\; charset", "text/html. charset", "application/octet-stream"),
    *("application/unknown", "text/html, text/html", "text/plain, text/html; charset=utf-8"),
)


def response(body: bytes, *fields: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    """An HTTP response; HTML, unless a field says otherwise."""
    types = (
        ()
        if any(field.lower().startswith("content-type") for field in fields)
        else ("Content-Type: text/html",)
    )
    return "\r\n".join((status, *types, *fields, "", "")).encode() + body


def record(block: bytes, *fields: str) -> bytes:
    """A WARC record of a response."""
    header = (
        *("WARC/1.0", "WARC-Type: response", f"WARC-Target-URI: {URL}", "WARC-Record-ID: <urn:uuid:1>"),
        *(
            "Content-Type: application/http; msgtype=response",
            f"Content-Length: {len(block)}",
            *fields,
            "",
            "",
        ),
    )
    return "\r\n".join(header).encode() + block + b"\r\n\r\n"


def reads(text: str) -> Right:
    """Test that the new run has the page with this text, and no other document."""

    def right(place: Place, sound: Place) -> bool:
        return documents(place, "work/new") == Counter({(URL, text): 1})

    return right


def chunked(body: bytes, size: int = 50) -> bytes:
    chunks = (body[n : n + size] for n in range(0, len(body), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def xhtml(head: str, body: str) -> bytes:
    html = f"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>T</title>{head}</head><body>{body}</body></html>"
    return f"<?xml version='1.0'?>{html}".encode()


def _in(label: str, text: str) -> bytes:
    """A page that declares its encoding by the label."""
    html = f'<html><head><meta charset="{label}"><title>T</title></head><body><p>{text}</p></body></html>'
    if label != "euc-jp":
        return html.encode(CODECS.get(label, label))
    # Python's codec has not these letters of a row that the web's has.
    row = {"①": b"\xad\xa1", "㈱": b"\xad\xea", "№": b"\xad\xe2", "髙": b"\xfc\xe2"}
    return b"".join(row.get(letter) or letter.encode("euc_jp") for letter in html)


GZIP = gzip.compress(BODY[:HALF]) + gzip.compress(BODY[HALF:])
LATIN = "Le phare fut bâti en 1871 pour les pêcheurs."
READ: dict[str, tuple[bytes, str]] = {
    "gzip of two members": (response(GZIP, "Content-Encoding: gzip"), TEXT),
    "gzip of a member a byte": (
        response(b"".join(gzip.compress(bytes([byte])) for byte in BODY), "Content-Encoding: gzip"),
        TEXT,
    ),
    "gzip with a tail": (response(gzip.compress(BODY) + b"\0\0tail", "Content-Encoding: gzip"), TEXT),
    "gzip that is deflate": (response(GZIP, "Content-Encoding: deflate"), TEXT),
    "bare deflate": (response(zlib.compress(BODY)[2:-4], "Content-Encoding: deflate"), TEXT),
    "zstd": (response(pa.compress(BODY, codec="zstd", asbytes=True), "Content-Encoding: zstd"), TEXT),
    "gzip named twice": (response(GZIP, "Content-Encoding: gzip", "Content-Encoding: none"), TEXT),
    "gzip below chunks": (response(chunked(GZIP), "Transfer-Encoding: gzip, chunked"), TEXT),
    "gzip without its checksum": (response(gzip.compress(BODY)[:-8], "Content-Encoding: gzip"), TEXT),
    "deflate without an end": (response(zlib.compress(BODY)[:-4], "Content-Encoding: deflate"), TEXT),
    "chunks without the last": (response(chunked(BODY)[:-5], "Transfer-Encoding: chunked"), TEXT),
    "chunks under a blank": (response(chunked(BODY), "Transfer-Encoding : chunked"), TEXT),
    "chunks in a folded field": (response(chunked(BODY), "Transfer-Encoding:\r\n chunked"), TEXT),
    "chunk sizes of many digits": (response(b"00000000" + chunked(BODY), "Transfer-Encoding: chunked"), TEXT),
    "chunks behind a line end": (response(b"\r\n" + chunked(BODY), "Transfer-Encoding: chunked"), TEXT),
    "gzip under a blank": (response(GZIP, "Content-Encoding : gzip"), TEXT),
    "a status in small letters": (response(BODY, status="http/1.1 200 ok"), TEXT),
    "a status of HTTP/10.0": (response(BODY, status="HTTP/10.0 200"), TEXT),
    "a status of HTTP1.1": (response(BODY, status="HTTP1.1 200 OK"), TEXT),
    "a status of a radio server": (response(BODY, status="ICY 200 OK"), TEXT),
    "a page after 100 Continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + response(BODY), TEXT),
    "a page after 103 Early Hints": (b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + response(BODY), TEXT),
    "a page after a proxy's answer": (
        b"HTTP/1.0 200 Connection established\r\n\r\n" + response(BODY),
        TEXT,
    ),
    "a tag before the doctype": (response(b"<!-- a -->" + BODY, "Content-Type:"), TEXT),
    "no type, behind a mark": (response(b"\xef\xbb\xbf" + BODY, "Content-Type:"), TEXT),
    "no type, no doctype": (response(BODY[15:], "Content-Type:"), TEXT),
    "no type, behind an XML prolog": (
        response(b"<?xml version='1.0'?>\n" + BODY[15:], "Content-Type:"),
        TEXT,
    ),
    "XHTML as text/xml": (response(xhtml("", f"<p>{TEXT}</p>"), "Content-Type: text/xml"), TEXT),
    "a meta in a comment": (
        response(
            b"<!-- <meta charset=koi8-r> --><meta charset=latin1>"
            + HTML.replace(TEXT, LATIN).encode("latin1")
        ),
        LATIN,
    ),
    "a meta that describes a charset": (
        response(b"<meta name=a content='charset=koi8-r'>" + HTML.replace(TEXT, LATIN).encode("latin1")),
        LATIN,
    ),
    "a meta of Unicode over Latin": (
        response(b"<meta http-equiv=content-type content='a; charset=unicode'>" + HTML.encode("cp1252")),
        TEXT,
    ),
    "UTF-8 that is Latin": (response(HTML.encode("cp1252"), "Content-Type: text/html; charset=utf-8"), TEXT),
    "Latin that is UTF-8": (response(BODY, "Content-Type: text/html; charset=iso-8859-1"), TEXT),
    "UTF-8 with one byte of Latin": (
        response(
            HTML.replace(TEXT, f"{LATIN * 4} caf\ud8ff")
            .encode("utf-8", "surrogatepass")
            .replace(b"\xed\xa3\xbf", b"\xe9"),
            "Content-Type: text/html; charset=iso-8859-1",
        ),
        f"{LATIN * 4} caf\ufffd",
    ),
    "UTF-8 with a quote of Latin": (
        response(f"<title>T</title><p>{'naïve café, ' * 5}it".encode() + b"\x92s"),
        "naïve café, " * 5 + "it\ufffds",
    ),
    "UTF-8 that NULs fill up": (response(BODY + bytes(4_096)), TEXT),
    "UTF-16 by its header": (
        response(HTML.encode("utf-16-le"), "Content-Type: text/html; charset=utf-16"),
        TEXT,
    ),
    "UTF-16 with nothing": (response(HTML.encode("utf-16-be")), TEXT),
    "UTF-16 behind a mark": (response(HTML.encode("utf-16"), "Content-Type:"), TEXT),
    **{f"type {value or 'none'}": (response(BODY, f"Content-Type: {value}"), TEXT) for value in ALSO_HTML},
    **{
        f"plain under {coding}": (response(body, f"Content-Encoding: {coding}"), TEXT)
        for coding in ("none", "utf-8", "br", "deflate", "gzip", "zstd", "text/html")
        for body in (b"\xef\xbb\xbf \n" + BODY,)
    },
    **{
        f"XHTML with {tag}": (
            response(xhtml("", f"{tag}<p>{TEXT}</p>"), "Content-Type: application/xhtml+xml"),
            TEXT,
        )
        for tag in (
            "<script/>",
            "<style />",
            "<iframe/>",
            "<textarea/>",
            "<button/>",
            "<a id='a'/>",
            "<title/>",
        )
    },
    "XHTML with an entity": (
        response(
            b"<!DOCTYPE html [<!ENTITY text '" + TEXT.encode() + b"'>]>" + xhtml("", "<p>&text;</p>")[21:],
            "Content-Type: application/xhtml+xml",
        ),
        TEXT,
    ),
    "XHTML with CDATA": (
        response(xhtml("<script/>", f"<p><![CDATA[{TEXT}]]></p>"), "Content-Type: application/xhtml+xml"),
        TEXT,
    ),
    **{
        f"{label}: {text[:9]}": (response(_in(label, text)), text)
        for labels, text in LETTERS.items()
        for label in labels.split()
    },
}
"""Name of a response that is read → it, and its text."""

REFUSED: dict[str, tuple[bytes, str]] = {
    "a cut second gzip member": (record(response(GZIP[:-60], "Content-Encoding: gzip")), "bad_encoding"),
    "an unknown coding": (
        record(response(b"\x1f\x9d" + bytes(99), "Content-Encoding: compress")),
        "bad_encoding",
    ),
    "a cut chunk": (record(response(chunked(BODY)[:-40], "Transfer-Encoding: chunked")), "bad_encoding"),
    "a first segment": (record(response(BODY), "WARC-Segment-Number: 1"), "truncated"),
    "100 Continue alone": (record(b"HTTP/1.1 100 Continue\r\n\r\n"), "broken_record"),
    "letters that are lost": (
        record(response(HTML.replace(TEXT, "\ufffd" * 90 + ".").encode())),
        "undecodable",
    ),
    "HZ": (record(response(b"<meta charset=hz-gb-2312>~{VP~}" + BODY.replace(b"\xe2", b""))), "undecodable"),
    "plain text": (record(response(TEXT.encode(), "Content-Type: text/plain")), "media_type"),
    "plain text that is binary": (record(response(b"\0\1\2", "Content-Type: text/plain")), "not_html"),
    "text without a type": (record(response(TEXT.encode(), "Content-Type:")), "media_type"),
    "a feed": (record(response(b"<?xml version='1.0'?><rss/>", "Content-Type: text/xml")), "not_html"),
    "a feed as HTML": (record(response(f"<rss><item>{TEXT}</item></rss>".encode())), "not_html"),
    "a picture without a type": (record(response(b"\x89PNG\r\n\x1a\n", "Content-Type:")), "not_html"),
}
"""Name of a record that is refused → it, and the reason."""

PLAIN = COMMAND + " --set ingest.media_types='[\"text/plain\"]'"
MACHINES = {
    "a playlist": b"#EXTM3U\nhttp://a.org/1.mp3\n",
    "robots.txt": b"User-agent: *\nDisallow: /\n",
    "a program": b"var a = 1;\nfunction b() {\n  return a;\n}\n",
    "markup": b"<playlist><title>Tea</title></playlist>",
    "addresses": b"http://a.org/1\nhttp://a.org/2\n",
    "settings": b"[tea]\nkind = green\ncups=2\n",
    "a log": b"--2013-05-01 12:00:00--  http://a.org/\nConnecting.\n",
}


def _faults() -> Iterator[Fault]:
    one = "1 page = 1 document + 0 rejects"
    for name, (block, text) in READ.items():
        yield Fault(f"page: {name}", written("page.warc", record(block)), COMMAND, 0, one, right=reads(text))
    for name, (content, reason) in REFUSED.items():
        yield Fault(f"page: {name}", written("page.warc", content), COMMAND, 65, f"1 {reason}")
    for name, body in MACHINES.items():
        page = record(response(body, "Content-Type: text/plain"))
        yield Fault(f"page: asked for, {name}", written("page.warc", page), PLAIN, 65, "1 plain_text")
    page = record(response(TEXT.encode(), "Content-Type: text/plain"))
    yield Fault("page: text that is asked for", written("page.warc", page), PLAIN, 0, one, right=reads(TEXT))
    yield Fault(
        "page: a type that is not known",
        written("page.warc", page),
        COMMAND + " --set ingest.media_types='[\"text/rtf\"]'",
        78,
        "ingest.media_types.0: Input should be 'text/html'",
    )


FAULTS = tuple(_faults())
