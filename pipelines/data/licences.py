"""Licences as people write them, as the Hugging Face hub lists them, and as SPDX does."""

from __future__ import annotations

import re

_IDS = frozenset(
    (
        "apache-2.0",
        "mit",
        "cc0-1.0",
        "cc-by-2.0",
        "cc-by-2.5",
        "cc-by-3.0",
        "cc-by-4.0",
        "cc-by-sa-3.0",
        "cc-by-sa-4.0",
        "cc-by-nc-2.0",
        "cc-by-nc-3.0",
        "cc-by-nc-4.0",
        "cc-by-nd-4.0",
        "cc-by-nc-nd-3.0",
        "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0",
        "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0",
        "cdla-permissive-1.0",
        "cdla-permissive-2.0",
        "cdla-sharing-1.0",
        "gfdl",
        "gpl-2.0",
        "gpl-3.0",
        "mpl-2.0",
        "bsd-2-clause",
        "bsd-3-clause",
        "odbl",
        "odc-by",
        "pddl",
        "unlicense",
    )
)
_WORDS = (
    (r"creative commons", "cc"),
    (r"attribution", "by"),
    (r"share[ -]?alike", "sa"),
    (r"non[ -]?commercial", "nc"),
    (r"no[ -]?derivatives", "nd"),
    (r"\b(the|licen[cs]e|version|international|unported)\b|\bv(?=\d)", " "),
)
_OTHERS = {"cc0": "cc0-1.0", "apache-2": "apache-2.0", "cc-zero-1.0": "cc0-1.0", "odc-by-1.0": "odc-by"}


def hub_id(licence: str) -> str | None:
    """The hub's id of a licence; None if the hub has none for it.

    >>> hub_id("CC BY-SA 4.0"), hub_id("Apache License, Version 2.0"), hub_id("for research only")
    ('cc-by-sa-4.0', 'apache-2.0', None)
    """
    text = licence.casefold()
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    name = "-".join(re.findall(r"[a-z0-9.]*[a-z0-9]", text))
    name = _OTHERS.get(name, name)
    return name if name in _IDS else None


_SPDX = {
    "apache-2.0": "Apache-2.0",
    "mit": "MIT",
    "cdla-permissive-1.0": "CDLA-Permissive-1.0",
    "cdla-permissive-2.0": "CDLA-Permissive-2.0",
    "cdla-sharing-1.0": "CDLA-Sharing-1.0",
    "mpl-2.0": "MPL-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "odbl": "ODbL-1.0",
    "odc-by": "ODC-By-1.0",
    "pddl": "PDDL-1.0",
    "unlicense": "Unlicense",
}
"""Hub id → SPDX id, of licences but Creative Commons'. GPL and GFDL have none: their ids say 'only' or
'or-later'."""


def spdx(text: str) -> str | None:
    """SPDX expression of a licence, or of several with commas between them; None if one has no id.

    >>> spdx("CC BY-SA 4.0 (SQuAD), CC BY-SA 3.0 (QED)"), spdx("MIT"), spdx("research only")
    ('CC-BY-SA-4.0 AND CC-BY-SA-3.0', 'MIT', None)
    """
    ids = []
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        known = hub_id(part) or ""
        ids.append(known.upper() if known.startswith("cc") else _SPDX.get(known))
    return " AND ".join(dict.fromkeys(filter(None, ids))) if all(ids) else None


def is_restricted(text: str) -> bool:
    """True if the words of a licence allow no commercial use.

    >>> is_restricted("CC BY-NC 4.0"), is_restricted("for research only"), is_restricted("MIT")
    (True, True, False)
    """
    words = r"\bnc\b|non[ -]?commercial|\bresearch\b.*\bonly\b|\bonly\b.*\bresearch\b"
    return re.search(words, text, re.IGNORECASE) is not None
