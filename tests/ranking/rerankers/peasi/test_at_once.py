"""PR and EASI on one transformer and one text: one pass over a passage, with its title, serves both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from answermill.indexing.shards.dense import find_model
from answermill.ranking.context import Reading
from answermill.ranking.evaluation.calibration import UNCALIBRATED
from answermill.ranking.rerankers.peasi import peasi_model
from answermill.ranking.rerankers.peasi.answer_logit import answer_logit
from answermill.ranking.rerankers.peasi.passage_reader import AskedPassage, PassageReader
from answermill.ranking.rerankers.peasi.peasi import PassageReranker, SentenceExtractor
from answermill.ranking.rerankers.peasi.peasi_model import PeasiModel, Variant
from answermill.ranking.rerankers.peasi.windows import read_windows
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.passages.passage_data import PassageData
from answermill.ranking.training.passages.passage_task import PassageOptions, PassageTask
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.schemas.labels import LabelledPassage, LabelledSentence
from answermill.schemas.ranked import RankedList
from testing.tiny import SHAPE, enlarged, tokeniser
from tests.ranking.rerankers.peasi.test_span import QUESTION, random_lists, texts

TITLE = "Senate of comets"


def model(variant: Variant = "mtl0", seed: int = 0) -> PeasiModel:
    torch.manual_seed(seed)
    peasi = enlarged(PeasiModel(LayeredEncoder(SHAPE), variant, 1, "classifier", "span")).eval()
    peasi.reading = Reading(("passage", "title"), "mean")
    return peasi


def asked(seed: int, title: str = TITLE, sentences: int = 4) -> AskedPassage:
    of_passage = texts(sentences, seed)
    return AskedPassage(QUESTION, " ".join(of_passage), tuple(of_passage), title=title)


def titled(lists: list[RankedList], title: str = TITLE) -> list[RankedList]:
    def shown(ranked: RankedList) -> RankedList:
        hits = [replace(c.hit, passage=replace(c.hit.passage, title=title)) for c in ranked.candidates]
        return replace(
            ranked,
            candidates=tuple(replace(c, hit=hit) for c, hit in zip(ranked.candidates, hits, strict=True)),
        )

    return [shown(ranked) for ranked in lists]


def test_the_title_stands_behind_the_sentences_and_is_none_of_them() -> None:
    three = texts(3)
    passage, numbers, pairs = read_windows(
        tokeniser(), [(QUESTION, three), (QUESTION, [])], None, [TITLE, TITLE]
    )
    assert (passage.tolist(), [window.tolist() for window in numbers]) == ([0, 1], [[0, 1, 2], []])
    assert (
        pairs.pack([0]).ids.tolist()
        == tokeniser().pairs([(QUESTION, " ".join(three), TITLE)]).pack().ids.tolist()
    )

    assert pairs.pack([1]).ids.tolist() == tokeniser().pairs([(QUESTION, TITLE)]).pack().ids.tolist()
    assert pairs.filled[:, :3].tolist() == [[True] * 3, [False] * 3] and not pairs.filled[:, 3:].any()
    starts, sizes = pairs.stretches([0])
    assert sizes.tolist() == tokeniser().sizes(three).tolist()
    assert starts.tolist() == (starts[0] + np.cumsum([0, *sizes[:-1]])).tolist()


def test_a_title_gets_the_room_that_the_sentences_leave() -> None:
    sentences = ["comet " * 20, "river " * 20]
    _, numbers, pairs = read_windows(tokeniser(64), [("comet", sentences)], None, ["violin " * 30])
    assert [window.tolist() for window in numbers] == [[0, 1]]
    assert pairs.lengths.tolist() == [64] and pairs.cut.tolist() == [30 - (64 - 4 - 1 - 40)]


def test_one_pass_gives_what_two_give_and_costs_half() -> None:
    reader, together = PassageReader(model(), tokeniser()), [asked(n, sentences=n % 7) for n in range(12)]
    apart, extracted = reader.passages(together), reader.sentences(together)
    twice = reader.costs()
    logits, by_one = reader.both(together)
    once = reader.costs()
    assert logits.tolist() == apart.tolist() and len(set(logits.tolist())) > 8
    assert (by_one.sentence.tolist(), by_one.log_p.tolist()) == (
        extracted.sentence.tolist(),
        extracted.log_p.tolist(),
    )
    assert torch.equal(by_one.embedding, extracted.embedding)
    assert (2 * once["predictions"], 2 * once["tokens"]) == (twice["predictions"], twice["tokens"])


def test_it_ranks_passages_as_pr_alone_with_the_same_weights() -> None:
    both, alone = model(), model("pr")
    alone.load_state_dict({name: w for name, w in both.state_dict().items() if not name.startswith("span.")})
    together = [asked(n) for n in range(8)]
    expected = PassageReader(alone, tokeniser()).passages(together)
    assert PassageReader(both, tokeniser()).passages(together) == pytest.approx(expected, abs=1e-6)


def test_both_read_the_title() -> None:
    reader = PassageReader(model(), tokeniser())
    logits, extracted = reader.both([asked(1), asked(1, title="")])
    assert logits[0] != logits[1] and extracted.log_p[0] != extracted.log_p[1]


def test_only_one_text_for_both_can_be_read_at_once() -> None:
    assert (
        model().at_once
        and not model("mtl1").at_once
        and not PeasiModel(LayeredEncoder(SHAPE), "mtl0", 2).at_once
    )
    for reading in (Reading(("title", "passage"), "mean"), Reading(("passage",), "candidate")):
        peasi = model()
        peasi.reading = reading
        assert not peasi.at_once
        with pytest.raises(ValueError, match="does not read passages and sentences at once"):
            PassageReader(peasi, tokeniser()).both([asked(1)])


def test_the_extractor_alone_ranks_by_the_confidence_that_it_has_behind_the_reranker(tmp_path: Path) -> None:
    peasi_model.save(tmp_path, model(), tokeniser())
    came = titled(random_lists(9, 3))
    alone = load_reranker("peasi.easi", tmp_path, model=find_model).rerank(came)

    ranked = PassageReranker(model(), tokeniser()).rerank(came)
    behind = SentenceExtractor(model(), tokeniser()).rerank(ranked)
    assert [{c.candidate_id: c.score for c in r.candidates} for r in alone] == [
        {c.candidate_id: c.score for c in r.candidates} for r in behind
    ]
    asked_of = [AskedPassage.from_candidate(came[0], c) for c in came[0].candidates]
    logits, extracted = PassageReader(model(), tokeniser()).both(asked_of)
    there = extracted.sentence >= 0
    confidence = UNCALIBRATED(answer_logit(logits[there], extracted.log_p[there]))
    assert alone[0].candidates[0].score == pytest.approx(confidence.max(), abs=1e-5)


@torch.no_grad()
def test_the_loss_is_the_one_that_the_served_probabilities_have() -> None:
    rows = []
    for n in range(6):
        of_passage = texts(2 + n, n)
        cut = tuple(
            LabelledSentence(f"{n}@{i}", text, int(n < 3 and i == n)) for i, text in enumerate(of_passage)
        )
        rows.append(
            LabelledPassage(
                "q", QUESTION, str(n), "d", TITLE, " ".join(of_passage), int(n < 3), "window", cut
            )
        )

    peasi = model()
    data = PassageData.of([rows], peasi, tokeniser())
    task = PassageTask(data, peasi, [rows], lambda folder, trained: None, PassageOptions(tokens=100_000))
    (batch,) = task.batches(0)
    assert batch.passages is None
    reader = PassageReader(peasi, tokeniser())
    of_rows = [
        AskedPassage(QUESTION, row.text, tuple(s.text for s in row.sentences), title=TITLE) for row in rows
    ]
    by_pr = torch.from_numpy(reader.passages(of_rows))
    loss = float(
        F.binary_cross_entropy_with_logits(by_pr, torch.tensor([float(row.label) for row in rows]).double())
    )

    right = [each._replace(eligible=frozenset([n])) for n, each in enumerate(of_rows[:3])]
    loss -= float(reader.sentences(right).log_p.mean())
    assert float(task.loss(batch)) == pytest.approx(loss, rel=1e-2)


def test_a_passage_without_a_title_is_counted_where_one_pass_reads_all() -> None:
    (ranked,) = titled(random_lists(5), title="")
    reader = PassageReader(model(), tokeniser())
    asked_passages = [AskedPassage.from_candidate(ranked, c) for c in ranked.candidates]
    for read in (reader.passages, reader.both, reader.every_sentence):
        read(asked_passages)
        assert reader.costs()["without_title"] == len(asked_passages)
