"""Cosinet (Bonadiman & Moschitti, COLING 2020) and the compare-aggregate baseline."""
