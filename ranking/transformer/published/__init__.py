"""Models that others have published, read from their folders as their own libraries read them."""
