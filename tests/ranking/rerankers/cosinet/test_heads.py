from __future__ import annotations

import math

import pytest
import torch

from answermill.ranking.rerankers.cosinet.heads import FORMS, Batch, Head, collate, loss
from answermill.ranking.training.loop import slanted_triangular


def batch_of(*labels: list[float]) -> Batch:
    return collate([([1], [[2]] * len(mine), mine) for mine in labels])


def test_a_batch_holds_whole_lists_and_pads_with_row_0() -> None:
    batch = collate([([5, 6], [[1], [], [2, 3, 4]], [0, 1, 0]), ([7], [[8]], [1])])
    assert batch.questions.tolist() == [[5, 6], [7, 0]]
    assert batch.candidates.tolist() == [[1, 0, 0], [0, 0, 0], [2, 3, 4], [8, 0, 0]]
    assert batch.sizes == (3, 1)
    assert batch.labels.tolist() == [0, 1, 0, 1]
    assert batch.paired.tolist() == [[5, 6]] * 3 + [[7, 0]]


def test_a_list_without_candidates_cannot_be_learnt_from() -> None:
    with pytest.raises(ValueError, match=r"question \[1\]: 0 candidates and 0 labels"):
        collate([([1], [], [])])


def test_an_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="unknown form 'gru'; known: pointwise, list, rnn, birnn, lstm, bilstm"
    ):
        Head("gru", 4, 2)  # type: ignore[arg-type]


def test_pointwise_loss_is_the_binary_cross_entropy_of_each_pair() -> None:
    pair_loss = loss("pointwise", torch.tensor([0.0, 2.0]), batch_of([1, 0]))
    assert pair_loss.item() == pytest.approx((math.log(2) + math.log(1 + math.exp(2))) / 2)


def test_list_wise_loss_is_the_divergence_from_the_normalised_labels() -> None:
    scores = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    list_loss = loss("list", scores, batch_of([1, 1, 0, 0], [1, 0]))
    # KL(½,½,0,0 ‖ ¼ each), KL(1,0 ‖ ½ each).
    assert list_loss.item() == pytest.approx((math.log(4 / 2) + math.log(2)) / 2)


def test_a_list_that_is_right_has_no_loss() -> None:
    assert loss("list", torch.tensor([3.0, 3.0, -90.0]), batch_of([1, 1, 0])).item() == pytest.approx(
        0, abs=1e-6
    )


def test_a_list_without_an_answer_is_left_out_of_the_list_wise_loss() -> None:
    scores = torch.tensor([0.3, 1.0, 0.2, 5.0, 1.0], requires_grad=True)
    list_loss = loss("list", scores, batch_of([0, 1, 0], [0, 0]))
    assert list_loss.item() == pytest.approx(loss("list", scores[:3], batch_of([0, 1, 0])).item())
    list_loss.backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad[:3].abs().min() > 0
    assert scores.grad[3:].tolist() == [0, 0]
    assert loss("list", scores, batch_of([0, 0, 0], [0, 0])).item() == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_list_is_read_alone_as_it_is_read_beside_others(form: str) -> None:
    torch.manual_seed(1)
    head = Head(form, 6, 4)  # type: ignore[arg-type]
    pairs = torch.randn(9, 6)
    together = head(pairs, [2, 6, 1])
    alone = [head(mine, [len(mine)]) for mine in pairs.split([2, 6, 1])]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("form", FORMS[2:])
def test_a_recurrent_score_depends_on_the_other_candidates_and_their_order(form: str) -> None:
    torch.manual_seed(1)
    head = Head(form, 6, 4)  # type: ignore[arg-type]
    pairs = torch.randn(5, 6)
    assert (head(pairs, [5]) - head(pairs.flip(0), [5]).flip(0)).abs().min() > 1e-4


def test_the_rate_climbs_for_a_tenth_and_falls_for_the_rest() -> None:
    rates = [slanted_triangular(step, 100, 2e-3) for step in range(100)]
    assert rates[0] == pytest.approx(2e-3 / 32)
    assert max(rates) == rates[10] == pytest.approx(2e-3)
    assert rates[55] == pytest.approx(2e-3 * (1 + 0.5 * 31) / 32)
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)


@pytest.mark.parametrize("steps", [1, 2, 9, 11, 19, 81, 819])
def test_the_rate_stays_above_its_lowest_whatever_the_number_of_steps(steps: int) -> None:
    rates = [slanted_triangular(step, steps, 1.0) for step in range(steps)]
    assert min(rates) >= 1 / 32
    assert max(rates) == 1 or steps == 1
