"""AnswerMill from Python: run jobs, read runs, rerank texts, evaluate, compare, train.

    import answermill as am

    answers = am.rerank("When was the dam completed?", ["The dam is 126 m high.", "It was completed in 1970."], ["overlap"])
    run = am.run(am.load_job("job.toml", ["index.shards=4"]), "out/run")
    scored = run["scored"].to_arrow()

Importing the package loads neither torch, Beam nor Java: each name loads its modules when it is first used.
Mistakes of a user are raised as `JobError`, whose text gives the remedy and whose `code` is the exit status
of the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from answermill.evaluation import audit, compare, evaluate, read_dataset, train
    from answermill.pipelines.errors import JobError
    from answermill.pyterrier import PyTerrierReranker
    from answermill.reranking import Answer, Plan, rerank, stage
    from answermill.runs import Run, load_job, open_run, run

_MODULES = {
    "load_job": "answermill.runs",
    "run": "answermill.runs",
    "open_run": "answermill.runs",
    "Run": "answermill.runs",
    "rerank": "answermill.reranking",
    "Plan": "answermill.reranking",
    "stage": "answermill.reranking",
    "Answer": "answermill.reranking",
    "audit": "answermill.evaluation",
    "evaluate": "answermill.evaluation",
    "compare": "answermill.evaluation",
    "train": "answermill.evaluation",
    "read_dataset": "answermill.evaluation",
    "PyTerrierReranker": "answermill.pyterrier",
    "JobError": "answermill.pipelines.errors",
}

__all__ = [
    "Answer",
    "JobError",
    "Plan",
    "PyTerrierReranker",
    "Run",
    "audit",
    "compare",
    "evaluate",
    "load_job",
    "open_run",
    "read_dataset",
    "rerank",
    "run",
    "stage",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'answermill' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
