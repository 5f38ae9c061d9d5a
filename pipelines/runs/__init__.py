"""Parts of a running step: manifests, units of work, the lock of a run folder."""
