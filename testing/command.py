"""The command, run in the process of a test."""

from __future__ import annotations

import pytest

from answermill.__main__ import main


def call(*words: object) -> int:
    """Exit code of `answermill` with these words."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)
