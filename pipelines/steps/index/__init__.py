"""The step `index`: passages in, shards with a Lucene and a FAISS index out."""
