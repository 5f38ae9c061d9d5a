"""Caps on the answers of one page, site or domain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answermill.pipelines.config.caps import Caps, Source

URLS = ["http://www.a.org/1", "http://a.org/2", "http://blog.a.org/1", "http://b.co.uk/1", "", "http://["]


def test_a_source_has_page_host_and_registered_domain() -> None:
    assert Source.of("http://WWW.A.org/1", "d") == ("http://WWW.A.org/1", "a.org", "a.org")
    assert Source.of("http://blog.a.org/1", "d") == ("http://blog.a.org/1", "blog.a.org", "a.org")
    assert Source.of("", "d") == ("d", "", "") and Source.of("http://[", "d") == ("http://[", "", "")


@pytest.mark.parametrize(
    ("caps", "chosen"),
    [
        (Caps(), [0, 1, 2, 3]),
        (Caps(max_per_page=1), [0, 1, 2, 3]),
        (Caps(max_per_site=1), [0, 2, 3, 4]),
        (Caps(max_per_domain=2), [0, 1, 3, 4]),
        (Caps(max_per_domain=1), [0, 3, 4, 5]),
    ],
)
def test_the_next_take_the_places_of_those_that_a_cap_leaves_out(caps: Caps, chosen: list[int]) -> None:
    assert caps.choose([Source.of(url, "d") for url in URLS], 4) == chosen


def test_sources_without_an_address_have_no_cap_of_site_or_domain() -> None:
    assert Caps(max_per_site=1, max_per_domain=1).choose([Source(p, "", "") for p in "abc"], 3) == [0, 1, 2]


SOURCES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("de"), st.just("f")), max_size=12)


@given(SOURCES, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 6))
def test_what_is_chosen_is_in_order_within_all_caps_and_no_more_would_be(
    places: list[tuple[str, str, str]], page: int, site: int, domain: int, most: int
) -> None:
    sources = [Source(*place) for place in places]
    caps = Caps(max_per_page=page, max_per_site=site, max_per_domain=domain)
    chosen = caps.choose(sources, most)
    assert chosen == sorted(set(chosen)) and len(chosen) <= most

    def is_within(numbers: list[int]) -> bool:
        columns = zip(*(sources[n] for n in numbers), strict=True)
        limits = zip(columns, (page, site, domain), strict=False)
        return all(not limit or max(map(names.count, names)) <= limit for names, limit in limits)

    assert is_within(chosen)
    if len(chosen) < most:
        assert not any(is_within([*chosen, n]) for n in range(len(sources)) if n not in chosen)
