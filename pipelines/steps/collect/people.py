"""People of the exports: whose an annotation is, where tools name their users by numbers, or not at all.

A tool's server counts its users from 1, so the number 1 of two servers is two people. A user who was deleted
has no name left, and two of them on one task are two people as well. Annotations are told apart by their ids.
The user may say who a number is: the people to whom tasks were dealt have names. A name is a person's
however it is typed: Anna and anna, and the two ways in which Unicode writes Zoë, are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from answermill.indexing.passages.text import fold, one_line
from answermill.pipelines.data.annotation_tools.tool import ExportedLabel
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.pipelines.steps.collect.exports import stem_of

UserNumbers = Literal["shared", "per-file"]
"""Users whom an export knows by a number alone. shared: all exports are of one server; per-file: each is of
another."""


def parse_people(written: Sequence[str]) -> dict[str, str]:
    """Name in an export → the person's name, of 'NAME=PERSON' and the like. Raises JobError (2).

    >>> parse_people(["1=anna@example.org", "bob:1=bob@example.org"])
    {'1': 'anna@example.org', 'bob:1': 'bob@example.org'}
    """
    people: dict[str, str] = {}
    spelt: dict[str, str] = {}  # key of a name → the name
    for pair in written:
        name, _, person = (part.strip() for part in pair.partition("="))
        if not (name and person):
            raise JobError(f"--people {pair}: write NAME=PERSON, as 1=anna@example.org", USAGE)
        name = spelt.setdefault(name_key(name), name)
        if name_key(people.setdefault(name, person)) != name_key(person):
            raise JobError(f"--people: {name} is {people[name]} and {person}; name one", USAGE)
    return people


def name_key(name: str) -> str:
    """What all spellings of a person's name have in common, whatever their letter case, blanks and form of
    Unicode.

    >>> name_key("Anna  Maria") == name_key("anna maria\\u200b"), name_key("Zoë") == name_key("Zoe\\u0308")
    (True, True)
    """
    return fold(one_line(name))


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

    def __init__(
        self,
        files: Sequence[Path],
        numbers: UserNumbers | None = None,
        persons: Mapping[str, str] | None = None,
        dealt: Iterable[str] = (),
    ) -> None:
        """`numbers`: None asks, by an error, where a number must be two people. `persons`: name in an export,
        or name that a number has by its file → the person's name. `dealt`: people with packs of their own.
        Of several spellings of a name the one that is given here holds, else the first of the exports."""
        self._persons = {name_key(name): person for name, person in (persons or {}).items()}
        self._absent = {name_key(name): name for name in persons or {}}
        stems: dict[str, str] = {}
        self._stems = [stems.setdefault(name_key(stem), stem) for stem in map(stem_of, files)]
        self._files, self._numbers = files, numbers
        self._spelt: dict[str, str] = {}
        """Key of a name → the spelling that stands for all."""
        for name in (*dealt, *self._persons.values()):
            self._spelt.setdefault(name_key(name), name)
        self._spellings: dict[str, set[str]] = {}
        """Person → the names in the exports, of one form of Unicode."""
        self._unknown: dict[str, list[tuple[int, Identity, str]]] = {}
        """Task → (file, annotation, name) of each vote by a forgotten user."""
        self._numbered: dict[tuple[str, str], tuple[int, str, Identity]] = {}
        """(number, annotation id) → file, task and annotation."""
        self._files_of_number: dict[str, set[str]] = {}
        self.unknown = 0
        self.named_by_file: set[int] = set()
        """Numbers of the files whose names are part of a person's."""

    def name(self, file: int, exported: ExportedLabel) -> str:
        """The person whose annotation, of file number `file`, this is: as the user names them, or as
        the tool does, 'FILE:unknown-2', or 'FILE:1' for number 1 of its server.

        Raises JobError (65) if two annotations of one id show that a number is two people.
        """
        if exported.annotator is None:
            return self._person(self._unknown_name(file, exported))
        if _is_number(exported):
            if self._numbers == "per-file":
                self.named_by_file.add(file)
            else:
                self._add_numbered(file, exported)
        return self.known_name(file, exported)

    def known_name(self, file: int, exported: ExportedLabel) -> str:
        """Name of the annotator where the tool knows one, without a look at other annotations."""
        name = exported.annotator or "an unknown user"
        is_of_file = self._numbers == "per-file" and _is_number(exported)
        return self._person(f"{self._stems[file]}:{name}" if is_of_file else name)

    def _person(self, name: str) -> str:
        key, name = name_key(name), one_line(name)
        self._absent.pop(key, None)
        if key in self._persons:
            return self.spelt(self._persons[key])
        person = self._spelt.setdefault(key, name)
        self._spellings.setdefault(person, set()).add(name)
        return person

    def spelt(self, name: str) -> str:
        """The name as it is spelt of the person whom it stands for."""
        return self._spelt.get(name_key(name), name)

    def spelt_otherwise(self) -> list[str]:
        """The names of each person that differ by letter case, as 'Anna and anna'."""
        each = (spellings | {one_line(person)} for person, spellings in self._spellings.items())
        return sorted(" and ".join(sorted(names)) for names in each if len(names) > 1)

    def _add_numbered(self, file: int, exported: ExportedLabel) -> None:
        """Raises JobError (65) if an annotation with the same id shows that the number is two people."""
        assert exported.annotator is not None
        self._files_of_number.setdefault(exported.annotator, set()).add(self._stems[file])
        new = file, exported.task_id, identity(exported)
        old = self._numbered.setdefault((exported.annotator, exported.annotation_id), new)
        if old[1] != new[1] or not old[2].is_of(new[2]):
            self.refuse_two(exported, old[0], file)

    def refuse_two(self, exported: ExportedLabel, file: int, other: int) -> None:
        """Raise JobError (65), which asks who is who, if the annotator is a number that two files have;
        called where the two have different annotations of it for one task, or one id for two
        annotations."""
        if self._numbers is None and _is_number(exported) and self._stems[file] != self._stems[other]:
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

    def check_persons(self, known: Sequence[str]) -> None:
        """Raise JobError (2) if a name that has a person stands in no export. `known`: the annotators, for
        the message."""
        if self._absent:
            absent = min(self._absent.values())
            raise JobError(
                f"--people {absent}=…: nobody of that name is in the exports; the annotators are "
                f"{', '.join(known)}",
                USAGE,
            )

    def in_several_files(self) -> list[str]:
        """Numbers that stand in files of several names, if nobody has said whether they are one person."""
        several = [number for number, stems in self._files_of_number.items() if len(stems) > 1]
        return sorted(several, key=int) if self._numbers is None else []


def _is_number(exported: ExportedLabel) -> bool:
    """True if the tool names the annotator by a number. One that people typed into a sheet is a name."""
    return (exported.annotator or "").isdecimal() and bool(exported.annotation_id)
