"""Pretrained transformers, run a few layers at a time over packed pairs."""
