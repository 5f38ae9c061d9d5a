"""A data-set format is one file and one line in FORMATS: every command then recognises and reads it, with its
options."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from answermill.pipelines.data import formats as datasets
from answermill.pipelines.data.formats import read_dataset, recognise
from answermill.pipelines.data.formats.format import Format
from answermill.pipelines.errors import USAGE, JobError
from testing.command import call
from tests import test_docs
from tests.changed_package import ChangedPackage, with_lines

MODULE = """
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pydantic import Field
from answermill.pipelines.data.formats.format import Format, FileHead, Options
from answermill.pipelines.data.formats.rows_in_order import Row
from answermill.pipelines.data.inputs.text_lines import bad, lines

class ToyOptions(Options):
    mark: str = Field("+", description="what a correct answer begins with")
    skip_first: int = Field(0, ge=0, description="questions to leave out")

def read_toy(path: Path, counted: Counter[str], options: ToyOptions) -> Iterator[Row]:
    for n, (line, text) in enumerate(lines(path)):
        if n == 0 or n <= options.skip_first:
            counted["questions left out"] += n > 0
            continue
        question, *answers = text.split(" | ")
        if not answers:
            raise bad(path, line, "no answers")
        for answer in answers:
            yield Row(line, f"toy-{n}", question, answer.lstrip(options.mark), int(answer.startswith(options.mark)))

FORMAT = Format("toy", "a toy: question | answer | +correct answer", read_toy, ToyOptions, lambda head: head.text[:4] == "%TOY")
"""
TOY = "%TOY\nWho sang it? | Nobody. | +It was he who sang it.\nWhere was it? | +Where it was. | Not here.\n"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy.py").write_text(MODULE)
    spec = importlib.util.spec_from_file_location("toy", tmp_path / "toy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(datasets.FORMATS, "toy", module.FORMAT)
    (tmp_path / "set.toy").write_text(TOY)
    return tmp_path / "set.toy"


def test_a_new_format_is_recognised_and_its_options_are_options_of_the_command(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recognise(toy) == "toy"
    assert call("dataset", toy, "--skip-first", 1, "--out", tmp_path / "set.parquet") == 0
    said = capsys.readouterr().out
    assert f"{toy} as toy" in said and "1 questions left out" in said
    assert [row.text for row in read_dataset(tmp_path / "set.parquet")] == ["Where it was.", "Not here."]
    assert call("dataset", toy, "--mark", "N") == 0
    assert " ".join(capsys.readouterr().out.splitlines()[2].split()).startswith("all 2 4 2 100.00")


def test_a_new_format_s_options_are_listed_and_checked(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("dataset", "--form", "list") == 0
    said = capsys.readouterr().out
    assert (
        "toy          a toy: question" in said and "--skip-first: questions to leave out (default: 0)" in said
    )
    assert call("dataset", toy, "--skip-first", "-1") == USAGE
    assert (
        "--skip-first -1: input should be greater than or equal to 0; options of toy: --mark"
        in capsys.readouterr().err
    )
    assert call("dataset", toy, "--splitter", "spacy") == USAGE
    assert "--splitter: toy has no such option; its options: --mark" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_format_is_a_file_and_a_line_and_then_in_every_list(tmp_path: Path) -> None:
    """No other file of ours is changed: the rest of this package are links to them."""
    imports = "from answermill.pipelines.data.formats.rows_in_order import in_order"
    lines = {
        imports: "from answermill.pipelines.data.formats import toy",
        "        tabular.TSV,": "        toy.FORMAT,",
    }
    registry = with_lines("pipelines/data/formats/__init__.py", lines)
    package = ChangedPackage.write(
        tmp_path / "package", {**registry, "pipelines/data/formats/toy.py": MODULE}
    )

    listed = package.answermill("dataset", "--form", "list")
    assert (
        "toy a toy: question | answer | +correct answer --mark: what a correct answer begins with" in listed
    )
    (tmp_path / "set.toy").write_text(TOY)
    assert "as toy" in package.answermill("dataset", tmp_path / "set.toy")
    assert ", toy, " in package.answermill("dataset", tmp_path / "set.toy", "--form", "toi")
    assert "2 questions kept" in package.answermill(
        "evaluate", "RR", "--labels", tmp_path / "set.toy", "--metrics", "P@1"
    )


def test_a_format_without_its_row_in_the_pages_fails_their_test(toy: Path) -> None:
    with pytest.raises(AssertionError, match="toy"):
        test_docs.test_every_form_of_a_data_set_is_explained()


def test_evaluate_reads_a_new_format_as_labels(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("evaluate", "RR", "--labels", toy, "--metrics", "P@1") == 0
    said = capsys.readouterr().out
    assert "2 questions kept" in said and said.splitlines()[-1].split()[:2] == ["P@1", "50.00"]
    assert call("evaluate", "WO", "--labels", toy, "--form", "toy", "--metrics", "P@1") == 0


def test_every_format_and_every_option_is_described() -> None:
    assert all(isinstance(each, Format) and each.about for each in datasets.FORMATS.values())
    assert all(
        option.description
        for each in datasets.FORMATS.values()
        for option in each.options.model_fields.values()
    )


def test_text_is_an_option_s_value_as_a_number_or_path_is(tmp_path: Path) -> None:
    parsed = datasets.FORMATS["nq-asnq"].parse_options({"annotators": "3", "splitter": "spacy"})
    assert parsed == datasets.FORMATS["nq-asnq"].parse_options({"annotators": 3, "splitter": "spacy"})
    assert datasets.FORMATS["insuranceqa"].parse_options({"answers": "a"}).answers == Path("a")
    with pytest.raises(JobError, match="--annotators many: input should be a valid integer"):
        datasets.FORMATS["nq-la"].parse_options({"annotators": "many"})
