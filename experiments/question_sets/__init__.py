"""Questions whose answers are known in a corpus: their sources, the draw, and the rule for answers."""
