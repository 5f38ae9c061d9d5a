"""Four people who judge sentences in four tools, and a fifth who decides where they differ.

They play for annotation.sh: `answer` writes what each one's tool exports, `decide` fills in the sheet of open
tasks. They know the sample's labels; some of them are careless now and then, always with the same tasks.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Task = Mapping[str, Any]
Judge = Callable[[Task], str]
CARELESS = {"anna": 0.02, "ben": 0.05, "chris": 0.1, "dana": 0.05}
"""Share of the tasks that each gets wrong."""


def known_answers(sample: Path) -> frozenset[tuple[str, str]]:
    """(question, sentence) of the right answers."""
    lines = (sample / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = {row["question_id"]: row["text"] for row in map(json.loads, lines)}
    with (sample / "labels.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return frozenset((questions[row["question_id"]], row["sentence"]) for row in rows if row["label"] == "1")


def judge_of(person: str, right: frozenset[tuple[str, str]]) -> Judge:
    """What the person says of a task: 'correct' or 'wrong'."""

    def judge(task: Task) -> str:
        key = str(task["question"]), str(task["sentence"])
        draw = int(hashlib.sha256(f"{person} {key}".encode()).hexdigest()[:8], 16) / 16**8
        return "correct" if (key in right) != (draw < CARELESS.get(person, 0)) else "wrong"

    return judge


def label_studio(packs: Path, judge: Judge) -> str:
    """The project's export as JSON."""
    tasks = [task for file in sorted(packs.glob("tasks-*.json")) for task in json.loads(file.read_text())]
    exported = []
    for number, task in enumerate(tasks, 1):
        choice = {"from_name": "answer", "type": "choices", "value": {"choices": [judge(task["data"])]}}
        annotation = {"id": number, "completed_by": {"email": "anna@example.org"}, "result": [choice]}
        exported.append({"id": number, "data": task["data"], "annotations": [annotation]})
    return json.dumps(exported, indent=1)


def prodigy(packs: Path, judge: Judge) -> str:
    """What `prodigy db-out marks` prints, of a session that was opened with `?session=chris`."""
    lines = [line for file in sorted(packs.glob("tasks-*.jsonl")) for line in file.read_text().splitlines()]
    answers = []
    for task in map(json.loads, lines):
        accept = [judge({**task, "sentence": task["text"]})]
        answers.append({**task, "accept": accept, "answer": "accept", "_annotator_id": "marks-chris"})
    return "".join(json.dumps(answer) + "\n" for answer in answers)


def argilla(packs: Path, judge: Judge) -> str:
    """The records with their responses, flat, as docs/annotation.md says to export them."""
    records = [row for file in sorted(packs.glob("records-*.json")) for row in json.loads(file.read_text())]
    exported = []
    for record in records:
        answers = {
            "answer.responses": [judge(record["fields"])],
            "answer.responses.users": ["8d3cbe4d-dana"],
            "answer.responses.status": ["submitted"],
        }
        exported.append({"id": record["id"], **record["fields"], **record["metadata"], **answers})
    return json.dumps(exported, indent=1)


def fill_in(sheets: Sequence[Path], filled: Path, judge: Judge, annotator: str) -> None:
    """Sheets of a spreadsheet, in one file with labels. A ' before a cell keeps spreadsheets from computing
    it."""
    rows = []
    for sheet in sheets:
        with sheet.open(encoding="utf-8-sig", newline="") as file:
            rows += list(csv.DictReader(file))
    with filled.open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, list(rows[0]) if rows else ["task_id"])
        written.writeheader()
        for row in rows:
            task = {name: str(row[name]).removeprefix("'") for name in ("question", "sentence")}
            written.writerow(row | {"label": judge(task), "annotator": annotator})


def main(action: str, run: Path, sample: Path, exports: Path) -> None:
    """`answer`: write the four exports; `decide`: write the judge's sheet."""
    right = known_answers(sample)
    if action == "decide":
        open_tasks = [run / "collected" / "adjudication.csv"]
        fill_in(open_tasks, exports / "judge.csv", judge_of("judge", right), "judge")
        return

    exports.mkdir(exist_ok=True)
    packs = run / "packs"
    text = label_studio(packs / "label-studio" / "anna@example.org", judge_of("anna", right))
    (exports / "anna.json").write_text(text, encoding="utf-8")
    sheets = sorted((packs / "csv" / "ben").glob("tasks-*.csv"))
    fill_in(sheets, exports / "ben.csv", judge_of("ben", right), "ben")
    text = prodigy(packs / "prodigy" / "marks-chris", judge_of("chris", right))
    (exports / "chris.jsonl").write_text(text, encoding="utf-8")
    text = argilla(packs / "argilla" / "8d3cbe4d-dana", judge_of("dana", right))
    (exports / "dana.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
