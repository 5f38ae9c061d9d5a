"""Retrieve: the questions meet the shards."""
