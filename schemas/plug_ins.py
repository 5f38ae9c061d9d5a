"""Plug-ins: rerankers, data-set formats, annotation tools and extractors that are no part of this package.

An installed package names them as entry points, in a group for each kind:

    [project.entry-points."answermill.rerankers"]
    letters = "letters_plug_in:LETTERS"

Who installs the package has chosen its code, so its names are known like our own. A job file or a command may
also write 'module:attribute' in place of a name, such as 'my_reranker:Letters'. That would let a file choose
which code runs, so it is refused until the user says `--allow-code` (`allow`). A model folder never names
code.

What a plug-in computes may change with its code, so its `digest` is an input of the steps that use it, and
workers must have the same code as their command (`Command`).

An error that its code raises is not ours, so it names the plug-in and the line (`running`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

T = TypeVar("T")

RERANKERS, FORMATS = "answermill.rerankers", "answermill.formats"
TOOLS, EXTRACTORS = "answermill.tools", "answermill.extractors"
GROUPS = {
    RERANKERS: "reranker",
    FORMATS: "data-set format",
    TOOLS: "annotation tool",
    EXTRACTORS: "extractor",
}
"""Group of entry points → what its objects are."""

_folders: list[Path] = []
"""Where modules of 'module:attribute' are found beside Python's path; empty until code is allowed."""
_loaded: dict[tuple[str, str], Any] = {}


class PlugInUnusable(ValueError):
    """Code that is not allowed, cannot be imported or is not what its group asks for; the message says which
    plug-in and what to do."""

    exit_code = 78


class PlugInFailed(RuntimeError):
    """Code of a plug-in raised an error in its work, or gave what it may not give; the message says which
    plug-in, and the line of its code."""

    exit_code = 70


def is_ours(module: str) -> bool:
    """True for a module of this package.

    >>> is_ours("answermill.ranking.plan"), is_ours("answermill_example.letters")
    (True, False)
    """
    return module.partition(".")[0] == "answermill"


@contextmanager
def running(what: str, module: str, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Raise errors of a plug-in's code in the block as PlugInFailed. `what` names it in the message; `module`
    is that of its code. Errors of our code stay as they are, as do those that have an exit code, and those of
    the type `but`, which the caller handles."""
    try:
        yield
    except (Exception, SystemExit) as e:  # anything may happen in the code of others
        if is_ours(module) or isinstance(e, but) or isinstance(getattr(e, "exit_code", None), int):
            raise
        text = str(e) if str(e).startswith(what) else f"{what}: {said(e)}"
        raise PlugInFailed(f"{text}{_line(e, module)}") from e


def guarded(
    what: str,
    function: Callable[..., Any],
    kind: type,
    but: type[Exception] | tuple[()] = (),
    check: Callable[[Any], object] = lambda result: None,
) -> Callable[..., Any]:
    """The function of a plug-in, whose errors are those of `running`; what it gives is of this kind. `check`
    raises an error if it may not give that."""

    def call(*arguments: Any) -> Any:
        with running(what, getattr(function, "__module__", "") or "", but):
            result = function(*arguments)
            if not isinstance(result, kind):
                raise TypeError(f"it gave a {type(result).__name__}, and no {kind.__name__}")
            check(result)
            return result

    return call


def said(error: BaseException) -> str:
    """Type and message of an error, in one line.

    >>> said(KeyError("x")), said(ValueError())
    ("KeyError: 'x'", 'ValueError')
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def _line(error: BaseException, module: str) -> str:
    """The last line of the module's package that the error came through, for a message; '' if there is
    none."""
    package = module.partition(".")[0]
    lines = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    return lines[-1] if lines else ""


def allow_code() -> None:
    """Let this process import the code that 'module:attribute' names, as `--allow-code` does, for all that it
    does from then on. Modules are found in the current folder too."""
    _add(Path.cwd())


def is_allowed() -> bool:
    """True if this process may import the code that 'module:attribute' names."""
    return bool(_folders)


def look_in(folder: Path) -> None:
    """Find modules in the folder of a job file too; nothing where code is not allowed."""
    if is_allowed():
        _add(folder)


def is_code(name: str) -> bool:
    """True for 'module:attribute', which is no name in any registry.

    >>> is_code("my_reranker:Letters"), is_code("cascade"), is_code("C:\\\\models")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Name → entry point of the group, for all installed packages, in the order of names. Raises
    PlugInUnusable if two packages declare one name."""
    points: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if (other := points.get(point.name)) is not None and other.value != point.value:
            raise PlugInUnusable(
                f"two packages declare the {GROUPS[group]} {point.name!r}, {_package(other)} and "
                f"{_package(point)}: uninstall one"
            )
        points[point.name] = point
    return points


def is_known(group: str, name: str) -> bool:
    """True for the name of an installed plug-in, and for 'module:attribute'."""
    return is_code(name) or name in installed(group)


def load(group: str, name: str) -> Any:
    """The object of an installed plug-in, or the one at 'module:attribute'; the name is known. Raises
    PlugInUnusable if the code is not allowed, or cannot be imported."""
    if (group, name) not in _loaded:
        _loaded[group, name] = _imported(group, name)
    return _loaded[group, name]


def digest(group: str, name: str) -> str:
    """Revision of a plug-in's code, of 12 hex digits: of the Python files of its module, or of the package
    that the module is in. Raises as `load`."""
    load(group, name)
    return _digest(place_of(group, name).partition(":")[0].partition(".")[0])


@dataclass(frozen=True, slots=True)
class Command:
    """What the workers of a command need of its plug-ins."""

    folders: tuple[Path, ...]
    """Folders in which modules are found; empty where code is not allowed."""
    revisions: Mapping[tuple[str, str], str]
    """(group, name) → digest of each plug-in that the command has loaded."""

    @classmethod
    def here(cls) -> Command:
        """This process, as its workers shall see it."""
        revisions = {key: digest(*key) for key in sorted(_loaded)}
        return cls(tuple(_folders), revisions)

    def join(self) -> None:
        """Make this process a worker of the command. Raises PlugInUnusable if a plug-in that the command has
        loaded is missing here, or has other code."""
        for folder in self.folders:
            _add(folder)
        for (group, name), its in self.revisions.items():
            _check_same(group, name, its)


def _check_same(group: str, name: str, its: str) -> None:
    own = digest(group, name) if is_known(group, name) else "none"
    if own != its:
        raise PlugInUnusable(
            f"the {GROUPS[group]} {name!r} is of revision {own} here, of {its} where the command runs: "
            "install the same package on all machines"
        )


def usable(group: str, find: Callable[[str], T]) -> dict[str, T]:
    """Name → what `find` gives, for the installed plug-ins of a group, for lists; those for which it raises
    PlugInUnusable are left out: `answermill doctor` lists them, and a job that names one is refused."""
    objects = {}
    for name in installed(group):
        with suppress(PlugInUnusable):
            objects[name] = find(name)
    return objects


def describe(group: str, name: str) -> str:
    """An installed plug-in's package, version, place and revision, for people. Raises as `load`."""
    point = installed(group)[name]
    return f"{GROUPS[group]} {name} of {_package(point)}, {point.value}, revision {digest(group, name)}"


def _add(folder: Path) -> None:
    """Allow code, and find modules in the folder, after all others."""
    if folder not in _folders:
        _folders.append(folder)
        sys.path.append(str(folder))


def _imported(group: str, name: str) -> Any:
    place = place_of(group, name)
    if is_code(name) and not is_allowed():
        raise PlugInUnusable(
            f"{name!r} names code as a {GROUPS[group]}, which is imported only with --allow-code (in Python "
            "`am.allow_code()`); give it "
            "if you know the code, or install it as a package with an entry point"
        )
    try:
        return resolve_name(place)
    except (Exception, SystemExit) as e:  # anything may happen in the code of others
        raise PlugInUnusable(
            f"the {GROUPS[group]} {name!r} cannot be imported from {place}: {said(e)}"
        ) from e


def place_of(group: str, name: str) -> str:
    """'module:attribute' of a plug-in; the name is known."""
    return name if is_code(name) else installed(group)[name].value


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


@cache
def _digest(package: str) -> str:
    """Digest of the Python files of an imported module or package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None  # it was imported
    places = [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
    files = [
        (file.relative_to(place.parent).as_posix(), file)
        for place in places
        for file in sorted(place.rglob("*.py") if place.is_dir() else [place])
    ]

    whole = hashlib.sha256()
    for name, file in files:
        content = file.read_bytes()
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:12]
