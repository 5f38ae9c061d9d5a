from __future__ import annotations

import pytest

from answermill.indexing.documents.block_list import BlockList

LINES = [
    "\ufeff# blocked",
    "",
    "Spam.example",
    "https://news.example/shop/",
    "127.0.0.1",
    "co.uk/x",
    "*.ads.example",
]
LINES += [".tracker.example", "https://*.shop.example/new", "München.example"]


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://spam.example/a", "spam.example"),
        ("http://user@www.SPAM.example.:8080/", "spam.example"),
        ("https://notspam.example/", ""),
        ("https://news.example/shop", "news.example/shop"),
        ("https://news.example/shop/1?q=2", "news.example/shop"),
        ("https://news.example/shopping", ""),
        ("https://news.example/", ""),
        ("http://127.0.0.1/a", "127.0.0.1"),
        ("https://b.co.uk/x/y", "co.uk/x"),
        ("https://a.ads.example/1", "ads.example"),
        ("https://tracker.example/", "tracker.example"),
        ("http://my.shop.example/new/1", "shop.example/new"),
        ("https://www.xn--mnchen-3ya.example/", "xn--mnchen-3ya.example"),
        ("", ""),
        ("http://[broken", ""),
        ("urn:isbn:1", ""),
    ],
)
def test_a_host_blocks_all_below_it_and_a_path_the_addresses_below_it(url: str, entry: str) -> None:
    blocked = BlockList(LINES)
    assert len(blocked) == 8
    assert blocked.entry(url) == entry
    assert BlockList([]).entry(url) == ""


@pytest.mark.parametrize(
    "line", ["/only/a/path", "two words", "127.0.0.1\ttab.example", "http://", "||ads.example^"]
)
def test_a_line_without_a_host_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: no host in"):
        BlockList(["ok.example", line])


@pytest.mark.parametrize("line", ["www.example.org:8080", "https://example.org:8443/shop"])
def test_a_port_is_refused_since_the_whole_host_would_be_blocked(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: a host is blocked on all its ports; leave out that of"):
        BlockList(["ok.example", line])
