"""Tasks for annotators out, their labels in: `answermill annotate` and `answermill collect`."""
