"""How a step of a training is computed: of several batches, in half precision, by several processes."""
