"""Metrics, significance, confidence and ensembles."""
