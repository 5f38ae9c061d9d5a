"""The sources of the sample web: one file of `pages/` is one `Page`."""

import dataclasses
import html.parser
from pathlib import Path

INLINE = {"a", "abbr", "b", "cite", "code", "em", "i", "q", "small", "span", "strong", "sub", "sup"}


@dataclasses.dataclass(frozen=True)
class Page:
    """A response of the sample web. Every field but `slug` (the file name) and `body` is a key of its first
    comment."""

    slug: str
    url: str
    title: str
    body: str = ""  # the article, or with template `none` the whole content
    body_of: str = ""  # slug of the page whose body this one repeats
    lang: str = "en"
    charset: str = "utf-8"  # of the response; the source itself is always UTF-8
    declared: str = "both"  # places that name the charset: header, meta or both
    type: str = "text/html"
    status: str = "200 OK"
    location: str = ""
    template: str = ""  # none: the body alone; empty: the template of the site
    request: str = ""  # yes: the request is in the archive too
    damaged: str = ""  # yes: the record's gzip member is overwritten in its middle


class _Text(html.parser.HTMLParser):
    """Collects character data; a tag that is not inline separates words."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def text_of(fragment: str) -> str:
    """The text of an HTML fragment: tags stripped, entities decoded, white space collapsed."""
    parser = _Text()
    parser.feed(fragment)
    parser.close()
    return " ".join("".join(parser.parts).split())


def read_page(path: Path) -> Page:
    """A page from its source. Raises ValueError if the first comment is not what `Page` needs."""
    head, end, body = path.read_text(encoding="utf-8").partition("-->\n")
    if not (head.startswith("<!--\n") and end):
        raise ValueError(f"{path}: must start with a comment of `key: value` lines")
    fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
    known = {field.name for field in dataclasses.fields(Page)} - {"slug", "body"}
    if unknown := sorted(fields.keys() - known):
        raise ValueError(f"{path}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    if missing := sorted({"url", "title"} - fields.keys()):
        raise ValueError(f"{path}: key {missing[0]!r} is missing")
    return Page(slug=path.stem, body=body, **fields)


def read_pages(folder: Path) -> dict[str, Page]:
    """All pages of a folder by slug, in order of slug, each `body_of` resolved."""
    pages = {path.stem: read_page(path) for path in sorted(folder.glob("*.html"))}
    urls: dict[str, str] = {}
    for slug, page in pages.items():
        if (other := urls.setdefault(page.url, slug)) != slug:
            raise ValueError(f"{folder / slug}.html: has the URL of {other}.html, {page.url}")
        if page.body_of:
            if page.body_of not in pages:
                raise ValueError(f"{folder / slug}.html: body_of {page.body_of!r} is not a page")
            pages[slug] = dataclasses.replace(page, body=pages[page.body_of].body)
    return pages
