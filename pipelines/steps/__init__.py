"""The steps of a run: ingest, index, retrieve, rerank, propagate."""
