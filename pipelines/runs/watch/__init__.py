"""What others are told of work that goes on: another terminal, a scheduler, a collector of metrics or of logs."""
