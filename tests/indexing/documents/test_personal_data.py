from __future__ import annotations

import pytest

from answermill.indexing.documents.personal_data import masked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to jane.doe+news@mail.example.co.uk.", "Write to [email]."),
        ("<a@b.org>, (x_y@b-c.net)", "<[email]>, ([email])"),
        ("@handle, a @ b, user@host, 2@3", "@handle, a @ b, user@host, 2@3"),
        ("Call +49 (89) 1234-5678 or +1 212 555 0199.", "Call [phone] or [phone]."),
        ("Call (212) 555-0199, 212-555-0199 or 1-212-555-0199!", "Call [phone], [phone] or [phone]!"),
        (
            "1990-2000, 384,400 km, 3.14159, 12-34-56, +5 °C, ISBN 978-3-16-148410-0",
            "1990-2000, 384,400 km, 3.14159, 12-34-56, +5 °C, ISBN 978-3-16-148410-0",
        ),
    ],
)
def test_addresses_and_numbers_are_masked_and_other_figures_stay(text: str, expected: str) -> None:
    assert masked(text, ["email", "phone"]) == expected
    assert masked(text, []) == text


def test_only_what_is_named_is_masked() -> None:
    assert masked("a@b.org, +1 212 555 0199", ["phone"]) == "a@b.org, [phone]"


def test_a_long_line_takes_no_long_time() -> None:
    assert masked("a." * 200_000 + "@" + "1 " * 200_000, ["email", "phone"]).endswith("1 ")
