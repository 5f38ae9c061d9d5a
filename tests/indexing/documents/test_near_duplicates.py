from __future__ import annotations

import random

import numpy as np
import pytest

from answermill.indexing.documents.near_duplicates import (
    BANDS,
    SIZE,
    kept,
    near_pairs,
    runs_of_words,
    signatures,
)

WORDS = [
    "moon",
    "tide",
    "river",
    "stone",
    "cloud",
    "bread",
    "copper",
    "violin",
    "winter",
    "harbour",
    "lantern",
    "meadow",
    "pepper",
    "saddle",
    "timber",
    "velvet",
]


def page(seed: int, words: int = 300) -> list[str]:
    draw = random.Random(seed)
    return [f"{draw.choice(WORDS)}{draw.randrange(100)}" for _ in range(words)]


def jaccard(a: str, b: str) -> float:
    first, second = set(runs_of_words(a).tolist()), set(runs_of_words(b).tolist())
    return len(first & second) / len(first | second)


def pairs(texts: dict[str, str], similarity: float = 0.8, earlier: tuple[str, ...] = ()) -> dict[str, str]:
    """The id of each text that goes → the id that is kept."""
    ids = list(texts)
    ranks = [(int(doc_id not in earlier), doc_id) for doc_id in ids]
    rows, bands = signatures(texts.values())
    listed = [
        (ranks[a], ranks[b])
        for band in range(BANDS)
        for a, b in near_pairs(ranks, bands[:, band], rows, similarity)
    ]
    return {goes[1]: stays[1] for goes, stays in kept(listed).items()}


@pytest.mark.parametrize("letters", ["ހށނރބޅކއވމ", "ཀཁགངཅཆཇཉཏཐ", "ꦲꦤꦕꦫꦏꦢꦠꦱꦮꦭ", "ܐܒܓܕܗܘܙܚܛܝ", "אבגדהוזחטי"])
def test_words_that_differ_in_vowel_signs_are_other_words(letters: str) -> None:
    """Thaana, Tibetan, Javanese, Syriac and Hebrew."""
    signs = {"ހ": "ާި", "ཀ": "ིུ", "ꦲ": "ꦶꦸ", "ܐ": "ܰܺ", "א": "ׁׂ"}[letters[0]]
    first, second = (" ".join(letter + sign + letters for letter in letters) for sign in signs)
    assert jaccard(first, second) == 0


def test_a_text_is_its_runs_of_five_words_whatever_case_and_punctuation() -> None:
    assert len(runs_of_words("one two three four five six")) == 2
    assert (
        runs_of_words("One, two; THREE four five!").tolist()
        == runs_of_words("one two three four five").tolist()
    )
    assert (
        runs_of_words("one two three four five").tolist() != runs_of_words("five four three two one").tolist()
    )
    assert len(runs_of_words("two words")) == len(runs_of_words("ein")) == 1
    assert len(runs_of_words("月球是地球唯一的天然卫星")) == 8
    assert len(runs_of_words("")) == 0


def test_near_texts_go_for_the_smallest_id_and_others_stay() -> None:
    text, other = page(1), page(2)
    texts = {
        "c": " ".join(text),
        "b": " ".join([*text, "one", "more"]),
        "a": " ".join(["read", "this:", *text]),
        "x": " ".join(other),
        "y": " ".join([*text[:150], *other[150:]]),  # half of each
    }
    assert jaccard(texts["a"], texts["b"]) > 0.9 and 0.2 < jaccard(texts["y"], texts["c"]) < 0.5
    assert pairs(texts) == {"b": "a", "c": "a"}
    assert pairs(dict(reversed(texts.items()))) == {"b": "a", "c": "a"}


def test_texts_of_symbols_alone_are_near_only_if_they_are_the_same() -> None:
    assert pairs({"a": "★ ☆ ★ ☆ ★ ☆", "b": "♠ ♥ ♦ ♣ ♠ ♥"}) == {}
    assert pairs({"a": "★ ☆ ★ ☆ ★ ☆", "b": "★ ☆ ★ ☆ ★ ☆"}) == {"b": "a"}


def test_a_document_of_an_earlier_run_stays_whatever_its_id() -> None:
    texts = {"a": " ".join(page(1)), "z": " ".join(page(1)), "y": " ".join(page(1))}
    assert pairs(texts, earlier=("z", "y")) == {"a": "y"}


def test_each_document_of_an_earlier_run_is_compared_though_another_is_near_it() -> None:
    """A new page is near the second of them, and far from the first."""
    first = np.zeros(100, np.uint8)
    second, new = first.copy(), first.copy()
    second[:15], new[:30] = 1, 1
    rows, band = np.stack([first, second, new]), np.full(3, 7, np.uint64)
    earlier = [(0, "a"), (0, "b"), (1, "c")]
    assert list(near_pairs(earlier, band, rows, 0.8)) == [(2, 1)]
    assert list(near_pairs([(0, "b"), (1, "c")], band[1:], rows[1:], 0.8)) == [(1, 0)]
    assert list(near_pairs([(1, "a"), (1, "b"), (1, "c")], band, rows, 0.8)) == [(1, 0)]


def test_what_stays_in_one_band_and_goes_in_another_hands_on_what_was_to_go_for_it() -> None:
    assert kept(
        [((1, "c"), (1, "b")), ((1, "b"), (1, "a")), ((1, "c"), (1, "bb")), ((1, "e"), (0, "z"))]
    ) == {
        (1, "b"): (1, "a"),
        (1, "c"): (1, "a"),
        (1, "e"): (0, "z"),
    }


@pytest.mark.parametrize("changed", [3, 6])
def test_pages_above_the_threshold_are_recognised_and_pages_far_below_are_not(changed: int) -> None:
    draw, right = random.Random(7), 0
    for seed in range(40):
        text = page(seed, 400)
        other = list(text)
        for place in draw.sample(range(400), changed):
            other[place] = "changed"
        assert jaccard(" ".join(text), " ".join(other)) > 0.84
        right += pairs({"a": " ".join(text), "b": " ".join(other)}) == {"b": "a"}
        assert pairs({"a": " ".join(text), "b": " ".join(page(seed + 1000, 400))}) == {}
    assert right >= 35


def test_a_signature_is_that_of_every_machine_and_version() -> None:
    rows, bands = signatures(["The Moon gives no light of its own, as everybody knows."])
    assert rows.shape == (1, SIZE) and bands.shape == (1, BANDS)
    assert rows[0, :8].tolist() == FROZEN
    assert signatures([])[0].shape == (0, SIZE)
    alone, together = signatures(["a b c d e f"])[0], signatures(["x", "a b c d e f"])[0]
    assert np.array_equal(alone[0], together[1])


FROZEN = [137, 137, 25, 134, 50, 185, 20, 58]


def test_texts_that_differ_in_vowel_signs_have_other_words() -> None:
    one, other = "कि की कु के को कल", "का की कू कै कौ कल"
    assert len(runs_of_words(one)) == 2 and not set(runs_of_words(one)) & set(runs_of_words(other))
