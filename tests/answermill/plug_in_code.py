"""What the tests of plug-ins share: calls of the command line, small runs and the code of a reranker."""

from __future__ import annotations

import shutil
from pathlib import Path

SET = "Q: Who sang it?\n+ It was he.\n- Zzz.\nQ: Where?\n- Brr.\n+ Over there.\n"

OWN = '''
from answermill.ranking.reranker import order_by

class Longest:
    """The longest sentence first."""

    name = "longest"
    reads = writes = "sentence"

    @classmethod
    def load(cls, resources):
        return cls()

    def rerank(self, lists):
        return [order_by(each, [len(c.text) for c in each.candidates], "Longest") for each in lists]
'''


def run_of(small_run: Path, folder: Path) -> Path:
    """A run in which only reranking is to be done."""
    for name in ("questions", "retrieved"):
        shutil.copytree(small_run / name, folder / name)
    return folder


def job_of(folder: Path, stage: str, more: str = "") -> Path:
    path = folder / "job.toml"
    path.write_text(f"{more}[[rerank.stages]]\n{stage}\n")
    return path
