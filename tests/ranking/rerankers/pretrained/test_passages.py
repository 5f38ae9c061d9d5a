"""A published cross-encoder scores a passage by its best window of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answermill.indexing.shards.dense import find_model
from answermill.ranking.lists import ranked_passages
from answermill.ranking.plan import Stage, check_plan, run_stages, to_passages, to_sentences
from answermill.ranking.reranker import Reranker, rounded
from answermill.ranking.rerankers.pretrained.pair_scorers import Logits, PairScorer, Wording, load_scorer
from answermill.ranking.rerankers.pretrained.passages import WindowExtractor, windows
from answermill.ranking.rerankers.registry import find, load_reranker
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.schemas.arrays import Ints
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from answermill.schemas.ranked import RankedList
from testing.family_models import write_causal, write_classifier

QUESTION = "When was the dam at Aswan finished?"
SENTENCES = [
    "The Aswan High Dam is 111 metres high.",
    "The yearly flood ended when the dam was completed in 1970.",
    "",
    "Lake Nasser lies behind it.",
    "The letters of those who wrote about it are kept in Cairo, and nobody has read them since then.",
    "It was finished.",
    "Naïve words in no language " * 12,
]


def passage(name: str, *texts: str, title: str = "Dams") -> LabelledPassage:
    sentences = tuple(LabelledSentence(f"{name}-{n}", text, 0) for n, text in enumerate(texts))
    values = {"question_id": "q", "question": QUESTION, "passage_id": name, "doc_id": "d", "source": "window"}
    return LabelledPassage(**values, title=title, label=0, text=" ".join(texts), sentences=sentences)


PASSAGES = [
    passage("short", *SENTENCES[:2]),
    passage("long", *SENTENCES),
    passage("backwards", *SENTENCES[::-1], title=""),
    passage("one", SENTENCES[6]),
]
RANKED = ranked_passages(PASSAGES)
Scores = dict[str, list[tuple[int, float]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("model"), "bert", [QUESTION, *SENTENCES])


def load(folder: Path, limit: int = 40, **settings: Any) -> Reranker:
    options = {"precision": "fp32", "output": "logit", "reads": "passage", "limit": limit}
    return load_reranker("cross_encoder", folder, model=find_model, **options | settings)


def scored_by_hand(folder: Path, ranked: RankedList, titled: bool = False) -> Scores:
    """Passage → (first sentence, score) of each window: sentences are added while the whole pair fits."""
    scorer = load_scorer(PublishedClassifier.read(folder), 40, "cpu", "fp32")
    windows_of: Scores = {}
    for candidate in ranked.candidates:
        inside = candidate.hit.passage
        title = f"{inside.title}. " if titled and inside.title else ""
        texts: list[tuple[int, str]] = []
        for n, sentence in enumerate(inside.sentences):
            if not sentence.text.strip():
                continue
            longer = f"{texts[-1][1]} {sentence.text}" if texts else ""
            if texts and scorer.sizes([(QUESTION, title + longer)])[0] <= 40:
                texts[-1] = (texts[-1][0], longer)
            else:
                texts.append((n, sentence.text))
        pairs = [(QUESTION, title + text) for _, text in texts]
        scores = scorer.score(pairs).logits.tolist()
        windows_of[inside.passage_id] = [(n, score) for (n, _), score in zip(texts, scores, strict=True)]
    return windows_of


@pytest.mark.parametrize("titled", [False, True])
def test_a_passage_has_the_score_of_its_best_window(titled: bool, folder: Path) -> None:
    context = ["title", "sentence"] if titled else ["sentence"]
    reranker = load(folder, context=context)
    (ranked,) = reranker.rerank([RANKED])
    by_hand = scored_by_hand(folder, RANKED, titled)
    expected = {name: max(score for _, score in parts) for name, parts in by_hand.items()}
    scores = {c.candidate_id: c.score for c in ranked.candidates}
    assert scores == pytest.approx(expected, abs=1e-5) and ranked.candidates[0].kind == "passage"
    assert len(by_hand["short"]) == 1 and len(by_hand["long"]) > 2

    costs = reranker.costs()  # type: ignore[attr-defined]
    assert costs["windows"] == sum(map(len, by_hand.values())) and costs["candidates"] == len(PASSAGES)
    assert costs["tokens_cut"] > 0  # of the sentence that is too long by itself


def test_the_first_sentence_of_the_best_window_can_take_its_passage_s_place(folder: Path) -> None:
    (ranked,) = load(folder, writes="sentence").rerank([RANKED])
    by_hand = scored_by_hand(folder, RANKED)
    best = {name: max(parts, key=lambda part: part[1]) for name, parts in by_hand.items()}
    assert {c.candidate_id: c.score for c in ranked.candidates} == pytest.approx(
        {f"{name}-{n}": score for name, (n, score) in best.items()}, abs=1e-5
    )
    places = {c.candidate_id: c.position for c in to_sentences(RANKED).candidates}
    assert all(c.position == places[c.candidate_id] for c in ranked.candidates)


def test_a_dropped_sentence_is_read_but_not_extracted(folder: Path) -> None:
    (first,) = load(folder, writes="sentence").rerank([RANKED])
    dropped = {c.candidate_id for c in first.candidates}
    whole = to_sentences(RANKED)
    left = to_passages(
        replace(whole, candidates=tuple(c for c in whole.candidates if c.candidate_id not in dropped))
    )
    (second,) = load(folder, writes="sentence").rerank([left])
    names = {c.candidate_id for c in second.candidates}
    assert names and not names & dropped

    # The whole text is still read for the passage's score.
    (passages,) = load(folder).rerank([left])
    expected = {name: max(s for _, s in parts) for name, parts in scored_by_hand(folder, RANKED).items()}
    scores = {c.candidate_id: c.score for c in passages.candidates}
    assert scores == pytest.approx({name: expected[name] for name in scores}, abs=1e-5)


def test_a_window_s_first_sentence_counts_without_a_blank_before_it(tmp_path: Path) -> None:
    lake, short = "Lake Nasser lies behind it.", "It was finished."
    names = "So Lake Lot Lip Lug Led Lamb Lynx " * 9  # the tokenizer learns ' L' first, then ' Lake'
    write_classifier(tmp_path, "roberta", [QUESTION, names, *SENTENCES])
    classifier = PublishedClassifier.read(tmp_path)
    scorer = load_scorer(classifier, 64, "cpu", "fp32")
    after, alone, both = scorer.sizes([("", f" {lake}"), ("", lake), (QUESTION, f"{lake} {short}")]).tolist()
    assert after < alone

    asked = [(QUESTION, ranked_passages([passage("lake", lake, short)]).candidates[0].hit.passage)]
    for limit, firsts in ((both, [0]), (both - 1, [0, 1])):
        (split,) = windows(load_scorer(classifier, limit, "cpu", "fp32"), asked, False)
        assert [window.numbers[0] for window in split] == firsts


class Noisy:
    """Scorer whose windows of the long passage are equal but for the last digits of their arithmetic."""

    limit = 40

    def __init__(self, scorer: PairScorer) -> None:
        self._scorer = scorer

    def sizes(self, pairs: Sequence[tuple[str, str]]) -> Ints:
        return self._scorer.sizes(pairs)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Logits:
        none = np.zeros(len(pairs), np.int64)
        return Logits(np.array([0.5 + 1e-14 * n for n in range(len(pairs))], np.float64), none, none)


def test_of_windows_equal_but_for_noise_the_first_counts(folder: Path) -> None:
    scorer = load_scorer(PublishedClassifier.read(folder), 40, "cpu", "fp32")
    shared = replace(PASSAGES[1], passage_id="again")
    extractor = WindowExtractor(Noisy(scorer), "logit")
    (ranked,) = extractor.rerank([ranked_passages([PASSAGES[1], shared])])
    assert [c.candidate_id for c in ranked.candidates] == ["long-0"]
    assert ranked.candidates[0].hit.passage.passage_id == "long"


def test_a_sentence_of_two_passages_is_extracted_once(folder: Path) -> None:
    shared = replace(PASSAGES[0], passage_id="again")
    (ranked,) = load(folder, writes="sentence").rerank([ranked_passages([PASSAGES[0], shared])])
    assert [c.candidate_id for c in ranked.candidates] == ["short-0"]
    assert ranked.candidates[0].hit.passage.passage_id == "short"


def test_a_passage_without_sentences_is_one_text(folder: Path) -> None:
    bare = ranked_passages([replace(PASSAGES[1], sentences=())])
    (ranked,) = load(folder).rerank([bare])
    scorer = load_scorer(PublishedClassifier.read(folder), 40, "cpu", "fp32")
    assert ranked.candidates[0].score == rounded(scorer.score([(QUESTION, PASSAGES[1].text)]).logits)[0]
    assert load(folder, writes="sentence").rerank([bare])[0].candidates == ()


def test_windows_leave_room_for_a_language_model_s_prompt(tmp_path: Path) -> None:
    write_causal(tmp_path, "Qwen3", [QUESTION, *SENTENCES], chat=None)
    wording = Wording("yes", "no", "Instruct: judge Query: {question} Document: {candidate} Answer:")
    scorer = load_scorer(PublishedClassifier.read(tmp_path), 96, "cpu", "fp32", wording)
    (split,) = windows(scorer, [(QUESTION, RANKED.candidates[1].hit.passage)], False)
    whole = [window for window in split if len(window.numbers) > 1]
    sizes = scorer.sizes([(QUESTION, window.text) for window in whole])
    assert len(split) > 2 and whole and sizes.max() <= 96
    assert [n for window in split for n in window.numbers] == [0, 1, 3, 4, 5, 6]


def test_a_plan_knows_what_such_a_stage_reads_and_writes(folder: Path) -> None:
    entry = find("cross_encoder")
    kinds = [
        (entry.reranker_of(stage).reads, entry.reranker_of(stage).writes)
        for stage in (
            entry.stage(),
            entry.stage(reads="passage"),
            entry.stage(reads="passage", writes="sentence"),
        )
    ]
    assert kinds == [("sentence", "sentence"), ("passage", "passage"), ("passage", "sentence")]
    stages = [entry.stage(name=name, reads="passage", keep=keep) for name, keep in (("x", 2), ("y", 3))]
    with pytest.raises(ValueError, match="keep = 3 grows"):
        check_plan([(stage.key, entry.reranker_of(stage), stage.keep) for stage in stages])

    passages, sentences = load(folder), load(folder, reads="sentence")
    (result,) = run_stages([RANKED], [Stage("x", passages, 2), Stage("y", sentences)])
    assert {c.kind for c in result.kept.candidates} == {"sentence"}
    assert len({c.hit.passage.passage_id for c in result.kept.candidates}) == 2
    assert np.isfinite([c.score for c in result.kept.candidates]).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"writes": "passage"}, "a stage that reads sentences writes sentences"),
        ({"reads": "passage", "context": ["sentence", "next"]}, "a passage has no neighbours"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        find("cross_encoder").stage(**settings)
