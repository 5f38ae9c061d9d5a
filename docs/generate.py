"""Write the generated pages: `python -m docs.generate`. `--check` writes nothing and fails if a page is not
current.

- README.md and docs/results/*.md from docs/templates/: `[[cascade_quality.wikiqa_map .2]]` becomes the figure
  of experiments/results/cascade_quality.json with two decimals; `%.1` multiplies by 100, and
  `[[peasi_quality.better_question text]]` is a saved text. Above a table of docs/results/ stand the commands
  whose figures it has, with revision and date, and whether they measured a model that ships no more; below
  other figures of such a model stands a line that says so
- docs/reproduce.md from docs/templates/reproduce.md, which names figures in the same way, times and data sets
- docs/studies/*.md from experiments/: the studies' first lines, their saved results, and what they decided
- docs/reference/*.md from the code: keys of job and training files, the data dictionary, the reasons of
  rejects, the command line
- the heads of the cards in ranking/checkpoints/, and their section *Audit* from
  experiments/results/audit.json
- docs/images/*.svg: the way of the data, and plots of the saved figures
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docs import model_cards, pictures, references, reproduction, study_pages
from testing.measured_models import former_models

DOCS = Path(__file__).parent
RESULTS = [DOCS.parent / package / "results" for package in ("benchmarks", "experiments")]
NOTE = "<!-- Written by `python -m docs.generate`; edit {source} instead. -->\n\n"
_SOURCE = re.compile(r"edit (.+) instead")
_BLOCK = re.compile(r"^(?:.+\n)+", re.MULTILINE)
"""A paragraph, a list, a table or a picture."""
_PLOT = re.compile(r"images/(\w+)\.svg")
PLOTS = ("cost_accuracy", "first_stage", "chain", "speed", "risk_coverage", "reliability", "schedule_spread")
"""Functions of `pictures` that plot saved figures."""
_FIGURE = re.compile(r"\[\[(\w+)\.(\w+) (%?)\.(\d+)((?: [\w/%]+)?)\]\]")
_TEXT = re.compile(r"\[\[(\w+)\.(\w+) text\]\]")


@cache
def saved(name: str) -> dict[str, Any]:
    """The saved result of a benchmark."""
    file = next((folder / f"{name}.json" for folder in RESULTS if (folder / f"{name}.json").is_file()), None)
    if file is None:
        raise ValueError(f"no result {name}.json is saved")
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result


def figure(match: re.Match[str]) -> str:
    """A placeholder's figure."""
    name, key, percent, decimals, unit = match.groups()
    value = saved(name)[key] * (100 if percent else 1)
    return f"{value:,.{int(decimals)}f}" + (" %" if percent else unit)


def quotation(match: re.Match[str]) -> str:
    """A placeholder's text, for a cell of a table."""
    name, key = match.groups()
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", " ".join(saved(name)[key].split()))


@cache
def plot(name: str) -> tuple[str, tuple[str, ...]]:
    """SVG of a plot, and the names of the results that it shows."""
    names: list[str] = []

    def read(result: str) -> dict[str, Any]:
        names.append(result)
        return saved(result)

    return getattr(pictures, name)(read), tuple(names)


def results_in(block: str) -> list[str]:
    """Names of the results whose figures a block of a template shows, in its text or in a plot."""
    names = [match[1] for pattern in (_FIGURE, _TEXT) for match in pattern.finditer(block)]
    for match in _PLOT.finditer(block):
        names += plot(match[1])[1] if match[1] in PLOTS else ()
    return list(dict.fromkeys(names))


def with_sources(block: re.Match[str]) -> str:
    """A block of a page of results: a table below a line on the sources of its figures, others as
    `with_note` has them."""
    if not block[0].startswith("|"):
        return with_note(block)
    names = results_in(block[0])
    return f"*From {'; '.join(map(source, names))}.*\n\n{block[0]}" if names else block[0]


def with_note(block: re.Match[str]) -> str:
    """A block of a template, above a line on those of its results that former models gave."""
    notes = [f"{name}.json was {note}" for name in results_in(block[0]) if (note := former_note(name))]
    return f"{block[0]}\n*{'; '.join(notes)}.*\n" if notes else block[0]


def source(name: str) -> str:
    """The command that saved a result, the file, its revision and date, and the models in it that do not ship
    now."""
    result, note = saved(name), former_note(name)
    line = f"`{result['command']}`: {name}.json, revision {result['revision']}, {result['date']}"
    return f"{line}, {note}" if note else line


def former_note(name: str) -> str:
    """'measured with a former cascade', or '' for a result of the models that ship now, or of others."""
    models = former_models(saved(name))
    return f"measured with {' and '.join(f'a former {model}' for model in models)}" if models else ""


def rendered(text: str) -> str:
    """A template with its figures; raises ValueError for a placeholder that is not understood."""
    page = _TEXT.sub(quotation, _FIGURE.sub(figure, text))
    for rest in re.findall(r"\[\[\w+\.\w+ .*?\]\]", page):
        raise ValueError(
            f"a placeholder is not understood: {rest}; write [[benchmark.key .2]], or %.1 for percent"
        )
    return page


def results() -> Iterator[tuple[Path, str]]:
    """(page, text) of docs/results/."""
    for template in sorted((DOCS / "templates" / "results").glob("*.md")):
        note = NOTE.format(source=template.relative_to(DOCS.parent).as_posix())
        yield (
            DOCS / "results" / template.name,
            note + rendered(_BLOCK.sub(with_sources, template.read_text(encoding="utf-8"))),
        )


def readme() -> tuple[Path, str]:
    """README.md, whose figures are saved ones too."""
    template = DOCS / "templates" / "README.md"
    note = NOTE.format(source=template.relative_to(DOCS.parent).as_posix()).rstrip() + "\n"
    text = _BLOCK.sub(with_note, template.read_text(encoding="utf-8"))
    return DOCS.parent / "README.md", note + rendered(text)


def reproduce() -> tuple[Path, str]:
    """docs/reproduce.md: the papers' tables, their commands, and our main figures."""
    template = DOCS / "templates" / "reproduce.md"
    note = NOTE.format(source=template.relative_to(DOCS.parent).as_posix())
    text = _BLOCK.sub(with_note, reproduction.filled(template.read_text(encoding="utf-8")))
    return DOCS / template.name, note + rendered(text)


def pages_of_studies() -> Iterator[tuple[Path, str]]:
    """(page, text) of docs/studies/."""
    for name, text in study_pages.pages(saved, source):
        code = "experiments/" if name == "index" else f"experiments/{name}.py"
        yield DOCS / "studies" / f"{name}.md", NOTE.format(source=code) + text


def reference() -> Iterator[tuple[Path, str]]:
    """(page, text) of docs/reference/."""
    pages = {
        "job-keys": references.job_keys,
        "training-keys": references.training_keys,
        "data-dictionary": references.data_dictionary,
        "reasons": references.reasons,
        "command-line": references.the_command_line,
    }
    for name, page in pages.items():
        yield DOCS / "reference" / f"{name}.md", NOTE.format(source="the code") + page()


def cards() -> Iterator[tuple[Path, str]]:
    """(page, text) of the shipped models' cards; none before an audit is saved."""
    if (RESULTS[1] / "audit.json").is_file():
        yield from model_cards.pages(saved("audit"), source("audit"), lambda name: NOTE.format(source=name))


def images() -> Iterator[tuple[Path, str]]:
    """(file, SVG) of docs/images/."""
    yield DOCS / "images" / "pipeline.svg", pictures.pipeline()
    for name in PLOTS:
        yield DOCS / "images" / f"{name}.svg", plot(name)[0]


def pages() -> Iterator[tuple[Path, str]]:
    """(file, content) of everything that is generated."""
    yield readme()
    yield from results()
    yield reproduce()
    yield from pages_of_studies()
    yield from reference()
    yield from cards()
    yield from images()


def stale() -> list[tuple[Path, str]]:
    """(file, content that it should have) of everything that is generated and not current."""
    return [page for page in pages() if not _is_current(*page)]


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def advice(path: Path, text: str) -> str:
    """A line for a file that is not current: what to edit in its place, and what to type."""
    source = _SOURCE.search(text)
    edit = f"edit {source[1]}, not this file" if source else "edit docs/pictures.py"
    return f"{_name(path)} is not current: {edit}, then `python -m docs.generate`"


def _name(path: Path) -> str:
    return path.relative_to(DOCS.parent).as_posix()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not current")
    check = parser.parse_args().check
    outdated = stale()
    for path, text in outdated:
        sys.stderr.write(f"{advice(path, text) if check else f'wrote: {_name(path)}'}\n")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.exit(1 if check and outdated else 0)


if __name__ == "__main__":
    main()
