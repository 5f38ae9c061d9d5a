"""Tables from other programs and for other programs: formats, inputs, annotation tools, published sets, the
sample, recipes."""
