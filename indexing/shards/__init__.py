"""Index shards: BM25 (Lucene), dense (FAISS), stored answer codes, and rank fusion over shards."""
