"""A plan of rerankers as a PyTerrier transformer (`pip install 'answermill[pyterrier]'`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd

from answermill.files.extras import need
from answermill.pipelines.errors import BAD_DATA, JobError
from answermill.ranking.entry import StageSettings
from answermill.reranking import Device, Plan

need("pyterrier", "pyterrier", "PyTerrierReranker")
import pyterrier as pt  # noqa: E402  after `need`, whose message says what to type

_NEW = ("score", "rank", "answer")


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

    def transform_inputs(self) -> list[str]:
        """Names of the columns that it reads, for PyTerrier's inspection."""
        return ["qid", "query", "docno", self._text]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rerank the documents of each query; a document without a text counts as an empty one, and a warning
        says how many do.

        Raises JobError (65) if a column is missing, or a row has no query or no id, or a query has two texts.
        """
        columns = [*inp.columns, *(name for name in _NEW if name not in inp.columns)]
        if inp.empty:
            return inp.reindex(columns=columns)
        frame = self._checked(inp)

        groups = [group for _, group in frame.groupby("qid", sort=False)]
        answers = self._plan.rerank_all(
            [(g["query"].iloc[0], g[self._text].tolist()) for g in groups],
            split=self._split,
            ids=[str(g["qid"].iloc[0]) for g in groups],
        )
        frames = []

        for group, ranked in zip(groups, answers, strict=True):
            best = {answer.index: answer for answer in reversed(ranked)}  # each document's best sentence
            chosen = sorted(best.values(), key=lambda answer: answer.rank)
            kept = group.iloc[[answer.index for answer in chosen]].copy()
            kept["score"] = [answer.score for answer in chosen]
            kept["rank"] = range(len(chosen))
            kept["answer"] = [answer.text for answer in chosen]
            frames.append(kept)

        return pd.concat(frames, ignore_index=True)

    def _checked(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The frame, in which every text is one. Raises as `transform`."""
        missing = [name for name in self.transform_inputs() if name not in inp.columns]
        if missing:
            raise JobError(
                f"the frame lacks {', '.join(missing)}; it has: {', '.join(map(str, inp.columns))}", BAD_DATA
            )
        for name in ("qid", "query", "docno"):
            if (empty := inp[name].isna()).any():
                row = int(empty.to_numpy().argmax())
                raise JobError(f"row {row} of the frame has no {name}: {inp.iloc[row].to_dict()}", BAD_DATA)
        texts = inp.groupby("qid", sort=False)["query"].nunique()
        if (texts > 1).any():
            raise JobError(f"the query {texts.idxmax()} has {texts.max()} texts; give each its qid", BAD_DATA)

        without = inp[self._text].isna()
        if without.any():
            warnings.warn(f"{int(without.sum()):,} of {len(inp):,} documents have no text", stacklevel=3)
            inp = inp.assign(**{self._text: inp[self._text].where(~without, "")})
        return inp
