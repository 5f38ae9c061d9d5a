"""Explain: what retrieval and the stages made of one question's candidates, and where its right answer was
lost."""
