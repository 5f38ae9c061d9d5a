"""Rerankers without training: word overlap, cosine similarity, completeness of a sentence."""
