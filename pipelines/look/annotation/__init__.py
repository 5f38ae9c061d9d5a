"""Progress, agreement and conflicts of the people who judge."""
