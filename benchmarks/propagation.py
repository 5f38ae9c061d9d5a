"""Label propagation at scale: the step `answermill propagate`, and its join against DuckDB's.

The step has one and four million labels, two worker processes and no windows. The joins
(benchmarks/label_join.py) have the same labels and one thread; DuckDB is measured if it is installed (it is
no dependency of AnswerMill).

The corpus is synthetic: 1 million passages of about five sentences, three to a document, in PARTS parts.
Labels, in Parquet, are 15 to a question, as annotators get them: nine tenths name a sentence by id and give
its text, the others give a text alone; one in a hundred is of a sentence that does not exist. `*peak_gb_*` is
the most memory that a command and its workers hold at one time (PSS), files mapped into memory included;
`*cpu_seconds_*` is processor time.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import Step
from answermill.pipelines.specs.ingest import INGEST, IngestCounts
from answermill.pipelines.specs.ingest import PASSAGES as PASSAGE_FOLDER
from answermill.pipelines.specs.propagate import PROPAGATE, SENTENCE_LABELS
from answermill.schemas.corpus import Passage, Sentence
from benchmarks.label_join import ENGINES
from testing.harness import arguments, finish, say, shrink

PASSAGES, PARTS, PROCESSES = 1_000_000, 16, 2
SIZES = {"1m": 1, "4m": 4}
"""Name of a file of labels → number of labels for each passage."""
WORDS = (
    "the of and a in to was is for on as with by he that at from his it an were are which this be or has "
    "had first"
)


def write_passages(run: Path, passages: int) -> tuple[pa.Array, pa.Array]:
    """Write passages/; the ids and texts of all their sentences."""
    step = Step(run, replace(INGEST, folders=(PASSAGE_FOLDER,)), {}, {})
    commit = Commit(step)
    commit.begin()
    random = np.random.default_rng(0)
    words = WORDS.split()
    pool = pa.array([" ".join(random.choice(words, random.integers(8, 30))) for _ in range(20_000)])
    outcome, ids, texts = Outcome(IngestCounts()), [], []

    for unit in range(PARTS):
        with PartWriter(run / "passages", Passage, unit) as writer:
            table, sentence_id, text = make_passages(random, pool, passages // PARTS)
            writer.write_table(table)
        ids.append(sentence_id)
        texts.append(text)
        outcome.add(Report(unit, {"passages": writer.parts}, IngestCounts()))

    commit.finish(outcome)
    return pa.concat_arrays(ids), pa.concat_arrays(texts)


def make_passages(
    random: np.random.Generator, pool: pa.Array, passages: int
) -> tuple[pa.Table, pa.Array, pa.Array]:
    """Passages of 3 to 7 sentences, 1 to 5 to a document; and their sentences' ids and texts."""
    document = np.repeat(np.arange(passages), random.integers(1, 6, passages))[:passages]
    edges = np.concatenate([[0], np.cumsum(random.integers(3, 8, passages))])
    passage = np.repeat(np.arange(passages), np.diff(edges))
    number = pa.array(random.integers(10**7, size=len(passage))).cast(pa.string())
    text = pc.binary_join_element_wise(
        pool.take(pa.array(random.integers(len(pool), size=len(passage)))), number, " "
    )
    ends = np.cumsum(pc.utf8_length(text).to_numpy() + 1)
    starts = ends - pc.utf8_length(text).to_numpy() - 1

    first = edges[:-1][np.searchsorted(document, document)]  # of each passage, its document's first sentence
    starts, ends = starts - starts[first][passage], ends - 1 - starts[first][passage]
    doc_id = pa.array([random.bytes(8).hex() for _ in range(int(document[-1]) + 1)]).take(pa.array(document))
    sentence_id = pc.binary_join_element_wise(
        doc_id.take(pa.array(passage)), pa.array(starts).cast(pa.string()), "@"
    )
    place = pa.array(np.arange(passages) - np.searchsorted(document, document)).cast(pa.string())
    inside = pa.StructArray.from_arrays([sentence_id, starts, ends, text], fields=list(Sentence.schema()))
    lists = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), inside)

    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges, pa.int32()), text), " ")
    empty = pa.array([""] * passages)
    passage_id = pc.binary_join_element_wise(doc_id, place, "#")
    columns = [
        passage_id,
        doc_id,
        empty,
        empty,
        starts[edges[:-1]],
        ends[edges[1:] - 1],
        whole,
        lists.cast(SENTENCES),
    ]

    columns += [empty, np.zeros(passages, np.int64), empty, empty]  # from no file, without a date
    return (
        pa.Table.from_arrays([pa.array(column) for column in columns], schema=Passage.schema()),
        sentence_id,
        text,
    )


SENTENCES = Passage.schema().field("sentences").type


def write_labels(path: Path, labels: int, ids: pa.Array, texts: pa.Array) -> None:
    """Write labels of random sentences, of different ones for each question."""
    random = np.random.default_rng(1)
    names = ("question_id", "sentence_id", "sentence", "label")
    schema = pa.schema([*((name, pa.string()) for name in names[:3]), (names[3], pa.int8())])
    sentence = (
        random.permutation(len(ids))[:labels]
        if labels <= len(ids)
        else random.integers(len(ids), size=labels)
    )

    with pq.ParquetWriter(path, schema) as file:
        for first in range(0, labels, 100_000):
            number = np.arange(first, min(first + 100_000, labels))
            place = pa.array(sentence[number])
            sentence_id = ids.take(place).to_pylist()
            for n in np.flatnonzero(number % 100 == 1):
                sentence_id[n] = f"{number[n]:016x}@0"
            for n in np.flatnonzero(number % 10 == 0):
                sentence_id[n] = ""
            columns = [
                [f"q{n:07d}" for n in number // 15],
                sentence_id,
                texts.take(place),
                (number % 3 == 0).astype(np.int8),
            ]
            file.write_table(
                pa.Table.from_arrays(
                    [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
                )
            )


def resident(process: int) -> int:
    """Bytes that a process and its children hold, a page that several hold counted once."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        own = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
        threads = [task.name for task in Path(f"/proc/{process}/task").iterdir() if task.name != str(process)]
        for thread in threads:
            children += Path(f"/proc/{process}/task/{thread}/children").read_text(encoding="utf-8").split()
    except (OSError, StopIteration):  # it has ended
        return 0
    return own + sum(resident(int(child)) for child in children)


def watch(command: Sequence[str | Path]) -> tuple[float, float, str]:
    """Seconds, peak memory in GB (with that of its children), and standard output of a command."""
    began, peak = time.perf_counter(), 0
    child = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    while child.poll() is None:
        peak = max(peak, resident(child.pid))
        time.sleep(0.2)
    output, _ = child.communicate()
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with status {child.returncode}")
    return time.perf_counter() - began, peak / 1e9, output


def measure_step(run: Path, labels: Path) -> tuple[float, float]:
    """Seconds and peak memory in GB of `answermill propagate`."""
    job = labels.with_suffix(".toml")
    job.write_text(
        f'[propagate]\nlabels = "{labels.name}"\n[workers]\nprocesses = {PROCESSES}\n', encoding="utf-8"
    )
    wall, peak, output = watch(["answermill", "propagate", job, "--out", run])
    say(output.strip())
    return wall, peak


def measure_joins(run: Path, sizes: Mapping[str, Path], rounds: int) -> dict[str, float]:
    """Median of the processor seconds and highest peak memory in GB of each join and size; rounds are
    interleaved."""
    engines = [name for name in ENGINES if name == "own" or find_spec("duckdb")]
    if len(engines) == 1:
        say("duckdb is not installed; only our own join is measured. `pip install duckdb` to compare them")
    seconds: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, float] = defaultdict(float)

    for _ in range(rounds):
        for size, labels in sizes.items():
            matches = set()
            for name in engines:
                with tempfile.TemporaryDirectory() as folder:
                    wall, peak, output = watch(["benchmarks.label_join", name, run, labels, folder])
                result = json.loads(output)
                matches.add((result["pairs"], result["total"]))
                key = f"{name}_join_{{}}_{size}"
                seconds[key.format("cpu_seconds")].append(result["cpu_seconds"])
                peaks[key.format("peak_gb")] = max(peaks[key.format("peak_gb")], peak)
                say(
                    f"{name}, {size}: {result['cpu_seconds']:.1f} s of processor time, {wall:.1f} s, "
                    f"{peak:.2f} GB"
                )

            if len(matches) != 1:
                raise RuntimeError(f"the joins differ: {matches}")

    return {key: statistics.median(values) for key, values in seconds.items()} | peaks


def main() -> None:
    options = arguments(
        "propagation",
        __doc__ or "",
        needs_data=False,
        paths={"passages": "number of passages instead of a million; the numbers of labels change with it"},
    )
    if options.smoke:
        shrink(globals(), PASSAGES=160, PROCESSES=1, SIZES={"1m": 1}, ENGINES={"own": ENGINES["own"]})
    passages = int(str(options.passages or PASSAGES))
    result: dict[str, float | int | str] = {"passages": passages}

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        ids, texts = write_passages(run, passages)
        result["sentences"] = len(ids)
        say(f"{passages:,} passages of {len(ids):,} sentences")
        files = {name: Path(folder) / f"{name}.parquet" for name in SIZES}
        for name, path in files.items():
            write_labels(path, SIZES[name] * passages, ids, texts)
        del ids, texts

        for name, path in files.items():
            wall, peak = measure_step(run, path)
            counts = PROPAGATE.counts_of(SENTENCE_LABELS.manifest(run))
            say(f"{name}: {wall:.1f} s, {peak:.2f} GB; {counts.to_json()}")
            result |= {f"seconds_{name}": wall, f"peak_gb_{name}": peak, f"used_{name}": counts.used}
            shutil.rmtree(run / "labels")

        result |= measure_joins(run, files, options.rounds)

    finish("propagation", result, options.save)


if __name__ == "__main__":
    main()
