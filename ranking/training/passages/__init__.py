"""Training of PEASI on labelled passages: the data, the task, and what it begins with."""
