"""Several machines at one run without an engine of clusters: they find one another by small files in the run
folder, and share its units of work."""
