"""Helpers that tests, benchmarks and experiments share: engines, servers, small jobs, the harness of a
measurement."""
