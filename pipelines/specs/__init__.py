"""Descriptions of the steps, a small module each: folders, counts, what is read, revision. None loads torch, Beam or Arrow."""
