"""Faults, the small complete run that they are done to, and a trial of one by its command and its advice."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

CODES = frozenset({0, 2, 3, 65, 66, 69, 73, 74, 78, 130, 143})
"""Documented exit codes except 70, which stands for a defect of ours."""
ADVICE = re.compile(r"`answermill ((?:[a-z]+ JOB|run )[^`]*)`")


class Ended(NamedTuple):
    """End of a command: its exit code and output."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Last error on stderr, or else the last line of stdout; one line."""
        errors = [line for line in self.err.splitlines() if line.startswith("answermill: ")]
        return (errors or self.out.splitlines() or self.err.splitlines() or [""])[-1].removeprefix(
            "answermill: "
        )


@dataclass(frozen=True)
class Place:
    """A folder with the small job's file, inputs and models, and its run, to be harmed; `work` is an empty
    folder beside it."""

    folder: Path

    @property
    def job(self) -> Path:
        return self.folder / "job.toml"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def file(self, pattern: str) -> Path:
        """The first file or folder with such a name. Raises IndexError if there is none, so that the fault is
        mended."""
        return sorted(self.folder.glob(pattern))[0]

    def words(self, command: str) -> list[str]:
        """A command's arguments; JOB, RUN, WORK and DIR stand for the job file and the folders."""
        names = {"JOB": self.job, "RUN": self.run, "WORK": self.work, "DIR": self.folder}
        return [
            re.sub(r"\b(JOB|RUN|WORK|DIR)\b", lambda match: str(names[match[0]]), word)
            for word in shlex.split(command)
        ]

    def call(self, command: str) -> Ended:
        """Run a command in this process, with the empty folder as the current one."""
        return in_process(self, self.words(command))

    def rows(self, run: str = "run") -> dict[str, str]:
        """File of the run in this folder → digest, equal in two runs if their rows are the same. Lucene's
        files are left out, whose bytes Lucene chooses, and files that hold times or digests of those."""
        folder = self.folder / run
        files = [path for path in folder.rglob("*") if path.suffix in (".parquet", ".jsonl", ".faiss")]
        return {
            _without_digest(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }

    def restore(self, other: Place) -> None:
        """Put inputs and models back as they are in the other place; the run stays."""
        for path in other.folder.iterdir():
            if path.name not in ("run", "work"):
                target = self.folder / path.name
                shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
                shutil.copytree(path, target) if path.is_dir() else shutil.copy2(path, target)


def _without_digest(path: Path) -> str:
    """A file's path, without the digest that a shard's name ends with: it is that of Lucene's files too."""
    return re.sub(r"^(shards/\d+-of-\d+)-[0-9a-f]+/", r"\1/", path.as_posix())


Harm = Callable[[Place], object]
How = Callable[[Place, Sequence[str]], Ended]
Right = Callable[[Place, Place], bool]


def in_process(place: Place, words: Sequence[str]) -> Ended:
    """Run a command in this process, without models of former commands."""
    from answermill.__main__ import main
    from answermill.pipelines.engine import unit_work

    vars(unit_work)["_loaded"].clear()
    if "answermill.pipelines.steps.models" in sys.modules:
        # A cycle of references may keep a model.
        vars(sys.modules["answermill.pipelines.steps.models"])["_loaded"].clear()

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2))
    code: object = 0

    with _current_folder(place.work), redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as e:
            code = e.code
        except BaseException as e:  # such as MemoryError: the other faults are still tried
            err.write(f"Traceback (most recent call last): {e!r}\n")
            code = 1

    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))

    return Ended(code if isinstance(code, int) else int(code is not None), *texts)


@contextmanager
def _current_folder(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    former = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(former)


def same_rows(place: Place, sound: Place) -> bool:
    """True if the run has the rows of the undisturbed one."""
    return place.rows() == sound.rows()


def same_rows_in(run: str, *without: str) -> Right:
    """Test that the run of that name has the rows of the undisturbed one, in all folders but these."""

    def right(place: Place, sound: Place) -> bool:
        expected = {
            name: digest
            for name, digest in sound.rows().items()
            if not name.startswith(tuple(without) or "\0")
        }
        return place.rows(run) == expected

    return right


def complete(run: str) -> Right:
    """Test that the run of that name is complete by `status`, and has answers; its rows may be others."""

    def right(place: Place, sound: Place) -> bool:
        state = place.call(f"status DIR/{run}")
        return (
            state.code == 0
            and "begun, " not in state.out
            and (place.folder / run / "answers.jsonl").is_file()
        )

    return right


def written_out(*files: str) -> Right:
    """Test that these files are below the place's folder, and are not empty."""
    return lambda place, sound: all(
        (place.folder / name).is_file() and (place.folder / name).stat().st_size for name in files
    )


def documents(place: Place, run: str) -> Counter[tuple[str, str]]:
    """(address, text) of the documents of a run."""
    import pyarrow.parquet as pq

    parts = (place.folder / run / "documents").glob("part-*")
    rows = [row for part in parts for row in pq.read_table(part, columns=["url", "text"]).to_pylist()]
    return Counter((row["url"], row["text"]) for row in rows)


def same_documents(place: Place, sound: Place) -> bool:
    """True if the new run has the undisturbed run's documents, read from any place, and no others."""
    return documents(place, "work/new") == documents(sound, "run")


def fewer_documents(place: Place, sound: Place) -> bool:
    """True if the new run has some of the undisturbed run's documents, and no others."""
    return bool(new := documents(place, "work/new")) and new <= documents(sound, "run")


def all_documents(place: Place, sound: Place) -> bool:
    """True if the new run has the undisturbed run's documents and passages, with or without others."""
    before, after = (
        {(name.partition("/")[0], value) for name, value in rows.items()}
        for rows in (sound.rows(), place.rows("work/new"))
    )
    return {row for row in before if row[0] in ("documents", "passages")} <= after


class Fault(NamedTuple):
    """A fault: the damage to a copy of the small run, the command that is then typed, and its required end.

    An exit code of 0 is right only if the message `says` it and the rows are `right`. `then`: the user's next
    act, after which the run must be complete with the rows of the undisturbed run: `advice` types the command
    that the message names, `again` the same command, `restore` first puts inputs and models back. A tuple
    holds whole commands, as the message and the documentation advise them: each must end with 0, and the last
    one `right`, in any state of the run itself.
    """

    name: str
    harm: Harm
    command: str
    code: int
    says: str
    then: Literal["", "advice", "again", "restore"] | tuple[str, ...] = ""
    right: Right = same_rows
    how: How = in_process


def nothing(place: Place) -> None:
    """Do no damage, for commands that are wrong by themselves."""


def sound_place(folder: Path) -> Place:
    """Write the small job below the folder, and run it. Raises RuntimeError if that fails."""
    from testing.tiny import write_job

    job = write_job(folder, every=15)
    text = job.read_text(encoding="utf-8").replace(json.dumps(str(folder / "encoder")), '"encoder"')
    job.write_text(text, encoding="utf-8")
    place = Place(folder)
    ended = place.call("run JOB --out RUN")
    if ended.code:
        raise RuntimeError(f"the undisturbed run ended with {ended.code}: {ended.err}")
    return place


def try_fault(fault: Fault, sound: Place) -> tuple[Ended, set[str]]:
    """End of the fault's command, and its mistakes: silent, tracebacks, wrong_code, unclear or loops."""
    with tempfile.TemporaryDirectory(prefix="answermill-fault-") as folder:
        place = Place(shutil.copytree(sound.folder, Path(folder) / "job"))
        place.work.mkdir(exist_ok=True)
        fault.harm(place)
        words = place.words(fault.command)
        ended = fault.how(place, words)
        wrong = faults_of(ended, fault.code)
        is_said = fault.says in ended.out + ended.err

        if ended.code == 0 and not (is_said and fault.right(place, sound)):
            wrong.add("silent")
        elif not is_said:
            wrong.add("unclear")

        if fault.then and not _ends_well(fault, place, sound, ended, words):
            wrong.add("loops")
        return ended, wrong


def faults_of(ended: Ended, code: int | None = None) -> set[str]:
    """Mistakes in the end of a command: tracebacks, wrong_code. Any documented code is right if none is
    given."""
    wrong = set()
    if ended.code not in CODES or "Traceback (most recent" in ended.err:
        wrong.add("tracebacks")
    if code is not None and ended.code != code:
        wrong.add("wrong_code")
    return wrong


def _ends_well(fault: Fault, place: Place, sound: Place, ended: Ended, words: Sequence[str]) -> bool:
    """True if the user's next act leads to a complete run with the right rows."""
    if isinstance(fault.then, tuple):
        return all(place.call(command).code == 0 for command in fault.then) and fault.right(place, sound)

    if fault.then == "advice":
        for _ in range(3):
            commands = sorted(set(ADVICE.findall(ended.err)))
            if ended.code == 0 or not commands:
                break
            ended = in_process(place, shlex.split(commands[0].replace("JOB.toml", str(place.job))))
    else:
        if fault.then == "restore":
            place.restore(sound)
        ended = in_process(place, words)

    if ended.code == 0:
        ended = place.call("run JOB --out RUN")
    return ended.code == 0 and same_rows(place, sound) and not (place.run / "_work").exists()
