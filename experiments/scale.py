"""Scale: the main job over as many passages as --passages says, a tenth, and a hundredth of them.

Pages are WARC files of HTML: first the documents of `long_lists`, all texts there are, 46,000 passages; then
pages of their sentences drawn anew, each with the title of one of them. The steps are commands of their own
with PROCESSES workers: `ingest`, `index` with --encoder, `retrieve` and `rerank` of QUESTIONS of Natural
Questions, the latter by a cheap plan, Cosinet, which leaves 20 sentences. At the largest size
`retrieve_default` and `rerank_default` are of DEFAULT_QUESTIONS by the default plan; by another encoder than
the plan's without `similarity` and the blend that weighs it.

`seconds_<step>_<size>`; `peak_gb_<step>_<size>` of the command's largest process; `bytes_<step>_<size>` of
all files that it has left; `passages_<size>` that came out. `growth_<step>_<size>`: seconds of a passage, for
`retrieve` and `rerank` of a question, over those at the size before; 1 is linear, or the same.

--part coded takes the largest size that a run without it has left in --work, and indexes its passages with
`index.vectors` as CODED: `index_coded`, `retrieve_coded`, `recall`, recall@100, and `times`, how many times
as wide as by itself the index has to be searched for it. Its keys are in `scale_coded`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from answermill.pipelines.data import sample
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.run import Run
from experiments.question_sets.sources import documents
from testing.drawn_text import drawn
from testing.harness import arguments, finish, run_command, say, seconds, shrink, work_folder
from testing.smoke_data import small_encoder
from tools.sample_web.build import member, record

TAKES = "an hour with a static encoder, 30 GB in --work; on a quiet machine"
MEASURED_MODELS = {"scale": ("cascade", "cosinet"), "scale_coded": ()}
DECIDED = "What the page *Scale* says of a million passages."

QUESTIONS, DEFAULT_QUESTIONS = 10_000, 500
ASKED = ("questions/nq-open-dev.jsonl.gz", "questions/asnq-questions.jsonl.gz")
WORDS = 100
"""Words of a passage, by and large."""
SENTENCES, PARAGRAPH = 40, 5
"""Sentences of a page that is drawn, and of each of its paragraphs."""
FILE_PAGES = 4_000
INGESTED = ("documents", "passages", "rejects", "inputs.json")
STEPS = ("ingest", "index", "retrieve", "rerank")
PROCESSES = 2
ENCODER = "all-MiniLM-L6-v2"
"""The default of `index.encoder`."""
JOB = """[ingest]
input = ["pages/*.warc.gz"]
min_words = 1
language = ""

[index]
encoder = {encoder}
{vectors}

[retrieve]
questions = "{asked}"
depth = 20

{plan}
[workers]
processes = {processes}
"""
CODED = "ivfrabitq"
CHEAP = """[[rerank.stages]]
reranker = "cosinet"
keep = 20
"""


class Text(NamedTuple):
    """Title and text of a page, a paragraph a line."""

    title: str
    text: str


def texts(data: Path) -> Iterator[Text]:
    """All texts there are, and then without end pages of their sentences; always the same."""
    real = [Text(row["title"], row["text"]) for row in documents(data)]
    yield from real

    for title, sentences in drawn(real, SENTENCES):
        paragraphs = (sentences[n : n + PARAGRAPH] for n in range(0, SENTENCES, PARAGRAPH))
        yield Text(title, "\n".join(map(" ".join, paragraphs)))


def with_words(pages: Iterator[Text], words: int) -> Iterator[Text]:
    """The first pages that have that many words together."""
    for page in pages:
        yield page
        words -= len(page.text.split())
        if words <= 0:
            return


def write_pages(folder: Path, pages: Iterator[Text]) -> int:
    """Write the pages as WARC files of FILE_PAGES responses; their number."""
    folder.mkdir()
    number = 0
    while block := list(islice(pages, FILE_PAGES)):
        with (folder / f"{number // FILE_PAGES:05d}.warc.gz").open("wb") as file:
            for page in block:
                file.write(member(response(page, number)))
                number += 1
    return number


def response(page: Text, number: int) -> bytes:
    """The WARC record of a page's response."""
    escaped = page.text.replace("&", "&amp;").replace("<", "&lt;")
    paragraphs = "".join(f"<p>{line}</p>\n" for line in escaped.split("\n"))
    title = page.title.replace("&", "&amp;").replace("<", "&lt;")
    html = f"<!doctype html><title>{title}</title><main><h1>{title}</h1>\n{paragraphs}</main>".encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    url = f"https://site{number % 997}.example/{number}"
    fields = {"WARC-Target-URI": url, "Content-Type": "application/http; msgtype=response"}
    return record("response", url, head + html, fields)


def write_questions(path: Path, data: Path, number: int) -> int:
    """Write the first questions, each text once; their number."""
    lines = chain.from_iterable(gzip.decompress((data / name).read_bytes()).splitlines() for name in ASKED)
    asked = dict.fromkeys(json.loads(line)["question"] for line in lines)
    rows = [{"question_id": f"q{n:06d}", "text": text} for n, text in enumerate(islice(asked, number))]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return len(rows)


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write_job(
    folder: Path, encoder: str, plan: str, *, vectors: str = "", asked: str = "questions.jsonl"
) -> Path:
    """Write the job of a size; `vectors`: further keys of [index], `asked`: the file of questions."""
    job = folder / "job.toml"
    values = {"encoder": json.dumps(encoder), "vectors": vectors, "asked": asked, "plan": plan}
    values["processes"] = f"{PROCESSES}"
    job.write_text(JOB.format(**values), encoding="utf-8")
    return job


def default_plan(folder: Path, encoder: str) -> str:
    """The stages of the sample's job, whose weights are copied into the folder; without the last two by
    another encoder than the job's, since these weigh its cosine."""
    sample.copy_to(folder / "sample")
    shutil.copytree(folder / "sample" / "weights", folder / "weights")
    text = (folder / "sample" / "job.toml").read_text(encoding="utf-8")
    end = "[propagate]" if encoder == ENCODER else '[[rerank.stages]]\nreranker = "similarity"'
    return text[text.index("[[rerank.stages]]") : text.index(end)]


def run_steps(
    job: Path, run: Path, steps: Sequence[str], ending: str, *, inline: bool
) -> dict[str, float | int | str]:
    """Run the steps; seconds, peak and bytes of each, by keys that end with `ending`."""
    figures: dict[str, float | int | str] = {}
    for step in steps:
        taken, before = list[float](), size_of(run)
        with seconds(taken):
            peak = run_command(step, job, "--out", run, "--no-report", inline=inline)
        figures |= {
            f"seconds_{step}_{ending}": taken[0],
            f"peak_gb_{step}_{ending}": peak,
            f"bytes_{step}_{ending}": size_of(run) - before,
        }
        say(f"{step} {ending}: {taken[0]:,.1f} s, {peak:.2f} GB")
    return figures


def seconds_of(result: Mapping[str, Any], step: str, size: int, per: str) -> float:
    """Seconds of the step for one of the `passages` of the size, or of the `questions`."""
    items = result["questions"] if per == "questions" else result[f"passages_{size}"]
    return float(result[f"seconds_{step}_{size}"] / items)


def linked(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copy these folders and files of a run, as links to the same bytes."""
    for path in source.rglob("*"):
        name = path.relative_to(source)
        if path.is_file() and name.parts[0] in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target / name)


def whole(
    work: Path, largest: int, encoder: str, options: argparse.Namespace
) -> dict[str, float | int | str]:
    """Keys of all sizes."""
    sizes = [largest // 100, largest // 10, largest]
    result: dict[str, float | int | str] = {}
    for size in sizes:
        folder = work / f"{size}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        pages = with_words(texts(options.data), size * WORDS)
        result[f"pages_{size}"] = write_pages(folder / "pages", pages)
        result["questions"] = write_questions(folder / "questions.jsonl", options.data, QUESTIONS)
        job = write_job(folder, encoder, CHEAP)
        result |= run_steps(job, folder / "run", STEPS, f"{size}", inline=options.smoke)
        result[f"passages_{size}"] = PASSAGES.open(folder / "run").manifest.rows

    asked = folder / "questions_default.jsonl"
    result["default_questions"] = write_questions(asked, options.data, DEFAULT_QUESTIONS)
    linked(folder / "run", folder / "default", (*INGESTED, SHARDS.name))
    job = write_job(folder, encoder, default_plan(folder, encoder), asked=asked.name)
    result |= run_steps(job, folder / "default", ("retrieve", "rerank"), "default", inline=options.smoke)

    for before, size in pairwise(sizes):
        for step in STEPS:
            per = "questions" if step in ("retrieve", "rerank") else "passages"
            growth = seconds_of(result, step, size, per) / seconds_of(result, step, before, per)
            result[f"growth_{step}_{size}"] = growth
    return result


def coded(folder: Path, encoder: str, *, inline: bool) -> dict[str, float | int | str]:
    """Keys of --part coded. Ends the command if the folder has no run of the whole."""
    whole, own = folder / "run", folder / "coded"
    if not Run.open(whole).is_complete(INDEX):
        raise SystemExit(f"no run in {folder}; run the command without --part first, with the same --work")
    shutil.rmtree(own, ignore_errors=True)
    linked(whole, own, INGESTED)

    job = write_job(folder, encoder, CHEAP, vectors=f'vectors = "{CODED}"')
    figures = run_steps(job, own, ("index", "retrieve"), "coded", inline=inline)
    counts = Run.open(own).counts(INDEX)
    return figures | {"passages": counts.passages, "recall": counts.recall, "times": counts.recall_times}


def main() -> None:
    options = arguments(
        "scale",
        __doc__ or "",
        paths={"work": "folder for pages and runs; out/scale"},
        numbers={"passages": "of the largest size; 1000000"},
        texts={"encoder": f"`index.encoder`; {ENCODER}"},
        choices={"part": ("whole", "coded")},
    )
    encoder = options.encoder or ENCODER
    largest = int(options.passages or 1_000_000)
    if options.smoke:
        shrink(globals(), QUESTIONS=3, DEFAULT_QUESTIONS=2, PROCESSES=1)
        encoder, largest = small_encoder(), 300
    result: dict[str, float | int | str] = {"encoder": Path(encoder).name}

    with work_folder(options, "scale") as work:
        if options.smoke or options.part == "whole":
            result |= whole(work, largest, encoder, options)
        if options.smoke or options.part == "coded":
            result |= coded(work / f"{largest}", encoder, inline=options.smoke)

    name = "scale" if options.part == "whole" else "scale_coded"
    finish(name, result, options.save, MEASURED_MODELS[name])


if __name__ == "__main__":
    main()
