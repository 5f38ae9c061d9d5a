"""Numbers that a step counts: dataclasses that add up.

A unit of work reports one object, a manifest holds the sum of all, and pages and metrics read its fields. A
field is a whole number, a mapping of names to numbers or to further counts, or counts themselves. A number is
not stored while it is 0.

>>> @dataclass(frozen=True)
... class Fruit(Counts):
...     apples: int = 0
...     heaviest: Peak = 0
...     by_tree: Mapping[str, int] = by_name()
>>> Fruit(2, 90, {"old": 2}) + Fruit(3, 70, {"old": 1, "new": 2})
Fruit(apples=5, heaviest=90, by_tree={'old': 3, 'new': 2})
>>> dict(_.flat())
{'apples': 5, 'heaviest': 90, 'by_tree.old': 3, 'by_tree.new': 2}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Peak = Annotated[int, "largest"]
"""A number that is added up as the largest, not as the sum."""
C = TypeVar("C", bound="Counts")


@dataclass(frozen=True, slots=True)
class Time:
    """The time that a field counts: the work that took it, the field with the number of items, its unit, and
    the field with the items among them that took no such work, '' if all did."""

    work: str
    item: str
    seconds: float
    spared: str = ""


def by_name() -> Any:
    """A field that counts by a name: a mapping, empty by default."""
    return field(default_factory=dict)


def milliseconds(work: str, item: str, spared: str = "") -> Any:
    """A field that counts the milliseconds of some work by the clock, such as 'pages parsed', done to the
    items of another field. `spared`: a field with the items that an earlier run had worked on."""
    return field(default=0, metadata={"time": Time(work, item, 1e-3, spared)})


@dataclass(frozen=True)
class Counts:
    """Base of all counts; equal, added and stored field by field."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __add__(self, other: Self) -> Self:
        hints = _hints(type(self))
        return type(self)(
            **{
                f.name: _added(hints[f.name], getattr(self, f.name), getattr(other, f.name))
                for f in fields(self)
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Its fields as JSON values, without those that are 0 or empty."""
        values = ((f.name, _plain(getattr(self, f.name))) for f in fields(self))
        return {name: value for name, value in values if value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Counts from JSON values. Raises ValueError, with the place, if they are not such counts."""
        from pydantic import ValidationError  # late, as in `_adapter`: a list of commands needs none

        try:
            counts: Self = _adapter(cls).validate_python(dict(values))
            return counts
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def flat(self) -> Iterator[tuple[str, int]]:
        """(name, number) of every number that is not 0, inner ones as 'stages.cascade.incoming'."""
        yield from flat(self.to_json())

    def peaks(self) -> set[str]:
        """Names, as in `flat`, of the numbers that are a largest and not a sum."""
        names = set()
        for f in fields(self):
            value = getattr(self, f.name)
            if _hints(type(self))[f.name] is Peak:
                names.add(f.name)
            elif isinstance(value, Counts):
                names |= {f"{f.name}.{name}" for name in value.peaks()}
            elif isinstance(value, Mapping):
                inner = ((key, counts) for key, counts in value.items() if isinstance(counts, Counts))
                names |= {f"{f.name}.{key}.{name}" for key, counts in inner for name in counts.peaks()}
        return names

    def times(self) -> Iterator[tuple[Time, float, int]]:
        """(time, seconds, items worked on) of every field that counts the time of some work and is not 0."""
        for f in fields(self):
            time, count = f.metadata.get("time"), getattr(self, f.name)
            if time is not None and count:
                spared = getattr(self, time.spared) if time.spared else 0
                yield time, count * time.seconds, getattr(self, time.item) - spared


@dataclass(frozen=True)
class StepCounts(Counts):
    """The counts that every step has."""

    failed_units: int = 0
    """Units that failed for good, and whose records became rejects."""
    rejected: Mapping[str, int] = by_name()
    """Reason → records that were refused."""

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """A field or property → the fields of which it is the sum: records in, and their fates."""

    @property
    def rejects(self) -> int:
        """Records that were refused."""
        return sum(self.rejected.values())

    @property
    def seconds(self) -> float:
        """Counted seconds of workers by the clock, a card's included."""
        return sum(seconds for _, seconds, _ in self.times())

    def wrong_sums(self) -> Iterator[str]:
        """A clause for each sum that does not hold: '3 pages, but 1 documents + 1 rejects'."""
        for whole, names in self.sums.items():
            parts = [getattr(self, name) for name in names]
            if getattr(self, whole) != sum(parts):
                addends = " + ".join(f"{n:,} {name}" for n, name in zip(parts, names, strict=True))
                yield f"{getattr(self, whole):,} {whole}, but {addends}"

    def check_sums(self) -> None:
        """Raises RuntimeError if a sum does not hold: a record was lost, or counted twice."""
        if wrong := list(self.wrong_sums()):
            raise RuntimeError("; ".join(wrong))


@dataclass(frozen=True)
class Tally(Counts):
    """Counts by a name that is in the data, such as the pages of each domain."""

    numbers: Mapping[str, int] = by_name()


def counts_by_reason(counts: Mapping[str, int]) -> str:
    """'2 language, 1 too_short': numbers and their names for people, the largest first."""
    return ", ".join(f"{-n:,} {name}" for n, name in sorted((-n, name) for name, n in counts.items()))


@cache
def _resolved(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _built(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# The types of `cache` do not accept a class that defines __hash__, which is hashable all the same.
_hints: Callable[[Any], dict[str, Any]] = _resolved
_adapter: Callable[[Any], TypeAdapter[Any]] = _built


def _added(hint: Any, a: Any, b: Any) -> Any:
    if hint is Peak:
        return max(a, b)
    if isinstance(a, Mapping):
        return {**a, **{name: a[name] + more if name in a else more for name, more in b.items()}}
    return a + b


def _plain(value: Any) -> Any:
    if isinstance(value, Counts):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, int]]:
    """(name, number) of counts as JSON values.

    >>> dict(flat({"kept": 2, "stages": {"first": {"incoming": 5}}}))
    {'kept': 2, 'stages.first.incoming': 5}
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
