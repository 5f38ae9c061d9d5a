"""Losses of right answers: by retrieval, between passage and sentence, or by a stage, with the score that
each lacked to stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from answermill.pipelines.look.explain.gold_answers import GoldAnswers
from answermill.pipelines.look.explain.stage_views import StageView, score_by
from answermill.schemas.ranked import Hit, ScoredCandidate

Where = Literal["kept", "dropped", "no_candidate", "not_reranked", "not_retrieved", "not_in_corpus"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Fate of one right answer."""

    candidate_id: str
    """Id of the sentence, or of the passage that stands for it; '' if the run has neither."""
    text: str
    where: Where
    explanation: str
    """Clause for people."""
    rank: int | None = None
    """Rank in the plan's result, if it was kept."""
    stage: str | None = None
    """Stage that dropped it."""
    place: int | None = None
    """Place, from 1, among the stage's incoming candidates."""
    entered: int | None = None
    """Number of the stage's incoming candidates."""
    kept: int | None = None
    """Number of candidates that the stage kept."""
    score: float | None = None
    """Score that the stage gave it."""
    last_kept: float | None = None
    """Score of the last candidate that was kept."""

    @property
    def needed(self) -> float | None:
        """Distance of its score from that of the last one kept; None if the two cannot be compared."""
        return None if self.score is None or self.last_kept is None else self.last_kept - self.score


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """One question's candidates after retrieval and after the plan."""

    hits: Sequence[Hit]
    rows: Sequence[ScoredCandidate]
    views: Mapping[str, StageView]
    """Stage's name → its view, in the plan's order; empty if the question is not reranked."""

    def losses(self, gold: GoldAnswers) -> list[Loss]:
        """Fates of the right answers, in the order of how near they are to the first place."""
        losses = [self._sentence_loss(sentence_id, text) for sentence_id, text in gold.sentences.items()]
        losses += [self._passage_loss(hit) for hit in gold.across]
        for passage in gold.elsewhere:
            where = (
                f"passage {passage.passage_id} of {passage.url} holds it, and was not retrieved: "
                f"{self._bounds()}"
            )
            losses.append(Loss(passage.passage_id, passage.text, "not_retrieved", where))

        for reject in gold.refused:
            where = f"the label of line {reject.source_offset}: {reject.detail}"
            losses.append(Loss("", reject.detail, "not_in_corpus", where))

        if gold.source == "text" and not losses:
            losses.append(Loss("", "", "not_in_corpus", "no passage of the run holds this text"))
        return sorted(losses, key=self._distance)

    def _distance(self, loss: Loss) -> tuple[int, int]:
        """Distance from the first place: (0, rank) if kept, more the earlier the answer was lost."""
        order = list(self.views)
        if loss.where == "kept":
            return 0, loss.rank or 0
        if loss.stage is not None:
            return len(order) - order.index(loss.stage), loss.place or 0
        return len(order) + 1 + ("no_candidate", "not_reranked", "not_retrieved", "not_in_corpus").index(
            loss.where
        ), 0

    def _sentence_loss(self, sentence_id: str, text: str) -> Loss:
        row = next((row for row in self.rows if row.candidate_id == sentence_id), None)
        if row is not None and row.fate != "grouped":
            return self._row_loss(row, sentence_id, text)

        holding = [
            hit for hit in self.hits if any(s.sentence_id == sentence_id for s in hit.passage.sentences)
        ]
        if not holding:
            return Loss(
                sentence_id, text, "not_retrieved", f"no retrieved passage holds it: {self._bounds()}"
            )

        if not self.views:
            best = holding[0]
            where = (
                f"passage {best.passage.passage_id} holds it, retrieved at rank {best.rank} ({sources(best)})"
            )
            return Loss(sentence_id, text, "not_reranked", where)

        passage_id = row.passage_id if row is not None else holding[0].passage.passage_id
        return self._loss_in_passage(passage_id, sentence_id, text)

    def _loss_in_passage(self, passage_id: str, sentence_id: str, text: str) -> Loss:
        """Fate of a sentence that is no candidate at the plan's end: its passage, or another sentence of
        that, is there instead."""
        instead = [row for row in self.rows if row.passage_id == passage_id and row.fate != "grouped"]
        passage = next((row for row in instead if row.unit == "passage"), None)
        if passage is not None:
            return self._row_loss(passage, sentence_id, text, f"its passage {passage_id} ")

        if instead:
            fate = (
                f"was kept at rank {instead[0].rank}"
                if instead[0].rank
                else f"was dropped by {instead[0].dropped_by}"
            )
            where = f"of its passage {passage_id} another sentence was taken, which {fate}: {instead[0].text}"
        else:
            where = f"its passage {passage_id} was retrieved, but none of its sentences became a candidate"

        return Loss(sentence_id, text, "no_candidate", where)

    def _passage_loss(self, hit: Hit) -> Loss:
        """Fate of a passage that holds the text in no single sentence."""
        passage = hit.passage
        rows = [row for row in self.rows if row.unit == "passage" and row.candidate_id == passage.passage_id]
        if rows:
            return self._row_loss(rows[0], passage.passage_id, passage.text)
        where = (
            f"passage {passage.passage_id}, retrieved at rank {hit.rank} ({sources(hit)}), holds it, but no "
            "single sentence does: it is longer than a sentence, or was cut in two"
        )
        return Loss(passage.passage_id, passage.text, "no_candidate", where)

    def _row_loss(self, row: ScoredCandidate, candidate_id: str, text: str, subject: str = "") -> Loss:
        """Fate of a candidate; `subject` begins the explanation."""
        if row.rank is not None:
            where = f"{subject}kept, at rank {row.rank}" + (
                ": the answer" if row.rank == 1 else self._behind(row)
            )
            return Loss(candidate_id, text, "kept", where, rank=row.rank)

        stage = str(row.dropped_by)
        view, score = self.views[stage], score_by(row, stage)
        place, last = view.places[view.key(row)], view.last_kept
        where = (
            f"{subject}dropped by stage {stage}, at place {place} of {view.entered}, of which it kept "
            f"{view.kept}; "
        )
        lost = Loss(candidate_id, text, "dropped", where, None, stage, place, view.entered, view.kept)

        if score is None:
            return replace(lost, explanation=f"{where}{stage} gives no score to what it drops")

        if score.rank is None or last is None or score.exit != last.exit:
            exit_ = f" at exit {score.exit}" if score.exit is not None else ""
            left = f"it left{exit_} with the score {score.score:.6g}; what the others had there is not kept"
            return replace(lost, explanation=where + left, score=score.score)

        lacking = f"it lacked {last.score - score.score:.6g}"
        which = "the last one kept" if last.rank == view.kept else f"the one kept at rank {last.rank}"
        scores = f"its score was {score.score:.6g}, that of {which} {last.score:.6g}: {lacking}"
        return replace(lost, explanation=where + scores, score=score.score, last_kept=last.score)

    def _behind(self, row: ScoredCandidate) -> str:
        """Clause on the score that a kept candidate lacks to be the answer."""
        last = next(reversed(list(self.views)), None)
        score, best = (
            score_by(candidate, last) if last is not None else None for candidate in (row, self.rows[0])
        )
        if score is None or best is None:
            return ""
        return (
            f"; by {last} it has {score.score:.6g}, the answer {best.score:.6g}: it lacked "
            f"{best.score - score.score:.6g}"
        )

    def _bounds(self) -> str:
        """Clause on the depth to which each index was read."""
        return "; ".join(self._source_bounds()) or "nothing was retrieved"

    def _source_bounds(self) -> Iterator[str]:
        for source, label in (("bm25", "BM25"), ("dense", "the dense index")):
            ranked = [hit for hit in self.hits if getattr(hit, f"{source}_rank") is not None]
            if ranked:
                last = max(ranked, key=lambda hit: getattr(hit, f"{source}_rank"))
                rank, score = getattr(last, f"{source}_rank"), getattr(last, f"{source}_score")
                yield f"{label} returned {rank}, the last with the score {score:.6g}"


def sources(hit: Hit) -> str:
    """Ranks and scores of a hit by the two indexes: 'BM25 rank 3, score 9.1; dense not returned'."""
    texts = []
    for label, rank, score in (
        ("BM25", hit.bm25_rank, hit.bm25_score),
        ("dense", hit.dense_rank, hit.dense_score),
    ):
        texts.append(f"{label} not returned" if rank is None else f"{label} rank {rank}, score {score:.6g}")
    return "; ".join(texts)
