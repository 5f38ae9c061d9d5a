"""Training of rerankers, and how good they are: metrics, comparisons, schedules."""
