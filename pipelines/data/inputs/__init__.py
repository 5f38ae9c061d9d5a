"""Files that people write: questions, labels, tables."""
