"""Parameters that several commands share."""
