from __future__ import annotations

from pathlib import Path

import pytest

from experiments.sentences import golden_rules, right_rules


def test_golden_rules_are_read_and_not_run(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text('import nowhere\nRULES = [("One. Two.", ["One.", "Two."]), ("p. 5", ["p. 5"])]\n')
    rules = golden_rules(file)
    assert rules == [("One. Two.", ["One.", "Two."]), ("p. 5", ["p. 5"])]
    assert right_rules(lambda text: [part + "." for part in text.split(".") if part], rules) == 1
    assert (
        right_rules(
            lambda text: [f"{part} " for part in text.split(" ")] if "." in text[3:] else [text], rules
        )
        == 2
    )

    file.write_text("RULES = [open('x')]\n")
    with pytest.raises(ValueError, match="malformed"):
        golden_rules(file)
    file.write_text("import nowhere\n")
    with pytest.raises(ValueError, match="no list of texts"):
        golden_rules(file)
