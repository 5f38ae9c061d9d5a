"""A process that has loaded nothing, as a worker's when it begins."""

from __future__ import annotations

import logging
import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor


def new_process() -> Executor:
    """It starts with the first call that is submitted; its models compute on one core."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    logging.disable(logging.WARNING)  # libraries that are loaded log what is missing for uses that are none of ours
    from answermill.pipelines.steps.models import use_threads

    use_threads(1)
