"""A plan of rerankers as a PyTerrier transformer (`pip install 'answermill[pyterrier]'`)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from answermill.files.extras import need
from answermill.ranking.entry import StageSettings
from answermill.reranking import Device, Plan

need("pyterrier", "pyterrier", "PyTerrierReranker")
import pyterrier as pt  # noqa: E402  after `need`, whose message says what to type


class PyTerrierReranker(pt.Transformer):
    """R × Q → R: reranks the documents of each query, e.g. `bm25 >> pt.text.get_text(dataset) >>
    PyTerrierReranker(stages)`.

    It reads the columns qid, query, docno and `text`, one row per candidate, in the order for list-wise
    models. It returns the rows that the plan keeps, best first, with its `score` and a `rank` that counts
    from 0. A document is ranked by its best sentence if the plan ends with sentences and `split` cuts the
    texts into them; `answer` then holds that sentence.
    """

    def __init__(
        self,
        plan: Plan | Sequence[StageSettings | str],
        *,
        text: str = "text",
        split: bool = False,
        device: Device = "auto",
    ) -> None:
        self._plan = plan if isinstance(plan, Plan) else Plan(plan, device=device)
        self._text, self._split = text, split

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rerank the documents of each query. Raises ValueError if a column is missing."""
        missing = [name for name in ("qid", "query", "docno", self._text) if name not in inp.columns]
        if missing:
            raise ValueError(
                f"the frame lacks {', '.join(missing)}; it has: {', '.join(map(str, inp.columns))}"
            )

        groups = [group for _, group in inp.groupby("qid", sort=False)]
        answers = self._plan.rerank_all(
            [(g["query"].iloc[0], g[self._text].tolist()) for g in groups], split=self._split
        )
        frames = []

        for group, ranked in zip(groups, answers, strict=True):
            best = {answer.index: answer for answer in reversed(ranked)}  # each document's best sentence
            chosen = sorted(best.values(), key=lambda answer: answer.rank)
            frame = group.iloc[[answer.index for answer in chosen]].copy()
            frame["score"] = [answer.score for answer in chosen]
            frame["rank"] = range(len(chosen))
            frame["answer"] = [answer.text for answer in chosen]
            frames.append(frame)

        columns = [*inp.columns, *(name for name in ("score", "rank", "answer") if name not in inp.columns)]
        return pd.concat(frames, ignore_index=True) if frames else inp.reindex(columns=columns)
