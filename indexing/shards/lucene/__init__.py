"""Lucene's side of a shard: BM25, the Java that it runs in, and the analysers."""
