"""Long lists: recall of one encoder's beside another's."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.long_lists import differences


def test_a_difference_is_of_the_questions_whose_answer_is_among_the_first() -> None:
    never = np.inf
    default = {"dense": np.array([1.0, 20.0, never, 5.0]), "fused": np.array([1.0, 2.0, 3.0, 4.0])}
    other = {"dense": np.array([2.0, 1.0, 90.0, 7.0]), "fused": default["fused"]}
    result = differences("dev", default, other)
    assert result["dev_dense_r1_difference"] == 0
    assert result["dev_dense_r10_difference"] == result["dev_dense_r100_difference"] == 25
    assert result["dev_dense_r10_low"] == 0 and result["dev_dense_r10_p"] == pytest.approx(1, abs=0.01)
    assert {result[f"dev_fused_r{k}_difference"] for k in (1, 10, 100)} == {0}
