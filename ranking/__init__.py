"""Rerankers: functions from ranked lists to ranked lists, R : Q × P(A) → P(A) (Cascade Transformer
§3.2)."""
