"""People of the exports: whose an annotation is, where tools name their users by numbers, or not at all.

A tool's server counts its users from 1, so the number 1 of two servers is two people. A user who was deleted
has no name left, and two of them on one task are two people as well. Annotations are told apart by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from answermill.pipelines.data.annotation_tools.tool import ExportedLabel
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.pipelines.steps.collect.exports import stem_of

UserNumbers = Literal["shared", "per-file"]
"""Users whom an export knows by a number alone. shared: all exports are of one server; per-file: each is of
another."""


class Identity(NamedTuple):
    """An annotation as its tool knows it."""

    annotation_id: str
    """'' if the tool has no ids."""
    created_at: float | None

    def is_of(self, other: Identity) -> bool:
        """True if both are known, and are the same annotation, which may have been exported twice."""
        times = {self.created_at, other.created_at} - {None}
        return bool(self.annotation_id) and self.annotation_id == other.annotation_id and len(times) < 2

    def differs_from(self, other: Identity) -> bool:
        """True if both are known, and are two annotations."""
        return bool(self.annotation_id and other.annotation_id) and not self.is_of(other)


def identity(exported: ExportedLabel) -> Identity:
    return Identity(exported.annotation_id, exported.created_at)


class People:
    """Names of the annotators of all exports. `unknown` counts votes of users whom their tool has
    forgotten."""

    def __init__(self, files: Sequence[Path], numbers: UserNumbers | None) -> None:
        """`numbers`: None asks, by an error, where a number must be two people."""
        self._files, self._stems, self._numbers = files, [stem_of(file) for file in files], numbers
        self._unknown: dict[str, list[tuple[int, Identity, str]]] = {}
        """Task → (file, annotation, name) of each vote by a forgotten user."""
        self._numbered: dict[tuple[str, str], tuple[int, str, Identity]] = {}
        """(number, annotation id) → file, task and annotation."""
        self._files_of_number: dict[str, set[str]] = {}
        self.unknown = 0
        self.named_by_file: set[int] = set()
        """Numbers of the files whose names are part of a person's."""

    def name(self, file: int, exported: ExportedLabel) -> str:
        """The person whose annotation, of file number `file`, this is: as the tool names them,
        'FILE:unknown-2', or 'FILE:1' for number 1 of its server.

        Raises JobError (65) if two annotations of one id show that a number is two people.
        """
        if exported.annotator is None:
            return self._unknown_name(file, exported)
        if not (exported.annotator.isdecimal() and exported.annotation_id):
            return exported.annotator
        if self._numbers == "per-file":
            self.named_by_file.add(file)
            return f"{self._stems[file]}:{exported.annotator}"

        self._files_of_number.setdefault(exported.annotator, set()).add(self._stems[file])
        new = file, exported.task_id, identity(exported)
        old = self._numbered.setdefault((exported.annotator, exported.annotation_id), new)
        if old[1] != new[1] or not old[2].is_of(new[2]):
            self.refuse_two(exported, old[0], file)
        return exported.annotator

    def refuse_two(self, exported: ExportedLabel, file: int, other: int) -> None:
        """Raise JobError (65), which asks who is who, if the annotator is a number that two files have;
        called where the two have different annotations of it for one task, or one id for two
        annotations."""
        is_number = (exported.annotator or "").isdecimal() and exported.annotation_id
        if self._numbers is None and is_number and self._stems[file] != self._stems[other]:
            raise JobError(
                f"{self._files[file]} and {self._files[other]}: user {exported.annotator} has other "
                "annotations in the one than in the other, as users of two servers have, which both count "
                "from 1; type --user-numbers per-file if they are two people, --user-numbers shared if one",
                BAD_DATA,
            )

    def _unknown_name(self, file: int, exported: ExportedLabel) -> str:
        votes = self._unknown.setdefault(exported.task_id, [])
        new = identity(exported)
        for _, known, name in votes:
            if known.is_of(new):
                return name

        # Without ids, the second of a file is the second of its next export too.
        is_before = [
            self._stems[place] == self._stems[file] if new.annotation_id else place == file
            for place, _, _ in votes
        ]
        name = f"{self._stems[file]}:unknown-{sum(is_before) + 1}"
        votes.append((file, new, name))
        self.unknown += 1
        self.named_by_file.add(file)
        return name

    def in_several_files(self) -> list[str]:
        """Numbers that stand in files of several names, if nobody has said whether they are one person."""
        several = [number for number, stems in self._files_of_number.items() if len(stems) > 1]
        return sorted(several, key=int) if self._numbers is None else []
