"""The records that AnswerMill reads and writes, each declared once."""
