"""The section [annotate] of a job file: every key with type, default, bounds and meaning."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from answermill.pipelines.config.caps import Caps
from answermill.schemas.section import Count

_PERSON = re.compile(r"\w([\w.@+ -]*\w)?")


class Annotate(Caps):
    """Scored sentences in, tasks for people and packs for annotation tools out."""

    top: Count = Field(
        15, description="sentences per question, the best of the plan; then those that left it last"
    )
    random: int = Field(
        2,
        ge=0,
        description="sentences per question drawn from those below the top; 2 or more give standard errors",
    )
    controls: str | None = Field(
        None,
        description="TSV, CSV, JSONL or Parquet of known labels (question_id, sentence_id or sentence, "
        "label), mixed in blindly",
    )
    columns: list[str] = Field(
        [], description="names of its columns, if they are unusual, e.g. ['question_id=nr']"
    )
    control_share: float = Field(
        0.05, ge=0, lt=1, description="share of controls in a question's tasks, if it has known labels"
    )
    annotators: Count = Field(1, description="people who judge the same task")
    people: list[str] = Field(
        [],
        description="names of the annotators, as their tool knows them: each gets packs of their own, about "
        "equally many tasks, and a task of several `annotators` goes to as many of them; absent: packs are "
        "for anybody who opens them",
    )
    overlap_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of the tasks, chosen by hash, that all `annotators` judge; other tasks get one",
    )
    tools: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="annotation tools to write packs for, such as 'label-studio' or 'csv'; all that are "
        "known if absent",
    )
    predictions: bool = Field(
        False,
        description="packs hold the model's score and what it predicts, 'correct' from a score of 0.5 on, "
        "which tools may choose beforehand: people then tend to agree with it",
    )
    guidelines: str | None = Field(
        None, description="Markdown file for annotators; ours (correct, sufficient, direct) if absent"
    )
    since: str | None = Field(
        None,
        description="folder of an earlier run, or 'latest'; packs leave out the tasks that it asked already",
    )
    batch: Count = Field(
        1,
        description="2, 3, … add tasks to those of a run, into batches/2 and so on; their packs leave out "
        "what earlier batches asked",
    )
    seed: int = Field(0, ge=0, description="seed of all random choices in this section")
    tasks_per_file: int = Field(
        10_000, ge=1, le=10_000, description="tasks in a file of a pack, which has at most 100 MB"
    )

    @field_validator("people")
    @classmethod
    def _in_one_form(cls, people: list[str]) -> list[str]:
        return [unicodedata.normalize("NFC", name) for name in people]

    @model_validator(mode="after")
    def _each_tool_once(self) -> Self:
        if self.tools is not None and len(set(self.tools)) != len(self.tools):
            raise ValueError("a tool is named twice")
        return self

    @model_validator(mode="after")
    def _enough_people(self) -> Self:
        for name in self.people:
            if not _PERSON.fullmatch(name):
                raise ValueError(
                    f"people: {name!r} cannot name a folder of packs; give letters, digits, spaces and "
                    ". _ - @ +, with a letter or digit first and last"
                )
        # Some disks take Anna and anna for one folder.
        if len({name.casefold() for name in self.people}) != len(self.people):
            raise ValueError(
                "people: a name comes twice, letter case aside; give each person one of their own"
            )
        if self.people and len(self.people) < self.annotators:
            raise ValueError(
                f"annotators = {self.annotators}, but people has {len(self.people)} names; name more people, "
                "or let fewer judge the same task"
            )
        return self
