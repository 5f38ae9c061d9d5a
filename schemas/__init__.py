"""Records that AnswerMill reads and writes, each declared once."""
