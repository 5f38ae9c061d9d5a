"""The body of a page as a browser would show it, with its default styles.

Shadow roots stand in the place of their elements' content, their slots filled; scripts and the like are gone;
pictures and controls are images without text; and elements whose own style makes them lines, or parts of one,
are such by their tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from answermill.indexing.documents.main_content.hints import signs_of

NAMING = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"})
"""Elements in which a button is their text."""
_NO_TEXT = (
    "script, style, template, math annotation, noembed, noframes, title, datalist, del, s, strike, "
    "rt, rp, rtc"
)
"""Elements that are not shown, or not as part of a sentence: struck-out text is no longer true, and ruby's
readings stand above the words."""
_BOXES = "svg, iframe, select, object, video, audio, canvas, textarea, progress, meter"
"""Pictures and controls, whatever is in them."""
_RAW = "xmp, plaintext"
"""Elements whose tags are text."""
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


def shown_body(tree: Any) -> Any:
    """The body of a Resiliparse tree, or of another tree if it has shadow roots. The tree must have one, and
    loses what is not shown."""
    body = tree.body
    if body.query_selector("template[shadowrootmode]") is not None:
        tree = tree.parse(with_shadows(body.html))
        body = tree.body
        # From the innermost outwards: what fills a slot takes the place of the roots in it.
        for root in reversed(list(body.query_selector_all("shadow-root").values())):
            _fill_slots(root)

    for element in body.query_selector_all(_NO_TEXT).values():
        element.decompose()
    for element in body.query_selector_all(_BOXES).values():
        _show_box(element, tree)
    for raw in body.query_selector_all(_RAW).values():
        shown = tree.create_element("pre")
        shown.text = raw.text
        raw.parent.replace_child(shown, raw)
    for button in body.query_selector_all("button").values():
        if not _is_text(button):
            _show_box(button, tree)

    _follow_styles(tree)
    return body


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


def _fill_slots(root: Any) -> None:
    """Move the nodes beside a shadow root into its slots, in place of the content for when there are none."""
    slots: dict[str, Any] = {}
    for slot in root.query_selector_all("slot").values():
        slots.setdefault(slot.getattr("name") or "", slot)

    filling: dict[str, list[Any]] = {}
    for node in root.parent.child_nodes:
        if node.tag == "shadow-root" or (node.tag == "#text" and not node.text.strip()):
            continue
        name = "" if node.tag.startswith("#") else node.getattr("slot") or ""
        filling.setdefault(name, []).append(node)

    for name, slot in reversed(slots.items()):
        if nodes := filling.get(name):
            for shown in list(slot.child_nodes):
                shown.decompose()
            for node in nodes:
                slot.append_child(node)


def _show_box(element: Any, tree: Any) -> None:
    """Leave nothing of an element but a picture."""
    element.parent.replace_child(tree.create_element("img"), element)


def _is_text(button: Any) -> bool:
    """True if a button opens something, or is all of a heading."""
    if button.hasattr("aria-expanded") or button.hasattr("aria-controls") or _is_hidden(button.next_element):
        return True
    holder = button.parent
    return holder is not None and holder.tag in NAMING and holder.text.strip() == button.text.strip()


def _is_hidden(element: Any | None) -> bool:
    """True for an element that its own attributes hide."""
    if element is None:
        return False
    attributes = "".join(f' {name}="{element.getattr(name)}"' for name in element.attrs)
    return signs_of(element.tag, attributes).hidden


def _follow_styles(tree: Any) -> None:
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
