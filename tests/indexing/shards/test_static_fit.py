"""The fit of tokens' vectors: it finds vectors that explain the texts, and leaves a token at its start of
which the texts say nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from answermill.indexing.shards.encoders.static_fit import PRIOR_TEXTS, bags, fit, start_of

TOKENS, WIDTH, TEXTS, LENGTH = 40, 6, 4_000, 12
UNSEEN = (7, 31)


def drawn(seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(TOKENS, WIDTH)).astype(np.float32)


def texts(count: int = TEXTS) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Tokens end to end and the places where texts begin; no text has the tokens UNSEEN."""
    rng = np.random.default_rng(5)
    seen = np.setdiff1d(np.arange(TOKENS), UNSEEN)
    ids = rng.choice(seen, count * LENGTH).astype(np.int32)
    return ids, np.arange(0, count * LENGTH + 1, LENGTH, dtype=np.int32)


def test_texts_find_the_vectors_that_explain_them_and_other_tokens_stay_at_their_start() -> None:
    matrix, true, start = bags(*texts(), TOKENS), drawn(1), drawn(2)
    fitted = fit(matrix, matrix @ true, start)
    seen = np.setdiff1d(np.arange(TOKENS), UNSEEN)
    assert np.abs(fitted[seen] - true[seen]).max() < 0.1 < 1 < np.abs(start[seen] - true[seen]).max()
    assert (fitted[list(UNSEEN)] == start[list(UNSEEN)]).all()
    assert (fit(matrix, matrix @ true, start) == fitted).all()


def test_the_fit_is_the_ridge_regression_towards_the_start() -> None:
    """Solved exactly, for a few texts that do not decide."""
    matrix, true, start = bags(*texts(30), TOKENS), drawn(1), drawn(2)
    dense = matrix.toarray().astype(np.float64)
    prior = PRIOR_TEXTS / np.median((dense > 0).sum(axis=1)) ** 2
    targets = dense @ true
    exact = start + np.linalg.solve(
        dense.T @ dense + prior * np.eye(TOKENS), dense.T @ (targets - dense @ start)
    )
    fitted = fit(matrix, targets.astype(np.float32), start)
    assert np.abs(fitted - exact).max() < 0.01 < 0.1 < np.abs(start - exact).max()


def test_a_token_that_is_in_many_texts_starts_with_less() -> None:
    ids = np.array([0, 1, 0, 2, 0, 3], np.int32)
    matrix = bags(ids, np.array([0, 2, 4, 6], np.int32), 5)
    alone = np.concatenate([np.eye(4), -np.ones((1, 4))]).astype(np.float32)  # mean 0
    targets = matrix @ np.ones((5, 4), np.float32)
    lengths = np.linalg.norm(start_of(alone, matrix, targets), axis=1)
    assert lengths[0] < lengths[1] == lengths[2] == lengths[3] < lengths[4]

    # The factor that brings the texts nearest to the targets.
    means = matrix @ start_of(alone, matrix, targets)
    assert np.isclose((means * targets).sum(), (means * means).sum(), rtol=1e-5)


def test_texts_without_tokens_say_nothing() -> None:
    matrix = bags(np.empty(0, np.int32), np.zeros(4, np.int32), TOKENS)
    assert (fit(matrix, np.ones((3, WIDTH), np.float32), drawn(2)) == drawn(2)).all()
