"""EASI with a vector per sentence from the whole passage: what is read, its scores by hand, its loss, and
where it begins."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from answermill.indexing.shards.dense import find_model
from answermill.ranking.context import Pooling, Reading
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.peasi import passage_reader, peasi_model
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi import PassageReranker, SentenceExtractor
from answermill.ranking.rerankers.peasi.peasi_model import PassageHead, PeasiModel, Variant
from answermill.ranking.rerankers.peasi.span import Span
from answermill.ranking.rerankers.peasi.windows import read_windows, whole_windows
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.inputs import Built, TrainingInputs
from answermill.ranking.training.loop import Output, Recipe, train
from answermill.ranking.training.passages.passage_data import PassageData
from answermill.ranking.training.passages.passage_start import build
from answermill.ranking.training.passages.passage_task import PassageOptions, PassageTask, dev_lists
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from answermill.schemas.ranked import Candidate, Hit, RankedList
from testing.tiny import SHAPE, enlarged, tokeniser

QUESTION = "Which comet is it?"
NOUNS = ("comet", "river of ice", "violin", "old senate", "lantern", "harvest moon", "engine")
WITH_EASI: tuple[Variant, ...] = ("easi", "mtl0", "mtl1", "joint")
EVERY_FORM: list[tuple[Variant, PassageHead]] = [(variant, "linear") for variant in WITH_EASI]
EVERY_FORM += [("mtl0", "classifier"), ("joint", "classifier")]


def model(variant: Variant = "easi", head: PassageHead = "linear", seed: int = 0) -> PeasiModel:
    torch.manual_seed(seed)
    return enlarged(PeasiModel(LayeredEncoder(SHAPE), variant, 1, head, "span")).eval()


def texts(n: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [f"The {' '.join(random.choice(NOUNS, random.integers(1, 4)))}." for _ in range(n)]


def random_lists(*counts: int) -> list[RankedList]:
    """A list for each count of passages; a passage has up to eight sentences, or none."""
    lists = []
    for q, count in enumerate(counts):
        hits = []
        for n in range(count):
            of_passage = texts((3 * n + q) % 9, 100 * q + n)
            cut = tuple(Sentence(f"{q}-{n}@{i}", i, i + 1, text) for i, text in enumerate(of_passage))
            passage = Passage(f"{q}-{n}", "d", "", "", 0, 9, " ".join(of_passage), cut)
            hits.append(
                Candidate(Hit(f"q{q}", QUESTION, n + 1, 1.0, None, None, None, None, passage), None, n)
            )
        lists.append(RankedList(Question(f"q{q}", QUESTION), tuple(hits)))
    return lists


@torch.no_grad()
def vectors(peasi: PeasiModel, question: str, *sentences: str) -> list[Tensor]:
    """Each sentence's mean encoding [d], in float64, of one text: the question, and the sentences with
    nothing between."""
    encoder = peasi.easi_encoder or peasi.encoder
    tokens = tokeniser().pairs([(question, " ".join(sentences))]).pack()  # word pieces end at a space
    hidden = encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers).double()
    first = 2 + int(tokeniser().sizes([question])[0])
    means = []
    for size in tokeniser().sizes(sentences).tolist():
        means.append(hidden[first : first + size].mean(0))
        first += size
    assert first == len(hidden) - 1
    return means


@torch.no_grad()
def logits(peasi: PeasiModel, question: str, *sentences: str) -> list[float]:
    assert isinstance(peasi.easi, Span)
    return [
        float(peasi.easi(vector[None].to(peasi.easi.score.weight.dtype)))
        for vector in vectors(peasi, question, *sentences)
    ]


# What is read.


@given(st.lists(st.tuples(st.sampled_from(["", "a"]), st.integers(0, 9)), max_size=20), st.integers(1, 20))
def test_windows_hold_whole_sentences_in_order_and_as_many_as_fit(
    sentences: list[tuple[str, int]], room: int
) -> None:
    of_text, sizes = [text for text, _ in sentences], [size for _, size in sentences]
    split = [window.tolist() for window in whole_windows(of_text, sizes, room)]
    assert [n for window in split for n in window] == [n for n, text in enumerate(of_text) if text]
    used = [sum(sizes[n] for n in window) for window in split]
    assert all(size <= room or len(window) == 1 for size, window in zip(used, split, strict=True))
    assert all(size + sizes[later[0]] > room for size, later in zip(used, split[1:], strict=False))
    assert len(split) == 1 or all(split)


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 60))
def test_of_a_passage_that_is_too_long_only_a_sentence_longer_than_a_window_and_the_question_are_cut(
    lengths: list[int], of_question: int
) -> None:
    sentences, question = ["comet " * n for n in lengths], "river " * of_question
    _, numbers, pairs = read_windows(tokeniser(32), [(question, sentences)], None)
    room = 32 - 3 - min(of_question, 15)
    assert pairs.lengths.max() <= 32
    for window, sizes in zip(numbers, pairs.sizes[:, 3::2], strict=True):
        kept = sizes[: len(window)].tolist()
        assert kept == [lengths[n] for n in window] or (len(window) == 1 and kept[0] >= room)


def test_a_passage_that_fits_is_one_text_without_separators_between_its_sentences() -> None:
    passage, numbers, pairs = read_windows(
        tokeniser(), [(QUESTION, texts(5)), (QUESTION, []), (QUESTION, ["", "The comet."])], None
    )
    assert (passage.tolist(), [window.tolist() for window in numbers]) == (
        [0, 1, 2],
        [[0, 1, 2, 3, 4], [], [1]],
    )
    assert (
        pairs.pack([0]).ids.tolist()
        == tokeniser().pairs([(QUESTION, " ".join(texts(5)))]).pack().ids.tolist()
    )

    assert pairs.pack([1]).ids.tolist() == tokeniser().pairs([(QUESTION,)]).pack().ids.tolist()
    assert not pairs.cut.any()


# Scores.


@pytest.mark.parametrize("variant", WITH_EASI)
def test_a_sentence_is_scored_by_the_mean_of_its_own_tokens_and_the_softmax_goes_over_the_passage(
    variant: Variant,
) -> None:
    peasi = model(variant)
    reader, winners = PassageReader(peasi, tokeniser()), set()
    for seed in range(6):
        sentences = texts(5, seed)
        expected = logits(reader.model, QUESTION, *sentences)
        extracted = reader.sentences([AskedPassage(QUESTION, "", tuple(sentences))])
        best = int(np.argmax(expected))
        assert extracted.sentence.tolist() == [best]
        assert extracted.log_p.tolist() == pytest.approx(
            [expected[best] - math.log(sum(map(math.exp, expected)))], abs=1e-4
        )
        vector = vectors(reader.model, QUESTION, *sentences)[best]
        assert extracted.embedding[0].tolist() == pytest.approx(vector.tolist(), abs=1e-4)
        winners.add(best)

    assert len(winners) > 1


def test_the_softmax_goes_over_all_windows_of_a_passage_that_is_too_long() -> None:
    peasi, sentences = model(), texts(30)
    reader = PassageReader(peasi, tokeniser())
    _, numbers, _ = read_windows(tokeniser(), [(QUESTION, sentences)], None)
    assert len(numbers) > 2
    expected = [
        logit
        for window in numbers
        for logit in logits(reader.model, QUESTION, *(sentences[n] for n in window))
    ]

    extracted = reader.sentences([AskedPassage(QUESTION, "", tuple(sentences))])
    best = int(np.argmax(expected))
    assert (extracted.sentence.tolist(), len(expected)) == ([best], 30)
    assert extracted.log_p.tolist() == pytest.approx(
        [expected[best] - math.log(sum(map(math.exp, expected)))], abs=1e-4
    )
    spent = reader.costs()
    assert (spent["predictions"], spent["tokens_cut"]) == (len(numbers), 0)
    reader.sentences([AskedPassage(QUESTION, "", ("comet " * 100,))])

    assert reader.costs()["tokens_cut"] == 100 - (64 - 3 - 5)


@pytest.mark.parametrize(("variant", "head"), EVERY_FORM)
def test_scores_depend_neither_on_the_other_lists_nor_on_the_batch(
    variant: Variant, head: PassageHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    peasi, came = model(variant, head), random_lists(12, 1, 0, 7, 25)
    for kind in (PassageReranker, SentenceExtractor) if variant != "easi" else (SentenceExtractor,):
        stage = kind(peasi, tokeniser())
        together = stage.rerank(came)
        assert len({c.score for ranked in together for c in ranked.candidates}) > 10
        assert stage.rerank(came[::-1]) == together[::-1]
        assert [stage.rerank([ranked])[0] for ranked in came] == together
        with monkeypatch.context() as patch:
            patch.setattr(passage_reader, "BATCH_TOKENS", 100)
            assert stage.rerank(came) == together


def test_vectors_are_the_same_bits_in_every_batch() -> None:
    reader = PassageReader(model(), tokeniser())
    asked = [AskedPassage(QUESTION, "", tuple(texts(n % 9, n))) for n in range(40)]
    together = reader.sentences(asked)
    for n, each in enumerate(asked):
        alone = reader.sentences([each])
        assert torch.equal(alone.embedding[0], together.embedding[n])
        assert alone.sentence[0] == together.sentence[n]


@pytest.mark.parametrize(("variant", "head"), EVERY_FORM)
def test_a_checkpoint_comes_back_as_it_was(variant: Variant, head: PassageHead, tmp_path: Path) -> None:
    peasi = model(variant, head)
    peasi_model.save(tmp_path, peasi, tokeniser())
    assert json.loads((tmp_path / "config.json").read_text())["extractor"] == "span"
    came = random_lists(9)
    for kind in (PassageReranker, SentenceExtractor) if variant != "easi" else (SentenceExtractor,):
        stage = (
            SentenceExtractor(peasi, tokeniser(), scored_by=None)
            if kind is SentenceExtractor
            else kind(peasi, tokeniser())
        )
        assert load_reranker(kind.name, tmp_path, model=find_model).rerank(came) == stage.rerank(came)


# Learning.


def passage(question: str, n: int, *sentences: str, right: Sequence[int] = ()) -> LabelledPassage:
    cut = tuple(
        LabelledSentence(f"{question}-{n}@{i}", text, int(i in right)) for i, text in enumerate(sentences)
    )

    return LabelledPassage(
        question,
        f"What is {question}?",
        f"{question}-{n}",
        "d",
        "",
        " ".join(sentences),
        int(bool(right)),
        "window",
        cut,
    )


QUESTIONS = [
    [
        passage("apple", 0, "A river.", "An apple is a fruit.", right=[1]),
        passage("apple", 1, "A river.", "An engine."),
        passage("apple", 2, "Fruit.", "An engine.", "The apple is a fruit.", "", "A fruit.", right=[2, 4]),
        passage("apple", 3, *["A river of ice is a comet."] * 9, "An apple is a fruit.", right=[9]),
    ],
    [passage("comet", 0, "Ice.", "Ice and dust.", "No.", right=[0, 1]), passage("comet", 1, "A senate.")],
    [passage("violin", 0, "A lantern."), passage("violin", 1)],
]
FLAT = [row for rows in QUESTIONS for row in rows]


def task(peasi: PeasiModel, **settings: int) -> PassageTask:
    def save(folder: Path, trained: PeasiModel) -> None:
        peasi_model.save(folder, trained, tokeniser())

    options = PassageOptions(**{"tokens": 100_000, **settings})
    return PassageTask(PassageData.of(QUESTIONS, peasi, tokeniser()), peasi, QUESTIONS, save, options)


def log_probabilities(peasi: PeasiModel, row: LabelledPassage) -> Tensor:
    """log p(s | p) of the sentences that have text, in order."""
    _, numbers, _ = read_windows(tokeniser(), [(row.question, [s.text for s in row.sentences])], None)
    return torch.tensor(
        [
            logit
            for window in numbers
            for logit in logits(peasi, row.question, *(row.sentences[n].text for n in window))
        ]
    ).log_softmax(0)


@torch.no_grad()
@pytest.mark.parametrize(("variant", "head"), EVERY_FORM)
def test_the_loss_is_the_one_that_the_served_probabilities_have(variant: Variant, head: PassageHead) -> None:
    peasi = model(variant, head)
    learning = task(peasi)
    (batch,) = learning.batches(0)
    expected = []

    for row in FLAT:
        if row.label:
            right = torch.tensor([bool(s.label) for s in row.sentences if s.text])
            expected.append(-float(log_probabilities(peasi, row)[right].logsumexp(0)))

    loss = float(np.mean(expected))
    assert len(expected) == 4
    if variant != "easi":
        asked = [AskedPassage(row.question, row.text, tuple(s.text for s in row.sentences)) for row in FLAT]
        by_pr = torch.from_numpy(PassageReader(peasi, tokeniser()).passages(asked))
        loss += float(
            F.binary_cross_entropy_with_logits(
                by_pr, torch.tensor([float(row.label) for row in FLAT]).double()
            )
        )

    assert float(learning.loss(batch)) == pytest.approx(loss, rel=1e-2 if variant != "easi" else 1e-4)


@pytest.mark.parametrize(
    ("variant", "head"),
    [
        form
        if form in {("easi", "linear"), ("joint", "classifier")}
        else pytest.param(*form, marks=pytest.mark.nightly)
        for form in EVERY_FORM
    ],
)
def test_it_learns(variant: Variant, head: PassageHead, tmp_path: Path) -> None:
    torch.manual_seed(0)
    peasi = enlarged(PeasiModel(LayeredEncoder(SHAPE), variant, 1, head, "span"))
    recipe = Recipe(epochs=40, learning_rate=3e-3, schedule="constant", metric="MRR", evaluate_every=10)
    history = train(task(peasi), dev_lists(peasi, QUESTIONS), recipe, Output(tmp_path, "f"))
    assert history.evaluations[-1].loss < 0.6 * history.evaluations[0].loss
    assert history.best is not None and history.best.dev > 0.9


# Beginning.


def as2(folder: Path, pooling: Pooling = "mean") -> CascadeModel:
    torch.manual_seed(0)
    reranker = enlarged(CascadeModel(LayeredEncoder(SHAPE), (2,)))
    reranker.reading = Reading(pooling=pooling)
    cascade_model.save(folder, "pointwise", reranker, tokeniser())
    return reranker


def built(**settings: object) -> Built:
    inputs = TrainingInputs(
        PassageSettings(limit=64, **settings), Recipe(), QUESTIONS, QUESTIONS, model=find_model
    )  # type: ignore[arg-type]
    return build(inputs)


@pytest.mark.parametrize("variant", WITH_EASI)
def test_it_begins_with_the_classifier_of_the_cross_encoder(variant: Variant, tmp_path: Path) -> None:
    reranker = as2(tmp_path / "as2")
    begun = built(encoder=str(tmp_path / "as2"), variant=variant, extractor="span")
    assert "begun with as2, EASI with its classifier;" in begun.description
    peasi = begun.task.model
    assert isinstance(peasi, PeasiModel) and isinstance(peasi.easi, Span)
    known = reranker.classifiers[-1].state_dict()
    assert all(torch.equal(weight, known[name]) for name, weight in peasi.easi.state_dict().items())
    if variant != "easi":
        both = built(encoder=str(tmp_path / "as2"), variant=variant, extractor="span", pooling="mean")
        assert "begun with as2, PR and EASI with its classifier" in both.description


def test_a_classifier_of_the_first_token_is_not_taken_over(tmp_path: Path) -> None:
    as2(tmp_path / "as2", "first")
    assert (
        "classifier" not in built(encoder=str(tmp_path / "as2"), variant="easi", extractor="span").description
    )


def test_a_training_goes_on_with_the_extractor_of_its_checkpoint(tmp_path: Path) -> None:
    as2(tmp_path / "as2")
    built(encoder=str(tmp_path / "as2"), variant="easi", extractor="span").task.save(tmp_path / "easi")
    built(encoder=str(tmp_path / "as2"), variant="pr", pooling="mean").task.save(tmp_path / "pr")
    joint = built(encoder=str(tmp_path / "pr"), variant="joint", easi=str(tmp_path / "easi")).task.model
    assert isinstance(joint, PeasiModel) and isinstance(joint.easi, Span) and joint.head == "classifier"
    easi, _ = peasi_model.load(tmp_path / "easi")
    assert isinstance(easi.easi, Span) and joint.easi_encoder is not None
    assert torch.equal(joint.easi.score.weight, easi.easi.score.weight)
    assert torch.equal(joint.easi_encoder.words.weight, easi.encoder.words.weight)

    came = random_lists(9)
    assert SentenceExtractor(joint, tokeniser()).rerank(came) == SentenceExtractor(easi, tokeniser()).rerank(
        came
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"variant": "pr", "extractor": "span"},
            "peasi.extractor is EASI's, and variant 'pr' has none; leave it out",
        ),
        ({"variant": "easi", "extractor": "span", "slots": 3}, "peasi.slots is of extractor 'slots'"),
        (
            {"variant": "easi", "extractor": "slots", "encoder": "easi"},
            "with extractor 'span'; leave out peasi.extractor",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], says: str, tmp_path: Path) -> None:
    as2(tmp_path / "as2")
    built(encoder=str(tmp_path / "as2"), variant="easi", extractor="span").task.save(tmp_path / "easi")
    with pytest.raises(ValueError, match=says):
        built(**settings | {"encoder": str(tmp_path / str(settings.get("encoder", "as2")))})
