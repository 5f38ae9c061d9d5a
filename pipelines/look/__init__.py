"""Views of a run: its report, one question explained, an answer now, its soundness, the cost of a job."""
