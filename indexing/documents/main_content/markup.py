"""What a page shows otherwise than its tags say: shadow roots, and elements that their style makes lines, or
parts of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_HOSTS = "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span"
_MAY_HAVE_ONE = frozenset(_HOSTS.split())
"""Elements that may have a shadow root, beside custom ones."""
_WITHOUT_END = (
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
)
_VOID = frozenset(_WITHOUT_END.split())
_TOKEN = re.compile(
    r"<!--(?:.*?-->|.*)"
    r"|<(?P<raw>script|style|xmp|iframe|noembed|noframes|plaintext)(?=[\s>])[^<>]*+>.*?(?:</(?P=raw)>|\Z)"
    r"|<(?P<closes>/?)(?P<name>[^\s<>]++)(?P<attributes>[^<>]*+)>",
    re.DOTALL,
)
_MODE = re.compile(r' shadowrootmode="(?:open|closed)"', re.IGNORECASE)
# A letter that floats begins a word, whose others stand beside it.
_OWN_LINE = re.compile(
    r"(?:^|;)\s*(?:position\s*:\s*(?:absolute|fixed)|display\s*:\s*"
    r"(?:block|flex|grid|table|table-row|list-item|flow-root|-webkit-box|-webkit-flex))(?![\w-])",
    re.IGNORECASE,
)
_IN_LINE = re.compile(r"(?:^|;)\s*display\s*:\s*(?:inline|contents)(?![\w-])", re.IGNORECASE)


@dataclass(slots=True)
class _Open:
    """An element that is open."""

    name: str
    is_root: bool = False
    has_root: bool = False


def with_shadows(html: str) -> str:
    """HTML, as Resiliparse writes it, with the content of its declarative shadow roots in the place of their
    templates. An element has one, if it may have any: its first.

    >>> with_shadows('<p><template shadowrootmode="open">a</template></p><i><template>b</template></i>')
    '<p><shadow-root>a</shadow-root></p><i><template>b</template></i>'
    """
    path = [_Open("")]

    def written(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None or name in _VOID:
            return token[0]
        if token["closes"]:
            is_root = len(path) > 1 and path.pop().is_root
            return "</shadow-root>" if is_root else token[0]

        host = path[-1]
        may_have_one = (host.name in _MAY_HAVE_ONE or "-" in host.name) and not host.has_root
        is_root = name == "template" and may_have_one and _MODE.search(token["attributes"]) is not None
        host.has_root |= is_root
        path.append(_Open(name, is_root))
        return "<shadow-root>" if is_root else token[0]

    return _TOKEN.sub(written, html)


def follow_styles(tree: Any) -> None:
    """Set <br> around the elements of a Resiliparse tree whose own style makes them blocks. A <div> or <p>
    that has nothing but a style, which makes it a part of a line, becomes a <span>."""
    for element in tree.body.query_selector_all("[style]").values():
        style = element.getattr("style")
        if _OWN_LINE.search(style):
            _set_around(element, tree)
        elif element.tag in ("div", "p") and len(element.attrs) == 1 and _IN_LINE.search(style):
            span = tree.create_element("span")
            for node in list(element.child_nodes):
                span.append_child(node)
            element.parent.replace_child(span, element)


def _set_around(element: Any, tree: Any) -> None:
    """Set <br> before and after an element."""
    holder, after = element.parent, element.next
    holder.insert_before(tree.create_element("br"), element)
    if after is None:
        holder.append_child(tree.create_element("br"))
    else:
        holder.insert_before(tree.create_element("br"), after)
