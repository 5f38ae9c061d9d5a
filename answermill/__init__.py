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
    from answermill.commands import (
        Lines,
        agreement,
        annotate,
        ask,
        calibrate,
        candidates,
        clean,
        collect,
        columns,
        dataset,
        doctor,
        ensemble,
        explain,
        export,
        heads,
        index,
        ingest,
        int8,
        keys,
        list_runs,
        materials,
        night,
        passages,
        plan,
        propagate,
        publish,
        push,
        recipe,
        report,
        rerank_step,
        retrieve,
        sample,
        sentences,
        shrink,
        static_encoder,
        status,
        sweep,
        tune,
        tune_bm25,
        verify,
        weights,
    )
    from answermill.evaluation import audit, compare, compare_many, evaluate, read_dataset, train
    from answermill.pipelines.errors import JobError
    from answermill.pyterrier import PyTerrierReranker
    from answermill.reranking import Answer, Plan, rerank, stage
    from answermill.runs import Run, load_job, open_run, run
    from answermill.schemas.plug_ins import allow_code

# The other names are functions of the commands of these names, which return the lines that these print.
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
    "compare_many": "answermill.evaluation",
    "train": "answermill.evaluation",
    "read_dataset": "answermill.evaluation",
    "PyTerrierReranker": "answermill.pyterrier",
    "JobError": "answermill.pipelines.errors",
    "allow_code": "answermill.schemas.plug_ins",
}

__all__ = [
    "Answer",
    "JobError",
    "Lines",
    "Plan",
    "PyTerrierReranker",
    "Run",
    "agreement",
    "allow_code",
    "annotate",
    "ask",
    "audit",
    "calibrate",
    "candidates",
    "clean",
    "collect",
    "columns",
    "compare",
    "compare_many",
    "dataset",
    "doctor",
    "ensemble",
    "evaluate",
    "explain",
    "export",
    "heads",
    "index",
    "ingest",
    "int8",
    "keys",
    "list_runs",
    "load_job",
    "materials",
    "night",
    "open_run",
    "passages",
    "plan",
    "propagate",
    "publish",
    "push",
    "read_dataset",
    "recipe",
    "report",
    "rerank",
    "rerank_step",
    "retrieve",
    "run",
    "sample",
    "sentences",
    "shrink",
    "stage",
    "static_encoder",
    "status",
    "sweep",
    "train",
    "tune",
    "tune_bm25",
    "verify",
    "weights",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'answermill' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(_MODULES.get(name, "answermill.commands")), name)


def __dir__() -> list[str]:
    return __all__
