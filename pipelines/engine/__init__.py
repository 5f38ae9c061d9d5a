"""Who does the work: Beam's runners, worker processes, and what a worker does with a unit."""
