"""Signs of work that goes on, for another terminal, a scheduler, a collector of metrics or of logs."""
