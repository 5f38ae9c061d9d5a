"""Studies of quality: `python -m experiments.NAME [--data FOLDER] [--save]`; each ends with one flat JSON
object."""

import logging

# When Beam is loaded, it logs what is missing for uses that are not ours.
logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("apitools not found"))
