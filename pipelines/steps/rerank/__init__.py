"""The step `rerank`: ranked passages in, scored candidates and answers out."""
