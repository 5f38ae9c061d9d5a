"""Functions of the commands: `am.collect(run, exports, resolve="weighted")` does what `answermill collect RUN
EXPORTS --resolve weighted` does, with the same defaults and errors, and returns the lines that it prints.

Each is made of the command itself. Groups of options are written out flat, as on the command line; paths may
be text, and lists may be lists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from answermill.files.remote import as_path
from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.cli.ending import Command
from answermill.pipelines.cli.parameters.arguments import PLACE, refuse_urls
from answermill.pipelines.cli.streams import collected_lines
from answermill.pipelines.errors import UNEXPECTED, USAGE, JobError
from answermill.pipelines.runs.shown import html_of
from answermill.user_errors import as_job_errors

NAMES = {"rerank": "rerank_step", "runs": "list_runs"}
"""Command → its function, where that has another name: `am.rerank` takes texts, `am.runs` is a module."""
BY_HAND = frozenset({"run", "evaluate", "compare", "train", "audit"})
"""Commands whose functions return values, in `answermill.runs` and `answermill.evaluation`."""


class Lines(tuple[str, ...]):
    """The lines of a command; a notebook shows them as a terminal does."""

    code: int = 0
    """Its exit code: 3 or 69 of a command that says so by its code alone."""

    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_html_(self) -> str:
        return html_of(self)


@dataclass(frozen=True, slots=True)
class _Option:
    """A parameter of a command's function, or a field of a group of its options."""

    name: str
    kind: Any
    default: Any
    marks: tuple[Any, ...]

    def value(self, written: Any) -> Any:
        """What the command takes: paths, and tuples. Raises JobError (2) if it is none of the choices or
        beyond a bound, 73 for a folder in a file's place, 78 for a URL where only this machine's files can be
        read."""
        if written is None or written is self.default:
            return written
        choices = next((get_args(part) for part in _parts(self.kind) if get_origin(part) is Literal), ())
        is_list = any(get_origin(part) is tuple for part in _parts(self.kind))
        values = list(written) if is_list and not isinstance(written, str | Path) else [written]
        if wrong := [each for each in values if choices and each not in choices]:
            known = ", ".join(map(repr, choices))
            raise JobError(f"{self.name}: {wrong[0]!r} is none of {known}", USAGE)

        if any(part is Path for part in _parts(self.kind)):
            values = [as_path(each) if PLACE in self.marks else Path(each) for each in values]
            if PLACE not in self.marks:
                refuse_urls(tuple(values))

        taken = tuple(values) if is_list else values[0]
        for check in (check for mark in self.marks for check in getattr(mark, "validator", ())):
            try:
                check(self.kind, taken)
            except ValueError as e:
                raise JobError(f"{self.name}: {e}", USAGE) from e
        return taken


def command(name: str) -> Callable[..., Lines]:
    """The function of a command."""
    function = command_line()[name].default_command
    assert function is not None  # every command of ours has one
    kinds = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters

    @as_job_errors
    def call(*arguments: Any, **options: Any) -> Lines:
        bound = call.__signature__.bind(*arguments, **options)  # type: ignore[attr-defined]
        bound.apply_defaults()
        running, positional = Command(), list[Any]()
        named: dict[str, Any] = {}
        for parameter in parameters.values():
            value: Any = _argument(parameter, kinds[parameter.name], bound.arguments)
            value = running if value is Command else value
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= value
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)

        with collected_lines() as lines:
            said_code = _ended(running, lambda: function(*positional, **named))
        said = Lines(lines)
        said.code = said_code
        return said

    call.__name__ = call.__qualname__ = NAMES.get(name, name.replace("-", "_"))
    call.__doc__ = function.__doc__
    call.__signature__ = _signature(parameters, kinds)  # type: ignore[attr-defined]
    return call


def _ended(running: Command, work: Callable[[], Any]) -> int:
    """The exit code of the work. What the command has begun, such as a file of metrics, ends with it, and
    what is to be done after a failure is done."""
    code = UNEXPECTED
    try:
        result = work()
        code = result if isinstance(result, int) else 0
    except JobError as e:
        code, running.message = e.code, str(e)
        raise
    except Exception as e:
        running.message = f"unexpected error, {e!r}"
        raise
    finally:
        for end in running.at_end:
            end(code)
        running.fail(code)
    return code


def _signature(parameters: Mapping[str, inspect.Parameter], kinds: Mapping[str, Any]) -> inspect.Signature:
    """The command's parameters, groups of options written out."""
    flat: list[inspect.Parameter] = []
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            flat.append(parameter.replace(annotation=inspect.Parameter.empty))
            continue
        is_group = parameter.kind is parameter.KEYWORD_ONLY
        for option in _options(parameter.name, kinds[parameter.name], parameter.default):
            kind = parameter.KEYWORD_ONLY if is_group else parameter.POSITIONAL_OR_KEYWORD
            flat.append(inspect.Parameter(option.name, kind, default=option.default))
    keywords = [each for each in flat if each.kind is each.VAR_KEYWORD]
    return inspect.Signature([*(each for each in flat if each not in keywords), *keywords])


def _argument(parameter: inspect.Parameter, kind: Any, values: Mapping[str, Any]) -> Any:
    """The command's argument from the values that the caller has given, by option."""
    inner, marks = _unwrapped(kind)
    if inner is Command:
        return Command
    if parameter.kind is parameter.VAR_KEYWORD:
        return values.get(parameter.name, {})
    if is_dataclass(inner):
        return _group(inner, values)
    option = _Option(parameter.name, inner, parameter.default, marks)
    if parameter.kind is parameter.VAR_POSITIONAL:
        return [option.value(each) for each in values.get(parameter.name, ())]
    return option.value(values[parameter.name])


def _group(group: Any, values: Mapping[str, Any]) -> Any:
    """A group of options with these values."""
    kinds, arguments = get_type_hints(group, include_extras=True), {}
    for field in fields(group):
        inner, marks = _unwrapped(kinds[field.name])
        if is_dataclass(inner):
            arguments[field.name] = _group(inner, values)
        else:
            arguments[field.name] = _Option(field.name, inner, field.default, marks).value(values[field.name])
    return group(**arguments)


def _options(name: str, kind: Any, default: Any) -> Iterator[_Option]:
    """A parameter as an option, or the options of its group with their own defaults."""
    inner, marks = _unwrapped(kind)
    if inner is Command:
        return
    if not is_dataclass(inner):
        yield _Option(name, inner, default, marks)
        return
    kinds = get_type_hints(inner, include_extras=True)
    for field in fields(inner):
        own = inspect.Parameter.empty if field.default is MISSING else field.default
        yield from _options(field.name, kinds[field.name], own)


def _unwrapped(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """(type without its annotations, the annotations)."""
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        return inner, tuple(marks)
    return kind, ()


def _parts(kind: Any) -> Iterator[Any]:
    """A type and the types inside it, but not the values of a Literal."""
    inner, _ = _unwrapped(kind)
    yield inner
    for part in () if get_origin(inner) is Literal else get_args(inner):
        yield from _parts(part)


def function_name(name: str) -> str:
    """Name of a command's function in `answermill`."""
    return NAMES.get(name, name.replace("-", "_"))


COMMANDS: Sequence[str] = [
    name for name in command_line() if not name.startswith("-") and name not in (*BY_HAND, "completion")
]
"""Commands whose functions are made here; `completion` is for a shell alone."""


def __getattr__(name: str) -> Any:
    by_function = {function_name(each): each for each in COMMANDS}
    if name not in by_function:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = command(by_function[name])
    return function
