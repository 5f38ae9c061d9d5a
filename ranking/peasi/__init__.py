"""PEASI: passage reranker and in-place sentence extractor."""
