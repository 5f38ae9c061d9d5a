"""The contract that every reranker keeps, for each name in the registry; and what plans make of rerankers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pytest
import torch

from answermill.pipelines.steps.models import encoder_loader
from answermill.ranking.entry import StageBefore
from answermill.ranking.plan import Stage, StageWork, check_plan, run_stages, to_passages, to_sentences
from answermill.ranking.reranker import Reranker, Resources, ScoreNotFinite, left_at, order_by
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.ranking.rerankers.registry import RERANKERS, find, load_reranker
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, CandidateKind, Hit, RankedList, StageScore
from testing.tiny import checkpoint, stage_settings

TEXTS = {
    "d1": ["Rome is the capital of Italy.", "It lies on the Tiber.", "Rome is old."],
    "d2": ["The Tiber flows through Rome into the sea.", "It lies on the Tiber."],
    "d3": ["Paris is the capital of France."],
    "d4": ["Nobody asked."],
    "d5": ["Paris is the capital of France."],
}
QUESTION = Question("q1", "What is the capital of Italy?")


class LetterEncoder:
    """A small real encoder: how often each letter stands in the text."""

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts],
            np.float32,
        )

    encode_sentences = encode_questions


def make_hit(doc_id: str, rank: int, question: Question = QUESTION) -> Hit:
    sentences, start = [], 0
    for text in TEXTS[doc_id]:
        sentences.append(Sentence(f"{doc_id}@{start}", start, start + len(text), text))
        start += len(text) + 1
    text = " ".join(TEXTS[doc_id])
    passage = Passage(
        f"{doc_id}#0", doc_id, f"https://{doc_id}.example/", doc_id, 0, len(text), text, tuple(sentences)
    )
    return Hit(
        question.question_id, question.text, rank, 1 / (60 + rank), 10.0 - rank, rank, None, None, passage
    )


def passages(*doc_ids: str, question: Question = QUESTION) -> RankedList:
    return RankedList(
        question, tuple(Candidate(make_hit(d, n, question), None, n - 1) for n, d in enumerate(doc_ids, 1))
    )


def list_for(reranker: type[Reranker], *doc_ids: str, question: Question = QUESTION) -> RankedList:
    """Candidates of the reranker's kind, whose scores are those of a stage `overlap` before it."""
    retrieved = passages(*doc_ids, question=question)
    (scored,) = Overlap().rerank([to_sentences(retrieved) if reranker.reads == "sentence" else retrieved])
    return scored


def ids(ranked: RankedList) -> list[str]:
    return [c.candidate_id for c in ranked.candidates]


@pytest.fixture(scope="module", params=sorted(RERANKERS))
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str | None]:
    """A reranker's name, and a random checkpoint of it if it needs one."""
    return request.param, checkpoint(request.param, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def loaded(written: tuple[str, str | None], tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    return load_reranker(
        *written,
        encoder=LetterEncoder,
        encoder_of=encoder_loader(),
        before=[StageBefore("overlap", "overlap")],
        **stage_settings(written[0], tmp_path_factory.mktemp("settings")),
    )


def test_what_comes_back_is_a_subset_of_what_came_in(loaded: Reranker) -> None:
    came = list_for(type(loaded), "d1", "d2", "d3")
    (left,) = loaded.rerank([came])
    assert left.question == QUESTION
    assert len(left.candidates) > 1
    assert set(ids(left)) <= set(ids(came if loaded.writes == loaded.reads else to_sentences(came)))
    assert len(set(ids(left))) == len(left.candidates)


def test_it_comes_back_best_first_with_this_stage_s_score_and_rank(loaded: Reranker) -> None:
    (left,) = loaded.rerank([list_for(type(loaded), "d1", "d2", "d3")])
    scores = [c.stages[-1] for c in left.candidates]
    assert [s.score for s in scores] == sorted((s.score for s in scores), reverse=True)
    assert [s.rank for s in scores] == list(range(1, len(scores) + 1))
    assert {s.stage for s in scores} == {loaded.name}


def test_an_empty_list_and_no_list_come_back_as_they_are(loaded: Reranker) -> None:
    empty = RankedList(QUESTION, ())
    assert loaded.rerank([empty]) == [empty]
    assert loaded.rerank([]) == []


def test_a_single_candidate_stays(loaded: Reranker) -> None:
    (left,) = loaded.rerank([list_for(type(loaded), "d3")])
    assert len(left.candidates) == 1


def test_candidates_of_the_same_text_get_the_same_score_and_keep_their_order(loaded: Reranker) -> None:
    came = list_for(type(loaded), "d1", "d3", "d2", "d5")
    (left,) = loaded.rerank([came])
    twins = [c for c in left.candidates if c.text == "Paris is the capital of France."]
    assert len(twins) == 2
    assert twins[0].stages[-1].score == twins[1].stages[-1].score
    assert [c.position for c in twins] == sorted(c.position for c in twins)


def test_a_list_is_scored_alone_as_it_is_among_others(loaded: Reranker) -> None:
    other = Question("q2", "Where does the river Tiber flow?")
    first, second = list_for(type(loaded), "d1", "d3"), list_for(type(loaded), "d2", "d3", question=other)
    assert loaded.rerank([first, second]) == loaded.rerank([first]) + loaded.rerank([second])


def test_the_same_call_gives_the_same_answer(loaded: Reranker) -> None:
    came = list_for(type(loaded), "d1", "d2", "d3")
    assert loaded.rerank([came]) == loaded.rerank([came])


def test_text_without_words_is_scored(loaded: Reranker) -> None:
    came = list_for(type(loaded), "d1", question=Question("q3", "?!"))
    (left,) = loaded.rerank([came])
    assert len(left.candidates) == len(came.candidates)


def test_an_unknown_reranker_is_refused_with_the_nearest_name() -> None:
    known = ", ".join(sorted(RERANKERS))
    with pytest.raises(
        ValueError, match=f"unknown reranker 'overlp'; did you mean 'overlap'\\? Known: {known}$"
    ):
        find("overlp")


@pytest.mark.parametrize(
    "name", sorted(name for name, entry in RERANKERS.items() if entry.checkpoint or name == "cross_encoder")
)
def test_its_model_is_where_the_resources_say(name: str, tmp_path: Path) -> None:
    """On the device 'meta' tensors have a shape and no numbers. Cosinet's table, which is read at once, cannot
    be there, nor can a cross-encoder, which scores a pair when it is loaded."""
    if name.startswith("cosinet") or name == "cross_encoder":
        with pytest.raises((NotImplementedError, KeyError), match="meta"):
            load_reranker(name, checkpoint(name, tmp_path), device="meta")
    else:
        tensors = list(tensors_in(load_reranker(name, checkpoint(name, tmp_path), device="meta")))
        assert len(tensors) > 10 and {tensor.device.type for tensor in tensors} == {"meta"}
    tensors = list(tensors_in(load_reranker(name, checkpoint(name, tmp_path))))
    assert {tensor.device.type for tensor in tensors} <= {"cpu"}


def tensors_in(held: object) -> Iterator[torch.Tensor]:
    """All tensors that an object of ours holds, in its models or beside them."""
    if isinstance(held, torch.nn.Module):
        yield from (*held.parameters(), *held.buffers())
    elif isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, list | tuple):
        for item in held:
            yield from tensors_in(item)
    elif type(held).__module__.startswith("answermill.ranking."):
        for item in vars(held).values() if hasattr(held, "__dict__") else ():
            yield from tensors_in(item)


def test_scores_that_differ_by_the_noise_of_the_arithmetic_are_a_tie() -> None:
    came = passages("d2", "d1")
    assert ids(order_by(came, [0.5, 0.5 + 1e-9], "x")) == ids(came)


def test_a_score_that_is_no_number_is_refused_with_its_candidate() -> None:
    for wrong in ("nan", "inf", "-inf"):
        with pytest.raises(ScoreNotFinite, match=f"x: score {wrong} for candidate d2#0 of question q1"):
            order_by(passages("d1", "d2"), [1.0, float(wrong)], "x")


class ByLength:
    """Longest text first; as a reranker of either kind."""

    name: ClassVar[str] = "length"
    reads: ClassVar[CandidateKind] = "passage"
    writes: ClassVar[CandidateKind] = "passage"

    @classmethod
    def load(cls, resources: Resources) -> Self:
        return cls()

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(ranked, [len(c.text) for c in ranked.candidates], self.name) for ranked in lists]


class SentencesByLength(ByLength):
    name = "sentence_length"
    reads = "sentence"
    writes = "sentence"


class LastSentence(ByLength):
    """An extractor: the last sentence of each passage."""

    name = "last"
    reads = "passage"
    writes = "sentence"

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        reordered = []
        for ranked in lists:
            last = [(c, c.hit.passage.sentences[-1]) for c in ranked.candidates]
            chosen = tuple(Candidate(c.hit, s, c.position, c.stages) for c, s in last)
            reordered.append(
                order_by(RankedList(ranked.question, chosen), [-c.position for c in chosen], self.name)
            )
        return reordered


def test_sentences_come_in_the_order_of_their_passages_and_know_their_position() -> None:
    candidates = to_sentences(passages("d2", "d1"))
    assert [(c.hit.passage.doc_id, c.position) for c in candidates.candidates] == [
        ("d2", 0),
        ("d2", 1),
        ("d1", 2),
        ("d1", 3),
        ("d1", 4),
    ]

    assert all(
        c.text == c.hit.passage.text[c.sentence.start : c.sentence.end]
        for c in candidates.candidates
        if c.sentence
    )


def test_a_sentence_of_two_overlapping_passages_is_one_candidate_of_the_first() -> None:
    hit = make_hit("d1", 1)
    window = Passage("d1#1", "d1", "", "", 0, 0, "", hit.passage.sentences[1:])
    second = Hit("q1", QUESTION.text, 2, 0.1, None, None, None, None, window)
    candidates = to_sentences(RankedList(QUESTION, (Candidate(second, None, 1), Candidate(hit, None, 0))))
    assert [c.candidate_id for c in candidates.candidates] == ["d1@0", "d1@30", "d1@52"]
    assert {c.hit.passage.passage_id for c in candidates.candidates} == {"d1#0"}


def test_passages_come_back_in_the_order_of_their_best_sentence() -> None:
    (by_length,) = SentencesByLength().rerank([to_sentences(passages("d1", "d2", "d3"))])
    candidates = to_passages(by_length)
    assert ids(candidates) == ["d2#0", "d3#0", "d1#0"]
    assert [c.position for c in candidates.candidates] == [1, 2, 0]


def test_every_candidate_ends_as_one_row_that_says_where_it_left() -> None:
    plan = [Stage("long", ByLength(), 2), Stage("sentences", SentencesByLength(), 2)]
    (outcome,) = run_stages([passages("d1", "d2", "d3")], plan)
    rows = outcome.rows()
    assert [(r.candidate_id, r.rank, r.fate, r.dropped_by) for r in rows] == [
        ("d2@0", 1, "kept", None),
        ("d1@0", 2, "kept", None),
        ("d1@30", None, "dropped", "sentences"),
        ("d2@43", None, "dropped", "sentences"),
        ("d1@52", None, "dropped", "sentences"),
        ("d3#0", None, "dropped", "long"),
    ]

    assert [s.stage for s in rows[0].stages] == ["long", "sentences"]
    assert rows[-1].stages == (StageScore("long", 31.0, 3),)


def test_a_plan_tells_what_each_stage_read_and_left() -> None:
    works: list[StageWork] = []
    plan = [Stage("long", ByLength(), 2), Stage("sentences", SentencesByLength(), 2)]
    run_stages([passages("d1", "d2", "d3"), passages("d1")], plan, report=works.append)
    counts = [(work.stage, work.incoming, work.outgoing) for work in works]
    assert counts == [("long", 4, 3), ("sentences", 8, 4)]
    assert all(work.microseconds >= 0 for work in works)


def test_sentences_that_are_read_again_as_passages_are_grouped_and_not_lost() -> None:
    plan = [Stage("sentences", SentencesByLength(), 3), Stage("long", ByLength(), 1)]
    (outcome,) = run_stages([passages("d1", "d2", "d3")], plan)
    fates = {r.candidate_id: r.fate for r in outcome.rows()}
    assert fates["d2#0"] == "kept"
    assert fates["d2@0"] == "grouped"
    assert sorted(fates.values()) == ["dropped"] * 5 + ["grouped"] * 3 + ["kept"]
    assert outcome.kept.candidates[0].stages[0].stage == "sentences"


def test_sentences_that_come_back_from_their_passages_end_as_one_row_and_those_that_were_dropped_stay_so() -> (
    None
):
    plan = [
        Stage("first", SentencesByLength(), 2),
        Stage("long", ByLength()),
        Stage("again", SentencesByLength(), 1),
    ]
    (outcome,) = run_stages([passages("d1", "d2", "d3")], plan)

    assert [(r.candidate_id, r.fate, r.dropped_by, r.position) for r in outcome.rows()] == [
        ("d2@0", "kept", None, 3),
        ("d3@0", "dropped", "again", 5),
        ("d1@0", "dropped", "first", 0),
        ("d1@30", "dropped", "first", 1),
        ("d2@43", "dropped", "first", 4),  # though its passage was read
        ("d1@52", "dropped", "first", 2),
    ]


class Exits(SentencesByLength):
    """Drops the first two of a list within itself, at its exits 1 and 2, and ranks the others at 3."""

    name = "exits"

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        reordered = []
        for ranked in lists:
            first, second, *others = ranked.candidates
            left = left_at(first, 0.25, self.name, 1), left_at(second, 0.5, self.name, 2)
            rest = RankedList(ranked.question, tuple(others))
            reordered.append(replace(order_by(rest, [len(c.text) for c in others], self.name, 3), left=left))
        return reordered


def test_who_leaves_within_a_stage_keeps_the_score_that_it_left_with() -> None:
    (outcome,) = run_stages(
        [passages("d1", "d2", "d3")], [Stage("mine", Exits(), 2), Stage("long", SentencesByLength(), 1)]
    )
    rows = outcome.rows()
    assert [(r.candidate_id, r.rank, r.dropped_by) for r in rows] == [
        ("d2@0", 1, None),
        ("d3@0", None, "long"),
        ("d2@43", None, "mine"),  # cut by `keep`
        ("d1@52", None, "mine"),
        ("d1@30", None, "mine"),  # left at the second exit
        ("d1@0", None, "mine"),
    ]

    assert rows[0].stages == (StageScore("mine", 42.0, 1, 3), StageScore("long", 42.0, 1))
    assert rows[-2].stages == (StageScore("mine", 0.5, None, 2),)
    assert rows[-1].stages == (StageScore("mine", 0.25, None, 1),)


class Twice(Exits):
    """Says of a candidate that it has left and that it is there."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            replace(r, left=(*r.left, left_at(r.candidates[0], 0.5, self.name, 1)))
            for r in super().rerank(lists)
        ]


class Ranked(Exits):
    """Gives a candidate that has left a rank."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            replace(
                r, left=tuple(c.with_stages((*c.stages[:-1], StageScore(self.name, 1.0, 1))) for c in r.left)
            )
            for r in super().rerank(lists)
        ]


def test_an_extractor_that_brings_back_what_was_dropped_is_found_out() -> None:
    with pytest.raises(RuntimeError, match=r"unknown candidates, e\.g\. d2@43"):
        run_stages([passages("d2")], [Stage("first", SentencesByLength(), 1), Stage("last", LastSentence())])
    run_stages([passages("d2")], [Stage("first", SentencesByLength()), Stage("last", LastSentence())])


def test_an_extractor_puts_sentences_in_the_place_of_passages() -> None:
    (outcome,) = run_stages([passages("d1", "d2", "d3")], [Stage("last", LastSentence(), 2)])
    assert [(r.candidate_id, r.fate) for r in outcome.rows()] == [
        ("d1@52", "kept"),
        ("d2@43", "kept"),
        ("d3@0", "dropped"),
    ]


def test_a_stage_s_name_and_not_its_reranker_s_is_the_key_of_its_scores() -> None:
    plan = [Stage("first", ByLength()), Stage("second", ByLength())]
    (outcome,) = run_stages([passages("d1", "d2")], plan)
    assert [s.stage for s in outcome.kept.candidates[0].stages] == ["first", "second"]


class SameScore(ByLength):
    """Gives every candidate the one score object that it has."""

    name = "same"
    SCORE = StageScore("same", 1.0, 1)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            RankedList(r.question, tuple(replace(c, stages=(*c.stages, self.SCORE)) for c in r.candidates))
            for r in lists
        ]


def test_a_stage_names_only_the_score_that_it_has_just_given() -> None:
    plan = [Stage("same", SameScore()), Stage("second", SameScore())]  # the first keeps the reranker's name
    (outcome,) = run_stages([passages("d1", "d2")], plan)
    assert [[s.stage for s in c.stages] for c in outcome.kept.candidates] == [["same", "second"]] * 2


def test_a_plan_does_to_many_lists_what_it_does_to_each() -> None:
    plan = [Stage("sentences", SentencesByLength(), 3), Stage("long", ByLength(), 1)]
    lists = [
        passages("d1", "d2"),
        passages("d3", "d2", question=Question("q2", "Which?")),
        RankedList(Question("q3", "?"), ()),
    ]
    assert run_stages(lists, plan) == [outcome for ranked in lists for outcome in run_stages([ranked], plan)]


class Inventor(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return super().rerank([passages("d4") for _ in lists])


class Doubler(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return super().rerank([RankedList(r.question, r.candidates * 2) for r in lists])


class Unsorter(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [RankedList(r.question, r.candidates[::-1]) for r in super().rerank(lists)]


class Unscored(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return list(lists)


class Scores(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [[1.0] * len(r.candidates) for r in lists]  # type: ignore[misc]


class Square(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(r, np.zeros((len(r.candidates), 2)), self.name) for r in lists]


class Complex(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(r, np.zeros(len(r.candidates), np.complex128), self.name) for r in lists]  # type: ignore[arg-type]


class Loser(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return []


class Raiser(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        raise KeyError("weights")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Unscored, r"stage x, question q1: candidate d1#0 came back with 0 new scores"),
        (Scores, "stage x, question q1: a list came back, and no RankedList"),
        (Square, r"scores of shape \(3, 2\) for 3 candidates"),
        (Complex, r"stage x: TypeError: Cannot cast array data from dtype\('complex128'\)"),
        (Loser, "stage x: 1 lists came in and 0 came back"),
        (Raiser, r"stage x: KeyError: 'weights' \(.*test_reranker.py, line \d+\)"),
        (Inventor, "unknown candidates, e.g. d4#0"),
        (Doubler, "came back twice"),
        (Unsorter, "not sorted by score"),
        (Twice, "came back twice"),
        (Ranked, "a candidate that left within the stage has a rank"),
    ],
)
def test_a_reranker_that_breaks_the_contract_is_found_out(broken: type[ByLength], says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        run_stages([passages("d1", "d2", "d3")], [Stage("x", broken())])


class Broken(ByLength):
    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [order_by(r, [np.nan] * len(r.candidates), self.name) for r in lists]


class BrokenByItself(ByLength):
    """Gives its scores without `order_by`."""

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return [
            RankedList(
                r.question,
                tuple(c.with_stages((*c.stages, StageScore(self.name, np.nan, 1))) for c in r.candidates),
            )
            for r in lists
        ]


@pytest.mark.parametrize("broken", [Broken, BrokenByItself])
def test_a_plan_names_the_stage_and_the_checkpoint_of_a_score_that_is_no_number(
    broken: type[ByLength],
) -> None:
    plan = [Stage("sound", ByLength()), Stage("second", broken(), checkpoint=Path("models/bad"))]
    with pytest.raises(
        ScoreNotFinite, match=r"stage second, checkpoint models/bad: .*score nan .* d1#0 of question q1"
    ) as e:
        run_stages([passages("d1")], plan)
    assert e.value.exit_code == 65


def test_keep_may_not_grow_from_stage_to_stage() -> None:
    with pytest.raises(
        ValueError, match=r"rerank.stages.1 \(b\): keep = 20 grows; the stages before leave 10 at the most"
    ):
        check_plan([("a", SentencesByLength, 10), ("b", SentencesByLength, 20)])


def test_keep_may_grow_where_passages_become_sentences() -> None:
    check_plan(
        [
            ("a", ByLength, 10),
            ("b", SentencesByLength, 20),
            ("c", SentencesByLength, None),
            ("d", SentencesByLength, 20),
        ]
    )


def test_two_stages_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two stages are named 'a'"):
        check_plan([("a", ByLength, None), ("a", ByLength, None)])


def test_a_former_name_still_works_and_is_shown_nowhere() -> None:
    assert find("complete") is find("complete_sentence") is RERANKERS["complete_sentence"]
    with pytest.raises(ValueError) as e:
        find("complet")
    assert "complete_sentence" in str(e.value) and "complete," not in str(e.value)
