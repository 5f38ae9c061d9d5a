"""Faults of pages whose words or elements mislead: what a browser shows, or opens, is in the document."""

from __future__ import annotations

from benchmarks.fault_list.damage import written
from benchmarks.fault_list.fault import Fault, Place, Right, documents
from benchmarks.fault_list.inputs.web_pages import COMMAND, reads, record, response

PARTS = (
    "The {} boat leaves the harbour at nine in the morning, and it comes back to the old pier before dark.",
    "The {} lighthouse was built of red stone by two brothers, and its lamp can be seen from the far hills.",
    "The {} storm took the roof away in the winter, and the keeper lived below it with his dog for a year.",
)
PAGES = {
    "section": "<main><p>{}</p><section id=cookies><h2>Cookies</h2><p>{}</p></section><p>{}</p></main>",
    "class": "<main><p>{}</p><div class=footer-notes><h2>Footer notes</h2><p>{}</p></div><p>{}</p></main>",
    "style of Word": "<p>{}</p><p class=MsoFooter>{}</p><p>{}</p>",
    "item": "<p>{}</p><ul><li><h4>Boat</h4><p hidden>{}</p><li><h4>Storm</h4><p hidden>{}</p></ul>",
    "slot": "<x-a><template shadowrootmode=open><article><p>{}</p><slot></slot></article></template>"
    "<p>{}</p><p>{}</p></x-a>",
    "panel": "<p>{}</p><h2>How do I get there?</h2><div hidden><p>{}</p></div><p>{}</p>",
    "button": "<p>{}</p><button>Directions</button><div hidden><p>{}</p></div><p>{}</p>",
    "answer": "<p>{}</p><b>Directions</b><div itemprop=acceptedAnswer hidden>{}</div><p>{}</p>",
    "lines": "<p>{}</p><div><a href=/map>Map<br>{}<br>{}</div>",
    "value": "<p>{}</p><section aria-label='A hidden path'><p>{}</p></section><p>{}</p>",
    "link": "<p>{} <a href=/map>Map</p><p>{}</p><p>{}</p>",
    "layout": "<div class=rail><p>{}</p></div><div class=rail><p>{}</p></div><div><p>{}</p></div>",
    "short part": "<div class=rail><p>{}</p><p>{}</p></div><div class=rail><p>{}</p></div>"
    "<p>The ferry goes to the island on each Sunday of the summer, and to the mainland on other days.</p>",
    "element": "<x-p>{}</x-p><x-p>{}</x-p><x-a><template shadowrootmode=open><p>{}</p></template></x-a>",
}
"""Name of a page whose three paragraphs a browser shows, or opens → its body."""
WORDS = {
    "a picture": ("Anna<img src=a>took it", "Anna took it"),
    "a control": ("Anna<input type=checkbox>took it", "Anna took it"),
    "a picture in a formula's note": (
        "Anna<math><annotation><svg></svg></annotation></math> took it",
        "Anna took it",
    ),
    "a block by its style": ("Anna<span style='display:block'>took</span>it", "Anna\ntook\nit"),
    "NULs": ("A\0nna to\0ok it", "Anna took it"),
    "marks of the reader": ("Anna\x1etook\x1fi\x1dt", "Anna took i t"),
    "a slot with a shadow root in it": (
        "<x-a><template shadowrootmode=open>"
        "<slot><x-b><template shadowrootmode=open>No</template></x-b></slot></template>Anna took it</x-a>",
        "Anna took it",
    ),
}
"""Name of a part of a sentence → how the sentence begins in HTML, and its text."""
SENTENCE = "<p>{} from the old pier of the harbour at nine in the morning, before the boat left it.</p>"


def page(name: str) -> bytes:
    """A record of the page."""
    body = PAGES[name].format(*(part.format(name) for part in PARTS))
    return record(response(f"<title>Harbour</title>{body}".encode()))


def has_all_parts(name: str) -> Right:
    """Test that the new run has one page, with the three paragraphs in their order, each by itself."""

    def right(place: Place, sound: Place) -> bool:
        [(_, text)] = documents(place, "work/new")
        places = [text.find(part.format(name)) for part in PARTS]
        return -1 not in places and places == sorted(places)

    return right


FAULTS = tuple(
    Fault(
        f"page shown: {name}",
        written("page.warc", page(name)),
        COMMAND,
        0,
        "1 page = 1 document + 0 rejects",
        right=has_all_parts(name),
    )
    for name in PAGES
) + tuple(
    Fault(
        f"words shown: {name}",
        written("page.warc", record(response(f"<title>T</title>{SENTENCE.format(html)}".encode()))),
        COMMAND,
        0,
        "1 page = 1 document + 0 rejects",
        right=reads(SENTENCE[3:-4].format(text)),
    )
    for name, (html, text) in WORDS.items()
)
