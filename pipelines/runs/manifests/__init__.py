"""The manifests of a run, and the comparison of its files with them."""
