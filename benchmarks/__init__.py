"""Guards of speed, equality, kills and faults: `python -m benchmarks.NAME [--data FOLDER] [--save]`, each
ending in one flat JSON object."""

import logging

# Beam logs, when it is loaded, what is missing for uses that are none of ours.
logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("apitools not found"))
