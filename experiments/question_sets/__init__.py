"""Questions whose answers are known in a corpus: where they come from, which are drawn, and what counts as an
answer."""
