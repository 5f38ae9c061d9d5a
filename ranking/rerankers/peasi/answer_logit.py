"""Confidence of an extractor's answer: the product of two probabilities, calibrated."""

from __future__ import annotations

import numpy as np

from answermill.schemas.arrays import Floats


def answer_logit(passage: Floats, log_p: Floats) -> Floats:
    """Logit of p(q, p) · p(s | p), the one feature of a confidence [n, 1], from logits of p(q, p) [n] and log
    p(s | p) [n]."""
    log_product = np.clip(log_p - np.logaddexp(0.0, -passage), -700.0, -1e-15)
    logits: Floats = -np.log(np.expm1(-log_product))[:, None]
    return logits
