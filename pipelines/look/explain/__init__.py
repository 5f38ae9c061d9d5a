"""Explain: one question's candidates through retrieval and the stages, and the loss of its right answer."""
