"""Figures of a page's text, and rules about them by which corpora were cleaned, as presets.

A page that breaks a rule is refused with the rule's name.

- `c4`: Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, JMLR
  2020, section 2.2
- `gopher`: Rae et al., Scaling Language Models, 2021, appendix A.1: quality filtering, and repetition removal
  (table A1)
- `fineweb`: Penedo et al., The FineWeb Datasets, 2024, section 3.5: rules added to the two above

Lines, words and characters are those of the text that is stored, whose lines are its paragraphs. C4 removes
lines as well: here they are left out where its rule about whole pages counts sentences, but the text stays as
it is. Its list of bad words is not applied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from answermill.indexing.passages.characters import ALPHABETIC, SPACE, UNSPACED, kinds
from answermill.schemas.corpus import TextMetrics

PresetName: TypeAlias = Literal["c4", "gopher", "fineweb"]
_TERMINAL = (".", "?", "!", '"', "”", "'", "’")
_SENTENCE_END = re.compile(r"[.?!][\"”'’)]*(?=\s|$)")
_BULLETS = ("•", "‣", "●", "▪", "-", "*", "–")
_ELLIPSES = ("...", "…")
_STOP_WORDS = [f" {word} ".encode() for word in ("the", "be", "to", "of", "and", "that", "have", "with")]
_IN_ONE_LINE = bytes.maketrans(b"\n", b" ")
_ALL_UNSPACED = bytes(kind for kind in range(256) if kind & UNSPACED)
_NO_BLANK_OR_LETTER = bytes(kind for kind in range(256) if not kind & (SPACE | ALPHABETIC))
_BLANK_OR_LETTER = bytes(ord(" ") if kind & SPACE else ord("a") for kind in range(256))
# Words of a run: share of the characters that the most frequent one may have.
_TOP_RUNS = {2: 0.20, 3: 0.18, 4: 0.16}
# The same for all runs that occur twice.
_REPEATED_RUNS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}


class PageText:
    """A text with its figures, each counted once."""

    def __init__(self, text: str, language: str = "") -> None:
        """`text` in its stored form, with one blank between words and one line end between lines.

        `language`, an ISO 639-1 code, may be set later: only Gopher's rule about stop words reads it."""
        self.text, self.language = text, language

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @cached_property
    def word_count(self) -> int:
        """Words between blanks; in scripts that are written without them, two characters count as a word."""
        if self.text.isascii():
            return self.spaced_words
        unspaced = len(self.text) - len(self._kinds.translate(None, _ALL_UNSPACED))
        return max(self.spaced_words, unspaced // 2)

    @cached_property
    def spaced_words(self) -> int:
        """Words between blanks."""
        return self._blanks + 1 if self.text else 0

    @cached_property
    def _kinds(self) -> bytes:
        return kinds(self.text)

    @cached_property
    def _blanks(self) -> int:
        """Blanks and line ends."""
        return self.text.count(" ") + self.text.count("\n")

    def metrics(self) -> TextMetrics:
        return TextMetrics(
            words=self.word_count,
            word_length=self.word_length,
            stop_words=self.stop_words,
            symbols=self.symbols,
            alphabetic=self.alphabetic,
            line_ends=self.line_ends,
            short_lines=self.short_lines,
            repeated_lines=self.repeated_characters,
        )

    @cached_property
    def word_length(self) -> float:
        return self.letters / max(1, self.spaced_words)

    @cached_property
    def stop_words(self) -> int:
        words = b" %b " % self.text.encode().lower().translate(_IN_ONE_LINE)
        return sum(word in words for word in _STOP_WORDS)

    @cached_property
    def symbols(self) -> float:
        return (self.text.count("#") + sum(map(self.text.count, _ELLIPSES))) / max(1, self.spaced_words)

    @cached_property
    def alphabetic(self) -> float:
        # Of blanks and letters alone, as many words are left as had a letter.
        rest = b" " + self._kinds.translate(_BLANK_OR_LETTER, _NO_BLANK_OR_LETTER)
        return rest.count(b" a") / max(1, self.spaced_words)

    @cached_property
    def line_ends(self) -> float:
        return self.share_of_lines(lambda line: line.endswith(_TERMINAL))

    @cached_property
    def short_lines(self) -> float:
        return self.share_of_lines(lambda line: len(line) < 30)

    @cached_property
    def repeated_characters(self) -> float:
        """The share of the characters in lines that occurred before."""
        return self.repeated_lines[1] / max(1, len(self.text))

    def share_of_lines(self, holds: Callable[[str], object]) -> float:
        return sum(bool(holds(line)) for line in self.lines) / max(1, len(self.lines))

    @cached_property
    def repeated_lines(self) -> tuple[int, int]:
        """(number of lines that occurred before in the text, their characters)."""
        if len(set(self.lines)) == len(self.lines):
            return 0, 0
        seen: set[str] = set()
        count = characters = 0
        for line in self.lines:
            count, characters = (count + 1, characters + len(line)) if line in seen else (count, characters)
            seen.add(line)
        return count, characters

    @cached_property
    def letters(self) -> int:
        """Characters of all words."""
        return len(self.text) - self._blanks

    def share_of_top_run(self, size: int) -> float:
        """The share of the characters in the run of words that takes most of them, if it occurs twice."""
        counts = Counter(tuple(self.words[n : n + size]) for n in range(len(self.words) - size + 1))
        most = max((sum(map(len, run)) * count for run, count in counts.items() if count > 1), default=0)
        return most / max(1, self.letters)

    def share_of_repeated_runs(self, size: int) -> float:
        """The share of the characters in runs of words that occurred before; none counts twice."""
        seen: set[tuple[str, ...]] = set()
        characters = n = 0
        while n + size <= len(self.words):
            run = tuple(self.words[n : n + size])
            characters, n = (
                (characters + sum(map(len, run)), n + size) if run in seen else (characters, n + 1)
            )
            seen.add(run)
        return characters / max(1, self.letters)


Rule: TypeAlias = Callable[[PageText], str]
"""The fault of a text, with the figure; '' if it has none."""


def _least(value: float, bound: float, figure: str) -> str:
    return f"{value:.4g} {figure}; at least {bound:g}" if value < bound else ""


def _most(value: float, bound: float, figure: str) -> str:
    return f"{value:.4g} {figure}; at most {bound:g}" if value > bound else ""


def _c4_sentences(page: PageText) -> str:
    kept = (
        line
        for line in page.lines
        if line.endswith(_TERMINAL) and len(line.split()) >= 5 and "javascript" not in line.lower()
    )
    return _least(
        sum(len(_SENTENCE_END.findall(line)) or 1 for line in kept),
        3,
        "sentences in lines that end as a sentence does",
    )


def _gopher_stop_words(page: PageText) -> str:
    return _least(page.stop_words, 2, "of eight frequent English words") if page.language == "en" else ""


def _gopher_words(page: PageText) -> str:
    return _least(len(page.words), 50, "words") or _most(len(page.words), 100_000, "words")


def _gopher_word_length(page: PageText) -> str:
    figure = "characters in a word on average"
    return _least(page.word_length, 3, figure) or _most(page.word_length, 10, figure)


def _gopher_repeated_runs(page: PageText) -> str:
    top = (
        _most(page.share_of_top_run(n), most, f"of the characters in one run of {n} words")
        for n, most in _TOP_RUNS.items()
    )
    repeated = (
        _most(page.share_of_repeated_runs(n), most, f"of the characters in repeated runs of {n} words")
        for n, most in _REPEATED_RUNS.items()
    )
    return next((fault for faults in (top, repeated) for fault in faults if fault), "")


PRESETS: Mapping[PresetName, Mapping[str, Rule]] = {
    "c4": {
        "lorem_ipsum": lambda page: "'lorem ipsum' is in it" if "lorem ipsum" in page.text.lower() else "",
        "curly_bracket": lambda page: "'{' is in it" if "{" in page.text else "",
        "sentences": _c4_sentences,
    },
    "gopher": {
        "words": _gopher_words,
        "word_length": _gopher_word_length,
        "symbols": lambda page: _most(page.symbols, 0.1, "hash signs and ellipses for a word"),
        "bullets": lambda page: _most(
            page.share_of_lines(lambda line: line.startswith(_BULLETS)), 0.9, "of the lines have a bullet"
        ),
        "ellipses": lambda page: _most(
            page.share_of_lines(lambda line: line.endswith(_ELLIPSES)), 0.3, "of the lines end with …"
        ),
        "alphabetic": lambda page: _least(page.alphabetic, 0.8, "of the words have a letter"),
        "stop_words": _gopher_stop_words,
        "repeated_lines": lambda page: (
            _most(page.repeated_lines[0] / max(1, len(page.lines)), 0.3, "of the lines came before")
            or _most(page.repeated_characters, 0.2, "of the characters in lines that came before")
        ),
        "repeated_runs": _gopher_repeated_runs,
    },
    "fineweb": {
        "line_ends": lambda page: _least(page.line_ends, 0.12, "of the lines end as a sentence does"),
        "repeated_lines": lambda page: _most(
            page.repeated_characters, 0.1, "of the characters in lines that came before"
        ),
        "short_lines": lambda page: _most(page.short_lines, 0.67, "of the lines are short"),
    },
}
"""Preset -> its rules, in the order in which they are checked."""


def refusal(page: PageText, presets: Sequence[PresetName]) -> tuple[str, str] | None:
    """(reason, detail) of the first rule that a page breaks, such as ('gopher_words', '12 words; at least
    50'); else None."""
    return next(_broken(page, presets), None)


def _broken(page: PageText, presets: Sequence[PresetName]) -> Iterator[tuple[str, str]]:
    for preset in presets:
        for name, rule in PRESETS[preset].items():
            if fault := rule(page):
                yield f"{preset}_{name}", fault
