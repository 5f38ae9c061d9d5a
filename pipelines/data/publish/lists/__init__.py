"""Lists of sentences for training answer sentence selection, from the labels of a run."""
