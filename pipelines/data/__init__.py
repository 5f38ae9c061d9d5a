"""Tables that come from elsewhere or go elsewhere: formats, inputs, annotation tools, published sets, the
sample, recipes."""
