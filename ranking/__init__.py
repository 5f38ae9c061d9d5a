"""Rerankers: each takes ranked lists and gives ranked lists, R : Q × P(A) → P(A) (Cascade Transformer
§3.2)."""
