"""Ask: questions answered at once, from a run's shards and by its plan."""
