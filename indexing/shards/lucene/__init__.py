"""Lucene's side of a shard: the names of its analysers, and the Java of ours that it runs."""
