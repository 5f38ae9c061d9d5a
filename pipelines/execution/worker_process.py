"""A worker process of Beam's default runner, `python -m pipelines.execution.worker_process`: Beam's own, but quiet.

Beam prints and logs every error that it also hands over to the command, which reports it once.
"""

from __future__ import annotations

import logging
import sys

logging.disable(logging.ERROR)

from apache_beam.runners.worker import sdk_worker, sdk_worker_main  # noqa: E402  importing it logs already

vars(sdk_worker)["print"] = lambda *_values, **_options: None  # its only call prints a traceback to stderr

if __name__ == "__main__":
    sdk_worker_main.main(sys.argv)
