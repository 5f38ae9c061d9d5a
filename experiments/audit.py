"""Audit of the shipped models: what training shares with test sets, and what distracts each model from the
answer.

Training that can be read here: `taught`, the lists of the cascades, whole; `answers`, all questions of SQuAD
v1.1 train with a certain answer and of QED train, with their right sentences, of which Cosinet, HAS and PEASI
learnt a part, so their shares are no larger. Test sets: WikiQA, SelQA and SQuAD-sent, questions with an
answer. `<training>_<set>_<kind>` is the percentage of a set's questions that have in training what
`pipelines/learn/audit/overlap.py` names so; by vector, VECTORS questions and as many answers of each training
are compared, drawn by hash.

`<model>_p1` is P@1, in percent, on `<model>_questions` of WikiQA test with a right and a wrong candidate,
drawn by hash, by the model alone; `<model>_<probe>_difference` what a change of the lists adds to it
(`pipelines/learn/audit/probes.py`); `_low` and `_high` are bootstrapped 95 % intervals. `python -m
docs.generate` writes the figures on the models' cards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.learn.audit.audit import Lists, encode_unit, reranker_of
from answermill.pipelines.learn.audit.overlap import KINDS, Encode, add_vectors, overlap
from answermill.pipelines.learn.audit.probes import probe
from answermill.ranking.entry import SHIPPED
from answermill.schemas.arrays import Vectors
from answermill.schemas.labels import LabelledCandidate
from experiments.percents import ends
from experiments.question_sets.gold import by_hash
from experiments.question_sets.sources import qed, squad_train
from testing.harness import arguments, finish, say, shrink

MEASURED_MODELS = ("cascade", "cascade_base", "cosinet", "hashing", "peasi")
TAKES = "twenty minutes"
DECIDED = "Nothing ships by it; the cards of the models have its figures."
TESTS = {
    "wikiqa": "wikiqa/wikiqa-test.parquet",
    "selqa": "selqa/selqa-test.parquet",
    "squad": "squad/squad-sent-test.parquet",
}
TAUGHT = "qa-train/taught"
PROBED = {"cascade": 100, "cascade_base": 40, "cosinet": 100, "hashing": 100, "peasi": 100}
"""Model → questions that it is probed on."""
VECTORS = 5_000
Figures = dict[str, float | int | str]


def taught(data: Path) -> Iterator[list[LabelledCandidate]]:
    """The cascades' lists."""
    texts = pq.read_table(data / TAUGHT / "texts.parquet")["text"].to_pylist()
    rows: list[LabelledCandidate] = []
    columns = ["question_id", "question", "text", "label"]
    for batch in pq.ParquetFile(data / TAUGHT / "lists.parquet").iter_batches(columns=columns):
        for row in batch.to_pylist():
            if rows and rows[0].question_id != texts[row["question_id"]]:
                yield rows
                rows = []
            question_id, question, text = (texts[row[name]] for name in columns[:3])
            rows.append(_row(question_id, question, text, len(rows), row["label"]))
    if rows:
        yield rows


def answers(data: Path) -> Iterator[list[LabelledCandidate]]:
    """Questions with their right sentences, from which lists were made."""
    for asked in (*squad_train(data), *qed(data, "train")):
        yield [_row(asked.question_id, asked.text, text, n, 1) for n, (_, text) in enumerate(asked.gold)]


def _row(question_id: str, question: str, text: str, position: int, label: int) -> LabelledCandidate:
    return LabelledCandidate(question_id, question, f"{position}", "", "", position, text, label)


TRAININGS = {"taught": taught, "answers": answers}


def answered(file: Path) -> Lists:
    return [rows for rows in by_question(read_dataset(file)) if any(row.label > 0 for row in rows)]


def encode_once() -> Encode:
    """The default encoder, which encodes each text once."""
    encode, known = encode_unit(), dict[str, Vectors]()

    def encoded(texts: Sequence[str]) -> Vectors:
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(unknown, encode(unknown) if unknown else (), strict=True))
        return np.stack([known[text] for text in texts])

    return encoded


def overlap_figures(data: Path) -> Figures:
    figures: Figures = {}
    encode = encode_once()
    for training, read in TRAININGS.items():
        for name, file in TESTS.items():
            test = answered(data / file)
            result = overlap(read(data), test)
            if VECTORS:
                add_vectors(result, list(read(data)), test, encode, VECTORS)
            figures |= {f"{training}_questions": result.training_questions}
            figures |= {f"{name}_questions": result.questions}
            figures |= {f"{training}_{name}_{kind}": 100 * result.share(kind) for kind in KINDS}
            say(f"{training}, {name}: {[len(result.shared[kind]) for kind in KINDS]}")
    return figures


def probe_figures(data: Path) -> Figures:
    lists = {rows[0].question_id: rows for rows in answered(data / TESTS["wikiqa"])}
    names = [name for name in by_hash(lists) if any(not row.label for row in lists[name])]
    figures: Figures = {}
    for model, most in PROBED.items():
        probed = probe(reranker_of(str(SHIPPED / model)), [lists[name] for name in names[:most]])
        figures |= {f"{model}_questions": probed.questions, f"{model}_p1": 100 * probed.p1}
        for name, change in probed.probes.items():
            key = f"{model}_{name}"
            figures |= {f"{key}_difference": 100 * change.difference, **ends(key, change)}
        say(f"{model}: P@1 {probed.p1:.3f}")
    return figures


def main() -> None:
    options = arguments("audit", __doc__ or "")
    if options.smoke:
        shrink(globals(), PROBED={"cosinet": 2}, VECTORS=0, TRAININGS={"answers": answers})
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    data = options.data.resolve()
    finish("audit", overlap_figures(data) | probe_figures(data), options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
