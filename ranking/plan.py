"""Plans of stages: SR_N = R_N ∘ … ∘ R_1, each stage with its own k_i (Cascade Transformer §3.2).

A plan takes whole ranked lists and returns them. Passages become sentences, and sentences passages, where the
next stage reads the other kind. No candidate is lost: each ends as one row, with its score in each stage that
it passed and the stage at which it departed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from answermill.ranking.entry import StageBefore, StageSettings, decisive_settings, defaults
from answermill.ranking.reranker import Reranker, check_finite, naming, order_by, rounded
from answermill.schemas.corpus import Sentence
from answermill.schemas.plug_ins import running
from answermill.schemas.ranked import Candidate, CandidateKind, RankedList, ScoredCandidate


@dataclass(frozen=True, slots=True)
class Stage:
    """A reranker and the number of candidates that it keeps per question: the paper's k_i. None keeps all."""

    name: str
    reranker: Reranker
    keep: int | None = None
    checkpoint: Path | None = None
    """Folder of its model, for messages."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """Work of one stage on the lists of one call."""

    stage: str
    incoming: int
    """Candidates of all lists that it read."""
    outgoing: int
    """Candidates that it left, for the next stage or as the plan's result."""
    microseconds: int
    """Time of the reranker."""
    card_microseconds: int = 0
    """Part of `microseconds` in which a graphics card was at work; 0 on a processor."""
    card_peak_bytes: int = 0
    """Peak of the card's memory in this process, its models' weights included."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A candidate removed before the end of the plan. `dropped_by`: the stage, or None if the candidate was
    grouped into its passage."""

    candidate: Candidate
    dropped_by: str | None


@dataclass(frozen=True, slots=True)
class Reranked:
    """Result of a plan for one question's list."""

    kept: RankedList
    departed: tuple[Departure, ...]
    """Removed candidates, in the order of their departure."""

    def rows(self) -> list[ScoredCandidate]:
        """One row per candidate: the kept ones best first, then those that departed, the last one first."""
        kept = [self._row(c, rank, "kept", None) for rank, c in enumerate(self.kept.candidates, 1)]
        departed = [
            self._row(d.candidate, None, "dropped" if d.dropped_by else "grouped", d.dropped_by)
            for d in reversed(self.departed)
        ]
        return kept + departed

    def _row(self, c: Candidate, rank: int | None, fate: str, dropped_by: str | None) -> ScoredCandidate:
        hit, passage = c.hit, c.hit.passage
        place = c.sentence or passage

        return ScoredCandidate(
            question_id=self.kept.question.question_id,
            question=self.kept.question.text,
            unit=c.kind,
            candidate_id=c.candidate_id,
            passage_id=passage.passage_id,
            doc_id=passage.doc_id,
            url=passage.url,
            title=passage.title,
            start=place.start,
            end=place.end,
            text=c.text,
            rank=rank,
            fate=fate,
            dropped_by=dropped_by,
            position=c.position,
            retrieved_rank=hit.rank,
            fused_score=hit.fused_score,
            bm25_score=hit.bm25_score,
            bm25_rank=hit.bm25_rank,
            dense_score=hit.dense_score,
            dense_rank=hit.dense_rank,
            stages=c.stages,
        )


def to_sentences(ranked: RankedList) -> RankedList:
    """The sentences of a list of passages, in the passages' order; each inherits its passage's scores.

    A sentence of two passages is taken once, from the one that was retrieved first. Passages that
    `to_passages` made give back the sentences that were eligible then, at the positions that they had.
    """
    owner: dict[str, tuple[str, int]] = {}  # sentence id → (passage id, position)
    for candidate in sorted(ranked.candidates, key=lambda c: c.position):
        for sentence in candidate.sentences:
            position = len(owner) if candidate.eligible is None else candidate.eligible[sentence.sentence_id]
            owner.setdefault(sentence.sentence_id, (candidate.candidate_id, position))
    candidates = []
    for candidate in ranked.candidates:
        for sentence in candidate.sentences:
            passage_id, position = owner[sentence.sentence_id]
            if passage_id == candidate.candidate_id:
                candidates.append(candidate.of_sentence(sentence, position))
    return RankedList(ranked.question, tuple(candidates))


def order_extracted(
    ranked: RankedList, extracted: Iterable[tuple[Candidate, Sentence, float]], stage: str
) -> RankedList:
    """The sentences that a stage extracts from the passages of a list, ordered by their scores.

    `extracted`: each passage, its sentence, and the score of that. A sentence of two passages is taken from
    the one in which its score, rounded as it is published, is higher, or from the earlier one.
    """
    positions = {c.candidate_id: c.position for c in to_sentences(ranked).candidates}
    best: dict[str, tuple[Candidate, float]] = {}  # sentence id → candidate and score
    for passage, sentence, exact in extracted:
        (score,) = rounded([exact]).tolist()
        known = best.get(sentence.sentence_id)
        if known is None or score > known[1]:
            best[sentence.sentence_id] = (
                passage.of_sentence(sentence, positions[sentence.sentence_id]),
                score,
            )

    sentences = RankedList(ranked.question, tuple(candidate for candidate, _ in best.values()))
    return order_by(sentences, [score for _, score in best.values()], stage)


def to_passages(ranked: RankedList) -> RankedList:
    """The passages of a list of sentences, in the order of each passage's best sentence, whose scores it
    inherits.

    Only the list's sentences remain eligible: a sentence that was dropped before does not come back from its
    passage.
    """
    best: dict[str, Candidate] = {}
    eligible: dict[str, dict[str, int]] = defaultdict(dict)
    for candidate in ranked.candidates:
        passage_id = candidate.hit.passage.passage_id
        best.setdefault(passage_id, candidate)
        eligible[passage_id][candidate.candidate_id] = candidate.position
    passages = (
        replace(c, sentence=None, position=c.hit.rank - 1, eligible=eligible[passage_id])
        for passage_id, c in best.items()
    )
    return RankedList(ranked.question, tuple(passages))


def run_stages(
    lists: Sequence[RankedList],
    plan: Sequence[Stage],
    kind: CandidateKind = "passage",
    report: Callable[[StageWork], object] = lambda work: None,
) -> list[Reranked]:
    """Run the plan over whole lists whose candidates are of this `kind`. `report` is called after each stage.

    A sentence that was grouped may return from its passage, and ends as one row, of its last departure.
    A sentence that a stage has dropped may not, though a stage that reads passages reads all their text.
    Raises as `ranked_by`, naming the stage.
    """
    current = list(lists)
    departed: list[list[Departure]] = [[] for _ in current]
    for stage in plan:
        if stage.reranker.reads != kind:
            if kind == "sentence":
                for departures, ranked in zip(departed, current, strict=True):
                    departures += [Departure(c, None) for c in reversed(ranked.candidates)]
            current = [(to_sentences if kind == "passage" else to_passages)(ranked) for ranked in current]

        _card_use()  # resets the measures: earlier work on the card is not this stage's
        began = time.perf_counter()

        before = current
        current = ranked_by(stage.reranker, before, f"stage {stage.name}", stage.checkpoint)
        current = [_name_scores(stage, ranked) for ranked in current]
        microseconds = round(1e6 * (time.perf_counter() - began))

        kind = stage.reranker.writes
        for n, (incoming, returned) in enumerate(zip(before, current, strict=True)):
            current[n], departures = _cut(stage, incoming, returned)
            departed[n] += departures

        report(StageWork(stage.name, _size(before), _size(current), microseconds, *_card_use()))

    return [
        Reranked(ranked, _last_departures(ranked, ended))
        for ranked, ended in zip(current, departed, strict=True)
    ]


def ranked_by(
    reranker: Reranker, lists: Sequence[RankedList], where: str, checkpoint: Path | None = None
) -> list[RankedList]:
    """What a reranker returns of the lists. `where`, such as the stage, and `checkpoint` are for messages.

    Raises RuntimeError if it breaks its contract (adds, repeats, unsorts or does not score candidates),
    naming the question; PlugInFailed if a plug-in does, or raises an error; ScoreNotFinite if a score is NaN
    or infinite, naming checkpoint, question and candidate.
    """
    with naming(where, checkpoint), running(where, type(reranker).__module__):
        returned = list(reranker.rerank(lists))
        if len(returned) != len(lists):
            raise RuntimeError(f"{where}: {len(lists)} lists came in and {len(returned)} came back")
        for before, after in zip(lists, returned, strict=True):
            _check_contract(reranker, before, after, where)
    return returned


def _card_use() -> tuple[int, int]:
    """Microseconds that a graphics card was at work since the last call, and the peak of its memory in bytes.
    Both are 0 if nothing has imported torch, which takes a second."""
    devices = sys.modules.get("answermill.ranking.transformer.devices")
    return (int(devices.BUSY.take()), int(devices.PEAK.take())) if devices is not None else (0, 0)


def _size(lists: Sequence[RankedList]) -> int:
    return sum(len(ranked.candidates) for ranked in lists)


def _cut(stage: Stage, incoming: RankedList, returned: RankedList) -> tuple[RankedList, list[Departure]]:
    """The first `keep` candidates that a stage returned, and the others as departures, worst first.

    Candidates that left within the stage with a score come first, then those that `keep` cut, then those that
    the stage did not return at all. A passage of which a sentence was returned in its place has not departed.
    """
    kept = RankedList(returned.question, returned.candidates[: stage.keep])
    known = {c.candidate_id for c in (*returned.candidates, *returned.left)}
    known |= {c.hit.passage.passage_id for c in returned.candidates if c.sentence}
    cut = [*returned.left, *reversed(returned.candidates[len(kept.candidates) :])]
    cut += [c for c in reversed(incoming.candidates) if c.candidate_id not in known]
    return kept, [Departure(c, stage.name) for c in cut]


def _last_departures(kept: RankedList, departures: Sequence[Departure]) -> tuple[Departure, ...]:
    """Last departure of each candidate; none for candidates that returned and were kept."""
    ended = {c.candidate_id for c in kept.candidates}
    last = []
    for departure in reversed(departures):
        if departure.candidate.candidate_id not in ended:
            ended.add(departure.candidate.candidate_id)
            last.append(departure)
    return tuple(reversed(last))


def check_plan(
    stages: Sequence[tuple[str, type[Reranker], int | None]], kind: CandidateKind = "passage"
) -> None:
    """Refuse a plan whose stages do not fit one another: (name, reranker, keep) per stage.

    Raises ValueError with the stage's number if two names are equal, `keep` is below 1, or grows without a
    change of kind.
    """
    names: set[str] = set()

    bound: int | None = None
    for n, (name, reranker, keep) in enumerate(stages):
        where = f"rerank.stages.{n}"
        if name in names:
            raise ValueError(f"{where}: two stages are named {name!r}; give one another `name`")

        names.add(name)
        if keep is not None and keep < 1:
            raise ValueError(f"{where} ({name}): keep = {keep}; it must be at least 1")

        if reranker.reads != kind or reranker.writes != reranker.reads:
            bound = None
        kind = reranker.writes
        if keep is not None and bound is not None and keep > bound:
            raise ValueError(
                f"{where} ({name}): keep = {keep} grows; the stages before leave {bound} at the most"
            )

        bound = keep if keep is not None else bound


def _name_scores(stage: Stage, ranked: RankedList) -> RankedList:
    """The list with the stage's name, in place of its reranker's, on each candidate's last score: the one
    just given."""
    if stage.name == stage.reranker.name:
        return ranked
    candidates, left = (
        tuple(
            c.with_stages((*c.stages[:-1], c.stages[-1].named(stage.name))) if c.stages else c for c in part
        )
        for part in (ranked.candidates, ranked.left)
    )
    return RankedList(ranked.question, candidates, left)


def _check_contract(reranker: Reranker, before: RankedList, after: RankedList, where: str) -> None:
    where = f"{where}, question {before.question.question_id}"
    if not isinstance(after, RankedList):
        raise RuntimeError(f"{where}: a {type(after).__name__} came back, and no RankedList")
    if after.question != before.question:
        raise RuntimeError(f"{where}: the list of question {after.question.question_id} came back")

    returned = (*after.candidates, *after.left)
    ids = [c.candidate_id for c in returned]
    if len(set(ids)) != len(ids):
        raise RuntimeError(f"{where}: a candidate came back twice")

    known = {c.candidate_id: len(c.stages) for c in before.candidates}
    if reranker.reads == "passage" and reranker.writes == "sentence":
        known = {s.sentence_id: len(c.stages) for c in before.candidates for s in c.sentences}
    if not known.keys() >= set(ids):
        raise RuntimeError(
            f"{where}: came back with unknown candidates, e.g. {next(i for i in ids if i not in known)}"
        )

    for c in returned:
        if (added := len(c.stages) - known[c.candidate_id]) != 1:
            raise RuntimeError(
                f"{where}: candidate {c.candidate_id} came back with {added} new scores, not one"
            )
    if any(c.stages[-1].rank is not None for c in after.left):
        raise RuntimeError(f"{where}: a candidate that left within the stage has a rank")

    scores = [c.stages[-1].score for c in after.candidates]
    check_finite(after, np.array(scores, np.float64), reranker.name)
    if scores != sorted(scores, reverse=True):
        raise RuntimeError(f"{where}: the list is not sorted by score")


def stages_before(
    stages: Sequence[StageSettings],
    models: Mapping[str, str | None] = MappingProxyType({}),
    files: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[StageBefore, ...]]:
    """`Resources.before` of each stage of a plan. `models`: key of a stage → digest of its model; `files`:
    digests of the files that stages name, as `decisive_settings` takes them.

    Raises ValueError with the stage's number if a setting needs scores that no stage before it gives.
    """
    plan = []
    before: tuple[StageBefore, ...] = ()
    for n, stage in enumerate(stages):
        try:
            stage.check_scores(before)
        except ValueError as e:
            raise ValueError(f"rerank.stages.{n}: {e}") from e
        plan.append(before)
        settings = json.dumps(decisive_settings(stage, files), sort_keys=True)
        former = json.dumps(defaults(type(stage)), sort_keys=True)
        before = (*before, StageBefore(stage.key, stage.reranker, models.get(stage.key), settings, former))
    return plan
