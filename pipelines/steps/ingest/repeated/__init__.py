"""Near duplicates among the pages of a run, and paragraphs that many pages of one domain share."""
