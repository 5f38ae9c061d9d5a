"""What a checkpoint reads of a candidate: the same in training and serving, and by default the sentence
alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from answermill.ranking.context import Part, Pooling, Reading, check_passages
from answermill.ranking.lists import ranked_list, ranked_passages
from answermill.ranking.rerankers.cascade import cascade_model
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import SENTENCE, CascadeModel, grown
from answermill.ranking.rerankers.cascade.pair_settings import CascadeSettings, PointwiseSettings
from answermill.ranking.rerankers.multihead import multihead
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.passage_settings import PassageSettings
from answermill.ranking.rerankers.peasi.peasi import PassageReranker
from answermill.ranking.rerankers.peasi.peasi_model import PASSAGE, PeasiModel
from answermill.ranking.training.cross_encoders import PairOptions, PairTask
from answermill.ranking.training.passages.passage_data import PassageData
from answermill.ranking.training.passages.passage_task import PassageTask
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.packing import Packed
from answermill.schemas.labels import LabelledCandidate, LabelledPassage, LabelledSentence
from testing.tiny import SHAPE, enlarged, tokeniser

ALL: tuple[Part, ...] = ("sentence", "title", "previous", "next")


def rows(name: str = "q", title: str = "Opera") -> list[LabelledCandidate]:
    """Three sentences of one document, then one of another."""
    texts = [
        ("a", "Rossini wrote it."),
        ("a", "It failed at first."),
        ("a", "Then it was a triumph."),
        ("b", "A barber shaves."),
    ]

    return [
        LabelledCandidate(
            name,
            "Who wrote the opera?",
            f"{name}-{n}",
            doc,
            title if doc == "a" else "",
            n,
            text,
            int(n == 0),
        )
        for n, (doc, text) in enumerate(texts)
    ]


def passages(title: str = "Opera") -> list[LabelledPassage]:
    return [
        LabelledPassage(
            "q",
            "Who wrote it?",
            f"p{n}",
            "d",
            title,
            text,
            int(n == 0),
            "window",
            (LabelledSentence(f"s{n}", text, int(n == 0)),),
        )
        for n, text in enumerate(["Rossini wrote it.", "It failed at first."])
    ]


def model(context: tuple[Part, ...] = ALL, pooling: Pooling = "mean") -> CascadeModel:
    torch.manual_seed(0)
    reader = enlarged(CascadeModel(LayeredEncoder(SHAPE), (1, 2)))
    reader.reading = Reading(context, pooling)
    return reader.eval()


def task(reader: CascadeModel, questions: list[list[LabelledCandidate]], **options) -> PairTask:
    return PairTask(reader, tokeniser(), questions, lambda folder, trained: None, PairOptions(**options))


def words(tokens: Packed, text: int) -> str:
    """The tokens of a text, as they are written in the vocabulary."""
    ids = tokens.ids[tokens.starts[text] : tokens.starts[text + 1]].tolist()
    return " ".join(tokeniser()._tokenizer.id_to_token(number) for number in ids)


def test_a_candidate_is_read_with_its_title_and_its_neighbours_in_the_passage() -> None:
    texts = Reading(ALL).tuples([ranked_list(rows())])
    assert texts == [
        ("Who wrote the opera?", "Rossini wrote it.", "Opera", "", "It failed at first."),
        (
            "Who wrote the opera?",
            "It failed at first.",
            "Opera",
            "Rossini wrote it.",
            "Then it was a triumph.",
        ),
        ("Who wrote the opera?", "Then it was a triumph.", "Opera", "It failed at first.", ""),
        ("Who wrote the opera?", "A barber shaves.", "", "", ""),
    ]

    assert list(Reading(("title", "sentence")).texts(ranked_list(rows())))[1] == (
        "Opera",
        "It failed at first.",
    )
    assert list(Reading(("passage", "title")).texts(ranked_passages(passages())))[1] == (
        "It failed at first.",
        "Opera",
    )


def test_a_part_that_is_empty_keeps_its_separator() -> None:
    reading = Reading(ALL)
    packed = tokeniser().pairs(reading.tuples([ranked_list(rows())]), reading.turns).pack()
    read = words(packed, 3)
    assert read == "[CLS] who wrote the opera ? [SEP] a barber shave ##s . [SEP] [SEP] [SEP] [SEP]"
    assert words(packed, 1).count("[SEP]") == 5 and "[SEP] rossi ##ni wrote it . [SEP]" in words(packed, 1)


def test_by_default_the_tokens_are_those_of_question_and_sentence() -> None:
    texts = SENTENCE.tuples([ranked_list(rows())])
    ours = tokeniser(12).pairs(texts, SENTENCE.turns)
    plain = tokeniser(12).pairs([(row.question, row.text) for row in rows()])
    assert (
        torch.equal(ours.pack().ids, plain.pack().ids)
        and ours.cut.tolist() == plain.cut.tolist()
        and ours.cut.any()
    )
    assert SENTENCE.missing(texts) == {} == SENTENCE.details(SENTENCE)


def test_training_reads_what_serving_reads() -> None:
    reader = model()
    (batch,) = task(reader, [rows()]).batches(0)
    served = Cascade(reader, tokeniser())
    read: list[Packed] = []
    inner = served._model.encoder.embed
    served._model.encoder.embed = lambda tokens: (read.append(tokens), inner(tokens))[1]  # type: ignore[method-assign]
    served.rerank([ranked_list(rows())])
    assert sorted(words(batch.tokens, n) for n in range(4)) == sorted(words(read[0], n) for n in range(4))


def test_neighbours_are_cut_first_then_the_title_then_the_sentence() -> None:
    reading = Reading(ALL)
    texts = [("who who", "s " * 6, "t " * 4, "p " * 4, "n " * 4)]  # and six special tokens
    kept = {}

    for limit in (26, 23, 20, 16, 13, 12, 10):
        pairs = tokeniser(limit).pairs(texts, reading.turns)
        kept[limit] = pairs.sizes[0, 1::2].tolist()
        assert pairs.cut[0] == 20 - sum(kept[limit]) and pairs.lengths[0] == min(limit, 26)

    assert kept == {
        26: [2, 6, 4, 4, 4],
        23: [2, 6, 4, 4, 1],
        20: [2, 6, 4, 2, 0],
        16: [2, 6, 2, 0, 0],
        13: [2, 5, 0, 0, 0],
        12: [2, 4, 0, 0, 0],
        10: [2, 2, 0, 0, 0],
    }

    turned = Reading(("next", "title", "sentence"))
    reordered = tokeniser(14).pairs([("who who", "n " * 4, "t " * 4, "s " * 6)], turned.turns)
    assert reordered.sizes[0, 1::2].tolist() == [2, 0, 1, 6]


def test_the_tokens_that_are_cut_are_counted_when_it_serves() -> None:
    served = Cascade(model(), tokeniser(16))
    served.rerank([ranked_list(rows())])
    reading = Reading(ALL)
    pairs = tokeniser(16).pairs(reading.tuples([ranked_list(rows())]), reading.turns)
    assert served.costs()["tokens_cut"] == pairs.cut.sum() > 0


def test_candidates_without_a_title_are_counted() -> None:
    served = Cascade(model(), tokeniser())
    served.rerank([ranked_list(rows())])
    costs = served.costs()
    assert {key: n for key, n in costs.items() if key.startswith("without")} == {
        "without_title": 1,
        "without_previous": 2,
        "without_next": 2,
    }
    assert task(model(), [rows()]).missing == {"without_title": 1, "without_previous": 2, "without_next": 2}


def test_a_score_depends_on_the_title_and_not_on_the_batch() -> None:
    served = Cascade(model(), tokeniser())
    alone = [r.scores for name in "qr" for r in served.exit_scores([ranked_list(rows(name))])]
    together = [r.scores for r in served.exit_scores([ranked_list(rows(name)) for name in "qr"])]
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    (untitled,) = served.exit_scores([ranked_list(rows(title="Ballet"))])
    assert (np.abs(untitled.scores - alone[0]).max(1) > 1e-4).tolist() == [True, True, True, False]


@pytest.mark.parametrize("pooling", ["first", "mean", "candidate"])
def test_each_pooling_is_what_it_says_also_for_selected_texts(pooling: Pooling) -> None:
    reading = Reading(("title", "sentence"), pooling)
    packed = tokeniser().pairs(reading.tuples([ranked_list(rows())]), reading.turns).pack()
    hidden = torch.randn(len(packed.ids), 8)
    expected = []

    for text in range(4):
        inside = slice(int(packed.starts[text]), int(packed.starts[text + 1]))
        read = words(packed, text).split()
        ends = [n for n, word in enumerate(read) if word == "[SEP]"]
        spans = {"first": slice(0, 1), "mean": slice(None), "candidate": slice(ends[1] + 1, ends[2])}
        expected.append(hidden[inside][spans[pooling]].mean(0))

    torch.testing.assert_close(pool(hidden, packed, pooling), torch.stack(expected))
    some, kept_rows = packed.select([3, 1])
    torch.testing.assert_close(
        pool(hidden[kept_rows], some, pooling), torch.stack([expected[3], expected[1]])
    )
    rows_of, part = packed.part(2, 1)
    torch.testing.assert_close(pool(hidden[rows_of], part, pooling), expected[2][None])


def test_a_candidate_without_tokens_pools_to_zero() -> None:
    packed = tokeniser().pairs([("Who?", ""), ("Who?", "He.")], (1,)).pack()
    pooled = pool(torch.ones(len(packed.ids), 4), packed, "candidate")
    assert pooled.tolist() == [[0] * 4, [1] * 4]


def test_poolings_give_different_scores_and_one_without_it_means_the_mean(tmp_path: Path) -> None:
    scores = {}
    for pooling in ("first", "mean", "candidate"):
        (each,) = Cascade(model(pooling=pooling), tokeniser()).exit_scores([ranked_list(rows())])
        scores[pooling] = each.scores
    assert (
        np.abs(scores["first"] - scores["mean"]).max()
        > 1e-4
        < np.abs(scores["candidate"] - scores["mean"]).max()
    )


def test_the_checkpoint_keeps_it_and_says_nothing_of_the_default(tmp_path: Path) -> None:
    reader = model(("sentence", "title"), "candidate")
    cascade_model.save(tmp_path / "cascade", "cascade", reader, tokeniser())
    config = json.loads((tmp_path / "cascade/config.json").read_text())
    assert (config["context"], config["pooling"]) == (["sentence", "title"], "candidate")
    again, _ = cascade_model.load(tmp_path / "cascade", "cascade")
    assert again.reading == reader.reading

    cascade_model.save(tmp_path / "plain", "cascade", model(("sentence",)), tokeniser())
    assert list(json.loads((tmp_path / "plain/config.json").read_text())) == [
        "format",
        "model",
        "exits",
        "limit",
        "shape",
        "words",
    ]

    assert cascade_model.load(tmp_path / "plain", "cascade")[0].reading == SENTENCE

    student = multihead.split_model(reader, 2, 1)
    multihead.save(tmp_path / "heads", student, tokeniser())
    assert multihead.load(tmp_path / "heads")[0].reading == reader.reading == grown(reader, (1, 2)).reading
    assert student.with_exits((1,)).reading == reader.reading

    peasi = PeasiModel(LayeredEncoder(SHAPE), "joint", 2)
    peasi_model.save(tmp_path / "plain_peasi", peasi, tokeniser())
    assert not {"context", "pooling"} & json.loads((tmp_path / "plain_peasi/config.json").read_text()).keys()
    peasi.reading = Reading(("passage", "title"), "mean")
    peasi_model.save(tmp_path / "peasi", peasi, tokeniser())
    assert (
        peasi_model.load(tmp_path / "peasi")[0].reading
        == peasi.reading
        != PASSAGE
        == peasi_model.load(tmp_path / "plain_peasi")[0].reading
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (
            "context",
            ["sentence", "heading"],
            "unknown part 'heading'; known: sentence, passage, title, previous, next",
        ),
        ("context", ["sentence", "title", "title"], "a part comes twice"),
        ("context", ["title"], "name the candidate itself too"),
        ("context", "sentence", "not a list"),
        ("pooling", "max", "unknown; known: first, mean, candidate"),
    ],
)
def test_a_checkpoint_with_a_wrong_setting_is_refused(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    cascade_model.save(tmp_path, "cascade", model(), tokeniser())
    config = json.loads((tmp_path / "config.json").read_text()) | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "sha256.json").unlink()
    with pytest.raises(ValueError, match=says):
        cascade_model.load(tmp_path, "cascade")


@pytest.mark.parametrize("context", [["sentence", "sentence"], ["title"], ["passage"], ["body"], []])
def test_a_training_file_with_a_wrong_context_is_refused(context: list[str]) -> None:
    with pytest.raises(ValueError, match="context"):
        PointwiseSettings(reranker="pointwise", context=context)
    with pytest.raises(ValueError, match="context"):
        PassageSettings(variant="pr", context=context if context != ["passage"] else ["sentence"])


def test_a_training_goes_on_with_what_its_checkpoint_reads_unless_it_says_otherwise() -> None:
    begun = Reading(("sentence", "title"), "candidate")
    assert PointwiseSettings(reranker="pointwise").reading(begun) == begun
    other = CascadeSettings(reranker="cascade", context=["sentence"], pooling="mean")
    assert other.reading(begun) == SENTENCE
    with pytest.raises(
        ValueError, match=r"context_dropout = 0.3, but context = \['sentence'\]: nothing can be dropped"
    ):
        PointwiseSettings(reranker="pointwise", context_dropout=0.3).reading(SENTENCE)


def test_titles_and_neighbours_drop_out_at_random_and_the_same_at_each_attempt() -> None:
    questions = [rows(f"q{n}") for n in range(40)]
    learning, again = (task(model(), questions, tokens=500, context_dropout=0.3, seed=3) for _ in range(2))
    whole = {
        words(batch.tokens, n)
        for batch in task(model(), questions, tokens=500).batches(0)
        for n in range(len(batch.labels))
    }
    epochs = []

    for epoch in range(2):
        batches = list(learning.batches(epoch))
        assert all(
            torch.equal(a.tokens.ids, b.tokens.ids)
            for a, b in zip(batches, again.batches(epoch), strict=True)
        )
        epochs.append([words(batch.tokens, n) for batch in batches for n in range(len(batch.labels))])

    assert epochs[0] != epochs[1] and len(epochs[0]) == 160
    titled = sum("[SEP] opera [SEP]" in text for text in epochs[0] + epochs[1])
    assert titled == pytest.approx(0.7 * 240, rel=0.15)
    assert all(
        any(text.startswith(known_text.partition("[SEP]")[0]) for known_text in whole) for text in epochs[0]
    )
    sentences = {text.split("[SEP]")[1] for text in epochs[0]}
    assert sentences == {text.split("[SEP]")[1] for text in whole}  # the candidate itself stays


def test_a_candidate_that_no_teacher_scored_is_still_a_neighbour() -> None:
    logits = np.array([[1.0], [np.nan], [2.0], [3.0]], np.float32)
    learning = PairTask(
        model(), tokeniser(), [rows()], lambda folder, trained: None, PairOptions(), teachers=[logits]
    )
    (batch,) = learning.batches(0)
    assert sorted(batch.teachers.flatten().tolist()) == [1, 2, 3]
    assert sum("it failed at first" in words(batch.tokens, n) for n in range(3)) == 2


def test_training_on_data_without_any_title_is_refused() -> None:
    with pytest.raises(
        ValueError, match="none of 4 candidates has a title; leave 'title' out, or give data that have it"
    ):
        task(model(), [rows(title="")])
    alone = [rows()[3]]
    with pytest.raises(ValueError, match="nothing to learn"):
        task(model(("sentence",)), [alone])
    pr = PeasiModel(LayeredEncoder(SHAPE), "pr", 2)
    pr.reading = Reading(("passage", "title"), "mean")
    with pytest.raises(ValueError, match="none of 2 candidates has a title"):
        PassageData.of([passages("")], pr, tokeniser())


def test_passages_without_what_is_read_are_refused_or_not() -> None:
    titled = [c.hit.passage for c in ranked_list(rows()).candidates]
    check_passages([Reading(ALL)], titled)
    check_passages([SENTENCE], [c.hit.passage for c in ranked_list(rows(title="")).candidates])
    check_passages([Reading(ALL)], [])

    with pytest.raises(
        ValueError,
        match=r"reads a title, but no candidate of 4 passages has one; .* missing_context = 'count'",
    ):
        check_passages(
            [SENTENCE, Reading(ALL)], [c.hit.passage for c in ranked_list(rows(title="")).candidates]
        )

    with pytest.raises(ValueError, match="reads a sentence after it in its passage"):
        check_passages([Reading(("sentence", "next"))], titled[3:])


@pytest.mark.parametrize("pooling", ["first", "mean", "candidate"])
def test_peasi_trains_and_serves_with_titles(pooling: Pooling) -> None:
    torch.manual_seed(0)
    reranker = enlarged(PeasiModel(LayeredEncoder(SHAPE), "pr", 2)).eval()
    reranker.reading = Reading(("passage", "title"), pooling)
    data = PassageData.of([passages()], reranker, tokeniser())
    learning = PassageTask(data, reranker, [passages()], lambda folder, trained: None)
    (batch,) = learning.batches(0)
    assert batch.passages is not None and reranker.pr is not None
    served = PassageReranker(reranker, tokeniser())
    (ranked,) = served.rerank([ranked_passages(passages())])

    with torch.no_grad():
        scores = reranker.pr.logits(reranker.passage_vectors(batch.passages)).tolist()
    assert [c.score for c in ranked.candidates] == pytest.approx(sorted(scores, reverse=True), abs=2e-2)
    assert all("[SEP] opera [SEP]" in words(batch.passages, n) for n in range(2))
    (other,) = served.rerank([ranked_passages(passages("Ballet"))])
    assert {c.candidate_id: c.score for c in other.candidates} != {
        c.candidate_id: c.score for c in ranked.candidates
    }
    assert served.costs()["without_title"] == 0
