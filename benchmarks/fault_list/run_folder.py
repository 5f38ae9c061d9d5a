"""Faults of a run folder: parts, indexes, manifests and reports, lost, cut or changed. A run mends them, or
says how to."""

from __future__ import annotations

from collections.abc import Callable

from answermill.pipelines.runs.manifests.manifest import FORMAT
from benchmarks.fault_list.damage import (
    all_of,
    cut,
    emptied,
    flipped,
    interrupted,
    overwritten,
    removed,
    replaced,
    written,
)
from benchmarks.fault_list.fault import Fault, Harm, Place, documents, nothing, same_rows_in

RUN = "run JOB --out RUN"
FOLDERS = ("documents", "passages", "questions", "retrieved", "scored", "labels/sentences", "labels/passages")
READERS = {
    "documents": ("run/labels", "run JOB --out RUN --set propagate.windows=all"),
    "passages": ("run/shards", "run JOB --out RUN"),
    "questions": ("run/scored", "run JOB --out RUN"),
    "retrieved": ("run/scored", "run JOB --out RUN"),
    "scored": ("", "evaluate RUN/scored --labels RUN/labels/sentences"),
    "labels/sentences": ("", "evaluate RUN/scored --labels RUN/labels/sentences"),
}
"""Folder → folder that is removed so that this one is read again, and the command that reads it."""
STRAY = "scored/part-00009-00000000.parquet"
SHARD_FILES = ("shard.json", "passages.parquet", "dense.faiss", "bm25/*.fdt", "bm25/segments_1")
OTHER_DIGIT = replaced("run/shards/00000*/shard.json", '"format": 1,', '"format": 2,')
DAMAGES: dict[str, Callable[[str], Harm]] = {"lost": removed, "cut": cut, "emptied": emptied}


def moved(place: Place) -> None:
    """Move documents/ to another place, and leave a link."""
    (place.run / "documents").rename(place.work / "documents")
    (place.run / "documents").symlink_to(place.work / "documents")


def rows_and_link(place: Place, sound: Place) -> bool:
    """True if the run has its rows, and documents/ is a link to them."""
    is_link = (place.run / "documents").is_symlink()
    return (
        is_link
        and documents(place, "run") == documents(sound, "run")
        and same_rows_in("run", "documents")(place, sound)
    )


def _parts() -> list[Fault]:
    """Faults of parts. Every run notices a part of another size and makes it again; a changed byte is noticed
    by its readers."""
    faults = []
    for folder in FOLDERS:
        part = f"run/{folder}/part-*"
        faults += [Fault(f"{folder}: part {how}", do(part), RUN, 0, "again") for how, do in DAMAGES.items()]
        faults.append(
            Fault(f"{folder}: status of a cut part", cut(part), "status RUN", 65, "damaged", "advice")
        )
        if folder not in READERS:
            continue
        gone, command = READERS[folder]
        harm = all_of(flipped(part), removed(gone)) if gone else flipped(part)
        faults.append(Fault(f"{folder}: bit flipped", harm, command, 65, "SHA-256", "advice"))

    return faults


def _shards() -> list[Fault]:
    faults = []
    for file in SHARD_FILES:
        path = f"run/shards/00000*/{file}"
        faults += [Fault(f"{file} {how}", do(path), RUN, 0, "again") for how, do in DAMAGES.items()]
        harm = all_of(flipped(path), removed("run/retrieved"))
        if file != "shard.json":
            faults.append(Fault(f"{file}: bit flipped", harm, RUN, 65, "SHA-256", "advice"))
    return faults


def _manifests() -> list[Fault]:
    contents = {
        "emptied": "",
        "another format": '{"format": 1}',
        "a list": "[]",
        "of nulls": f'{{"format": {FORMAT}, "parts": null}}',
    }
    faults = []
    for folder in ("passages", "shards", "retrieved", "scored", "labels/passages"):
        for name, content in contents.items():
            harm = overwritten(f"run/{folder}/_manifest.json", content)
            faults.append(Fault(f"{folder}: manifest {name}", harm, RUN, 65, "_manifest.json", "advice"))
        faults.append(Fault(f"{folder}: manifest lost", removed(f"run/{folder}/_manifest.json"), RUN, 0, ""))

    return faults


def _reports() -> list[Fault]:
    steps = {"ingest": "documents", "index": "shards", "retrieve": "retrieved", "rerank": "scored"}
    contents = {"emptied": "", "of another shape": '{"unit": 0}', "a list": "[]", "no JSON": '{"unit":'}
    return [
        Fault(f"{step}: report {name}", interrupted(step, folder, content), RUN, 0, "makes it again")
        for step, folder in steps.items()
        for name, content in contents.items()
    ]


FAULTS = (
    *_parts(),
    *_shards(),
    *_manifests(),
    *_reports(),
    Fault("documents lost", removed("run/documents"), RUN, 0, ""),
    Fault("a shard lost", removed("run/shards/00000*"), "index JOB --out RUN", 0, "again", "again"),
    Fault(
        "a shard lost, then retrieve",
        all_of(removed("run/shards/00000*"), removed("run/retrieved")),
        "retrieve JOB --out RUN",
        65,
        "shard",
        "advice",
    ),
    Fault(
        "scored lost in an interrupted step",
        all_of(interrupted("rerank", "scored", "{}"), removed("run/scored")),
        RUN,
        0,
        "",
    ),
    Fault("a digit in shard.json", OTHER_DIGIT, RUN, 0, "again"),
    Fault(
        "a digit in shard.json, then retrieve",
        all_of(OTHER_DIGIT, removed("run/retrieved")),
        "retrieve JOB --out RUN",
        65,
        "shard.json",
        "advice",
    ),
    Fault("answers.jsonl cut", cut("run/answers.jsonl"), RUN, 0, "again"),
    Fault("answers.jsonl lost", removed("run/answers.jsonl"), RUN, 0, "again"),
    Fault("answers.jsonl: status", cut("run/answers.jsonl"), "status RUN", 65, "damaged", "advice"),
    Fault("inputs.json emptied", emptied("run/inputs.json"), RUN, 0, ""),
    Fault("inputs.json a list", overwritten("run/inputs.json", "[]"), RUN, 0, ""),
    Fault("inputs.json of brackets", overwritten("run/inputs.json", "[" * 100_000), RUN, 0, ""),
    Fault("inputs.json lost", removed("run/inputs.json"), RUN, 0, ""),
    Fault(
        "documents on another disk, --redo ingest",
        moved,
        RUN + " --redo ingest",
        0,
        "redo       ingest",
        right=rows_and_link,
    ),
    Fault("nothing, --redo index", nothing, RUN + " --redo index", 0, "redo       index"),
    Fault(
        "nothing, --redo rerank by the step", nothing, "rerank JOB --out RUN --redo", 0, "redo       rerank"
    ),
    Fault("nothing, --verify index", nothing, RUN + " --verify index", 0, "(complete)"),
    Fault("nothing, two workers", removed("run/scored"), RUN + " --set workers.processes=2", 0, ""),
    Fault(
        "a part of nobody's",
        written(f"run/{STRAY}", "PAR1"),
        RUN,
        0,
        "",
        right=lambda place, sound: {**place.rows(), STRAY: ""} == {**sound.rows(), STRAY: ""},
    ),
)
