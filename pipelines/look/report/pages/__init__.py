"""The look of a report: HTML without scripts or anything to load, one style sheet, light, dark and in
print."""
