"""The multiple-heads student (MHS)."""
