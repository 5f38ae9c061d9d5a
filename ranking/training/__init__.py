"""The training loop and the trainings of each family of models."""
