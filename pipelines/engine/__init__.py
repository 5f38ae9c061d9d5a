"""Engines, which carry the work of a step; the work of a unit on a worker; and what gives units out."""
