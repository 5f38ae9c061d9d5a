"""Data sets for others: `answermill passages`, `answermill sentences` and `answermill publish`."""
