"""How a step runs: manifests, units of work, the lock of a run folder."""
