"""The steps of a run, a package each: ingest, index, retrieve, rerank, annotate, collect, propagate; and what
they share."""
