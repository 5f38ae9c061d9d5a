"""The report of a run, and of what differs between two: one HTML file for people, and the same figures as
JSON."""
