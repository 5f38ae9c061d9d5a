"""Figures of rankings: `answermill evaluate`, `compare`, `ensemble` and `tune`."""
