"""What the manifests of a run say, and whether its files are still what they say."""
