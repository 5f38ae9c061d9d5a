"""The faults that `benchmarks.faults` tries, by what they are done to, and what does them."""
