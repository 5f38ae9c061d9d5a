"""Report of a run, and comparison of two runs: one HTML file for people, and the same figures as JSON."""
