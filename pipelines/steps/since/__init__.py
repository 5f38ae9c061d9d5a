"""Scores and vectors that are taken over from an earlier run, so that a run over the next crawl computes only
what is new."""
