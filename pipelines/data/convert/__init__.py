"""Data sets into other forms: `answermill dataset` and `answermill candidates`."""
