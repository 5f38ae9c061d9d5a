"""Progress, agreement and conflicts of the people who judge, for whoever leads the annotation."""
