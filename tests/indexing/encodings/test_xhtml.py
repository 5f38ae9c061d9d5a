from __future__ import annotations

import pytest

from answermill.indexing.encodings.xhtml import as_html

SPACE = "http://www.w3.org/1999/xhtml"
SVG, MATH = "http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"


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
        (f"<?xml?>\n<h:html xmlns:h='{SPACE}'><h:p/></h:html>", f"\n<html xmlns:h='{SPACE}'><p></p></html>"),
        (f"<html xmlns:h='{SPACE}'><h:p/><g:p/>", f"<html xmlns:h='{SPACE}'><p></p><g:p></g:p>"),
        (
            f"<p xmlns:s='{SVG}'><s:svg><s:text/></s:svg></p>",
            f"<p xmlns:s='{SVG}'><svg><text></text></svg></p>",
        ),
        (f"<m:math xmlns:m='{MATH}'><m:mi>x</m:mi></m:math>", f"<math xmlns:m='{MATH}'><mi>x</mi></math>"),
        (
            "<!DOCTYPE html [<!ENTITY a '1 &b;'><!ENTITY b \"<i>2</i>\"><!ENTITY a '3'>]>"
            "&a; &c; &amp;<!--&a;-->",
            "<!DOCTYPE html>1 <i>2</i> &c; &amp;",
        ),
        ("<!DOCTYPE html [<!ENTITY a 'b'>]><![CDATA[&a;]]>", "<!DOCTYPE html>&amp;a;"),
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


def test_a_page_of_many_prefixes_is_written_before_the_suites_time_limit() -> None:
    prefixes = "".join(f" xmlns:a{n}='{SPACE}'" for n in range(1_200))
    assert as_html(f"<a{prefixes}>{'<a7:p>' * 500_000}").endswith("'><p>" + "<p>" * 499_999)


def test_entities_do_not_make_a_page_much_longer() -> None:
    inner = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 100 if n else 'tea'}'>" for n in range(300))
    assert len(as_html(f"<!DOCTYPE html [{inner}]>{'&a150;' * 100_000}")) < 3_000_000
