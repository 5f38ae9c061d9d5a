"""Answers as a page shows them: in their passages, with their pages and their places in the crawl."""

from __future__ import annotations

from collections.abc import Iterator

from answermill.pipelines.look.report.figures import RunReport, ShownAnswer
from answermill.pipelines.look.report.pages.markup import Html, element, link, section


def answer(shown: ShownAnswer, with_passage: bool = True) -> Html:
    """The answer, between the words around it, and a line of where it is from."""
    mark = {True: "correct", False: "wrong", None: None}[shown.is_correct]
    words = (f"{shown.before} ", element("mark", shown.text), f" {shown.after}") if with_passage else (shown.text,)
    sentence = element("p", *words, class_="passage", dir="auto")
    score = f", score {shown.score:.3f}" if shown.score is not None else ""
    parts = [
        *place(shown.url, shown.title, shown.source_file, shown.source_offset),
        element("span", f"passage {shown.retrieved_rank} of retrieval{score}"),
        *([element("b", _judged(mark), class_=mark)] if mark else []),
    ]
    return element("div", sentence, element("p", *parts, class_="source"), class_=f"answer {mark or ''}".strip())


def place(url: str, title: str, source_file: str, source_offset: int | None) -> Iterator[Html]:
    """Where an answer is from: a link to its page, and its place in the crawl where it has one."""
    yield link(url, title or url or "no title")
    if source_file:
        yield element("code", f"{source_file}, byte {source_offset}")


def card(question: str, question_id: str, *children: Html) -> Html:
    """What is said of a question, under its text."""
    heading = element("h3", element("span", question, dir="auto"), " ", element("small", question_id))
    return element("article", heading, *children)


def _judged(mark: str) -> str:
    return {"correct": "✓ correct", "wrong": "✗ not labelled correct"}[mark]


def loss_section(report: RunReport) -> Html:
    """Questions whose first answer is wrong, though a correct candidate was retrieved."""
    cards = []
    for each in report.losses:
        fate = {"dropped": f"dropped by {each.stage}", "grouped": "another sentence of its passage was taken"}
        sides = [
            element("div", element("h4", f"Correct: {fate.get(each.fate, 'kept, but not first')}"), answer(each.correct)),
            element("div", element("h4", "First answer"), answer(each.first) if each.first else element("p", "none")),
        ]
        cards.append(card(each.question, each.question_id, element("div", *sides, class_="columns")))
    return section(
        "Lost answers",
        "losses",
        *cards,
        about="Questions whose first answer is not a correct one, though a correct one was retrieved: of all those some that a "
        "hash chooses, each with the correct candidate that went furthest.",
    )


def question_section(report: RunReport) -> Html:
    """The questions that a hash chose, with their first answers."""
    cards = []
    for each in report.questions:
        answers = [answer(shown, with_passage=n == 0) for n, shown in enumerate(each.answers)] or [
            element("p", "No answer was kept.", class_="none")
        ]
        listed = element("ol", *(element("li", shown) for shown in answers))
        cards.append(card(each.question, each.question_id, listed))
    return section(
        f"{len(report.questions)} questions",
        "questions",
        *cards,
        about=f"Chosen by a hash of their ids and the seed {report.seed}, with their first answers, the best in its passage. A "
        "place is the input file and the byte, or row, at which the page's record starts.",
    )
