"""The rerankers, a package a paper or a family, and their registry."""
