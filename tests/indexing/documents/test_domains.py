from __future__ import annotations

import pytest

from answermill.indexing.crawl.raw_page import Place, RawPage
from answermill.indexing.documents.domains import count, domain_of, listed, table


def page(url: str) -> RawPage:
    return RawPage("f", 0, "", url, "", "text/html", "", b"", None, "", "")


def test_pages_count_for_their_registered_domain() -> None:
    urls = [
        "http://www.a.co.uk/1",
        "https://b.a.co.uk/2",
        "http://A.CO.UK/3",
        "http://b.com:80/",
        "http://10.0.0.1/",
        "",
    ]
    refused = Place("f", 0, "", "http://b.com/gone").rejected("http_status", "404")
    assert count([*map(page, urls), refused]) == {"a.co.uk": 3, "b.com": 1}


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("http://www.a.co.uk:8080/1?from=http://c.org/", "a.co.uk"),
        ("http://me:secret@b.com?1", "b.com"),
        ("HTTPS://B.COM#1", "b.com"),
        ("//b.com/1", "b.com"),
        ("b.com/to?http://c.org/", "b.com"),
        ("http:///b.com/", ""),
        ("http://[::1]/b.com", ""),
    ],
)
def test_only_the_host_of_a_url_counts(url: str, domain: str) -> None:
    assert domain_of(url) == domain == domain_of(f"{url}/c.org")


@pytest.mark.parametrize(
    "text",
    [
        "a.co.uk\nb.com\nc.org\n",
        "# the best\n\nwww.a.co.uk\na.co.uk\nB.com\r\nc.org",
        "1,a.co.uk\n2,b.com\n3,c.org\n",
        "1.0,a.co.uk\n2.0,b.com\n3.0,c.org\n",
        "rank,domain,share\n1,a.co.uk,0.3\n2,b.com,0.1\n3,c.org,0\n",
        "domain\tpages\na.co.uk\t17\nb.com\t3\nc.org\t1\n",
        '\ufeff"a.co.uk","x"\n"b.com","y"\n"c.org","z"\n',
        table({"c.org": 1, "b.com": 3, "a.co.uk": 3}),
    ],
)
def test_a_list_has_its_domains_in_the_first_column_that_is_no_rank(text: str) -> None:
    assert listed(text.splitlines()) == ["a.co.uk", "b.com", "c.org"]
    assert listed(text.splitlines(), 2) == ["a.co.uk", "b.com"]


def test_a_host_is_the_same_in_unicode_and_as_a_crawl_writes_it() -> None:
    assert (
        listed(["München.de"])
        == [domain_of("http://www.xn--mnchen-3ya.de/1")]
        == [domain_of("http://münchen.de/")]
    )


def test_a_line_without_a_domain_is_refused_by_number() -> None:
    with pytest.raises(ValueError, match="line 2: no registered domain in 'nonsense'"):
        listed(["a.org", "nonsense"])
    with pytest.raises(ValueError, match=r"line 1: no registered domain in '10\.0\.0\.1'"):
        listed(["10.0.0.1"])
    with pytest.raises(ValueError, match="line 1: no registered domain in ''"):
        listed(["1.0,2"])
