"""A small model that learnt from a body, and lists that it ranks without a mistake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from answermill.pipelines.learn.evaluate.rank import RankOptions, rank
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, save
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.transformer_checkpoint import BodySource, StoredForm
from answermill.schemas.labels import LabelledCandidate
from testing.tiny import enlarged, tokeniser, write_body

WORDS = [
    *("ice", "wind", "cave", "glacier", "satellite", "orbit", "song", "city"),
    *("river", "bridge", "stone", "light", "water", "king", "storm"),
]
QUESTIONS, CANDIDATES = 12, 10


@pytest.fixture
def body(tmp_path: Path) -> Path:
    return Path(write_body(tmp_path / "body", seed=1, width=32, inner=64))


@pytest.fixture
def checkpoint(tmp_path: Path, body: Path) -> Path:
    """A model that moved away from its body in all directions."""
    torch.manual_seed(0)
    model = enlarged(CascadeModel(LayeredEncoder.load(body), (2,)))
    source = BodySource.read(str(body), body)
    save(tmp_path / "checkpoint", "pointwise", model, tokeniser(), StoredForm(words=source))
    (tmp_path / "checkpoint" / "README.md").write_text("---\nlicense: mit\n---\n\n# A model\n\nTrained.\n")
    (tmp_path / "checkpoint" / "training.json").write_text("{}\n")
    return tmp_path / "checkpoint"


@pytest.fixture
def dev(tmp_path: Path, checkpoint: Path) -> Path:
    """Lists whose answer is the candidate that the checkpoint ranks first."""
    return _lists(tmp_path / "dev.parquet", checkpoint, QUESTIONS)


@pytest.fixture
def clear_dev(tmp_path: Path, checkpoint: Path) -> Path:
    """The half of the lists in which the checkpoint's first candidate has the widest lead, which rounding
    leaves first."""
    return _lists(tmp_path / "dev.parquet", checkpoint, QUESTIONS // 2)


def _lists(file: Path, checkpoint: Path, most: int) -> Path:
    """Write the `most` lists with the widest leads."""

    def rows(first: Mapping[str, str]) -> list[LabelledCandidate]:
        return [
            LabelledCandidate(
                question_id=f"q{q}",
                question=f"Where is the {WORDS[q]}?",
                candidate_id=f"c{c}",
                doc_id="",
                title="",
                position=c,
                text=f"The {WORDS[(q + c) % len(WORDS)]} is {WORDS[(q * c + 3) % len(WORDS)]}.",
                label=int(first.get(f"q{q}") == f"c{c}"),
            )
            for q in range(QUESTIONS)
            for c in range(CANDIDATES)
            if not first or f"q{q}" in first
        ]

    pq.write_table(LabelledCandidate.table(rows({})), file)
    best: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for _, question, candidate, _, score in rank("pointwise", file, options=RankOptions(str(checkpoint))):
        best[question].append((score, candidate))
    leads = {question: _lead(scored) for question, scored in best.items()}
    clear = sorted(leads, key=lambda question: -leads[question][1])[:most]
    pq.write_table(LabelledCandidate.table(rows({question: leads[question][0] for question in clear})), file)
    return file


def _lead(scored: list[tuple[float, str]]) -> tuple[str, float]:
    """The best candidate, and by how much its score is above the next one's."""
    (first, candidate), (second, _), *_ = sorted(scored, reverse=True)
    return candidate, first - second
