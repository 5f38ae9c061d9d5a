"""Pages of reports: HTML without scripts or anything to load, with one style sheet for light, dark and
print."""
