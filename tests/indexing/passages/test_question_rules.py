"""What is a well-formed question, and why a text is none."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from answermill.indexing.passages.passages import Splitter
from answermill.indexing.passages.question_rules import QuestionRules, refusal

SPLITTER = Splitter()


def sentences(text: str) -> int:
    return len(SPLITTER.sentences("", text))


@pytest.mark.parametrize(
    "text",
    [
        "When was the Suez Canal opened?",
        "when was the suez canal opened",
        "Who's the author of Emma?",
        "whats the capital of france",
        "In which year did Dr. J. Smith leave the U.S. Army?",
        "Is the Nile longer than the Amazon?",
        "Can't penguins fly at all?",
        'What does "E pluribus unum" (the motto) mean?',
        "Name the planets of the solar system.",
        "And why is the sky blue?",
        "Why did Super Bowl XXXI take place in New Orleans?",
        "How are\n  rainbows made?",
    ],
)
def test_questions_are_taken(text: str) -> None:
    assert refusal(text, sentences) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_letter"),
        ("1 + 1 = 2 ?", "no_letter"),
        ("What does https://example.com mean?", "markup"),
        ("What is <b>bold</b> text?", "markup"),
        ("What is R&amp;D in a firm?", "markup"),
        ("What is the capital of ____?", "placeholder"),
        ("What is the capital of [BLANK]?", "placeholder"),
        ("What is the capital of <country>?", "placeholder"),
        ("What is the capital of {country}?", "placeholder"),
        ("What is the capital of XXX?", "placeholder"),
        ("What is the capital of ... ?", "placeholder"),
        ("WHAT IS THE CAPITAL OF FRANCE?", "upper_case"),
        ("Who wrote?", "too_short"),
        ("Why is " + "very " * 30 + "long text long?", "too_long"),
        ("What is a car (automobile?", "unbalanced"),
        ('What is a "car?', "unbalanced"),
        ("What is :) in a car (?", "unbalanced"),
        ("The capital of France is Paris", "not_a_question"),
        ("game of thrones season 7 episodes", "not_a_question"),
        ("In the year of the fire", "not_a_question"),
        ("What a lovely day this is!", "statement"),
        ("When I was young, I lived in Rome.", "statement"),
        ("Who is it? Where is it?", "several_sentences"),
        ("What is a car? It has wheels", "several_sentences"),
    ],
)
def test_others_are_refused_with_their_reason(text: str, reason: str) -> None:
    assert refusal(text, sentences) == reason


def test_bounds_are_settings() -> None:
    assert refusal("Who wrote?", sentences, QuestionRules(2, 5)) is None
    assert refusal("Who wrote Emma and Persuasion first?", sentences, QuestionRules(2, 5)) == "too_long"


def test_real_questions_pass_and_real_sentences_do_not(shared_data) -> None:
    table = pq.read_table(shared_data / "wikiqa/wikiqa-test.parquet")
    questions, answers = (set(table[name].to_pylist()) for name in ("question", "sentence"))
    taken = [sum(refusal(text, sentences) is None for text in texts) for texts in (questions, answers)]
    assert len(questions) > 600 and len(answers) > 5_000
    assert taken[0] > 0.97 * len(questions) and taken[1] < 0.001 * len(answers)
