from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from answermill.ranking.rerankers.cosinet.compare_aggregate import CompareAggregate, CompareAggregateModel
from answermill.ranking.rerankers.cosinet.heads import FORMS, Form, NumberedList, collate
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model, save_list_model
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList

WORDS = ("capital", "city", "italy", "of", "rome", "the", "tiber")
UNKNOWN = len(WORDS) + 1
LISTS: list[NumberedList] = [
    ([1, 4, UNKNOWN], [[1, 2, 3, 4, 5, 6, 7, 1, 2], [], [UNKNOWN], [6, 5]]),
    ([], [[3, 2], []]),
    ([7], [[7, 7, 7, 7, 7, 7]]),
]


def embeddings(d: int = 8) -> Embeddings:
    vectors = np.random.default_rng(0).standard_normal((1 + len(WORDS), d)).astype(np.float32)
    vectors[0] = 0
    return Embeddings(WORDS, vectors)


def model_of(form: Form) -> CompareAggregateModel:
    torch.manual_seed(0)
    return CompareAggregateModel(embeddings().vectors, form, filters=6)


def own(model: CompareAggregateModel, *lists: NumberedList) -> torch.Tensor:
    with torch.inference_mode():
        return model(
            collate([(question, candidates, [0] * len(candidates)) for question, candidates in lists])
        )


@pytest.mark.parametrize(
    ("form", "parameters", "table_4"),
    [
        ("pointwise", 2_886_301, 2.89),
        ("list", 2_886_301, 2.89),
        ("rnn", 5_045_101, 5.05),
        ("birnn", 4_865_101, 4.87),
        ("lstm", 11_528_701, 11.53),
        ("bilstm", 10_808_701, 10.81),
    ],
)
def test_each_form_has_the_parameters_of_table_4(form: Form, parameters: int, table_4: float) -> None:
    model = CompareAggregateModel(embeddings(300).vectors, form)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert round(parameters / 1e6, 2) == table_4


def test_a_pair_is_compared_and_aggregated_as_the_equations_say() -> None:
    model = model_of("pointwise")
    q, c = (model.vectors[torch.tensor(text)] for text in ([1, 4], [1, 2, 3]))

    with torch.inference_mode():
        sides = []
        for convs, mine, other in ((model.question, q, c), (model.candidate, c, q)):
            attended = torch.stack(
                [sum(a * o for a, o in zip((other @ m).softmax(0), other, strict=True)) for m in mine]
            )  # Eq. 2
            t = model.compare(torch.cat([(mine - attended) ** 2, mine * attended], 1)).relu().T  # Eq. 8
            sides.append(
                torch.cat(
                    [conv(F.pad(t, ((n - 1) // 2, n // 2))).relu().amax(1) for n, conv in enumerate(convs, 1)]
                )
            )
        expected = model.head.linear(torch.cat([sides[0] * sides[1], sides[0] - sides[1]]))

    torch.testing.assert_close(own(model, ([1, 4], [[1, 2, 3]])), expected)


@pytest.mark.parametrize("form", FORMS)
def test_padding_and_other_lists_change_no_score(form: Form) -> None:
    model = model_of(form)
    together = own(model, *LISTS)
    assert together.isfinite().all()
    torch.testing.assert_close(together, torch.cat([own(model, mine) for mine in LISTS]))
    if form in ("pointwise", "list"):
        alone = [
            own(model, (question, [candidate])) for question, candidates in LISTS for candidate in candidates
        ]
        torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("form", FORMS)
def test_the_reranker_s_scores_are_the_model_s_and_do_not_feel_their_company(form: Form) -> None:
    model = model_of(form)
    reranker = CompareAggregate(model, embeddings())
    together = reranker.scores([*LISTS, ([1], [])])
    assert len(together.pop()) == 0
    np.testing.assert_allclose(np.concatenate(together), own(model, *LISTS).numpy(), atol=1e-5)
    for mine, scores in zip(LISTS, together, strict=True):
        np.testing.assert_allclose(reranker.scores([mine])[0], scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_training_reaches_every_parameter_and_leaves_the_static_table(form: Form) -> None:
    model = model_of(form)
    model.loss(collate([(q, cs, [1] + [0] * (len(cs) - 1)) for q, cs in LISTS])).backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all() and p.grad.any()
        for p in model.parameters()
        if p is not model.head.linear.bias
    )
    assert model.vectors.grad is None
    assert not model.vectors.requires_grad


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_model_comes_back_with_the_same_scores(form: Form, tmp_path: Path) -> None:
    question = "Capital of Italy?"
    candidates = []
    for n, text in enumerate(["Rome is the capital.", "", "The Tiber!"]):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage("d#0", "d", "", "", 0, 9, text, (sentence,))
        candidates.append(Candidate(Hit("q", question, 1, 0.0, None, None, None, None, passage), sentence, n))
    came = RankedList(Question("q", question), tuple(candidates))
    save_list_model(tmp_path, model_of(form), embeddings())
    back = load_reranker("compare_aggregate", tmp_path)
    assert back.rerank([came]) == CompareAggregate(model_of(form), embeddings()).rerank([came])
    assert load_list_model(tmp_path, CompareAggregateModel)[0].form == form


def test_a_checkpoint_is_needed() -> None:
    with pytest.raises(ValueError, match="compare_aggregate needs a checkpoint"):
        load_reranker("compare_aggregate")
