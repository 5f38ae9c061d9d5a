"""Answers of a question: one for all candidates that say the same, with its pages, sites and dates."""

from __future__ import annotations

import json

from answermill.pipelines.config.caps import Caps
from answermill.pipelines.config.rerank_section import AnswerSettings
from answermill.pipelines.steps.rerank.answers import AnswerRule, answers_of, best_of, line_of
from tests.pipelines.steps.rerank.bridge_rows import KEPT, SAME, outcome


def rule(**settings: int) -> AnswerRule:
    return AnswerRule(AnswerSettings(**settings))


def test_the_best_ranked_stands_for_all_that_say_the_same() -> None:
    ranked, rows = outcome()
    answer = best_of([ranked], rows, rule())["q"]
    assert (answer.answer, answer.candidate_id, answer.score) == (SAME, "d0@0", 9.0)
    assert answer.same == ("d0@0", "d2@0", "d4@0")  # the last one was dropped by a stage
    assert (answer.pages, answer.sites, answer.domains) == (3, 3, 2)
    assert (answer.first_date, answer.last_date) == ("2019-01-01T00:00:00Z", "2020-02-01T00:00:00Z")
    assert answer.others == () and (answer.source_file, answer.source_offset) == ("w", 0)


def test_two_versions_of_a_page_are_one_page() -> None:
    ranked, rows = outcome([KEPT[0], (SAME, KEPT[0][1], "2024-01-01")])
    answer = best_of([ranked], rows, rule())["q"]
    assert answer.same == ("d0@0", "d1@0", "d2@0") and answer.pages == 2


def test_further_answers_say_something_else_and_keep_their_ranks() -> None:
    ranked, rows = outcome()
    others = best_of([ranked], rows, rule(most=9))["q"].others
    assert [(other.rank, other.answer) for other in others] == [(2, "It is old."), (4, "Nobody knows.")]
    assert others[0].pages == 1 and others[0].first_date is None


def test_caps_leave_out_later_answers_of_the_same_source() -> None:
    ranked, rows = outcome()
    passages = {c.hit.passage.passage_id: c.hit.passage for c in ranked.candidates}
    ranks = [a.row.rank for a in answers_of(rows, passages, 2, Caps(max_per_domain=1))]
    assert ranks == [1, 4]
    assert [row.rank for row in rows[:4]] == [1, 2, 3, 4]  # those of scored/ stay


def test_without_a_kept_candidate_there_is_no_answer() -> None:
    ranked, rows = outcome([])
    assert best_of([ranked], rows, rule()) == {} and len(rows) == 2


def test_a_line_names_pages_and_further_answers_only_where_asked() -> None:
    ranked, rows = outcome()
    line = line_of(best_of([ranked], rows, rule())["q"])
    assert "others" not in line and line["pages"] == 3 and line["same"] == ["d0@0", "d2@0", "d4@0"]
    line = json.loads(json.dumps(line_of(best_of([ranked], rows, rule(most=2))["q"])))
    assert [other["answer"] for other in line["others"]] == ["It is old."]


def test_people_read_pages_sites_and_days() -> None:
    ranked, rows = outcome()
    passages = {c.hit.passage.passage_id: c.hit.passage for c in ranked.candidates}
    first, second, _ = answers_of(rows, passages, 9, Caps())
    assert str(first) == "3 pages of 3 sites, 2019-01-01 to 2020-02-01"
    assert str(second) == "1 page of 1 site"


def test_an_answer_below_the_bar_is_declined_and_so_are_further_ones() -> None:
    ranked, rows = outcome()
    met = AnswerRule(AnswerSettings(most=9), "s", 8.5)  # the stage's scores stand for probabilities
    answer = best_of([ranked], rows, met)["q"]
    assert (answer.answer, answer.probability, answer.others) == (SAME, 9.0, ())
    declined = best_of([ranked], rows, AnswerRule(AnswerSettings(most=9), "s", 9.5))["q"]
    assert (declined.answer, declined.declined, declined.pages, declined.others) == (None, SAME, 3, ())
