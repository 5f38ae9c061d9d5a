"""The rule baselines RR, WO and WO+RR (Cosinet §2.1): the original rank, the words shared with the question,
and both.

No training, no model. Despite its simplicity WO+RR is hard to beat if questions were written beside the text:
56.38 P@1 on WikiQA, 73.12 on SQuAD-sent (Cosinet Table 2). `overlap` is WO+RR as a reranker of sentences,
except that punctuation does not count as words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeAlias

import spacy
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_suffix_regex

from answermill.ranking.reranker import Resources, order_by
from answermill.schemas.ranked import CandidateKind, RankedList

Words: TypeAlias = Callable[[str], set[str]]
Rule = Literal["random", "RR", "WO", "WO+RR"]
RULES: tuple[Rule, ...] = ("random", "RR", "WO", "WO+RR")


def rule_scores(rule: Rule, question: str, candidates: Sequence[str], words: Words) -> list[float]:
    """One score per candidate, in their original order.

    `random` scores all equally, so that its expectation under ties is that of a random order. WO does not
    break its ties.
    """
    question_words = words(question)
    shared = [len(question_words & words(text)) if rule.startswith("WO") else 0 for text in candidates]
    match rule:
        case "random" | "WO":
            return [float(n) for n in shared]
        case "RR":
            return [1 / rank for rank in range(1, len(candidates) + 1)]
        case "WO+RR":  # 1 / rank <= 1, and equal counts have different ranks: it decides nothing but ties
            return [n + 1 / rank for rank, n in enumerate(shared, 1)]


@cache
def cosinet_words() -> Words:
    """Splitter of a text into its different lower-cased tokens, punctuation included, which reproduces
    Cosinet's WikiQA rows (Table 2).

    Found by trial against the published figures: the paper names spaCy 2.1, but these are two rules of 2.0 on
    today's tokens. A dash at the end of a word stays on it ("states—"), and a full stop before a hyphen
    inside a word is split off with the hyphen ("D.O.-granting"). Built once in a process.
    """
    nlp = spacy.blank("en")
    tokenizer: Any = nlp.tokenizer
    suffixes = [rule for rule in nlp.Defaults.suffixes or () if rule not in ("–", "—")]
    infixes = [*(nlp.Defaults.infixes or ()), r"(?<=[^\W\d_])\.-(?=[^\W\d_])"]
    tokenizer.suffix_search = compile_suffix_regex(suffixes).search
    tokenizer.infix_finditer = compile_infix_regex(infixes).finditer
    return lambda text: {token.lower_ for token in tokenizer(text)}


def blank_words() -> Words:
    """Splitter of a text into its different lower-cased words between blanks, as in Cosinet's SQuAD-sent
    rows."""
    return lambda text: set(text.lower().split())


WORDS: Mapping[str, Callable[[], Words]] = {"cosinet": cosinet_words, "blanks": blank_words}
"""Name → builder of the splitter into words for the rule baselines."""


@cache
def _english() -> Tokenizer:
    """spaCy's tokenizer, one for this process, since building it takes a tenth of a second."""
    return spacy.blank("en").tokenizer


class Overlap:
    """Reranker by the number of different words of the question in the candidate, lower-cased; punctuation is
    no word."""

    name: ClassVar[str] = "overlap"
    reads: ClassVar[CandidateKind] = "sentence"
    writes: ClassVar[CandidateKind] = "sentence"

    def __init__(self) -> None:
        self._tokenizer = _english()

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [self._rerank(ranked) for ranked in lists]

    def _rerank(self, ranked: RankedList) -> RankedList:
        original = sorted(ranked.candidates, key=lambda c: c.position)
        scores = rule_scores("WO", ranked.question.text, [c.text for c in original], self._words)
        return order_by(RankedList(ranked.question, tuple(original)), scores, self.name)

    def _words(self, text: str) -> set[str]:
        return {token.lower_ for token in self._tokenizer(text) if any(map(str.isalnum, token.text))}
