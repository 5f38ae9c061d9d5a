"""The schema of every published record, frozen. A change here breaks people's files: it needs a line in
CHANGELOG.md."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.schemas import annotation, corpus, evaluation, labels, ranked, schedule
from answermill.schemas.record import Record

SNAPSHOT = Path(__file__).with_name("snapshots.json")
RECORDS: list[type[Record]] = [
    corpus.Document,
    corpus.TextMetrics,
    corpus.Sentence,
    corpus.Passage,
    corpus.Question,
    corpus.Rejected,
    ranked.Hit,
    ranked.StageScore,
    ranked.ScoredCandidate,
    ranked.Answer,
    ranked.OtherAnswer,
    labels.LabelledCandidate,
    labels.SentenceLabel,
    labels.PassageLabel,
    labels.DocumentLabel,
    labels.WindowLabel,
    labels.LabelConflict,
    labels.LabelledSentence,
    labels.LabelledPassage,
    evaluation.QuestionScore,
    schedule.ExitScore,
    schedule.ScheduleScore,
    annotation.Task,
    annotation.Annotation,
    annotation.ResolvedLabel,
    annotation.Conflict,
]


def as_text(record: type[Record]) -> list[str]:
    return [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in record.schema()]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_schema_is_the_one_that_was_published(record: type[Record]) -> None:
    assert as_text(record) == json.loads(SNAPSHOT.read_text())[record.__name__]


def test_every_record_has_a_snapshot() -> None:
    defined = {
        thing.__name__
        for module in (corpus, ranked, labels, evaluation, schedule, annotation)
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Record) and thing is not Record
    }
    assert defined == {record.__name__ for record in RECORDS} == set(json.loads(SNAPSHOT.read_text()))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_columns_are_named_as_in_a_parquet_file(record: type[Record], tmp_path: Path) -> None:
    pq.write_table(record.table([]), tmp_path / "rows.parquet")
    schema = pq.ParquetFile(tmp_path / "rows.parquet").schema
    paths = {schema.column(n).path for n in range(len(schema))}
    distinct = paths.difference(record.dictionary_columns())
    assert set(record.dictionary_columns()) <= paths
    assert {path.rpartition(".")[2] for path in distinct} <= {
        *("doc_id", "passage_id", "sentence_id", "source_record", "text", "text_hash", "url")
    }
    assert bool(distinct) == (record in (corpus.Document, corpus.Passage, corpus.Sentence))
