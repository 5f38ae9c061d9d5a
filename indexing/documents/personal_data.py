"""Masks for e-mail addresses and telephone numbers in a page's text.

An address is masked wherever one stands. A number is masked if it is written as an international one, from
'+', or as a North American one with separators: other runs of digits are years, prices and quantities more
often.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

MaskName: TypeAlias = Literal["email", "phone"]
_PATTERNS: dict[MaskName, re.Pattern[str]] = {
    "email": re.compile(r"(?<![\w.+-])[\w+-][\w.+-]{0,63}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])"),
    "phone": re.compile(
        r"(?<![\w+.,/-])(?:\+(?:[ ./-]?\(?\d\)?){7,15}|(?:1[ .-])?(?:\(\d{3}\) "
        r"?|\d{3}[.-])\d{3}[.-]\d{4})(?![\w/-])(?![.,]\d)"
    ),
}


def masked(text: str, masks: Collection[MaskName]) -> str:
    """The text with '[email]' and '[phone]' in place of the data that `masks` name."""
    for name, pattern in _PATTERNS.items():
        if name in masks:
            text = pattern.sub(f"[{name}]", text)
    return text
