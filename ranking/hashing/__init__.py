"""Hashing-based answer selection (HAS): binary answer matrices."""
