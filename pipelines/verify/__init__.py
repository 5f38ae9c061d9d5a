"""Whether a finished run is what was written, byte for byte and row for row, and what makes it so again."""
