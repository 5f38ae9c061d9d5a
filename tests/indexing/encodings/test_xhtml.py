from __future__ import annotations

import pytest

from answermill.indexing.encodings.xhtml import as_html


@pytest.mark.parametrize(
    ("xhtml", "html"),
    [
        ("<script/><p/>", "<script></script><p></p>"),
        ("<title /><a name='x' />", "<title ></title><a name='x' ></a>"),
        ('<p title="a/>b">c</p>', '<p title="a/>b">c</p>'),
        ("<br/><BR /><img src='a/'/>", "<br/><BR /><img src='a/'/>"),
        ("<![CDATA[a <b> & c]]>", "a &lt;b&gt; &amp; c"),
        ("<![CDATA[a", "a"),
        ("<!-- <p/> --><p>a</p>", "<p>a</p>"),
        ("<?xml version='1.0'?><?php '<p/>' ?><p/>", "<p></p>"),
        ('<!DOCTYPE html [<!ENTITY a "b>">]><p/>', "<!DOCTYPE html><p></p>"),
        ('<?xml?>\n<h:html xmlns:h="x"><h:p/></h:html>', '\n<html xmlns:h="x"><p></p></html>'),
        ("<svg:path d='1'/>", "<svg:path d='1'></svg:path>"),
        ("1 < 2 / 3", "1 < 2 / 3"),
    ],
)
def test_what_xml_and_html_read_otherwise_is_written_as_html(xhtml: str, html: str) -> None:
    assert as_html(xhtml) == html


@pytest.mark.parametrize(
    "piece", ["<!--", "<![CDATA[", "<a ", "<a b='", '<a b="c" ', "<?", "<!DOCTYPE a[", " "]
)
def test_a_page_of_megabytes_of_open_tags_is_written_before_the_suites_time_limit(piece: str) -> None:
    assert len(as_html(piece * (3_000_000 // len(piece)))) < 5_000_000
