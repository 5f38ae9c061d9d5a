"""Nights: runs of a job again and again, of which the last good one is published and the newest stay."""
