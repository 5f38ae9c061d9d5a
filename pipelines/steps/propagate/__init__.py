"""Propagate: labels of sentences in; labels of sentences, passages, documents and windows out."""
