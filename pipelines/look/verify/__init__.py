"""Verification of a run, its repair, and the removal of leftover files."""
