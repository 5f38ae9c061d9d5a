"""Documents to sentences and DPR-sized passages; rules for questions."""
