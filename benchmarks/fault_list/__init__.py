"""Faults that `benchmarks.faults` tries, by what they damage, and the functions that do the damage."""
