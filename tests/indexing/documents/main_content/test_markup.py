from __future__ import annotations

import pytest

from answermill.indexing.documents.main_content.markup import with_shadows
from tests.indexing.documents.main_content.test_main_content import FIRST, SECOND, TEASER, THIRD, lines

ROOT = '<template shadowrootmode="{}"><p>{}</p></template>'


@pytest.mark.parametrize("host", ["div", "section", "span", "x-page"])
@pytest.mark.parametrize("mode", ["open", "closed", "OPEN"])
def test_an_element_that_may_have_a_shadow_root_has_the_first(host: str, mode: str) -> None:
    roots = ROOT.format(mode, SECOND) + ROOT.format(mode, TEASER)
    assert lines(f"<main><p>{FIRST}</p><{host}>{roots}</{host}><p>{THIRD}</p></main>") == [
        FIRST,
        SECOND,
        THIRD,
    ]


@pytest.mark.parametrize("host", ["ul", "dl", "pre", "a", "form"])
def test_another_element_has_none(host: str) -> None:
    page = f"<main><p>{FIRST}</p><{host}>{ROOT.format('open', TEASER)}{SECOND}</{host}><p>{THIRD}</p></main>"
    assert lines(page) == [FIRST, SECOND, THIRD]


def test_a_mode_that_is_none_makes_no_root() -> None:
    assert lines(f"<main><p>{FIRST}</p><div>{ROOT.format('x', TEASER)}</div><p>{THIRD}</p></main>") == [
        FIRST,
        THIRD,
    ]


def test_scripts_comments_and_void_elements_have_no_content_that_counts() -> None:
    root = '<template shadowrootmode="open">a</template>'
    before = '<img src="x"><!-- </div><ul> --><script>"<ul>"</script>'
    shown = "<shadow-root>a</shadow-root>"
    assert with_shadows(f"<div>{before}{root}</div>") == f"<div>{before}{shown}</div>"
    nested = f"<div>{root.replace('>a<', f'><p>{root}</p>{root}<')}</div>"
    assert with_shadows(nested) == f"<div><shadow-root><p>{shown}</p>{root}</shadow-root></div>"
