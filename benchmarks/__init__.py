"""Guards of speed, equality, kills and faults: `python -m benchmarks.NAME [--data FOLDER] [--save]`, each
ending in one flat JSON object."""

import logging

# Beam logs warnings while it is loaded, about parts that we do not use.
logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("apitools not found"))
