"""Ingest: crawled files in; documents, passages and rejects out."""
