"""Index: passages in; shards out, each with a Lucene and a FAISS index, and codes of its sentences where a
stage wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from answermill.pipelines.runs.counts import Peak, StepCounts, milliseconds
from answermill.pipelines.runs.spec import FolderSpec, Maker, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.corpus import Passage

MAKER = Maker("index")


@dataclass(frozen=True)
class IndexCounts(StepCounts):
    """Counts of index."""

    passages: int = 0
    bytes: int = 0
    """Size of all files of the shards."""
    vectors_taken_over: int = 0
    """Passages whose vectors were taken over from an earlier run."""
    taken_over: int = 0
    """Passages in shards that were taken over whole from an earlier run."""
    tombstones: int = 0
    """Rows of these shards whose passages are gone, so that no search finds them."""
    bm25_ms: int = milliseconds("BM25", "passages", "taken_over")
    dense_ms: int = milliseconds("dense vectors", "passages", "vectors_taken_over")
    answers: int = 0
    """Sentences that are stored as bits."""
    answers_cut: int = 0
    """Sentences among them with more tokens than are stored."""
    answer_tokens: int = 0
    answers_taken_over: int = 0
    """Sentences among them in shards that were taken over whole."""
    answers_ms: int = milliseconds("codes of sentences", "answers", "answers_taken_over")
    sentence_vectors: int = 0
    """Sentences that are stored as vectors."""
    sentence_vectors_taken_over: int = 0
    """Sentences among them in shards that were taken over whole."""
    sentence_vectors_ms: int = milliseconds(
        "sentence vectors", "sentence_vectors", "sentence_vectors_taken_over"
    )
    recall_questions: int = 0
    """Sentences of the corpus that were searched to measure the recall of a dense index that is not exact."""
    recall_wanted: int = 0
    """Their nearest passages, by exact search: 100 of each, or all."""
    recall_found: int = 0
    """Those among them that the index finds."""
    recall_probes: Peak = 0
    """`index.probes` of that search."""
    recall_candidates: Peak = 0
    """Candidates of that search whose exact scores were computed."""
    recall_times: Peak = 0
    """How many times as wide as by itself that search was."""

    @property
    def recall(self) -> float:
        """Share of the nearest passages that the dense index finds; 1 if it is exact."""
        return self.recall_found / self.recall_wanted if self.recall_wanted else 1.0


SHARDS: FolderSpec[Passage] = FolderSpec(
    "shards",
    "answermill.schemas.corpus:Passage",
    MAKER,
    rows="passages",
    same_rows_as="passages",
    part_is_folder=True,
)

INDEX = StepSpec(
    MAKER,
    "Read passages/; write shards/, each with a Lucene and a FAISS index.",
    (SHARDS,),
    IndexCounts,
    settings="answermill.pipelines.config.job_file:Index",
    reads=("passages",),
    item="passages",
    code="answermill.pipelines.steps.index.index:STEP",
    revision=7,
    units_stand_alone=True,
    is_main=True,
)
