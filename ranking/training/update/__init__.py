"""Computation of a step of a training: of several batches, in half precision, by several processes."""
