"""Plug-ins of a package from outside: do they make the same rows however they are named and run?

Pip installs `examples/plug_in` into a separate folder, and each command is a new process that has it on its
path. The reranker works in a job of all steps: by its name, by two processes, as 'module:attribute'
with --allow-code, and as an object in Python. The extractor reads the sample web in these ways. The data-set
form is compared with the same lists as TSV, and the annotation tool with CSV: the same tasks, and the same
labels back. `refused`: what must be refused and was, code that nobody has allowed and a run of other code.
`mismatches` counts comparisons that came out otherwise; it must be 0.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from testing import tiny_job
from testing.harness import ROOT, arguments, finish, say
from testing.smoke_data import small_encoder

TAKES = "two minutes"
EXAMPLE = ROOT / "examples" / "plug_in"
MODULE = "answermill_example"
SETTINGS, OTHER_JOB = 78, 73
"""Exit codes of refusals."""
WAYS: dict[str, tuple[str, Sequence[str]]] = {
    "by name": ("{name}", ()),
    "module:attribute": (MODULE + ".{attribute}", ("--allow-code",)),
    "two processes": ("{name}", ("--set", "workers.processes=2")),
}
"""Way → how the plug-in is named in the job, and further words of the command."""


class Trial:
    """The installed package, commands that have it, and counts of what they were compared with."""

    def __init__(self, folder: Path, say: Callable[[str], None] = say) -> None:
        self.folder, self.site, self._say = folder, folder / "site", say
        self.comparisons = self.mismatches = self.refused = 0
        source = shutil.copytree(EXAMPLE, folder / "source")
        options = (
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
            "--disable-pip-version-check",
            "--quiet",
        )
        pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(self.site), str(source)]
        subprocess.run(pip, check=True, stdout=2)  # standard error

    def call(self, *words: object, code: int = 0) -> None:
        """Run `answermill` in a new process. Raises RuntimeError if it ends with another exit code."""
        path = os.pathsep.join([str(self.site), str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "answermill", *map(str, words)],
            env={**os.environ, "PYTHONPATH": path},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            raise RuntimeError(f"{words} ended with {done.returncode}, not {code}: {done.stderr[-2_000:]}")

    def job(self, way: int) -> Path:
        """The job file of a way."""
        return self.folder / "job" / f"{way}.toml"

    def refuse(self, *words: object, code: int) -> None:
        """Run a command that must be refused."""
        self.call(*words, code=code)
        self.refused += 1

    def compare(self, what: str, one: object, other: object) -> None:
        """Count a comparison, and a mismatch if the two differ."""
        self.comparisons += 1
        self.mismatches += one != other
        self._say(f"{what}: {'the same' if one == other else 'OTHERWISE'}")


def rerankers(trial: Trial, ways: Sequence[str]) -> None:
    """The reranker in a job of all steps, in each way, and as an object."""
    template = tiny_job.write(trial.folder / "job", small_encoder())
    text = template.read_text(encoding="utf-8")
    for number, way in enumerate(ways):
        (name, words), job = WAYS[way], trial.job(number)
        stage = f'reranker = "{name.format(name="letters", attribute="letters:Letters")}"'
        job.write_text(text.replace('reranker = "overlap"', f'{stage}\nname = "vowels"'), encoding="utf-8")
        trial.call("run", job, "--out", trial.folder / f"run-{number}", "--no-report", *words)
        if number:
            rows = (tiny_job.digests(trial.folder / f"run-{n}") for n in (0, number))
            trial.compare(f"reranker, {way}", *rows)
        if "--allow-code" in words:
            trial.refuse("run", job, "--out", trial.folder / "refused", code=SETTINGS)

    for question, (texts, scores) in scored_lists(trial.folder / "run-0").items():
        trial.compare(f"reranker, object: {question}", object_scores(question, texts), scores)


def scored_lists(run: Path) -> dict[str, tuple[list[str], list[float]]]:
    """Question → its candidates in the order of retrieval, and the first stage's score of each."""
    import answermill as am

    lists: dict[str, list[tuple[int, str, float]]] = {}
    for row in am.open_run(run)["scored"]:
        scored: Any = row
        lists.setdefault(scored.question, []).append((scored.position, scored.text, scored.stages[0].score))
    return {
        question: ([text for _, text, _ in sorted(rows)], [score for _, _, score in sorted(rows)])
        for question, rows in sorted(lists.items())
    }


def object_scores(question: str, texts: Sequence[str]) -> list[float]:
    """The scores of the plug-in's object in a plan, in the order of the texts."""
    letters = import_module("answermill_example.letters")  # in the folder that the trial has installed

    import answermill as am

    answers = am.Plan([letters.Letters("aeiou", "vowels")]).rerank(question, texts)
    return [answer.score for answer in sorted(answers, key=lambda answer: answer.index)]


def forms(trial: Trial) -> None:
    """The data-set form beside TSV."""
    faq, table = [], ["question_id\tquestion\tsentence\tlabel"]
    for number, question in enumerate(tiny_job.questions(), 1):
        faq.append(f"Q: {question['text']}")
        for place, subject in enumerate(tiny_job.SUBJECTS[:5]):
            sentence, label = f"The {subject} is {number + place} metres long.", int(place == number % 5)
            faq.append(f"{'-+'[label]} {sentence}")
            table.append(f"faq-{number}\t{question['text']}\t{sentence}\t{label}")

    for name, lines in (("set.faq", faq), ("set.tsv", table)):
        (trial.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        trial.call("dataset", name, "--out", f"{name}.parquet", "--tokens", "blanks")
        trial.call("evaluate", "letters", "--labels", name, "--json", f"{name}.json")
    trial.compare(
        "form, rows", *(candidates(trial.folder / f"set.{form}.parquet") for form in ("faq", "tsv"))
    )
    trial.compare("form, figures", *(figures(trial.folder / f"set.{form}.json") for form in ("faq", "tsv")))


def figures(file: Path) -> dict[str, Any]:
    """The figures of an evaluation, without the name of the file of labels."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {key: value for key, value in content.items() if key != "labels"}


def candidates(file: Path) -> list[tuple[Any, ...]]:
    import pyarrow.parquet as pq

    columns = ("question_id", "question", "text", "label")
    return [tuple(row[name] for name in columns) for row in pq.read_table(file).to_pylist()]


def tools(trial: Trial) -> None:
    """The annotation tool beside CSV: its tasks, and the labels that come back."""
    run = trial.folder / "run-0"
    shutil.rmtree(run / "packs")
    shutil.rmtree(run / "tasks")
    trial.call("annotate", trial.job(0), "--out", run, "--set", 'annotate.tools=["markdown","csv"]')

    lines = (run / "packs/markdown/tasks-00001.md").read_text(encoding="utf-8").splitlines()
    ticked = [{"task": line.rpartition("(")[2].rstrip(")"), "by": "ann"} for line in lines]
    with (run / "packs/csv/tasks-00001.csv").open(encoding="utf-8-sig", newline="") as file:
        sheet = list(csv.DictReader(file))
    trial.compare(
        "tool, tasks", [row["task"] for row in ticked], [row["task_id"].lstrip("'") for row in sheet]
    )

    answers = [json.dumps({**row, "ticked": number % 3 == 0}) for number, row in enumerate(ticked)]
    (trial.folder / "back.jsonl").write_text("\n".join(answers) + "\n", encoding="utf-8")
    with (trial.folder / "back.csv").open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, list(sheet[0]))
        written.writeheader()
        for number, row in enumerate(sheet):
            written.writerow(row | {"label": int(number % 3 == 0), "annotator": "ann"})
    labels = []
    for name in ("back.jsonl", "back.csv"):
        trial.call("collect", run, name)
        labels.append(collected(run))
    trial.compare("tool, labels", *labels)


def collected(run: Path) -> list[tuple[str, str, int]]:
    """(question, sentence, label) of all labels."""
    import answermill as am

    rows: Iterator[Any] = iter(am.open_run(run)["collected/labels"])
    return sorted((row.question_id, row.sentence_id, row.label) for row in rows)


def extractors(trial: Trial, ways: Sequence[str]) -> None:
    """The extractor on the sample web, in each way, beside the default."""
    trial.call("sample", "--no-run", "--out", "web")
    texts: dict[str, list[tuple[str, str]]] = {}
    for way in ("blocks", *ways):
        name, words = WAYS.get(way, (way, ()))
        named = name.format(name="paragraphs", attribute="paragraphs:load")
        job = trial.folder / f"web/{len(texts)}.toml"
        job.write_text(f'[ingest]\ninput = ["web.warc.gz"]\nextractor = "{named}"\n', encoding="utf-8")
        trial.call("run", job, "--out", trial.folder / f"pages-{len(texts)}", "--no-report", *words)
        texts[way] = documents(trial.folder / f"pages-{len(texts)}")

    trial.compare("extractor, other texts than the default's", texts["blocks"] != texts[ways[0]], True)
    for way in ways[1:]:
        trial.compare(f"extractor, {way}", texts[ways[0]], texts[way])


def documents(run: Path) -> list[tuple[str, str]]:
    """(id, text) of all documents."""
    import answermill as am

    rows: Iterator[Any] = iter(am.open_run(run)["documents"])
    return [(row.doc_id, row.text) for row in rows]


def measure(folder: Path, ways: Sequence[str]) -> dict[str, int]:
    trial = Trial(folder)
    sys.path.insert(0, str(trial.site))
    try:
        rerankers(trial, ways)
        forms(trial)
        tools(trial)
        extractors(trial, ways)
    finally:
        sys.path.remove(str(trial.site))

    # Other code is another job, whatever the name says.
    code = trial.site / MODULE / "letters.py"
    code.write_text(code.read_text(encoding="utf-8") + "\n# another revision\n", encoding="utf-8")
    last = len(ways) - 1
    trial.refuse(
        "run", trial.job(last), "--out", trial.folder / f"run-{last}", *WAYS[ways[-1]][1], code=OTHER_JOB
    )

    return {
        "rerankers": 1,
        "forms": 1,
        "tools": 1,
        "extractors": 1,
        "ways": len(ways) + 1,
        "comparisons": trial.comparisons,
        "mismatches": trial.mismatches,
        "refused": trial.refused,
    }


def main() -> None:
    options = arguments("plugins", __doc__ or "", needs_data=False)
    ways = list(WAYS)[: 2 if options.smoke else None]
    with tempfile.TemporaryDirectory(prefix="answermill-plugins-") as folder:
        finish("plugins", measure(Path(folder).resolve(), ways), options.save)


if __name__ == "__main__":
    main()
