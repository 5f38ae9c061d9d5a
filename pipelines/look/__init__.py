"""What one asks of a run: its report, one question explained, an answer now, whether it is sound, what a job
would cost."""
