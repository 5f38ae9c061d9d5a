"""PEASI's models and stages, with small random transformers and the default tokenizer, against the paper's
formulas."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from answermill.files.model_files import SUMS
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.entry import StageBefore
from answermill.ranking.evaluation.calibration import UNCALIBRATED, Calibration
from answermill.ranking.plan import Stage, run_stages, to_passages, to_sentences
from answermill.ranking.reranker import ScoreNotFinite
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel
from answermill.ranking.rerankers.cascade.cascade_model import save as save_cascade
from answermill.ranking.rerankers.peasi import ExtractorStage, Score, passage_reader
from answermill.ranking.rerankers.peasi.answer_logit import answer_logit
from answermill.ranking.rerankers.peasi.passage_ranker import LinearRanker
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader
from answermill.ranking.rerankers.peasi.peasi import PassageReranker, SentenceExtractor, TopPassage
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel, Variant, load, save
from answermill.ranking.rerankers.peasi.slots import Slots
from answermill.ranking.rerankers.peasi.windows import windows
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.transformer_checkpoint import BodySource, StoredForm
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList

SHAPE = Shape(layers=2, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
NOUNS = ["apple", "river", "engine", "violin", "glacier", "senate", "comet", "harvest", "lantern", "vaccine"]
QUESTION = "Which comet is it?"
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@cache
def tokeniser(limit: int = 64) -> Tokeniser:
    return Tokeniser(find_model(DEFAULT), limit)


def model(variant: Variant = "joint", slots: int = 3, seed: int = 0) -> PeasiModel:
    """Random, with weights so large that scores differ."""
    torch.manual_seed(seed)
    peasi = PeasiModel(LayeredEncoder(SHAPE), variant, slots)
    for weight in peasi.parameters():
        weight.data *= 4
    return peasi.eval()


def passage(name: str, *sentences: str, ids: Sequence[str] = ()) -> Passage:
    cut = tuple(
        Sentence(sentence_id, n, n + 1, text)
        for n, (sentence_id, text) in enumerate(
            zip(ids or [f"{name}@{n}" for n in range(len(sentences))], sentences, strict=True)
        )
    )
    return Passage(name, "d", "", "", 0, 9, " ".join(sentences), cut)


def ranked(*passages: Passage, question: str = "q", text: str = QUESTION) -> RankedList:
    hits = (Hit(question, text, n, 1 / n, None, None, None, None, each) for n, each in enumerate(passages, 1))
    return RankedList(Question(question, text), tuple(Candidate(hit, None, hit.rank - 1) for hit in hits))


def texts(n: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(NOUNS, random.integers(1, 6))) for _ in range(n)]


def random_lists(*counts: int) -> list[RankedList]:
    """A list for each count of passages; a passage has up to eight sentences, or none."""
    return [
        ranked(
            *(passage(f"{q}-{n}", *texts((3 * n + q) % 9, 100 * q + n)) for n in range(count)),
            question=f"q{q}",
        )
        for q, count in enumerate(counts)
    ]


def ids(ranked_candidates: RankedList) -> list[str]:
    return [c.candidate_id for c in ranked_candidates.candidates]


def scores(ranked_candidates: RankedList) -> dict[str, float]:
    return {c.candidate_id: c.score for c in ranked_candidates.candidates}


@torch.no_grad()
def first_token(encoder: LayeredEncoder, *members: str, limit: int = 64) -> Tensor:
    """E of one tuple of texts [d], in float64."""
    tokens = tokeniser(limit).pairs([members]).pack()
    return encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers)[0].double()


def easi_logits(peasi: PeasiModel, *window: str) -> list[float]:
    assert isinstance(peasi.easi, Slots)
    embedding = first_token(peasi.easi_encoder or peasi.encoder, QUESTION, *window)
    return (peasi.easi.weight.double() @ embedding)[: len(window)].tolist()


def aim(peasi: PeasiModel, logits: Sequence[float], *window: str, limit: int = 64) -> None:
    """Make EASI give these logits to the sentences of this window."""
    assert isinstance(peasi.easi, Slots)
    serving = peasi.for_inference("cpu")
    embedding = first_token(serving.easi_encoder or serving.encoder, QUESTION, *window, limit=limit)
    peasi.easi.weight.data[: len(logits)] = torch.outer(
        torch.tensor(logits), (embedding / embedding.square().sum()).float()
    )


# Windows.


@pytest.mark.parametrize(
    ("sentences", "slots", "split"),
    [
        ((), 3, [[]]),
        (("", " \n"), 3, [[]]),
        (("a",), 1, [[0]]),
        (("a", "b", "c"), 3, [[0, 1, 2]]),
        (("a", "b", "c", "d"), 3, [[0, 1], [2, 3]]),
        (("a", "", "c", " ", "e"), 3, [[0, 2, 4]]),
        (("a", "", "c", "d", "e"), 3, [[0, 2], [3, 4]]),
    ],
)
def test_sentences_with_text_are_split_into_windows_of_much_the_same_size(sentences, slots, split) -> None:
    assert [window.tolist() for window in windows(sentences, slots)] == split


def test_sixty_sentences_are_five_windows_of_twelve() -> None:
    assert [window.tolist() for window in windows(["s"] * 60, 12)] == [
        list(range(n, n + 12)) for n in range(0, 60, 12)
    ]
    assert [len(window) for window in windows(["s"] * 61, 12)] == [11, 10, 10, 10, 10, 10]


@given(st.lists(st.sampled_from(["", " ", "a", "b"]), max_size=80), st.integers(1, 15))
def test_windows_hold_each_sentence_with_text_once_in_order(sentences: list[str], slots: int) -> None:
    split = windows(sentences, slots)
    sizes = [len(window) for window in split]
    assert [n for window in split for n in window.tolist()] == [
        n for n, s in enumerate(sentences) if s.strip()
    ]
    assert max(sizes) <= slots and max(sizes) - min(sizes) <= 1
    assert len(split) == max(1, math.ceil(sum(sizes) / slots))


# EASI (§2.2).


@pytest.mark.parametrize("variant", ["easi", "mtl0", "mtl1", "joint"])
def test_easi_is_the_softmax_of_w_times_the_first_token(variant: Variant) -> None:
    reader = PassageReader(model(variant), tokeniser())
    sentences = ("apple river", "comet", "the violin of a glacier")
    logits = easi_logits(reader.model, *sentences)
    extracted = reader.sentences([AskedPassage(QUESTION, "", sentences)])
    best = int(np.argmax(logits))
    assert extracted.sentence.tolist() == [best]
    assert extracted.log_p.tolist() == pytest.approx(
        [math.log(math.exp(logits[best]) / sum(map(math.exp, logits)))]
    )
    assert len({round(logit, 3) for logit in logits}) == 3


def test_the_softmax_goes_over_all_windows_and_the_best_window_wins() -> None:
    reader = PassageReader(model("easi"), tokeniser())
    winners = set()
    for seed in range(8):
        sentences = texts(7, seed)
        split = [sentences[:3], sentences[3:5], sentences[5:]]
        logits = [logit for window in split for logit in easi_logits(reader.model, *window)]
        extracted = reader.sentences([AskedPassage(QUESTION, "", tuple(sentences))])
        best = int(np.argmax(logits))
        assert extracted.sentence.tolist() == [best]
        assert extracted.log_p.tolist() == pytest.approx(
            [logits[best] - math.log(sum(map(math.exp, logits)))]
        )

        window = next(window for window in split if sentences[best] in window)
        assert extracted.embedding[0].tolist() == pytest.approx(
            first_token(reader.model.encoder, QUESTION, *window).tolist()
        )
        winners.add(best)

    assert min(winners) < 3 and max(winners) >= 3


@given(
    st.lists(st.sampled_from(["", " ", *NOUNS, "a glacier in the river", "\u200b"]), max_size=9),
    st.integers(1, 4),
)
def test_whatever_the_sentences_one_that_has_tokens_is_extracted(sentences: list[str], slots: int) -> None:
    reader = PassageReader(model("easi", slots), tokeniser())
    extracted = reader.sentences(
        [AskedPassage(QUESTION, "", tuple(sentences)), AskedPassage(QUESTION, "", ("comet",))]
    )
    spoken = [n for n, text in enumerate(sentences) if text.strip() and text != "\u200b"]
    if spoken:
        assert extracted.sentence[0] in spoken
        assert math.log(1e-9) < extracted.log_p[0] <= 1e-12
        assert (extracted.log_p[0] == pytest.approx(0)) == (len(spoken) == 1)
    else:
        assert extracted.sentence[0] == -1 and extracted.log_p[0] == 0
    assert (extracted.sentence[1], extracted.log_p[1]) == (0, pytest.approx(0))


def test_of_equal_sentences_the_first_is_extracted() -> None:
    easi = model("easi")
    assert isinstance(easi.easi, Slots)
    easi.easi.weight.data.zero_()
    extracted = PassageReader(easi, tokeniser()).sentences(
        [AskedPassage(QUESTION, "", ("", "apple", "river", "comet", "violin"))]
    )
    assert extracted.sentence.tolist() == [1]
    assert extracted.log_p.tolist() == pytest.approx([-math.log(4)])


def test_a_sentence_that_lost_all_its_tokens_is_never_extracted() -> None:
    sentences = ("comet " * 30, "apple", "river")

    whole = 1 + 5 + 1 + 32 + 3  # [CLS], the question, its [SEP], the sentences and theirs
    for limit, best, cut in (
        (64, 2, 0),
        (whole, 2, 0),
        (whole - 1, 1, 1),
        (whole - 2, 0, 2),
        (whole - 20, 0, 20),
    ):
        easi = model("easi")
        aim(easi, (0.0, 1.0, 5.0), *sentences, limit=limit)  # the later the better
        reader = PassageReader(easi, tokeniser(limit))
        assert reader.sentences([AskedPassage(QUESTION, "", sentences)]).sentence.tolist() == [best]
        assert reader.costs()["tokens_cut"] == cut


def test_passages_of_any_length_are_read_and_what_is_cut_is_counted() -> None:
    reader = PassageReader(model("easi", 6), tokeniser())
    long = "comet " * 1_000
    passages = [(), ("",), ("comet",), tuple(texts(60)), (long,), (long, "apple"), ("", "apple", " ")]
    extracted = reader.sentences([AskedPassage(QUESTION, "", each) for each in passages])
    assert extracted.sentence.tolist()[:3] == [-1, -1, 0]
    assert 0 <= extracted.sentence[3] < 60
    assert extracted.sentence.tolist()[4:] == [0, 0, 1]
    assert not extracted.log_p[:2].any()
    assert extracted.log_p[[2, 4, 5, 6]] == pytest.approx(0)  # the only sentence that has tokens

    assert extracted.log_p[3] < math.log(0.9)
    spent = reader.costs()
    assert spent["predictions"] == 1 + 1 + 1 + 10 + 1 + 1 + 1
    assert 2 * (1_000 - 64) < spent["tokens_cut"] < 2 * 1_000
    assert spent["layer_predictions"] == 2 * spent["predictions"]
    assert spent["layer_tokens"] == 2 * spent["tokens"] > 0
    assert not reader.costs()


def test_embeddings_of_passages_without_sentences_are_of_the_question_alone() -> None:
    reader = PassageReader(model(), tokeniser())
    extracted = reader.sentences([AskedPassage(QUESTION, "", ("comet",)), AskedPassage(QUESTION, "", ())])
    assert reader.model.easi_encoder is not None
    assert extracted.embedding[1].tolist() == pytest.approx(
        first_token(reader.model.easi_encoder, QUESTION).tolist()
    )


# PR (§2.1) and PR ⊕ EASI (§2.3).


def test_pr_is_w_times_tanh_of_the_first_token() -> None:
    reranker = PassageReranker(model("pr"), tokeniser())
    serving = model("pr").for_inference("cpu")
    assert isinstance(serving.pr, LinearRanker)
    came = ranked(*(passage(f"p{n}", *texts(2, n)) for n in range(5)))
    (left,) = reranker.rerank([came])
    for candidate in left.candidates:
        read = first_token(serving.encoder, QUESTION, candidate.text).tanh()
        logit = float(serving.pr.weight[0] @ read + serving.pr.bias[0])
        assert candidate.score == pytest.approx(logit, abs=1e-6)
    assert len(set(scores(left).values())) == 5


def test_the_joint_score_reads_the_embedding_of_the_window_with_the_best_sentence_too() -> None:
    joint = model("joint", 2)
    serving = joint.for_inference("cpu")
    assert isinstance(serving.pr, LinearRanker) and serving.easi_encoder is not None
    chosen = set()

    for seed in range(6):
        sentences = texts(4, seed)
        split = [sentences[:2], sentences[2:]]
        (left,) = PassageReranker(joint, tokeniser()).rerank([ranked(passage("p", *sentences))])
        logits = [max(easi_logits(serving, *window)) for window in split]
        window = split[int(np.argmax(logits))]
        read = (
            first_token(serving.encoder, QUESTION, " ".join(sentences)),
            first_token(serving.easi_encoder, QUESTION, *window),
        )
        logit = float(serving.pr.weight[0] @ torch.cat(read).tanh() + serving.pr.bias[0])
        assert left.candidates[0].score == pytest.approx(logit, abs=1e-6)
        chosen.add(int(np.argmax(logits)))

    assert chosen == {0, 1}


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_depend_neither_on_the_other_lists_nor_on_the_batch(
    variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    peasi = model(variant)

    came = random_lists(12, 1, 0, 7, 25)
    for kind in (PassageReranker, SentenceExtractor):
        if (kind, variant) in ((PassageReranker, "easi"), (SentenceExtractor, "pr")):
            continue
        stage = kind(peasi, tokeniser())
        together = stage.rerank(came)
        assert len({s for each_list in together for s in scores(each_list).values()}) > 10
        assert stage.rerank(came[::-1]) == together[::-1]
        assert [stage.rerank([each])[0] for each in came] == together
        with monkeypatch.context() as patch:
            patch.setattr(passage_reader, "BATCH_TOKENS", 100)
            assert stage.rerank(came) == together


def test_costs_count_passages_for_pr_and_windows_for_easi() -> None:
    came = ranked(passage("a", *texts(7)), passage("b"), passage("c", *texts(3)))
    pr, easi, joint = (
        PassageReranker(model("pr"), tokeniser()),
        SentenceExtractor(model("easi"), tokeniser()),
        model("joint"),
    )
    pr.rerank([came])
    easi.rerank([came])
    assert (pr.costs()["predictions"], easi.costs()["predictions"]) == (3, 3 + 1 + 1)

    both = PassageReranker(joint, tokeniser())
    both.rerank([came])
    spent = both.costs()
    assert spent["predictions"] == 3 + 5 and spent["layer_predictions"] == 2 * 8
    assert not pr.costs() and not easi.costs() and not both.costs()


# Variants.


def test_a_stage_refuses_a_checkpoint_that_lacks_its_part() -> None:
    with pytest.raises(ValueError, match="'pr', which extracts no sentence"):
        SentenceExtractor(model("pr"), tokeniser())
    with pytest.raises(ValueError, match="'easi', which has no passage reranker"):
        PassageReranker(model("easi"), tokeniser())
    with pytest.raises(ValueError, match="0 slots; EASI needs at least one"):
        model("easi", 0)


def test_a_joint_model_that_begins_with_pr_scores_as_pr_does() -> None:
    alone, joint = model("pr"), model("joint", seed=1)
    joint.encoder.load_state_dict(alone.encoder.state_dict())
    came = random_lists(9)
    assert PassageReranker(joint, tokeniser()).rerank(came) != PassageReranker(alone, tokeniser()).rerank(
        came
    )
    joint.take_passage_head(alone)
    assert PassageReranker(joint, tokeniser()).rerank(came) == PassageReranker(alone, tokeniser()).rerank(
        came
    )


def test_pr_takes_from_a_joint_head_the_part_that_reads_passages() -> None:
    alone, joint, other = model("pr"), model("joint", seed=1), model("joint", seed=2)
    alone.take_passage_head(joint)
    other.take_passage_head(joint)
    assert all(isinstance(peasi.pr, LinearRanker) for peasi in (alone, joint, other))
    of_alone, of_joint, of_other = (peasi.state_dict() for peasi in (alone, joint, other))
    assert torch.equal(of_alone["passage.weight"], of_joint["passage.weight"][:, :16])
    assert torch.equal(of_alone["passage.bias"], of_joint["passage.bias"])
    assert torch.equal(of_other["passage.weight"], of_joint["passage.weight"])


def test_an_easi_goes_on_with_the_first_slots_of_another_that_has_enough() -> None:
    with pytest.raises(ValueError, match="its EASI has 3 slots, not 5; give slots of at most 3"):
        model("joint", 5).take_sentence_head(model("easi", 3))
    joint, easi = model("joint", 3), model("easi", 5, seed=1)
    joint.take_sentence_head(easi)
    assert torch.equal(joint.state_dict()["sentence.weight"], easi.state_dict()["sentence.weight"][:3])
    model("pr").take_sentence_head(easi)  # has none to take it


# Checkpoints.


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_checkpoint_comes_back_as_it_was(variant: Variant, tmp_path: Path) -> None:
    peasi = model(variant, 5)
    peasi.calibration = Calibration((0.75,), -0.125)
    save(tmp_path, peasi, tokeniser())
    back, with_tokeniser = load(tmp_path)
    assert (back.variant, back.slots, back.calibration) == (variant, 5, peasi.calibration)
    assert with_tokeniser.limit == 64 and not back.training
    assert back.state_dict().keys() == peasi.state_dict().keys()
    assert all(torch.equal(value, peasi.state_dict()[name]) for name, value in back.state_dict().items())
    came = random_lists(6)

    for kind in (PassageReranker, SentenceExtractor):
        if (kind is PassageReranker and peasi.pr is not None) or (
            kind is SentenceExtractor and peasi.easi is not None
        ):
            assert load_reranker(kind.name, tmp_path, model=find_model).rerank(came) == kind(
                peasi, tokeniser()
            ).rerank(came)


@pytest.mark.parametrize("variant", [pytest.param("mtl1", marks=pytest.mark.nightly), "joint"])
def test_both_transformers_find_their_word_embeddings_at_their_source(
    variant: Variant, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    folder = find_model(DEFAULT)
    peasi = PeasiModel(LayeredEncoder.load(folder, 1), variant, 3)
    assert peasi.easi_encoder is not None
    peasi.easi_encoder.words.load_state_dict(peasi.encoder.words.state_dict())
    save(tmp_path, peasi, tokeniser(), StoredForm("fp16", BodySource.read(DEFAULT, folder)))
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", SUMS}
    assert (tmp_path / "model.safetensors").stat().st_size < 2 * 1.2 * 2 * 2_000_000  # two layers, two bytes
    back, _ = load(tmp_path, find_model)
    assert back.easi_encoder is not None and back.calibration is None

    for encoder in (back.encoder, back.easi_encoder):
        assert torch.equal(encoder.words.weight, peasi.encoder.words.weight)
    for name, value in back.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.allclose(value, peasi.state_dict()[name], rtol=1e-3, atol=1e-6), name


def test_one_transformer_takes_less_room_than_two(tmp_path: Path) -> None:
    for variant in ("mtl0", "mtl1"):
        save(tmp_path / variant, model(variant), tokeniser())
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("mtl0", "mtl1")]
    assert 1.9 * sizes[0] < sizes[1]


def test_a_checkpoint_of_another_model_or_without_its_weights_is_refused(tmp_path: Path) -> None:
    save_cascade(tmp_path / "cascade", "pointwise", CascadeModel(LayeredEncoder(SHAPE), (2,)), tokeniser())
    with pytest.raises(ValueError, match="holds 'pointwise'; give one of peasi"):
        load_reranker("peasi.pr", tmp_path / "cascade")
    save(tmp_path / "pr", model("pr"), tokeniser())
    with pytest.raises(ValueError, match="'pr', which extracts no sentence"):
        load_reranker("peasi.easi", tmp_path / "pr")
    config = json.loads((tmp_path / "pr" / "config.json").read_text())
    (tmp_path / "pr" / "config.json").write_text(json.dumps(config | {"variant": "mtl0"}))
    (tmp_path / "pr" / SUMS).unlink()

    with pytest.raises(ValueError, match="does not fit config"):
        load(tmp_path / "pr")
    with pytest.raises(ValueError, match="is no checkpoint of peasi"):
        load(tmp_path / "absent")


# The extractor in a plan.


@pytest.mark.parametrize("calibration", [None, Calibration((2.0,), 0.5)])
def test_the_score_is_the_confidence_where_pr_has_scored_and_p_of_the_sentence_elsewhere(calibration) -> None:
    peasi = model("mtl1")
    peasi.calibration = calibration
    came = ranked(*(passage(f"p{n}", *texts(4, n)) for n in range(6)))
    (by_pr,) = PassageReranker(peasi, tokeniser()).rerank([came])
    (unsure,) = SentenceExtractor(peasi, tokeniser()).rerank([came])
    (left,) = SentenceExtractor(peasi, tokeniser()).rerank([by_pr])
    extracted = PassageReader(peasi, tokeniser()).sentences(
        [AskedPassage.from_candidate(by_pr, c) for c in by_pr.candidates]
    )

    (weight,), bias = ((1.0,), 0.0) if calibration is None else (calibration.weights, calibration.bias)
    for candidate, sentence, log_p in zip(by_pr.candidates, extracted.sentence, extracted.log_p, strict=True):
        sentence_id = f"{candidate.candidate_id}@{sentence}"
        p = math.exp(log_p) / (1 + math.exp(-candidate.score))
        logit = weight * math.log(p / (1 - p)) + bias
        assert scores(left)[sentence_id] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)
        assert scores(unsure)[sentence_id] == pytest.approx(math.exp(log_p), abs=1e-6)

    assert [s.stage for s in left.candidates[0].stages] == ["peasi.pr", "peasi.easi"]
    assert len(set(scores(left).values())) == 6


def test_the_latest_score_of_pr_counts() -> None:
    peasi = model("mtl1")
    (once,) = PassageReranker(model("pr", seed=3), tokeniser()).rerank(random_lists(5))
    (again,) = PassageReranker(peasi, tokeniser()).rerank([once])
    (only,) = PassageReranker(peasi, tokeniser()).rerank(random_lists(5))
    extractor = SentenceExtractor(peasi, tokeniser())
    assert (
        scores(extractor.rerank([again])[0])
        == scores(extractor.rerank([only])[0])
        != scores(extractor.rerank([once])[0])
    )


def test_below_the_threshold_nothing_is_returned() -> None:
    peasi = model("mtl1")
    (by_pr,) = PassageReranker(peasi, tokeniser()).rerank(
        [ranked(*(passage(f"p{n}", *texts(3, n)) for n in range(5)))]
    )
    (everything,) = SentenceExtractor(peasi, tokeniser()).rerank([by_pr])
    confidences = sorted(scores(everything).values(), reverse=True)
    assert len(set(confidences)) == 5
    for stay in range(1, 6):
        (some,) = SentenceExtractor(peasi, tokeniser(), confidences[stay - 1] - 1e-6).rerank([by_pr])
        assert some.candidates == everything.candidates[:stay]
    assert SentenceExtractor(peasi, tokeniser(), 1.0).rerank([by_pr]) == [RankedList(by_pr.question, ())]
    assert SentenceExtractor(peasi, tokeniser(), 0.0).rerank([by_pr]) == [everything]


def test_scores_that_are_published_as_equal_are_equal_to_the_extractor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The earlier passage gives a sentence of two, and what is published as the threshold passes it."""
    came = ranked(passage("p0", "comet", ids=["s"]), passage("p1", "comet", ids=["s"]))

    def unrounded(*_: object) -> tuple[np.ndarray, np.ndarray]:
        return np.array([0.5 - 2e-8, 0.5 - 1e-8]), np.array([0.5 - 2e-8, 0.5 - 1e-8])

    monkeypatch.setattr(SentenceExtractor, "_scores", unrounded)
    (left,) = SentenceExtractor(model("mtl1"), tokeniser(), 0.5).rerank([came])
    assert [(c.hit.passage.passage_id, c.candidate_id, c.score) for c in left.candidates] == [
        ("p0", "s", 0.5)
    ]


def test_a_threshold_comes_with_its_stage(tmp_path: Path) -> None:
    save(tmp_path, model("mtl1"), tokeniser())
    (by_pr,) = load_reranker("peasi.pr", tmp_path).rerank(random_lists(4))
    assert (
        load_reranker("peasi.easi", tmp_path, before=[StageBefore("peasi.pr", "peasi.pr")])
        .rerank([by_pr])[0]
        .candidates
    )
    assert (
        not load_reranker("peasi.easi", tmp_path, threshold=1.0, before=[StageBefore("peasi.pr", "peasi.pr")])
        .rerank([by_pr])[0]
        .candidates
    )


def test_a_threshold_without_pr_s_scores_is_refused() -> None:
    extractor = SentenceExtractor(model("mtl1"), tokeniser(), 0.5)
    with pytest.raises(ValueError, match="needs the passages' scores of peasi"):
        extractor.rerank([ranked(passage("p", "comet"))])
    empty = ranked(passage("p"))
    assert extractor.rerank([empty]) == [RankedList(empty.question, ())]


@pytest.mark.parametrize("calibration", [None, Calibration((2.0,), 0.5)])
def test_the_log_product_is_the_score_where_it_is_asked_for_and_the_threshold_is_of_the_confidence(
    calibration,
) -> None:
    peasi = model("mtl1")
    peasi.calibration = calibration
    (by_pr,) = PassageReranker(peasi, tokeniser()).rerank(
        [ranked(*(passage(f"p{n}", *texts(4, n)) for n in range(6)))]
    )
    (by_confidence,) = SentenceExtractor(peasi, tokeniser()).rerank([by_pr])
    (left,) = SentenceExtractor(peasi, tokeniser(), score="log_product").rerank([by_pr])
    extracted = PassageReader(peasi, tokeniser()).sentences(
        [AskedPassage.from_candidate(by_pr, c) for c in by_pr.candidates]
    )
    for candidate, sentence, log_p in zip(by_pr.candidates, extracted.sentence, extracted.log_p, strict=True):
        expected = log_p - math.log(1 + math.exp(-candidate.score))
        assert scores(left)[f"{candidate.candidate_id}@{sentence}"] == pytest.approx(expected, abs=1e-6)

    assert ids(left) == ids(by_confidence) and len(left.candidates) == 6
    middle = by_confidence.candidates[2].score
    (sure,) = SentenceExtractor(peasi, tokeniser(), middle - 1e-6, score="log_product").rerank([by_pr])
    assert sure.candidates == left.candidates[:3]


def test_answers_whose_confidences_round_to_one_number_keep_their_order_by_the_log_product() -> None:
    peasi = model("mtl1")
    peasi.calibration = Calibration((1.0,), -36.0)  # nothing is likely
    (by_pr,) = PassageReranker(peasi, tokeniser()).rerank(
        [ranked(*(passage(f"p{n}", *texts(4, n)) for n in range(6)))]
    )
    (even,) = SentenceExtractor(peasi, tokeniser()).rerank([by_pr])
    (left,) = SentenceExtractor(peasi, tokeniser(), score="log_product").rerank([by_pr])
    assert set(scores(even).values()) == {0.0} and len(set(scores(left).values())) == 6


def test_log_odds_tell_likely_passages_apart() -> None:
    peasi = model("mtl1")
    sure = PassageReranker(peasi, tokeniser()).rerank(
        [ranked(*(passage(f"p{n}", *texts(4, n)) for n in range(6)))]
    )[0]

    # p(q, p) = 1 in float64.
    stages = [replace(c.stages[-1], score=60.0 + 10 * n) for n, c in enumerate(sure.candidates)]
    sure = replace(
        sure, candidates=tuple(replace(c, stages=(s,)) for c, s in zip(sure.candidates, stages, strict=True))
    )
    (by_product,) = SentenceExtractor(peasi, tokeniser(), score="log_product").rerank([sure])
    (by_odds,) = SentenceExtractor(peasi, tokeniser(), score="log_odds").rerank([sure])
    of_passages = dict(zip([c.candidate_id for c in sure.candidates], [s.score for s in stages], strict=True))
    gains = {name: score - scores(by_product)[name] for name, score in scores(by_odds).items()}
    assert gains == pytest.approx({name: of_passages[name.partition("@")[0]] for name in gains}, abs=1e-6)
    assert [name.partition("@")[0] for name in ids(by_odds)] == [
        c.candidate_id for c in reversed(sure.candidates)
    ]


@pytest.mark.parametrize("score", ["log_product", "log_odds"])
def test_product_and_odds_come_with_their_stage_and_need_pr_s_scores(score: Score, tmp_path: Path) -> None:
    save(tmp_path, model("mtl1"), tokeniser())
    (by_pr,) = load_reranker("peasi.pr", tmp_path).rerank(random_lists(4))
    before = [StageBefore("peasi.pr", "peasi.pr")]
    (left,) = load_reranker("peasi.easi", tmp_path, score=score, before=before).rerank([by_pr])
    assert left == SentenceExtractor(model("mtl1"), tokeniser(), score=score).rerank([by_pr])[0]
    with pytest.raises(ValueError, match=r"`score` of peasi\.easi needs passages that peasi\.pr has scored"):
        ExtractorStage(reranker="peasi.easi", score=score).check_scores([])
    with pytest.raises(ValueError, match=f"`score` = '{score}' needs the passages' scores of peasi"):
        SentenceExtractor(model("mtl1"), tokeniser(), score=score).rerank([ranked(passage("p", "comet"))])


def test_a_passage_without_sentences_leaves_and_a_list_of_such_is_empty() -> None:
    left = SentenceExtractor(model(), tokeniser()).rerank(
        [ranked(passage("a"), passage("b", "comet"), passage("c", " ")), ranked(passage("d"))]
    )
    assert [ids(remaining) for remaining in left] == [["b@0"], []]


def test_a_sentence_that_is_the_best_of_two_passages_comes_once_from_where_it_scores_higher() -> None:
    easi = model("easi")
    aim(easi, (0.0, -3.0), "comet", "apple")
    wide = passage("wide", "comet", "apple", ids=("x", "y"))
    alone, twin = passage("alone", "comet", ids=("x",)), passage("twin", "comet", ids=("x",))
    extractor = SentenceExtractor(easi, tokeniser())

    for order in ((wide, alone, twin), (alone, wide, twin), (alone, twin, wide)):
        (left,) = extractor.rerank([ranked(*order)])
        assert [(c.candidate_id, c.hit.passage.passage_id, c.score) for c in left.candidates] == [
            ("x", "alone", 1.0)
        ]

    (left,) = extractor.rerank([ranked(twin, alone)])
    assert left.candidates[0].hit.passage.passage_id == "twin"
    (left,) = extractor.rerank([ranked(wide)])
    assert left.candidates[0].score == pytest.approx(1 / (1 + math.exp(-3)), abs=0.01)


@pytest.mark.parametrize(
    ("variant", "for_passages", "for_sentences"), [("mtl0", 1, 1), ("mtl1", 1, 1), ("joint", 2, 1)]
)
def test_a_stage_holds_only_the_transformers_that_it_reads(
    variant: Variant, for_passages: int, for_sentences: int
) -> None:
    peasi, came = model(variant), random_lists(4)
    asked = [AskedPassage.from_candidate(came[0], c) for c in came[0].candidates]
    whole = PassageReader(peasi, tokeniser())
    pr, easi = (
        PassageReader(peasi, tokeniser(), sentences=False),
        PassageReader(peasi, tokeniser(), passages=False),
    )
    for reader, held in ((pr, for_passages), (easi, for_sentences)):
        assert sum(isinstance(module, LayeredEncoder) for module in reader.model.modules()) == held
    assert np.array_equal(pr.passages(asked), whole.passages(asked))
    assert np.array_equal(easi.sentences(asked).sentence, whole.sentences(asked).sentence)


def test_what_a_stage_has_dropped_is_read_and_not_extracted() -> None:
    extractor = SentenceExtractor(model("easi"), tokeniser())
    whole = ranked(passage("p", *texts(5)))
    (best,) = extractor.rerank([whole])
    (came,) = Overlap().rerank([to_sentences(whole)])
    others = tuple(c for c in came.candidates if c.candidate_id != best.candidates[0].candidate_id)
    (second,) = extractor.rerank([to_passages(RankedList(whole.question, others))])
    assert second.candidates[0].candidate_id in {c.candidate_id for c in others}
    assert 0 < second.candidates[0].score < best.candidates[0].score < 1
    everything = RankedList(whole.question, came.candidates)
    (again,) = extractor.rerank([to_passages(everything)])
    assert (ids(again), again.candidates[0].score) == (ids(best), best.candidates[0].score)


def test_positions_are_those_that_the_sentences_of_the_list_have() -> None:
    shared = passage("b", "comet", "violin", ids=("a@2", "b@1"))
    came = ranked(passage("a", "apple", "river", "comet"), shared, passage("c", *texts(5)))
    reordered = RankedList(came.question, came.candidates[::-1])
    known = {c.candidate_id: c.position for c in to_sentences(came).candidates}
    seen = set()
    for seed in range(12):
        (left,) = SentenceExtractor(model("easi", seed=seed), tokeniser()).rerank([reordered])
        assert all(c.position == known[c.candidate_id] for c in left.candidates)
        seen.update(ids(left))
    assert len(seen) > 5


def test_in_a_plan_each_candidate_ends_as_one_row_of_where_it_was_last() -> None:
    peasi = model("mtl1")
    assert isinstance(peasi.easi, Slots)
    peasi.easi.weight.data.zero_()  # the first sentence of each passage
    came = ranked(
        passage("p", "An apple.", "A comet it is.", "Which river?"),
        passage("q", "Which comet?", "A senate."),
        passage("r", "A comet it is.", "No."),
        passage("s", "Nothing of that.", "Never."),
    )
    (overlap,) = Overlap().rerank([to_sentences(came)])
    there = ids(overlap)[:4]
    assert set(there) == {"p@1", "p@2", "q@0", "r@0"}  # s is out, p@0 is not among them

    plan = [
        Stage("overlap", Overlap(), 4),
        Stage("peasi.pr", PassageReranker(peasi, tokeniser()), 2),
        Stage("peasi.easi", SentenceExtractor(peasi, tokeniser())),
    ]
    (outcome,) = run_stages([came], plan)
    three = RankedList(came.question, came.candidates[:3])
    best = ids(PassageReranker(peasi, tokeniser()).rerank([three])[0])
    assert best[2] != "p"  # whose first sentence overlap has dropped

    rows = outcome.rows()
    fates = {row.candidate_id: (row.fate, row.dropped_by) for row in rows}
    assert len(fates) == len(rows)
    kept = {"p@1" if name == "p" else f"{name}@0" for name in best[:2]}
    assert {key for key, fate in fates.items() if fate == ("kept", None)} == kept == set(ids(outcome.kept))
    assert {key for key, fate in fates.items() if fate == ("dropped", "peasi.pr")} == {best[2]}
    assert {key for key, fate in fates.items() if fate == ("grouped", None)} == set(there) - kept
    assert {key for key, fate in fates.items() if fate == ("dropped", "overlap")} == {
        "p@0",
        "q@1",
        "r@1",
        "s@0",
        "s@1",
    }

    assert [s.stage for s in rows[0].stages] == ["overlap", "peasi.pr", "peasi.easi"]


def test_passages_that_give_no_answer_are_dropped_by_the_extractor() -> None:
    peasi = model("mtl1")
    came = ranked(passage("p", "An apple."), passage("empty"), passage("q", "Which comet?"))
    pr = Stage("peasi.pr", PassageReranker(peasi, tokeniser()))
    (outcome,) = run_stages([came], [pr, Stage("peasi.easi", SentenceExtractor(peasi, tokeniser()), 1)])
    fates = {row.candidate_id: (row.unit, row.fate, row.dropped_by) for row in outcome.rows()}
    assert fates.pop("empty") == ("passage", "dropped", "peasi.easi")
    assert sorted(fates.values()) == [("sentence", "dropped", "peasi.easi"), ("sentence", "kept", None)]
    (outcome,) = run_stages([came], [pr, Stage("peasi.easi", SentenceExtractor(peasi, tokeniser(), 1.0))])
    assert not outcome.kept.candidates
    assert {(row.unit, row.dropped_by) for row in outcome.rows()} == {("passage", "peasi.easi")}


def test_top_1_is_the_answer_of_pr_s_best_passage() -> None:
    peasi = model()
    came = random_lists(8, 0, 3)
    for before, left in zip(came, TopPassage(peasi, tokeniser()).rerank(came), strict=True):
        (by_pr,) = PassageReranker(peasi, tokeniser()).rerank([before])
        best = replace(by_pr, candidates=by_pr.candidates[:1])
        assert left == SentenceExtractor(peasi, tokeniser()).rerank([best])[0]
        assert len(left.candidates) <= 1


def test_uncalibrated_it_is_the_product() -> None:
    passage, log_p = np.array([0.0, 0.0, math.log(3), 800.0, -800.0, 800.0]), np.log([1, 0.5, 0.8, 0.5, 1, 1])
    confidences = UNCALIBRATED(answer_logit(passage, log_p)).tolist()
    assert (
        confidences == pytest.approx([1 / 2, 1 / 4, 0.75 * 0.8, 1 / 2, 0, 1])
        and min(confidences) > 0
        and max(confidences) < 1
    )


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_a_sentence_that_has_no_number_stops_the_extractor_and_is_not_below_its_threshold(
    threshold: float | None, wrong: float
) -> None:
    peasi = model("mtl1")
    came = PassageReranker(peasi, tokeniser()).rerank(
        [ranked(passage("p", "comet", "apple"), passage("r", "river"))]
    )
    assert isinstance(peasi.easi, Slots)
    peasi.easi.weight.data[1] = wrong  # of the second slot: r has no second sentence
    with pytest.raises(ScoreNotFinite, match=r"peasi\.easi: score .* for candidate p of question q"):
        SentenceExtractor(peasi, tokeniser(), threshold).rerank(came)


def test_a_passage_that_has_no_number_stops_pr() -> None:
    pr = model("pr")
    assert isinstance(pr.pr, LinearRanker)
    pr.pr.bias.data[:] = torch.nan
    with pytest.raises(ScoreNotFinite, match=r"peasi\.pr: score nan for candidate p of question q"):
        PassageReranker(pr, tokeniser()).rerank([ranked(passage("p", "comet"))])
