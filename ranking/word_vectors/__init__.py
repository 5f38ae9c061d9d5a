"""Words, word vectors, and the files that hold them."""
