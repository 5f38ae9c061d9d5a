"""`answermill audit`: what training shares with a test set, and what distracts a model from the answer."""
