"""Estimate of what a job will take, before it is started."""
