"""Estimate of a job's time, size and cost, before it is started."""
