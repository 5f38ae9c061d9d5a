"""A worker process of Beam's default runner, `python -m answermill.pipelines.engine.worker_process`: Beam's own, but quiet.

Beam prints and logs every error that it also hands over to the command, which reports it once. The process ends at once when
its stdin is closed: by the command, or because the command is gone. Its argument is the descriptor that says when no unit is to
begin any more (stopping.py).
"""

from __future__ import annotations

import logging
import os
import sys
import threading

from answermill.pipelines.runs.watch.stopping import follow


def end_with_the_command() -> None:
    """Wait until stdin (descriptor 0) is closed, then end, whatever is at work."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_command, daemon=True).start()
    for descriptor in sys.argv[1:]:
        follow(int(descriptor))

logging.disable(logging.ERROR)

from apache_beam.runners.worker import sdk_worker, sdk_worker_main  # noqa: E402  importing it logs already

vars(sdk_worker)["print"] = lambda *_values, **_options: None  # its only call prints a traceback to stderr

if __name__ == "__main__":
    sdk_worker_main.main(sys.argv[:1])
