"""Training of rerankers, and their quality: metrics, comparisons, schedules."""
