"""Descriptions of the steps, a small module each: folders, counts, what is read, revision.

None loads torch or Beam, nor Arrow but for `run`, which is a run folder as these say that it is.
"""
