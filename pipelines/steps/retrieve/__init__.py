"""Retrieve: questions and shards in; for each question its best passages out."""
