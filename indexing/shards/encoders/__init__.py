"""Encoders of texts: where their files come from, and those that need no transformer."""
