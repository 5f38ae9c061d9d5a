"""Write the generated pages: `python -m docs.generate`. `--check` writes nothing and fails if a page is not
current.

- README.md and docs/results/*.md from docs/templates/: `[[cascade_quality.wikiqa_map .2]]` becomes the figure
  of experiments/results/cascade_quality.json with two decimals; `%.1` multiplies by 100. Above a table of
  docs/results/ stand the commands whose figures it has, with revision and date
- docs/reproduce.md from docs/templates/reproduce.md, which names figures in the same way, times and data sets
- docs/studies/*.md from experiments/: the studies' first lines, their saved results, and what they decided
- docs/reference/*.md from the code: keys of job and training files, the data dictionary, the command line
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

from docs import pictures, references, reproduction, study_pages

DOCS = Path(__file__).parent
RESULTS = [DOCS.parent / package / "results" for package in ("benchmarks", "experiments")]
NOTE = "<!-- Written by `python -m docs.generate`; edit {source} instead. -->\n\n"
_SOURCE = re.compile(r"edit (.+) instead")
_TABLE = re.compile(r"^(?:\|.*\n)+", re.MULTILINE)
_FIGURE = re.compile(r"\[\[(\w+)\.(\w+) (%?)\.(\d+)((?: [\w/%]+)?)\]\]")


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


def sources(table: re.Match[str]) -> str:
    """A table of a template, below a line that says where its figures come from."""
    names = dict.fromkeys(match[1] for match in _FIGURE.finditer(table[0]))
    if not names:
        return table[0]
    return f"*From {'; '.join(map(source, names))}.*\n\n{table[0]}"


def source(name: str) -> str:
    """The command that saved a result, the file, and what it was measured on."""
    result = saved(name)
    return f"`{result['command']}`: {name}.json, revision {result['revision']}, {result['date']}"


def rendered(text: str) -> str:
    """A template with its figures; raises ValueError for a placeholder that is not understood."""
    page = _FIGURE.sub(figure, text)
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
            note + rendered(_TABLE.sub(sources, template.read_text(encoding="utf-8"))),
        )


def readme() -> tuple[Path, str]:
    """README.md, whose figures are saved ones too."""
    template = DOCS / "templates" / "README.md"
    note = NOTE.format(source=template.relative_to(DOCS.parent).as_posix()).rstrip() + "\n"
    return DOCS.parent / "README.md", note + rendered(template.read_text(encoding="utf-8"))


def reproduce() -> tuple[Path, str]:
    """docs/reproduce.md: the papers' tables, their commands, and our main figures."""
    template = DOCS / "templates" / "reproduce.md"
    note = NOTE.format(source=template.relative_to(DOCS.parent).as_posix())
    return DOCS / template.name, note + rendered(reproduction.filled(template.read_text(encoding="utf-8")))


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
        "command-line": references.the_command_line,
    }
    for name, page in pages.items():
        yield DOCS / "reference" / f"{name}.md", NOTE.format(source="the code") + page()


def images() -> Iterator[tuple[Path, str]]:
    """(file, SVG) of docs/images/."""
    yield DOCS / "images" / "pipeline.svg", pictures.pipeline()
    for draw in (
        pictures.cost_accuracy,
        pictures.first_stage,
        pictures.chain,
        pictures.speed,
        pictures.risk_coverage,
    ):
        yield DOCS / "images" / f"{draw.__name__}.svg", draw(saved)


def pages() -> Iterator[tuple[Path, str]]:
    """(file, content) of everything that is generated."""
    yield readme()
    yield from results()
    yield reproduce()
    yield from pages_of_studies()
    yield from reference()
    yield from images()


def stale() -> list[tuple[Path, str]]:
    """(file, content that it should have) of everything that is generated and not current."""
    return [page for page in pages() if not _is_current(*page)]


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def advice(path: Path, text: str) -> str:
    """A line for a file that is not current: what to edit in its place, and what to type."""
    source = _SOURCE.search(text.partition("\n")[0])
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
