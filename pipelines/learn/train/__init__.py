"""Training from a file: `answermill train`, `sweep`, `heads` and `export`."""
