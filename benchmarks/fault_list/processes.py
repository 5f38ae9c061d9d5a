"""Commands in processes of their own: stopped or killed during their work, or watched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.fault_list.fault import Ended, How, Place

ROOT = Path(__file__).parents[2]
LONGEST_S = 1_800  # a command that hangs; a busy machine may take minutes for one that does not
TRIES = 5
LOOK_S = 0.02
LISTENING, LOOPBACK = "0A", "0100007F"
When = Callable[[Place, int], bool]
"""Test for a moment in a command's work, by the place and the id of its process."""


def started(place: Place, words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, which no signal to us reaches."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **variables}
    pipe = subprocess.PIPE

    command = [sys.executable, "-m", "answermill", *words]
    return subprocess.Popen(
        command,
        cwd=place.work,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    """End of a process; one that takes too long is killed, and ends with -9."""
    try:
        out, err = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return Ended(process.returncode, out, err)


def there_is(pattern: str) -> When:
    """Moment from which a file or folder of that name is below the place's folder."""
    return lambda place, process: next(place.folder.glob(pattern), None) is not None


def begun(step: str, run: str = "run") -> When:
    """Moment from which the step has begun."""
    return there_is(f"{run}/_work/{step}-*/fingerprint")


def torch_is_loaded(place: Place, process: int) -> bool:
    """True once the command has loaded torch, which takes long."""
    return "libtorch_cpu" in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")


def signalled(number: signal.Signals, when: When) -> How:
    """Send a signal to the command alone, at the moment.

    On a busy machine the command may end before the moment is seen. Then the place is put back, and the
    command runs again.
    """

    def attempt(place: Place, words: Sequence[str]) -> Ended:
        process = started(place, words)
        for _ in _waiting(process, when, place):
            continue
        if process.poll() is None:
            process.send_signal(number)
        return ended(process)

    def run(place: Place, words: Sequence[str]) -> Ended:
        before = shutil.copytree(place.folder, place.folder.with_name("before"))
        end = attempt(place, words)
        for _ in range(1, TRIES):
            if end.code != 0:
                break
            shutil.rmtree(place.folder)
            shutil.copytree(before, place.folder)
            end = attempt(place, words)
        return end

    return run


def killed(when: When) -> How:
    """Kill the command at the moment with `kill -9`, then run the same command again."""
    stop = signalled(signal.SIGKILL, when)

    def run(place: Place, words: Sequence[str]) -> Ended:
        first = stop(place, words)
        if first.code != -signal.SIGKILL:
            return Ended(
                1, first.out, f"the command ended with {first.code} before it was killed\n{first.err}"
            )
        return ended(started(place, words))

    return run


def watched(place: Place, words: Sequence[str]) -> Ended:
    """Run a command; its end has a line on stdout of the addresses on which it and its workers listened."""
    process = started(place, words)
    addresses: set[str] = set()
    for _ in _waiting(process, lambda place, process: False, place):
        for descendant in descendants(process.pid):
            with suppress(OSError):  # it has ended
                addresses |= listening(descendant)
    end = ended(process)
    shown = ["loopback alone"] if addresses == {LOOPBACK} else sorted(addresses)
    return end._replace(out=f"{end.out}listened on {', '.join(shown) or 'nothing'}\n")


def listening(process: int) -> set[str]:
    """Addresses, in hexadecimal, on which a process listens; an IPv4 one may be the end of an IPv6 one."""
    sockets = {str(descriptor.readlink()) for descriptor in Path(f"/proc/{process}/fd").iterdir()}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                addresses.add(fields[1].partition(":")[0][-8:])
    return addresses


def descendants(process: int) -> Iterator[int]:
    """Ids of the process and of all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parent = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    unvisited = [process]
    while unvisited:
        yield (visited := unvisited.pop())
        unvisited += children.get(visited, ())


def _waiting(process: subprocess.Popen[str], when: When, place: Place) -> Iterator[None]:
    """Yield again and again until the moment, or until the process has ended or taken too long."""
    until = time.monotonic() + LONGEST_S
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError):  # it has just ended
            if when(place, process.pid):
                return
        yield
        time.sleep(LOOK_S)
