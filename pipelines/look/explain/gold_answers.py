"""Right answers of a question: sentences that the run's labels call right, or that hold a given text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc

from answermill.indexing.passages.text import fold, fold_all, holds, one_line
from answermill.pipelines.look.explain.written_parts import WrittenParts
from answermill.pipelines.runs.watch.progress import reading
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.propagate import LABEL_REJECTS, SENTENCE_LABELS
from answermill.schemas.corpus import Passage, Rejected
from answermill.schemas.labels import WRONG
from answermill.schemas.ranked import Hit


@dataclass(frozen=True, slots=True)
class GoldAnswers:
    """Right answers, and the places where the run has them."""

    source: str
    """'labels', 'text', or '' if neither says what is right."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Sentence id → text of the right sentences; with source 'text' only of retrieved ones."""
    across: Sequence[Hit] = ()
    """Retrieved passages that hold the given text in no single sentence."""
    elsewhere: Sequence[Passage] = ()
    """Some passages that hold the given text, if no retrieved one does."""
    refused: Sequence[Rejected] = ()
    """Labels of the question for sentences that the corpus does not have."""
    missing: str = ""
    """Part that the run lacks to say more, a clause for people."""


def by_labels(run: Path, question_id: str) -> GoldAnswers:
    """Right answers of a question by the run's labels/."""
    labels = WrittenParts.of(run, SENTENCE_LABELS)
    right = {row.sentence_id: row.text for row in labels.question_rows(question_id) if row.label == 1}
    refused = [
        reject
        for _, batch in WrittenParts.of(run, LABEL_REJECTS).batches()
        for reject in Rejected.rows(batch.filter(pc.equal(batch["source_record"], question_id)))
        if reject.reason != "duplicate" and not reject.detail.startswith(WRONG)
    ]
    missing = f"no labels: {labels.missing}" if labels.missing else ""
    return GoldAnswers("labels" if right or refused else "", right, refused=refused, missing=missing)


def by_text(run: Path, text: str, hits: Sequence[Hit], some: int = 3) -> GoldAnswers:
    """Sentences of the hits that hold a text, ignoring case, white space and a final full stop; if no hit
    holds it, up to `some` other passages of the run that do."""
    words = folded(text)
    sentences = {
        sentence.sentence_id: sentence.text
        for hit in hits
        for sentence in hit.passage.sentences
        if holds(fold(sentence.text), words)
    }
    across = [] if sentences else [hit for hit in hits if holds(fold(hit.passage.text), words)]
    elsewhere = [] if sentences or across else _in_corpus(run, words, some)
    return GoldAnswers("text", sentences, across, elsewhere)


def folded(text: str) -> str:
    """The text in the form in which it is searched."""
    return fold(one_line(text)).rstrip(".!?… ")


def _in_corpus(run: Path, words: str, some: int) -> list[Passage]:
    """Some passages of the run that hold the words; none if the run has no passages/."""
    written = WrittenParts.of(run, PASSAGES)
    longest = max((word for word in words.split() if word.isascii()), key=len, default="")
    passages: list[Passage] = []
    with reading("search passages/", written.batches(), what="batches") as batches:
        for _, batch in batches:
            likely = batch.filter(pc.match_substring(fold_all(batch["text"]), longest))
            passages += [passage for passage in Passage.rows(likely) if holds(fold(passage.text), words)]
            if len(passages) >= some:
                break
    return passages[:some]
