"""Who does the work: the engines, what a worker does with a unit, and how a step gives its units away."""
