"""An audit of a model or of its training lists: what these share with a test set (overlap.py), and what
distracts the model (probes.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from answermill.files.atomic_files import sha256, write_text
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import (
    BAD_DATA,
    INPUT_MISSING,
    SETTINGS,
    USAGE,
    JobError,
    counted,
    setting_error,
)
from answermill.pipelines.learn.audit.overlap import KINDS, Encode, Overlap, add_vectors, overlap
from answermill.pipelines.learn.audit.probes import Probed, probe
from answermill.pipelines.learn.evaluate.rank import RankOptions, load_ranker
from answermill.pipelines.steps.models import dense_encoder
from answermill.ranking.checkpoint import CONFIG, kind_of
from answermill.ranking.reranker import Reranker
from answermill.ranking.rerankers.registry import RERANKERS, find
from answermill.schemas.arrays import Vectors
from answermill.schemas.labels import LabelledCandidate

HISTORY = "training.json"
"""The file of a model folder that names the lists that it learnt from, with their SHA-256."""
Lists = list[list[LabelledCandidate]]


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit."""

    data: Path = Path()
    """Folder of a model's training files."""
    vectors: int = 20_000
    """Most training questions, and right answers, that are encoded; 0 leaves vectors out."""
    form: Form = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Results of an audit; a part that was not asked for is None."""

    subject: str
    against: str = ""
    overlap: Overlap | None = None
    lists: str = ""
    probed: Probed | None = None

    def beyond(self, margin: float) -> str:
        """What is wrong if training has more than this share of the test questions word for word, or a near
        one with its answer; '' if it has not."""
        if self.overlap is None:
            return ""
        asked = {q for kind in ("question_equal", "pair") for q in self.overlap.shared[kind]}
        share = len(asked) / max(1, self.overlap.questions)
        return (
            f"training has {share:.1%} of the test questions; the margin is {margin}"
            if share > margin
            else ""
        )

    def lines(self) -> Iterator[str]:
        """Lines for people."""
        if self.overlap is not None:
            yield from self._overlap_lines(self.overlap)
        if self.probed is not None:
            yield from self._probe_lines(self.probed)

    def _overlap_lines(self, shared: Overlap) -> Iterator[str]:
        yield (
            f"{self.against}: {counted(shared.questions, 'question')}; {self.subject}: "
            f"{counted(shared.training_questions, 'question')}, "
            f"{counted(shared.training_candidates, 'candidate')}; {shared.encoded:,} texts encoded"
        )
        for kind, meaning in KINDS.items():
            if kind.endswith("_vector") and not shared.encoded:
                continue
            yield f"  {len(shared.shared[kind]):>6,}  {shared.share(kind):6.1%}  {meaning}"
            for worst in shared.worst(kind):
                yield f"            {worst.likeness:.2f}  {worst.question_id}: {_short(worst.text)}"
                yield f"                  {worst.training_question_id}: {_short(worst.training_text)}"

    def _probe_lines(self, probed: Probed) -> Iterator[str]:
        questions = counted(probed.questions, "question")
        yield f"{self.subject} on {self.lists}, {questions}: P@1 {probed.p1:.3f}"
        for name, change in probed.probes.items():
            yield (
                f"  {change.difference:+.3f}  ({change.low:+.3f} to {change.high:+.3f})  "
                f"{name.replace('_', ' ')}"
            )

    def figures(self) -> dict[str, Any]:
        """Everything as plain values."""
        result: dict[str, Any] = {"subject": self.subject}
        if self.overlap is not None:
            shared = self.overlap
            result["overlap"] = {
                "against": self.against,
                "questions": shared.questions,
                "training_questions": shared.training_questions,
                "training_candidates": shared.training_candidates,
                "encoded": shared.encoded,
                "kinds": {
                    kind: {
                        "questions": len(shared.shared[kind]),
                        "share": round(shared.share(kind), 6),
                        "worst": [asdict(each) for each in shared.worst(kind)],
                    }
                    for kind in KINDS
                },
            }
        if self.probed is not None:
            probed = self.probed
            changes = {
                name: {"p1": c.b, "difference": c.difference, "low": c.low, "high": c.high, "p": c.p}
                for name, c in probed.probes.items()
            }
            result["probes"] = {
                "lists": self.lists,
                "questions": probed.questions,
                "p1": probed.p1,
                "changes": changes,
            }
        return result

    def write(self, file: Path) -> None:
        write_text(file, json.dumps(self.figures(), indent=1, ensure_ascii=False) + "\n")


def audit(
    subject: str, against: Path | None, probes: Path | None, options: AuditOptions = AuditOptions()
) -> Audit:
    """Audit a model, by the name of its reranker or its folder, or the training lists in a file.

    Raises JobError: 2 if neither a test set nor probes are asked for, or lists are to be probed; 66 if a file
    is missing, such as the training lists of a model; 65 or 78 if a file or model is unusable.
    """
    if against is None and probes is None:
        raise JobError("give --against SET, --probes LISTS, or both", USAGE)
    if options.vectors < 0:
        raise JobError(f"--vectors {options.vectors}: give 0 or more", USAGE)

    path = Path(subject)
    is_lists = path.is_file()
    if probes is not None and is_lists:
        raise JobError(
            f"{subject} is a file of lists, and --probes asks a model; give a model folder, or a reranker's "
            "name",
            USAGE,
        )
    for option, file in (("--against", against), ("--probes", probes)):
        if file is not None and (file / CONFIG).is_file():
            raise JobError(f"{option} {file} is a model folder; give a labelled data set", BAD_DATA)

    # Files that are missing are refused before anything is read.
    training = [] if against is None else [path] if is_lists else _training_files(subject, options.data)
    shared = None if against is None else _overlap(training, against, options)
    probed = None if probes is None else _probe(subject, probes, options.form)
    return Audit(subject, str(against or ""), shared, str(probes or ""), probed)


def _overlap(training: Sequence[Path], against: Path, options: AuditOptions) -> Overlap:
    test = _read(against, options.form)

    def lists() -> Iterator[list[LabelledCandidate]]:
        for file in training:
            yield from by_question(read_dataset(file, options.form))

    result = overlap(lists(), test)
    if options.vectors:
        add_vectors(result, list(lists()), test, encode_unit(), options.vectors)
    return result


def encode_unit() -> Encode:
    """The default dense encoder of sentences, whose vectors get length 1."""
    encoder = dense_encoder()

    def encode(texts: Sequence[str]) -> Vectors:
        vectors = encoder.encode_sentences(texts).astype(np.float32)
        unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return unit

    return encode


def _probe(subject: str, lists: Path, form: Form) -> Probed:
    reranker = reranker_of(subject)
    try:
        return probe(reranker, _read(lists, form))
    except ValueError as e:
        raise JobError(f"{lists}: {e}", BAD_DATA) from e


def _read(file: Path, form: Form) -> Lists:
    if lists := list(by_question(read_dataset(file, form))):
        return lists
    raise JobError(f"{file}: no question", BAD_DATA)


def reranker_of(subject: str) -> Reranker:
    """The reranker of that name, with its shipped model, or the one that its folder is named
    after. Raises JobError (66, 78)."""
    folder = Path(subject)
    if subject in RERANKERS:
        name, checkpoint = subject, None
    elif (folder / CONFIG).is_file():
        try:
            kind = kind_of(folder)
        except ValueError as e:
            raise setting_error(e) from e
        name, checkpoint = kind, subject
        if kind not in RERANKERS:
            raise JobError(f"{folder} holds {kind!r}, which no reranker is named after", SETTINGS)
    else:
        known = ", ".join(sorted(RERANKERS))
        raise JobError(
            f"{subject}: neither a file, nor a model folder, nor a reranker; known: {known}", INPUT_MISSING
        )

    reranker, _ = load_ranker(name, RankOptions(checkpoint))
    if (reranker.reads, reranker.writes) != ("sentence", "sentence"):
        raise JobError(f"{subject}: probes are of sentences, and {name} reads or writes passages", SETTINGS)
    return reranker


def _training_files(subject: str, data: Path) -> list[Path]:
    """The files that a model's training.json names, found in `data` and compared by their SHA-256."""
    folder = find(subject).folder(None, find_model) if subject in RERANKERS else Path(subject)
    if folder is None or not (folder / CONFIG).is_file():
        raise JobError(f"{subject}: neither a file of lists nor a model folder", INPUT_MISSING)
    history = folder / HISTORY
    if not history.is_file():
        raise JobError(
            f"{folder} does not say by which lists it learnt; give the lists in its place", INPUT_MISSING
        )

    files = []
    settings = json.loads(history.read_text(encoding="utf-8"))["settings"]
    for number, name in enumerate(settings["data"]["train"], 1):
        file = data / Path(name).name
        digest = settings.get(f"file {number}, {file.name},")
        if not file.is_file():
            raise JobError(
                f"{folder} learnt from {file.name}, which is not in {data.absolute()}; name its folder with "
                "--data, or give the lists in place of the model",
                INPUT_MISSING,
            )
        if digest not in (None, sha256(file)):
            raise JobError(f"{file} is not the file that {folder} learnt from (SHA-256 {digest})", BAD_DATA)
        files.append(file)
    return files


def _short(text: str, most: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rpartition(" ")[0] + " …"
