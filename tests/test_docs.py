"""README and docs/ are held to the code: commands and examples run, names exist, generated pages are
current."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import CycloptsError

import answermill as am
from answermill.__main__ import main
from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.config.job_file import Job, keys, load
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.formats import FORMATS
from answermill.pipelines.look.answers.best_answers import best_answers
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.specs.shipped_plans import PLANS
from answermill.pipelines.steps.job_plan import check_stages
from answermill.ranking.rerankers.registry import RERANKERS
from docs import generate

ROOT = Path(__file__).parents[1]
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
TEXT = "\n".join(PAGES.values())
README = PAGES[ROOT / "README.md"]
WRITTEN = {
    path.name: [
        line.partition("  #")[0].strip()
        for line in text.splitlines()
        if re.match(r" {4}(answermill|mkdir|cp) ", line)
    ]
    for path, text in PAGES.items()
}
"""Page → its shell commands, in order."""


def has_names_to_fill_in(command: str) -> bool:
    return re.search(r"\b[A-Z]{3,}\b", re.sub(r'"[^"]*"', "", command)) is not None


COMMANDS = {
    page: [command for command in commands if not has_names_to_fill_in(command)]
    for page, commands in WRITTEN.items()
    if not all(map(has_names_to_fill_in, commands))
}
NOT_RUN = {
    "annotation.md": "the crawl, the questions and the annotators' exports are the reader's own",
    "commoncrawl.md": "the job is the reader's own, and no crawl is reached from here",
    "datasets.md": "no data set ships with the package",
    "dataflow.md": "the cloud's project and buckets are the reader's own",
    "evaluation.md": "no data set ships with the package",
    "flink.md": "the machines of a cluster have names of their own",
    "jobs.md": "the crawl of each date is the reader's own",
    "operating.md": "whose job it is, and what is damaged in it, is the reader's",
    "running.md": "the machines of a cluster have names of their own",
    "schedulers.md": "the job of each night is the reader's own",
    "spark.md": "the machines of a cluster have names of their own",
    "training.md": "a training takes labels that do not ship, and minutes",
}
"""Page with commands that are only parsed, since they have names to fill in → why nothing here can fill them
in."""
TO_FILL_IN = sorted(
    {command for commands in WRITTEN.values() for command in commands if has_names_to_fill_in(command)}
)


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, block) of all fenced blocks of a language."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(path.name, block) for path, text in PAGES.items() for block in pattern.findall(text)]


@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_run_one_after_the_other(page, small_run, tmp_path, monkeypatch, capsys):
    """As they are written, in a folder with the sample and its run and nothing else; the run's models are
    small."""
    shutil.copytree(small_run.parent, tmp_path / "out" / "sample")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[page]:
        if not command.startswith("answermill "):
            subprocess.run(command, shell=True, check=True)
            continue
        with pytest.raises(SystemExit) as e:
            main(shlex.split(command)[1:])
        output = capsys.readouterr()
        # Of random models either side may be the worse one, which a margin makes the end of `compare`.
        assert e.value.code in ((0, 3) if "--margin" in command else (0,)), (command, output.err)
        assert output.out


ON_THE_SAMPLE = sorted(
    command
    for commands in COMMANDS.values()
    for command in commands
    if " --set " in command and "out/sample/" in command
)


@pytest.mark.parametrize("command", ON_THE_SAMPLE)
def test_settings_that_a_page_changes_fit_the_job_that_ships(command):
    """The run of the test above has other stages than the sample's."""
    words = shlex.split(command)
    settings = [
        word for word in words[words.index("--set") + 1 :] if re.match(r"[a-z_]+\.", word) and "=" in word
    ]
    assert settings and check_stages(load(ROOT / "pipelines/data/sample/job.toml", settings))


@pytest.mark.parametrize("command", [command for command in TO_FILL_IN if command.startswith("answermill ")])
def test_the_commands_with_names_to_fill_in_are_understood(command):
    tokens = shlex.split(command.partition(" -- ")[0].replace("...", ""))
    # Raises if a name or a value is wrong.
    command_line().parse_args(tokens[1:], exit_on_error=False, print_error=False)


def test_a_page_has_names_to_fill_in_only_for_a_reason():
    assert {
        page for page, commands in WRITTEN.items() if any(map(has_names_to_fill_in, commands))
    } == NOT_RUN.keys()


def test_a_command_with_a_wrong_name_is_not_understood():
    wrong = ["sweep", "TRAIN.toml", "--ovr", "a=1", "--out", "FOLDER"]
    with pytest.raises(CycloptsError):
        command_line().parse_args(wrong, exit_on_error=False, print_error=False)


def test_there_are_commands_to_run():
    assert len({command for commands in COMMANDS.values() for command in commands}) >= 14


@pytest.mark.parametrize("target", ["sample", "test"])
def test_the_two_commands_that_start_everything_are_in_the_makefile(target):
    assert f"    make {target} " in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_table_of_plans_has_each_one_that_ships() -> None:
    section = PAGES[ROOT / "docs" / "jobs.md"].partition("**A plan by name.**")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE) == list(PLANS)


def test_the_readme_is_short_and_the_job_in_it_is_the_sample_s():
    assert len(README.splitlines()) <= 200
    job = (ROOT / "pipelines/data/sample/job.toml").read_text(encoding="utf-8").strip()
    assert job in README and job in PAGES[ROOT / "docs" / "jobs.md"]


def test_the_example_of_the_readme_prints_what_it_says(sample_run, tmp_path, monkeypatch):
    (example,) = [block for page, block in blocks("python") if page == "README.md"]
    shown = README[README.index(example) + len(example) :].split("```")[2].strip()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sample").symlink_to(sample_run.parent)
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(example, {})
    assert alike(printed.getvalue().strip(), shown)
    assert len(example.strip().splitlines()) <= 14


def alike(one: str, other: str) -> bool:
    """Whether these are the same but for counts that differ by one in a thousand at most: processors round
    vectors in their own ways, and then another passage may be retrieved, with another number of sentences."""
    number = re.compile(r"\d[\d,]*")
    pairs = zip(number.findall(one), number.findall(other), strict=False)
    counts = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return number.sub("0", one) == number.sub("0", other) and all(abs(a - b) <= b / 1_000 for a, b in counts)


def test_counts_are_alike_within_a_thousandth():
    assert alike("19,284 candidates", "19,287 candidates")
    assert not alike("19,284 candidates", "19,387 candidates") and not alike("2 kept", "2 left")


def test_the_output_in_the_readme_is_the_sample_job_s(sample_run, tmp_path, monkeypatch, capsys):
    """Each line up to its first figure that depends on the machine."""

    def stable(line: str) -> str:
        return line.partition("; BM25 ")[0].partition("; cascade took")[0]

    shutil.copytree(sample_run.parent, tmp_path / "out" / "sample")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["run", "out/sample/job.toml", "--out", "out/sample/run"])
    lines = [
        line.removesuffix(" (complete)")
        for line in capsys.readouterr().out.splitlines()
        if line.endswith("(complete)")
    ]
    assert [line.split()[0] for line in lines] == ["ingest", "index", "retrieve", "rerank", "propagate"]
    for line in lines:
        for page in (README, PAGES[ROOT / "docs" / "quickstart.md"]):
            assert any(alike(stable(line), stable(shown)) for shown in page.splitlines()), line


def test_the_page_on_data_sets_counts_the_sentences_that_the_quickstart_counts():
    annotation, quickstart = (PAGES[ROOT / "docs" / page] for page in ("annotation.md", "quickstart.md"))
    asked = re.findall(r"^annotate +90 questions, ([\d,]+) sentences", annotation, re.M)
    assert asked == re.findall(r"^rerank +90 .*? ([\d,]+) candidates = ", quickstart, re.M)


def test_the_answers_in_the_readme_are_those_that_the_sample_command_shows(sample_run):
    shown = "\n".join(best_answers(sample_run))
    assert shown in README and shown in PAGES[ROOT / "docs" / "quickstart.md"]


def test_every_job_and_training_file_is_valid():
    checked = 0
    for page, block in blocks("toml"):
        settings = tomllib.loads(block)
        kind = TrainJob if "data" in settings else Job
        assert kind.model_validate(settings), page
        checked += 1
    assert checked >= 9


def test_json_in_the_pages_is_valid():
    assert all(json.loads(block) for _, block in blocks("json"))


def test_every_folder_and_reranker_is_explained():
    for folder in {name.partition("/")[0] for name in folder_specs()}:
        assert f"`{folder}/`" in README
    for name in RERANKERS:
        assert f"`{name}`" in README and f"| [`{name}`]" in PAGES[ROOT / "docs" / "rerankers.md"]


def test_every_form_of_a_data_set_is_explained():
    rows = [
        line.split("|")[1]
        for line in PAGES[ROOT / "docs" / "datasets.md"].splitlines()
        if line.startswith("| `")
    ]
    assert [name for name in FORMATS if f"`{name}`" not in " ".join(rows)] == []


def test_every_job_key_that_is_named_exists():
    known = {key.replace("[]", "") for key, _, _, _ in keys()}
    named = set(
        re.findall(
            r"(?:^|[`\s])((?:ingest|index|retrieve|rerank|annotate|propagate|workers)\.[a-z_.0-9]+)", TEXT
        )
    )
    assert named
    assert {re.sub(r"\.\d+", "", key).rstrip(".") for key in named} <= known


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_page_says_whom_it_is_for_and_where_to_go_next(path):
    """The generated pages too, and the templates that they are of."""
    text = re.sub(r"\A<!--.*?-->\n+", "", path.read_text(encoding="utf-8"))
    if path == ROOT / "docs/templates/README.md":
        return
    assert text.startswith("# ") and "\n\n**For** " in text[:200]
    assert text.splitlines()[-1].startswith("**Next:** ")


def links() -> Iterator[tuple[Path, str]]:
    generated = sorted((ROOT / "docs" / "results").glob("*.md"))
    for path in (*PAGES, *generated):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                yield path, target


def test_links_lead_to_files():
    broken = [(path.name, target) for path, target in links() if not (path.parent / target).exists()]
    assert not broken


def test_generated_pages_are_current():
    assert [generate.advice(path, text) for path, text in generate.stale()] == []


def test_a_page_that_is_not_current_is_named_with_what_to_edit(monkeypatch):
    readme, text = generate.readme()
    pages = [
        (readme, text + "."),
        next(generate.results()),
        (generate.DOCS / "images" / "chain.svg", "<svg/>"),
    ]
    monkeypatch.setattr(generate, "pages", lambda: iter(pages))
    assert [generate.advice(*page) for page in generate.stale()] == [
        "README.md is not current: edit docs/templates/README.md, not this file, then `python -m "
        "docs.generate`",
        "docs/images/chain.svg is not current: edit docs/pictures.py, then `python -m docs.generate`",
    ]


def test_the_first_line_of_the_readme_names_the_template_that_it_is_written_from():
    first, *_ = README.splitlines()
    assert first == "<!-- Written by `python -m docs.generate`; edit docs/templates/README.md instead. -->"
    assert (ROOT / "docs/templates/README.md").is_file()


def test_a_figure_is_the_saved_one_and_an_unknown_one_an_error():
    saved = json.loads((ROOT / "experiments/results/retrieval.json").read_text(encoding="utf-8"))["cacm_map"]
    assert generate.rendered("[[retrieval.cacm_map %.2]]") == f"{100 * saved:.2f} %"
    with pytest.raises(KeyError):
        generate.rendered("[[retrieval.no_such_key .2]]")
    with pytest.raises(ValueError, match="not understood"):
        generate.rendered("[[retrieval.cacm_map two]]")


def test_a_saved_text_is_quoted_in_one_cell(monkeypatch):
    monkeypatch.setattr(generate, "saved", lambda name: {"answer": "One | two\n_three_ [4]."})
    assert generate.rendered("| [[peasi.answer text]] |") == "| One \\| two \\_three\\_ \\[4\\]. |"
    assert generate.results_in("| [[peasi.answer text]] |") == ["peasi"]


def test_what_the_two_walks_name_exists():
    walks = PAGES[ROOT / "docs/design.md"].partition("## Two walks")[2].partition("\n## ")[0]
    files = [
        path
        for room in ("pipelines", "ranking", "indexing", "files", "schemas")
        for path in (ROOT / room).rglob("*.py")
    ]
    known = {
        name
        for path in files
        for name in re.findall(r"^ *(?:def|class) (\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    known |= {path.stem for path in files} | {path.parent.name for path in files} | set(folder_specs())

    paths = set(re.findall(r"`([\w/]+\.py)`", walks))
    named = set(re.findall(r"`([\w./]+)`", walks)) - paths
    names = {part for name in named for part in re.split(r"[./]", name) if part}
    assert len(paths) > 3 and len(names) > 30
    assert [path for path in paths if not any(file.as_posix().endswith(f"/{path}") for file in files)] == []
    assert names - known == set()


def test_every_kind_of_odd_input_names_the_test_that_guards_it():
    table = PAGES[ROOT / "docs/design.md"].partition("## What browsers decide")[2].partition("\n## ")[0]
    tests = re.findall(r"\| `([\w/]+\.py)`: `(\w+)` \|$", table, re.M)
    assert len(tests) == 24 == table.count("\n| ") - 1
    for path, name in tests:
        assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), (path, name)

    modules = re.findall(r"`((?:indexing|main_content|files|schemas)[.\w]+)`", table)
    files = [path.with_suffix("").as_posix() for path in ROOT.glob("*/**/*.py")]
    assert [
        name for name in modules if not any(f.endswith("/" + name.replace(".", "/")) for f in files)
    ] == []


def test_html_files_become_pages_as_jobs_says(tmp_path, monkeypatch):
    (block,) = [block for page, block in blocks("python") if page == "jobs.md"]
    sentences = " ".join(f"The tides of sea number {n} follow the pull of the moon." for n in range(9))
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "tides.html").write_text(f"<html><title>Tides</title><p>{sentences}</p></html>")
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["pages.warc"]\n')
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert "1 page = 1 document" in str(am.ingest("job.toml", out="run"))


def test_the_refused_pages_are_listed_as_quickstart_says(sample_run, tmp_path, monkeypatch, capsys):
    (block,) = [block for page, block in blocks("python") if page == "quickstart.md"]
    (tmp_path / "out" / "sample").mkdir(parents=True)
    (tmp_path / "out" / "sample" / "run").symlink_to(sample_run)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 10 and any(" not_html " in line for line in said)


def test_the_description_that_design_shows_is_that_of_rerank():
    section = PAGES[ROOT / "docs/design.md"].partition("## A step says what it is")[2]
    shown = section.partition("```python\n")[2].partition("```")[0]
    assert "RERANK = StepSpec(" in shown
    assert shown in (ROOT / "pipelines/specs/rerank.py").read_text(encoding="utf-8")
    assert [folder.name for folder in RERANK if f'"{folder.name}"' not in shown] == []
