"""Job files and training files: their keys, bounds and meanings."""
