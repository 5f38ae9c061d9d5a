"""Descriptions of the steps, a small module each: folders, counts, what is read, revision.

None loads torch or Beam. Only `run`, a run folder as these describe it, loads Arrow.
"""
