"""Collect, a command that follows annotate: exports of annotation tools in; annotations, resolved labels and
conflicts out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from answermill.pipelines.runs.counts import Counts, StepCounts, by_name
from answermill.pipelines.runs.spec import FolderSpec, Maker, SealedFile, StepSpec

if TYPE_CHECKING:
    from answermill.schemas.annotation import Annotation, Conflict, ResolvedLabel
    from answermill.schemas.corpus import Rejected

MAKER = Maker("collect", command="collect {run} EXPORT")
COLLECTED = "collected"
"""The folder that holds all of its folders."""
AGREEMENT, OPEN_TASKS, OPEN_IDS = "agreement.json", "adjudication.csv", "adjudication.txt"
"""Files in it: how far people agree; the tasks without a label, for an adjudicator; and their ids."""
OPEN_TASKS_FILE = SealedFile(
    f"{COLLECTED}/{OPEN_TASKS}", sealed_by=f"{COLLECTED}/{AGREEMENT}", digest_key="adjudication_sha256"
)


@dataclass(frozen=True)
class LabelCounts(Counts):
    """Resolved labels of one stratum."""

    labels: int = 0
    correct: int = 0


@dataclass(frozen=True)
class CollectCounts(StepCounts):
    """Counts of collect."""

    tasks: int = 0
    annotations: int = 0
    votes: int = 0
    """Annotations that are used."""
    unanswered: int = 0
    """Records of the exports without a judgement."""
    unchecked_text: int = 0
    """Annotations without a digest of their text."""
    unknown_status: int = 0
    unknown_annotators: int = 0
    """Votes of users whom their tool no longer names."""
    conflicts: int = 0
    controls_judged: int = 0
    fates: Mapping[str, int] = by_name()
    """Fate, 'labelled', 'open', … → its tasks."""
    strata: Mapping[str, LabelCounts] = by_name()
    """Stratum → its resolved labels."""

    sums: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "annotations": ("votes", "rejects"),
        "tasks": ("tasks_by_fate",),
    }

    @property
    def tasks_by_fate(self) -> int:
        """Tasks with a known fate."""
        return sum(self.fates.values())

    @property
    def labelled(self) -> int:
        """Tasks that got a label."""
        return self.fates.get("labelled", 0)


ANNOTATIONS: FolderSpec[Annotation] = FolderSpec(
    f"{COLLECTED}/annotations",
    "answermill.schemas.annotation:Annotation",
    MAKER,
    key=("task_id", "annotator"),
    links={"task_id": "tasks"},
    rows="votes",
    beside=(f"{COLLECTED}/{AGREEMENT}", f"{COLLECTED}/{OPEN_IDS}"),
)
LABELS: FolderSpec[ResolvedLabel] = FolderSpec(
    f"{COLLECTED}/labels",
    "answermill.schemas.annotation:ResolvedLabel",
    MAKER,
    key=("question_id", "sentence_id"),
    rows="labelled",
)
CONFLICTS: FolderSpec[Conflict] = FolderSpec(
    f"{COLLECTED}/conflicts",
    "answermill.schemas.annotation:Conflict",
    MAKER,
    links={"task_id": "tasks"},
    rows="conflicts",
)
COLLECT_REJECTS: FolderSpec[Rejected] = FolderSpec(
    f"{COLLECTED}/rejects", "answermill.schemas.corpus:Rejected", MAKER, rows="rejects"
)

COLLECT = StepSpec(
    MAKER,
    "Read exports of annotation tools; write collected/.",
    (ANNOTATIONS, LABELS, CONFLICTS, COLLECT_REJECTS),
    CollectCounts,
    reads=("tasks",),
    item="annotations",
    replaced_whole=True,
    files=(OPEN_TASKS_FILE,),
)
