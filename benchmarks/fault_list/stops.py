"""Faults of commands that are stopped or killed, and of several processes: the same command again ends with
the same rows."""

from __future__ import annotations

import signal

from benchmarks.fault_list.damage import all_of, removed
from benchmarks.fault_list.fault import Fault, Harm, Place, nothing, same_rows_in
from benchmarks.fault_list.processes import begun, killed, signalled, there_is, torch_is_loaded, watched

STOPPED = "stopped; the same command goes on where it was"
NO_INDEX, NO_HITS, NO_SCORES = (
    removed("run/shards", "run/retrieved"),
    removed("run/retrieved"),
    removed("run/scored"),
)
RUN, NEW, TWO = "run JOB --out RUN", "run JOB --out WORK/new", " --set workers.processes=2"
SIGNALS = {"Ctrl-C": (signal.SIGINT, 130), "SIGTERM": (signal.SIGTERM, 143)}
TRAIN = "train DIR/train.toml --out WORK/model"
EVALUATE = "evaluate cascade --checkpoint DIR/checkpoints/cascade --labels DIR/set.tsv"
TRAINING = """[model]
reranker = "cosinet"
form = "birnn"
embeddings = "vectors.txt"
filters = 16
[data]
name = "a random set"
licence = "none"
train = ["set.tsv"]
dev = ["set.tsv"]
[train]
epochs = %d
batch = 2
learning_rate = 0.01
"""


def data_set(place: Place, questions: int = 60) -> None:
    """Write set.tsv: questions with twenty candidates each, of which one is right; vectors.txt: vectors of the
    words."""
    words = [f"w{n}" for n in range(40)]
    lines = ["question_id\tquestion\tsentence\tlabel"]
    for n in range(questions):
        text = " ".join(words[(n * 7 + i) % 40] for i in range(5))
        lines += [
            f"q{n}\t{text} ?\t{text if i == 3 else words[i]} {words[(n + i) % 40]} {i} .\t{int(i == 3)}"
            for i in range(20)
        ]

    (place.folder / "set.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    vectors = (
        f"{word} {' '.join(str(((n * k) % 11) / 11 - 0.5) for k in range(1, 9))}\n"
        for n, word in enumerate(words)
    )
    (place.folder / "vectors.txt").write_text("".join(vectors), encoding="utf-8")


def training(epochs: int = 1, questions: int = 6) -> Harm:
    """Write a training file with its data."""

    def harm(place: Place) -> None:
        data_set(place, questions)
        (place.folder / "train.toml").write_text(TRAINING % epochs, encoding="utf-8")

    return harm


def same_model(place: Place, sound: Place) -> bool:
    """True if the stopped training ended with the weights of one that was not stopped."""
    undisturbed = place.call(TRAIN.replace("model", "undisturbed"))
    models = [(place.work / name / "model.safetensors").read_bytes() for name in ("model", "undisturbed")]
    return undisturbed.code == 0 and models[0] == models[1]


def _stopped() -> list[Fault]:
    faults = []
    for name, (number, code) in SIGNALS.items():
        faults += [
            Fault(
                f"{name} in {step}", harm, command, code, STOPPED, "again", how=signalled(number, begun(step))
            )
            for step, harm, command in (
                ("index", NO_INDEX, RUN),
                ("retrieve", NO_HITS, RUN),
                ("rerank", NO_SCORES, "rerank JOB --out RUN"),
            )
        ]

        faults += [
            Fault(
                f"{name} in ingest", nothing, NEW, code, STOPPED, (NEW,), same_rows_in("work/new"),
                how=signalled(number, begun("ingest", "work/new")),
            ),
            Fault(
                f"{name} in rerank, two workers", NO_SCORES, RUN + TWO, code, STOPPED, "again",
                how=signalled(number, begun("rerank")),
            ),
            Fault(
                f"{name} in train", training(epochs=40, questions=20), TRAIN, code, STOPPED, (TRAIN,), same_model,
                how=signalled(number, there_is("work/model/_training/history.json")),
            ),
            Fault(
                f"{name} in evaluate", lambda place: data_set(place, 2_000), EVALUATE, code, STOPPED,
                how=signalled(number, torch_is_loaded),
            ),
        ]  # fmt: skip

    return faults


FAULTS = (
    *_stopped(),
    Fault("kill -9 in ingest", nothing, NEW, 0, "", right=same_rows_in("work/new"),
          how=killed(begun("ingest", "work/new"))),
    Fault("kill -9 in index", NO_INDEX, RUN, 0, "", how=killed(there_is("run/_work/index-*/unit-*"))),
    Fault("kill -9 in retrieve", NO_HITS, RUN, 0, "", how=killed(begun("retrieve"))),
    Fault("kill -9 in rerank", NO_SCORES, RUN, 0, "", how=killed(begun("rerank"))),
    Fault("kill -9 in index, two workers", NO_INDEX, RUN + TWO, 0, "", how=killed(begun("index"))),
    Fault("kill -9 in propagate", all_of(removed("run/labels")), RUN, 0, "", how=killed(begun("propagate"))),
    Fault("kill -9 in train", training(epochs=40, questions=20), TRAIN, 0, "train ", right=same_model,
          how=killed(there_is("work/model/_training/history.json"))),
    Fault("two workers listen", NO_INDEX, RUN + TWO, 0, "listened on nothing", how=watched),
    Fault("one process listens", NO_SCORES, RUN, 0, "listened on nothing", how=watched),
)  # fmt: skip
