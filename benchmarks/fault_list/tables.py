"""Faults of tables that other tools write: keys under other names or without one, separators, quotes, blanks,
numbers, JSON over several lines, and files that are no tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq

from benchmarks.fault_list.damage import written
from benchmarks.fault_list.fault import Fault, Harm, Place, Right

QUESTIONS = "run JOB --out RUN --redo retrieve --set retrieve.questions="
MAPPED = QUESTIONS + 'q.tsv --set \'retrieve.columns=["question_id=nr", "text=frage"]\''
ASKED = {
    "semicolons, and a comma in a question": ("q.csv", "question_id;text\n7;Really, who?\n"),
    "Excel's line about its separator": ("q.csv", "sep=;\r\nquestion_id;text\r\n7;Really, who?\r\n"),
    "tabs in a CSV": ("q.csv", "question_id\ttext\n7\tReally, who?\n"),
    "an id of 7.0": ("q.jsonl", '{"question_id": 7.0, "text": "Really, who?"}\n'),
}
"""Name of what a tool writes → the file with the question 'Really, who?', whose id is 7."""
OTHERS = {
    "lines of old Macs": (b"question_id\ttext\r7\tReally, who?\r", "old Macs"),
    "a spreadsheet": (b"PK\x03\x04\x14\0", "save it as CSV"),
    "xz": (b"\xfd7zXZ\0\0", "unpack it"),
    "UTF-16": ("question_id\ttext\n7\tReally, who?\n".encode("utf-16"), "save it as UTF-8"),
}
"""Name of what is no text of UTF-8 → its first bytes, and what to do."""
LABELS = {
    "pandas": "question,text,label\nWho is it?,One two.,0.0\nWho is it?,Three.,1.0\n",
    "R": 'question,text,label\n"Who is it?","One two.",FALSE\n"Who is it?","Three.",TRUE\n',
}
"""Tool → labels as it writes them."""
RUN = "q1 Q0 d1 1 3.0 t\nq1 Q0 d2 2 2.0 t\n"


def asked(header: Sequence[str], form: str = "{}") -> Harm:
    """Write the job's questions as a TSV with this header; each cell is written by `form`."""

    def harm(place: Place) -> None:
        lines = (place.folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [header, *((row["question_id"], row["text"]) for row in map(json.loads, lines))]
        cells = (("\t".join(form.format(cell.replace('"', '""')) for cell in row)) for row in rows)
        (place.folder / "q.tsv").write_text("".join(f"{row}\n" for row in cells), encoding="utf-8")

    return harm


def judged(qrels: str) -> Harm:
    """Write a TREC run and its judgements."""

    def harm(place: Place) -> None:
        written("run.txt", RUN)(place)
        written("qrels.txt", qrels)(place)

    return harm


def asks(place: Place, sound: Place) -> bool:
    """True if the run has asked the one question of ASKED."""
    rows = [
        row for part in place.run.glob("questions/part-*.parquet") for row in pq.read_table(part).to_pylist()
    ]
    return [(row["question_id"], row["text"]) for row in rows] == [("7", "Really, who?")]


def _of_tools() -> Iterator[Fault]:
    right: Right = asks
    for name, (file, content) in ASKED.items():
        yield Fault(f"table: {name}", written(file, content), QUESTIONS + file, 0, "1 question", right=right)
    for name, (start, advice) in OTHERS.items():
        yield Fault(f"no table: {name}", written("q.tsv", start), QUESTIONS + "q.tsv", 65, advice)
    for tool, labels in LABELS.items():
        yield Fault(
            f"table: labels of {tool}",
            written("set.csv", labels),
            "evaluate random --labels DIR/set.csv",
            0,
            "MAP",
        )


FAULTS = (
    *_of_tools(),
    Fault("table: ids as PyTerrier names them", asked(("qid", "query")), QUESTIONS + "q.tsv", 0, ""),
    Fault("table: ids under a name of the user's", asked(("nr", "frage")), MAPPED, 0, ""),
    Fault("table: in quotes", asked(("question_id", "text"), '"{}"'), QUESTIONS + "q.tsv", 0, ""),
    Fault(
        "table: a key that is not known", asked(("nr", "text")), QUESTIONS + "q.tsv", 65, "it has nr, text"
    ),
    Fault("table: a header that is not known", asked(("nr", "frage")), QUESTIONS + "q.tsv", 65, "nr, frage"),
    Fault(
        "table: questions without ids",
        written("q.jsonl", '{"question": "What is tea?", "answer": ["a drink"]}\n'),
        QUESTIONS + "q.jsonl",
        65,
        "it has question, answer",
    ),
    Fault(
        "table: an object over several lines",
        written("q.jsonl", '{\n "question_id": "q",\n "text": "What is tea?"\n}\n'),
        QUESTIONS + "q.jsonl",
        65,
        "jq -c .",
    ),
    Fault(
        "table: labels without ids",
        written("l.tsv", "sentence\tlabel\nTea.\t1\n"),
        "run JOB --out RUN --redo propagate --set propagate.labels=l.tsv",
        65,
        "it has sentence, label",
    ),
    Fault(
        "table: a shuffled set without ids",
        written("set.tsv", "who is a\tOne two.\t0\nwho is b\tTwo.\t1\nwho is a\tThree four.\t1\n"),
        "evaluate random --labels DIR/set.tsv",
        65,
        "set.tsv:3",
    ),
    Fault(
        "table: judgements with a blank before the tab",
        judged("q1\t0\td1 \t0\nq1\t0\td2 \t1\n"),
        "evaluate DIR/run.txt --labels DIR/qrels.txt --metrics MRR",
        0,
        "50.00",
    ),
    Fault(
        "table: judgements without a known header",
        judged("frage\tantwort\turteil\nq1\td1\t0\n"),
        "evaluate DIR/run.txt --labels DIR/qrels.txt",
        65,
        "it has frage, antwort, urteil",
    ),
)
