"""Training of PEASI on labelled passages: the data, the task, and its starting points."""
