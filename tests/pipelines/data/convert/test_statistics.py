from __future__ import annotations

import pytest
import spacy

from answermill.pipelines.data.convert.statistics import PUBLISHED, DatasetStatistics, table
from answermill.pipelines.data.formats import read_dataset
from answermill.schemas.labels import LabelledCandidate


def candidates(labels):
    return [
        LabelledCandidate(str(q), f"who is  q{q}?", str(n), "", "", n, "one two." + " three" * q, label)
        for q, group in enumerate(labels)
        for n, label in enumerate(group)
    ]


def test_answerable_has_a_positive_and_clean_has_a_negative_too():
    statistics = DatasetStatistics().add(candidates([[0, 0, 0], [1], [0, 1], [1, 1]]))
    counts = {
        subset: (t.questions, t.candidates, t.positives)
        for subset in ("all", "answerable", "clean")
        for t in [statistics.over(subset)]
    }
    assert counts == {"all": (4, 8, 4), "answerable": (3, 5, 4), "clean": (1, 2, 1)}
    assert statistics.over("all").answered == 75
    assert statistics.over("all").average_candidates == 2


def test_lengths_are_means_over_questions_and_over_candidates():
    spaces, tokens = (
        DatasetStatistics(kind).add(candidates([[0, 0, 0], [1]])).over("all") for kind in ("blanks", "spacy")
    )
    assert (spaces.question_length, spaces.candidate_length) == (3, (3 * 2 + 3) / 4)
    # '?' and '.'; white space is no token.
    assert (tokens.question_length, tokens.candidate_length) == (4, (3 * 3 + 4) / 4)


def test_sums_can_be_asked_for_at_any_time():
    statistics = DatasetStatistics("blanks")
    assert statistics.over("all").average_candidates == statistics.over("all").answered == 0
    seen = []

    for candidate in candidates([[0, 1], [0]]):
        statistics.add([candidate])
        seen.append(
            (
                statistics.over("all").questions,
                statistics.over("all").candidates,
                statistics.over("clean").candidates,
            )
        )

    assert seen == [(1, 1, 0), (1, 2, 2), (2, 3, 2)]


def test_an_unknown_counting_is_refused():
    with pytest.raises(ValueError, match="tokens is 'nltk'; known: spacy, blanks"):
        DatasetStatistics("nltk")


def test_the_table_prints_what_is_published_beside_what_is_counted():
    lines = table(DatasetStatistics().add(candidates([[0, 1]])), PUBLISHED["wikiqa", "test"])
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split() == ["all", "1", "2", "1", "100.00", "2.00", "1.00", "4.00", "3.00"]

    assert lines[4].split() == [
        "Cosinet",
        "T2",
        "(all)",
        "633",
        "6,165",
        "-",
        "38.39",
        "9.74",
        "-",
        "7.28",
        "25.36",
    ]


@pytest.mark.parametrize(
    ("split", "counts", "clean"),
    [
        ("train", (2_118, 20_360, 1_040, 873), 857),
        ("dev", (296, 2_733, 140, 126), 122),
        ("test", (633, 6_165, 293, 243), 237),
    ],
)
def test_wikiqa_has_its_published_counts(shared_data, split, counts, clean):
    statistics = DatasetStatistics("blanks").add(read_dataset(shared_data / f"wikiqa/wikiqa-{split}.parquet"))
    everything, answerable = statistics.over("all"), statistics.over("answerable")
    assert (
        everything.questions,
        everything.candidates,
        everything.positives,
        everything.answerable,
    ) == counts
    assert statistics.over("clean").questions == clean
    published = next(row for row in PUBLISHED["wikiqa", split] if row.source == "MHS T1")
    for column in ("questions", "candidates", "positives"):
        assert getattr(answerable, column) == getattr(published, column)


@pytest.mark.nightly
def test_wikiqa_has_cosinets_lengths_in_spacys_tokens(shared_data):
    statistics = DatasetStatistics().add(read_dataset(shared_data / "wikiqa/wikiqa-test.parquet")).over("all")
    published = PUBLISHED["wikiqa", "test"][0]
    assert round(statistics.answered, 2) == published.answered
    assert round(statistics.average_candidates, 2) == published.average_candidates
    assert round(statistics.question_length, 2) == published.question_length
    assert statistics.candidate_length == pytest.approx(25.381, abs=0.001)  # published 25.36


def test_squad_sent_has_cosinets_lengths_in_words_between_blanks(shared_data):
    statistics = (
        DatasetStatistics("blanks")
        .add(read_dataset(shared_data / "squad/squad-sent-test.parquet"))
        .over("all")
    )
    published = PUBLISHED["squad-sent", "test"][0]
    assert round(statistics.question_length, 2) == published.question_length
    assert statistics.candidate_length == pytest.approx(published.candidate_length, abs=0.01)


@pytest.mark.nightly
def test_counting_word_by_word_is_what_spacy_counts(shared_data):
    tokenizer = spacy.blank("en").tokenizer
    candidates_read = list(read_dataset(shared_data / "selqa/selqa-dev.parquet"))
    expected = sum(not token.is_space for candidate in candidates_read for token in tokenizer(candidate.text))
    assert DatasetStatistics().add(candidates_read).over("all").candidate_tokens == expected > 200_000
