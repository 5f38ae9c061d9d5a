"""What annotators judge, how well they agree, and how their data set is split."""
