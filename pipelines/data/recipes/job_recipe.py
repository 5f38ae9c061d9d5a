"""A job file for pages and questions of one's own: the template job.toml, or wqa.toml, with what is known
filled in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from answermill.files.store import store_of
from answermill.pipelines.errors import INPUT_MISSING, USAGE, JobError, no_file
from answermill.pipelines.specs.shipped_plans import PlanName, shipped_stages

_TEMPLATE = Path(__file__).with_name("job.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChoices:
    """What a job file says in place of the template's examples; None leaves the example."""

    pages: Sequence[str] = ()
    questions: str | None = None
    labels: str | None = None
    plan: PlanName = "default"
    language: str | None = None
    min_words: int | None = None

    def beside(self, folder: Path) -> JobChoices:
        """The same choices, with paths as they are written in a file of that folder. Raises JobError: 2 if
        one is empty, 66 if a file is missing, or a pattern matches none; files of a `{date}` may come
        later."""
        for written in (*self.pages, self.questions, self.labels):
            if written is None:
                continue
            if not written.strip():
                raise JobError("a name of pages, questions or labels is empty; give a path", USAGE)
            if "://" not in written and "{date" not in written and not _is_there(Path(written)):
                is_pattern = written in self.pages and any(mark in written for mark in "*?[")
                raise JobError(
                    f"{written}: {'no file matches' if is_pattern else 'no such file or folder'}",
                    INPUT_MISSING,
                )
        for key, named in (("questions", self.questions), ("labels", self.labels)):
            if named is not None and Path(named).is_dir():
                raise no_file(Path(named), f"{key}:")
        return replace(
            self,
            pages=[_seen_from(folder, written) for written in self.pages],
            questions=_seen_from(folder, self.questions) if self.questions else None,
            labels=_seen_from(folder, self.labels) if self.labels else None,
        )

    def text(self, template: Path = _TEMPLATE) -> str:
        """The job file."""
        content = template.read_text(encoding="utf-8")
        for example, own in self._replacements():
            if example not in content:
                raise RuntimeError(f"{template.name} has no {example!r}")
            content = content.replace(example, own, 1)
        return content

    def _replacements(self) -> Iterator[tuple[str, str]]:
        """(line of the template as it begins, what takes its place). Comments stay in their column where
        there is room."""
        if self.pages:
            pages = ", ".join(map(_quoted, self.pages))
            yield _filled('input = ["pages/*.warc.gz"]', f"input = [{pages}]")
        if self.language is not None:
            yield _filled('language = "en"', f"language = {_quoted(self.language)}")
        if self.min_words is not None:
            yield _filled("min_words = 30", f"min_words = {self.min_words}")
        if self.questions:
            yield _filled('questions = "questions.jsonl"', f"questions = {_quoted(self.questions)}")
        if self.plan != "default":
            yield _filled('plan = "default"', f'plan = "{self.plan}"')
        if shipped_stages(self.plan)[-1]["reranker"] == "probability":
            bar = "max_wrong = 0.2"
            meaning = "# most of the answers given that may be wrong; below the bar it says none"
            yield "# [rerank.answers]\n", f"[rerank.answers]\n{bar:<40}{meaning}\n"
        if self.labels:
            yield "# [propagate]\n", "[propagate]\n"
            yield _filled('# labels = "labels.tsv"', f"labels = {_quoted(self.labels)}")


def _is_there(path: Path) -> bool:
    """True for a file, a folder, or a pattern that matches one."""
    return path.exists() or any(True for _ in store_of(path).matches())


def _filled(example: str, own: str) -> tuple[str, str]:
    """An assignment of the template with the blanks before its comment, and another one in as much room.

    >>> _filled("min_words = 30", "min_words = 0")
    ('min_words = 30                          #', 'min_words = 0                           #')
    """
    return f"{example:<40}#", f"{own:<40}#" if len(own) < 40 else f"{own}    #"


def _seen_from(folder: Path, written: str) -> str:
    """A path as a file in that folder names it; URLs and absolute paths stay."""
    if "://" in written or Path(written).is_absolute():
        return written
    return Path(os.path.relpath(written, folder)).as_posix()


def _quoted(text: str) -> str:
    r"""A TOML string.

    >>> print(_quoted('a "b" \\ c\n'))
    "a \"b\" \\ c\n"
    """
    return json.dumps(text, ensure_ascii=False)
