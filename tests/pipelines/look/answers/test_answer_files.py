"""All answers as files for colleagues: nothing is lost, nothing is computed, and a page is a table without
its script."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from answermill.__main__ import main
from answermill.files.sealed_json import read_sealed
from answermill.pipelines.look.answers import answers_page
from answermill.pipelines.look.answers.answer_files import CSV, EXCEL, PAGE
from answermill.pipelines.look.answers.answer_rows import COLUMNS
from answermill.pipelines.look.report.pages import templates
from answermill.pipelines.look.report.run_report import read_report, write_report
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.specs.rerank import ANSWERS
from tests.pipelines.look.report.written_run import passage, write_run

HOSTILE = '=HYPERLINK("https://a.example";"x") </script><script>alert(1)</script>'


@pytest.fixture(scope="module")
def reported(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of the sample's run."""
    folder = tmp_path_factory.mktemp("reported")
    write_report(sample_run, out=folder)
    return folder


def rows_of(file: Path) -> list[dict[str, str]]:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("\ufeff")
    return list(csv.DictReader(text.removeprefix("\ufeff").splitlines(keepends=True)))


def test_csv_has_every_answer_with_its_page_and_what_labels_say(reported: Path, sample_run: Path) -> None:
    answers = list(ANSWERS.open(sample_run).read())
    rows = rows_of(reported / CSV)
    assert [row["question_id"] for row in rows] == [answer.question_id for answer in answers]
    assert list(rows[0]) == list(COLUMNS) and len(rows) == 90
    assert {row["url"] for row in rows} == {answer.url or "" for answer in answers}

    # P@1 is that of the questions that have a correct candidate.
    judged = Counter(row["judged"] for row in rows)
    quality = read_report(sample_run).quality
    assert quality is not None and judged["correct"] == round(quality.orders[-1].p1 * quality.questions)
    assert judged["correct"] > judged["wrong"] > 0


def test_a_text_that_is_a_formula_is_none_in_csv(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "-1 or what?", passage(HOSTILE))
    write_report(run)
    (row,) = rows_of(run / CSV)
    assert row["answer"] == "'" + HOSTILE and row["question"] == "'-1 or what?"
    assert row["judged"] == "" and row["score"] == "1"


def test_the_page_is_a_table_of_all_answers_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", HOSTILE, passage(HOSTILE))
    write_report(run)
    page = (run / PAGE).read_text(encoding="utf-8")
    assert page.count("<tr data-state=") == 1 and page.count("<script>") == 1
    assert page.count("=HYPERLINK(&#34;") == 2 and "alert(1)</script>" not in page.replace(
        "&lt;/script&gt;", ""
    )
    assert '<form id="filter" hidden>' in page  # the script shows it
    policy = f"script-src 'sha256-{templates.script_digest()}'"
    assert f"default-src 'none'; style-src 'unsafe-inline'; {policy}\"" in page
    # A browser compares the bytes between the tags.
    script = page[page.index("<script>") + len("<script>") : page.index("</script>")]
    assert script == (Path(templates.__file__).parent / "table.js").read_text(encoding="utf-8")


def test_the_style_holds_back_as_many_rows_as_the_script_and_none_without_scripts() -> None:
    pages = Path(templates.__file__).parent
    script, style = ((pages / name).read_text(encoding="utf-8") for name in ("table.js", "style.css"))
    (step,) = re.findall(r"const STEP = (\d+);", script)
    rule = f".answers:not(.paged) tbody tr:nth-child(n + {int(step) + 1}) {{ display: none; }}"
    assert f"@media (scripting: enabled) {{ {rule} }}" in style and 'classList.add("paged")' in script


def test_a_page_ends_where_it_would_be_slow_and_says_so(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_page, "SHOWN", 4)
    write_report(small_run, out=tmp_path)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert page.count("<tr data-state=") == 4 and "The first 4 of 15 questions" in page
    assert len(rows_of(tmp_path / CSV)) == 15


def test_the_report_seals_the_files_and_verify_finds_a_changed_one(small_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    write_report(run)
    assert not list(Verification(run).findings())
    with (run / CSV).open("a") as file:
        file.write("x")
    assert [finding.path for finding in Verification(run).findings()] == [CSV]


def test_an_excel_file_has_the_texts_as_they_are_and_is_always_the_same(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter", reason="xlsxwriter is not installed: pip install 'answermill[excel]'")
    run = write_run(tmp_path / "run", "Why?", passage(HOSTILE))
    write_report(run, excel=True)
    with zipfile.ZipFile(run / EXCEL) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "=HYPERLINK(" in sheet and "<f>" not in sheet and "<autoFilter" in sheet
    first = (run / EXCEL).read_bytes()

    # Who has asked for it once has it renewed.
    write_report(run)
    assert (run / EXCEL).read_bytes() == first
    assert f'href="{EXCEL}"' in (run / "report.html").read_text(encoding="utf-8")
    write_report(run, excel=False)
    assert not (run / EXCEL).exists()


def test_answers_that_are_no_more_leave_no_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "Why?", passage("So."))
    write_report(run)
    assert set(read_sealed(run / "report.json", dict)["digests"]) == {"report.html", PAGE, CSV}
    shutil.rmtree(run / "answers")
    write_report(run)
    assert not (run / PAGE).exists() and not (run / CSV).exists()
    assert not re.search(r'href="answers', (run / "report.html").read_text(encoding="utf-8"))


def test_excel_is_of_one_run(small_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(["report", str(small_run), str(small_run), "--excel"])
    assert e.value.code == 2 and "one run" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_browser_runs_the_page_s_script_and_no_other(reported: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not on PATH")
    page = (reported / PAGE).read_text(encoding="utf-8")
    correct = page.count('data-judged="correct"')
    assert 0 < correct < 90

    # A script that chooses the correct answers, as a reader would: only without the policy is it run.
    choice = 'form.elements.judged.value = "correct"; form.dispatchEvent(new Event("input"))'
    changed = page.replace("</main>", f"<script>{choice}</script></main>")
    free = re.sub(r"<meta http-equiv[^>]*>", "", changed)
    for text, shown in ((changed, 90), (free, correct)):
        (tmp_path / "changed.html").write_text(text, encoding="utf-8")
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        address = (tmp_path / "changed.html").as_uri()
        drawn = subprocess.run([*words, address], capture_output=True, text=True, check=True).stdout
        assert f"<output>{shown} of 90</output>" in drawn
