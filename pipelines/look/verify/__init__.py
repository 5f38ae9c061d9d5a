"""Runs that are there: whether one is still what was written, what makes it so again, and what of it may
go."""
