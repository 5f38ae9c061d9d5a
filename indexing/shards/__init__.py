"""Index shards: BM25 (Lucene), dense (FAISS), stored sentence codes, and rank fusion over shards."""
