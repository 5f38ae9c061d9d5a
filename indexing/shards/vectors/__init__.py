"""A shard's vectors: one exact index, or codes that choose candidates and stored vectors that score them."""
