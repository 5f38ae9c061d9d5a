"""Windows by hand, and what holds of every window of any text."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pyarrow as pa
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from answermill.indexing.labels.windows import (
    SentenceLine,
    WindowRule,
    choose,
    choose_many,
    last_that_fits,
    least_tokens,
    passage,
    windows,
)
from answermill.indexing.passages.passages import Splitter
from answermill.pipelines.specs.ingest import DOCUMENTS
from tests.documents import document_of

SPLITTER = Splitter()
TEXT = "One two. Three four five.\nSix. Seven eight nine ten. Eleven twelve."  # sentences of 2 3 1 4 2 words
SENTENCES = SPLITTER.sentences("d", TEXT)


def word_limit(limit: int):
    return lambda text, start, end: len(text[start:end].split()) <= limit


@cache
def splitter(max_tokens: int) -> Splitter:
    return Splitter(max_tokens)


@cache
def tokenizer() -> spacy.tokenizer.Tokenizer:
    return spacy.blank("en").tokenizer


@pytest.mark.parametrize(
    ("labelled", "words", "places", "runs"),
    [
        (2, 6, 5, [(2, 4), (1, 3), (0, 3)]),  # there are only two before it
        (2, 6, 2, [(2, 4), (1, 3)]),
        (2, 100, 5, [(2, 5), (1, 5), (0, 5)]),
        (3, 6, 5, [(3, 5), (2, 4)]),  # from "Three" it is 8 words
        (0, 6, 5, [(0, 3)]),
        (4, 3, 5, [(4, 5)]),
        (3, 3, 5, [(3, 4)]),  # four words: too long, so alone
        (4, 5, 5, [(4, 5)]),
    ],
)
def test_windows_begin_at_or_before_the_sentence_and_reach_as_far_as_fits(
    labelled, words, places, runs
) -> None:
    assert [s.text.split()[0] for s in SENTENCES] == ["One", "Three", "Six.", "Seven", "Eleven"]
    assert windows(labelled, lambda n: last_that_fits(TEXT, SENTENCES, n, word_limit(words)), places) == runs


def test_a_window_is_a_passage_that_may_cross_a_line_end() -> None:
    window = passage(document_of(TEXT, title="A title"), SENTENCES, (1, 3))
    assert (window.passage_id, window.text) == ("d:9-30", "Three four five.\nSix.") and window.text == TEXT[
        9:30
    ]
    assert [s.sentence_id for s in window.sentences] == ["d@9", "d@26"] and window.title == "A title"


def test_groups_are_all_the_one_with_the_sentence_in_the_middle_and_a_random_one() -> None:
    runs = [(5, 8), (4, 8), (3, 8), (2, 7), (1, 6)]
    assert choose(runs, 5, "all", "") == runs
    assert choose(runs, 5, "center", "") == [(3, 8)]
    assert choose(runs[3:], 5, "center", "") == [(2, 7)]
    assert choose([(5, 7), (4, 6)], 5, "center", "") == [(5, 7)]  # as near to the middle: the first
    chosen = [choose(runs, 5, "random", f"0:q:{n}") for n in range(200)]
    assert all(len(one) == 1 for one in chosen) and {one[0] for one in chosen} == set(runs)
    assert chosen == [choose(runs, 5, "random", f"0:q:{n}") for n in range(200)]


@given(
    st.lists(
        st.sampled_from(["Word", "word.", "Why?", "\n", "\xa0", "can't", "e.g.", "(", "No. 5", "x。"]),
        min_size=1,
        max_size=150,
    ),
    st.integers(10, 40),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_every_window_holds_its_sentence_within_the_places_and_the_limit_and_is_maximal(
    words, limit, places, random
) -> None:
    text = " ".join(words)
    sentences = splitter(limit).sentences("d", text)
    if not sentences:
        return

    labelled = random.randrange(len(sentences))
    runs = windows(labelled, lambda n: last_that_fits(text, sentences, n, splitter(limit).fits), places)
    assert len(set(runs)) == len(runs) >= 1 and runs[0][0] == labelled

    for first, last in runs:
        window = passage(document_of(text), sentences, (first, last))
        assert (
            window.sentences[labelled - first].sentence_id == sentences[labelled].sentence_id
            and labelled - first < places
        )
        assert len(tokenizer()(window.text)) <= limit and window.text == text[window.start : window.end]
        assert last == len(sentences) or len(tokenizer()(text[window.start : sentences[last].end])) > limit

    for first in {max(0, labelled - place) for place in range(places)} - {first for first, _ in runs}:
        assert len(tokenizer()(text[sentences[first].start : sentences[labelled].end])) > limit


WORDS = [
    "Word",
    "word.",
    "Why?",
    "\n",
    "\xa0",
    "can't",
    "e.g.",
    "(",
    "No. 5",
    "x。",
    "x。y。",
    ":-",
    ")",
    "o'",
    "clock.",
    "  ",
    "\x85",
    "\u3000",
]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=90), min_size=1, max_size=3),
    st.integers(10, 30),
    st.integers(1, 6),
    st.sampled_from(["all", "center", "random"]),
    st.randoms(use_true_random=False),
)
def test_the_windows_of_many_sentences_at_once_are_those_of_each(words, limit, places, group, random) -> None:
    texts = [" ".join(page) for page in words]
    cut = [splitter(limit).sentences(f"d{n}", text) for n, text in enumerate(texts)]
    line, numbers = (
        line_of(texts, cut),
        [(n, m) for n, sentences in enumerate(cut) for m in range(len(sentences))],
    )
    labelled = sorted(random.sample(range(len(numbers)), min(len(numbers), 4)))
    if not labelled:
        return

    sentence_numbers = np.array(labelled)
    lasts = line.lasts(sentence_numbers, places, splitter(limit))
    rows, firsts = choose_many(
        sentence_numbers, line.document, lasts, WindowRule(group, places), lambda row: f"key {row}"
    )

    for row, number in enumerate(labelled):
        page, place = numbers[number]
        base = number - place
        last = partial(last_that_fits, texts[page], cut[page], fits=splitter(limit).fits)
        runs = choose(windows(place, last, places), place, group, f"key {row}")
        mine = firsts[rows == row]
        assert list(zip((mine - base).tolist(), (lasts[mine] - base).tolist(), strict=True)) == runs


def line_of(texts, cut) -> SentenceLine:
    numbers = [[n] * len(sentences) for n, sentences in enumerate(cut)]
    flat = [s for sentences in cut for s in sentences]
    return SentenceLine(
        np.array([n for page in numbers for n in page], np.int64),
        np.array([s.start for s in flat], np.int64),
        np.array([s.end for s in flat], np.int64),
        least_tokens(pa.array([s.text for s in flat], pa.string())),
        texts,
    )


def test_on_the_sample_s_pages_every_run_has_as_many_tokens_as_its_sentences_and_gaps(sample_run) -> None:
    """Real English: windows of 60 tokens, counted once per sentence, are those of `Splitter.fits` on the
    page's text."""
    documents = list(DOCUMENTS.open(sample_run).read())
    cut = [splitter(60).sentences(d.doc_id, d.text) for d in documents]
    line = line_of([d.text for d in documents], cut)
    assert len(line.start) > 500
    lasts = line.lasts(np.arange(len(line.start)), 5, splitter(60))
    offset = 0
    for d, sentences in zip(documents, cut, strict=True):
        for n in range(len(sentences)):
            assert last_that_fits(d.text, sentences, n, splitter(60).fits) == lasts[offset + n] - offset
        offset += len(sentences)
