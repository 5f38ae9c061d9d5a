from __future__ import annotations

import pytest

from answermill.indexing.encodings.declarations import declared_encoding


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b"<META CHARSET = ' Windows-1251 '>", "cp1251"),
        (b'<meta/charset="sjis"/>', "shift_jis"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=euc-kr">', "euc_kr"),
        (b"<meta content=text/html;charset='big5' http-equiv=content-type>", "big5"),
        (b'<meta http-equiv=Content-Type content="charset; charset = gbk;x">', "gbk"),
        (b'<title a=">"><meta charset=gbk>', "gbk"),
        (b"<!DOCTYPE html><?php ?></x><meta charset=gbk>", "gbk"),
        (b"<meta charset=none><meta charset=gbk>", "gbk"),
        (b"<meta charset=gbk charset=big5>", "gbk"),
        (b"<!--><meta charset=gbk><!-- -->", "gbk"),
        # UTF-16 and x-user-defined cannot be, since the declaration was read
        (b"<meta charset=unicode>", "utf-8"),
        (b"<meta charset=utf-16be>", "utf-8"),
        (b"<meta charset=x-user-defined>", "cp1252"),
        # what is no declaration
        (b"<!-- <meta charset=koi8-r> --><meta charset=gbk>", "gbk"),
        (b"<!-- <meta charset=koi8-r>", ""),
        (b'<meta name=description content="text/html; charset=koi8-r">', ""),
        (b'<meta http-equiv=refresh content="0; charset=koi8-r">', ""),
        (b'<meta http-equiv=content-type content="charset=\'koi8-r">', ""),
        (b'<p title="<meta charset=koi8-r>">', ""),
        (b"<? <meta charset=koi8-r>", ""),
        (b"<metas charset=koi8-r>", ""),
        (b"<body>charset=koi8-r", ""),
        (b"", ""),
        # of XML
        (b'<?xml version="1.0" encoding="euc-jp"?><p>', "euc_jp"),
        (b"<?xml version='1.0' encoding = 'utf-16'?>", "utf-8"),
        (b'<?xml encoding="euc-jp"?><meta charset=gbk>', "gbk"),
        (b" <?xml encoding='euc-jp'?>", ""),
        ('<?xml version="1.0"?>'.encode("utf-16-le"), "utf-16-le"),
        ('<?xml version="1.0"?>'.encode("utf-16-be"), "utf-16-be"),
        # further down than a browser's first look
        (b"<script>" + b"var a = 1;" * 300 + b"</script><meta charset=gbk>", "gbk"),
        (b" " * 2_000 + b"<script>'<meta charset=koi8-r>'</script><meta charset=gbk>", "gbk"),
        (b" " * 2_000 + b"<title><meta charset=koi8-r></title>", ""),
    ],
)
def test_a_page_declares_its_encoding_as_the_html_standard_reads_it(head: bytes, encoding: str) -> None:
    assert declared_encoding(head, is_xml=False) == encoding


def test_in_xml_the_declaration_of_xml_comes_first() -> None:
    head = b'<?xml version="1.0" encoding="euc-jp"?><meta charset="gbk"/>'
    assert declared_encoding(head, is_xml=True) == "euc_jp"
    assert declared_encoding(b'<meta charset="gbk"/>', is_xml=True) == "gbk"
