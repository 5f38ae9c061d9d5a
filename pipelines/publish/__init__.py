"""Data sets for others: `answermill passages` and `answermill publish`."""
