"""A manifest of many parts is a small JSON with tables beside it, and says the same as one that holds
them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests import manifest as manifests
from answermill.pipelines.runs.manifests.arrow_columns import Named, Parts
from answermill.pipelines.runs.manifests.manifest import MANIFEST, TABLE, Manifest
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.part import Part
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.schemas.corpus import Question
from tests.made_steps import Rows, made_step, report

UNITS = 9


def work(step: Step[Rows], unit: int) -> None:
    with PartWriter(step.run / "questions", Question, unit) as writer:
        writer.write([Question(f"q{unit}", "who?")])
    step.reports.write(
        Report(unit, {"questions": writer.parts}, Rows(rows=1, others=unit), {f"{unit}.warc": f"{unit:064}"})
    )


def commit(run: Path) -> Step[Rows]:
    step = step_of(run, {f"input {n}": f"{n} bytes" for n in range(UNITS)})
    Commit(step).begin()
    for unit in set(range(UNITS)) - step.reports.numbers():
        work(step, unit)
    Commit(step).finish(Commit(step).reported(UNITS))
    return step


def step_of(run: Path, inputs: dict[str, str]) -> Step[Rows]:
    return made_step(run, "retrieve", {"questions": Question}, {}, inputs, units_stand_alone=True)


@pytest.fixture
def short(tmp_path: Path) -> Manifest:
    commit(tmp_path / "short")
    return read(tmp_path / "short")


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose manifest has its tables beside it."""
    monkeypatch.setattr(manifests, "IN_JSON", UNITS - 1)
    commit(tmp_path / "long")
    return tmp_path / "long"


def read(run: Path) -> Manifest:
    manifest = QUESTIONS.manifest(run)
    assert manifest is not None
    return manifest


def tables(run: Path) -> list[Path]:
    return [path for path in (run / "questions").iterdir() if TABLE.fullmatch(path.name)]


def test_a_long_manifest_says_what_a_short_one_says(short: Manifest, long: Path) -> None:
    assert read(long) == short
    assert (len(short.parts), len(short.inputs), len(short.digests), len(short.units)) == (UNITS,) * 4
    assert json.loads(read(long).units["3"]) == {"rows": 1, "others": 3}
    assert len(tables(long)) == 4 and "part-" not in (long / "questions" / MANIFEST).read_text()


def test_nobody_takes_a_table_for_a_part(long: Path) -> None:
    assert len(list((long / "questions").glob("*.parquet"))) == UNITS
    assert len(list(QUESTIONS.open(long).read())) == UNITS


def test_a_part_that_is_lost_is_written_again_alone(short: Manifest, long: Path) -> None:
    lost = long / "questions" / short.parts[4].file
    lost.unlink()
    step = step_of(long, dict(short.inputs))
    Commit(step).begin()
    assert step.reports.numbers() == set(range(UNITS)) - {4} and not tables(long)
    assert Commit(commit(long)).is_complete() and lost.is_file()
    assert (read(long).parts, read(long).units) == (short.parts, short.units)


def test_a_table_that_was_changed_or_lost_is_an_error_that_says_what_to_type(long: Path) -> None:
    table = min(path for path in tables(long) if "-parts-" in path.name)
    content = table.read_bytes()
    table.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        JobError, match=rf"{table} was changed .*`answermill run JOB.toml --out {long} --redo retrieve`"
    ) as e:
        len(read(long).parts)
    assert e.value.code == BAD_DATA
    table.unlink()
    with pytest.raises(JobError, match=rf"{table} is missing"):
        read(long)


def test_parts_are_a_sequence() -> None:
    rows = [Part(f"part-{n:05d}-0.parquet", n, 10 * n, f"{n:064}") for n in range(10_000)]
    parts = Parts.of(rows)
    assert list(parts) == rows and parts == rows and rows == parts and len(parts) == 10_000
    assert (parts[7], parts[-1], list(parts[3:5])) == (rows[7], rows[-1], rows[3:5])
    assert parts != Parts.of(rows[:-1]) and parts != [*rows[:-1], rows[0]]
    with pytest.raises(IndexError):
        parts[10_000]
    assert list(Parts.of(())) == []


def test_names_are_a_mapping() -> None:
    values = {f"{n}.warc.gz": f"{n} bytes" for n in range(5_000)}
    assert Named.of(values) == values and list(Named.of(values)) == list(values)


def test_an_outcome_is_the_sum_of_its_reports() -> None:
    parts = [Part(f"part-{n:05d}.parquet", 1, 1, "0" * 64) for n in range(3)]
    outcome = Outcome.of(
        Rows(), [report(0, {"a": parts[:2]}, rows=2), report(1, {"b": parts[2:]}, rows=1, others=1)]
    )
    outcome.include(report(2, {"b": parts[:1]}, others=5))
    assert outcome.counts == Rows(rows=3, others=6)
    assert (list(outcome.parts("a")), list(outcome.parts("b")), list(outcome.parts("c"))) == (
        parts[:2],
        [parts[2], parts[0]],
        [],
    )
    assert outcome.units == {"0": '{"rows": 2}', "1": '{"rows": 1, "others": 1}'}
