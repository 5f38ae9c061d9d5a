"""A run open for questions: its shards, the encoder and the plan's models are loaded once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answermill.indexing.passages.text import one_line
from answermill.indexing.shards.dense import Encoder
from answermill.indexing.shards.lucene.jvm import find_java, start
from answermill.indexing.shards.shard import Shard
from answermill.indexing.shards.vectors.vector_kinds import VectorSearch
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.look.ask.block_search import search_block
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.models import command_threads, passage_encoder, use_threads
from answermill.pipelines.steps.rerank.answers import (
    ALL_GIVEN,
    AnswerRule,
    SameAnswers,
    answer_of,
    answers_of,
    line_of,
)
from answermill.pipelines.steps.rerank.question_groups import ranked_lists, rerank_lists
from answermill.pipelines.steps.retrieve.asked_questions import Block, settings_of
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.ranking.plan import Stage
from answermill.schemas.corpus import Passage, Question
from answermill.schemas.ranked import Answer, ScoredCandidate

QUESTION_ID = "asked"


class Seconds:
    """Seconds that each part of a task took, in the order of the parts."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - began

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def __str__(self) -> str:
        """Sum and parts as text: '3.2 s (encoder 0.5, Lucene 0.7)'."""
        return (
            f"{self.total:.2f} s ({', '.join(f'{part} {taken:.2f}' for part, taken in self.parts.items())})"
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A question with its candidates, ranked by the plan, and their passages."""

    question: str
    rows: Sequence[ScoredCandidate]
    """Rows as in scored/: kept ones first, best first."""
    passages: Mapping[str, Passage]
    """Retrieved passages, by id."""
    seconds: Seconds
    rule: AnswerRule = ALL_GIVEN
    """Which of the best candidates are given as answers."""

    @property
    def best(self) -> Answer | None:
        """Best candidate as in answers/: the answer, or the declined one; None if the plan kept none."""
        first = next(iter(self._best(1)), None)
        return None if first is None else answer_of(first, self.passages, self.rule)

    def lines(self, answers: int) -> Iterator[str]:
        """Lines for people: the best answers, each with its page."""
        yield self.question
        best = self.best
        if best is None:
            yield (
                "  no answer: "
                f"{'the plan dropped every candidate' if self.rows else 'no index returned a passage'}"
            )
        elif best.answer is None:
            yield (
                f"  none: the best candidate has probability {best.probability:.4g}, and the bar is "
                f"{self.rule.bar:g}"
            )
        for answer in self._best(answers):
            row = answer.row
            score = f"  {row.stages[-1].score:.4g}" if row.stages else ""
            yield f"  {row.rank}{score}  {' '.join(row.text.split())}"
            said_by = f"; {answer}" if len(answer.rows) > 1 else ""
            yield f"      {row.title}, {row.url}{said_by}"

    def json(self, answers: int) -> dict[str, Any]:
        """The same as plain values."""
        best = self.best
        return {
            "question": self.question,
            "answered": best is not None and best.answer is not None,
            "answers": [self._answer(answer) for answer in self._best(answers)],
            "passages": len(self.passages),
            "candidates": len(self.rows),
            "seconds": {part: round(taken, 4) for part, taken in self.seconds.parts.items()},
        }

    def _best(self, answers: int) -> list[SameAnswers]:
        return answers_of(self.rows, self.passages, answers, self.rule.settings)

    def _answer(self, answer: SameAnswers) -> dict[str, Any]:
        values = line_of(answer_of(answer, self.passages, replace(self.rule, bar=0.0)))
        text = {"rank": answer.row.rank, "text": values.pop("answer")}
        return text | {
            name: value for name, value in values.items() if name not in ("question_id", "question")
        }


class Session:
    """Answers questions from a run's shards. Use `opened`."""

    def __init__(
        self,
        job: Job,
        shards: Sequence[Shard],
        encoder: Encoder | None,
        plan: Sequence[Stage],
        *,
        width: VectorSearch,
    ) -> None:
        self._settings, self._shards, self._encoder, self._plan = settings_of(job), shards, encoder, plan
        self._rule = ALL_GIVEN if job.rerank is None else AnswerRule.of(job, job.rerank)
        self._width, self._language = width, job.index.language

    def ask(self, text: str) -> Reply:
        """Search for a question and rerank its candidates, as `answermill run` would."""
        seconds, question = Seconds(), Question(QUESTION_ID, one_line(text))
        with seconds("search"):
            block = Block(0, (question,))
            (hits,) = search_block(
                block, self._shards, self._encoder, self._settings, self._width, language=self._language
            )
        with seconds("rerank"):
            lists = list(ranked_lists(iter(hits)))
            rows, _ = rerank_lists(lists, self._plan) if lists else ([], {})
        passages = {hit.passage.passage_id: hit.passage for hit in hits}
        return Reply(question.text, rows, passages, seconds, self._rule)


@contextmanager
def opened(run: Path, job: Job, seconds: Seconds) -> Iterator[Session]:
    """The run's shards and the job's plan, open until the block ends; times each part in `seconds`.

    Lucene starts beside the models, so its seconds are only those that the models waited for it. The bytes of
    all shards are read once, to compare their checksums. Raises JobError: 66 if shards/ is not complete, 65
    or 78 as retrieve and rerank do; ShardMismatch if the job's encoder is not that of the shards.
    """
    settings = settings_of(job)
    shards, plan = RunShards.of(job, run), job.rerank is not None
    use_threads(command_threads())

    with ExitStack() as stack:
        with seconds("shards"):
            open_shards = [stack.enter_context(shards.open(number)) for number in range(shards.count)]
        with ThreadPoolExecutor(1) as thread:
            lucene = thread.submit(_open_lucene, job, open_shards) if "bm25" in settings.sources else None
            with seconds("encoder"):
                encoder = passage_encoder(job) if "dense" in settings.sources else None
            with seconds("models"):
                stages = load_plan(job, run) if plan else []
            if lucene is not None:
                with seconds("Lucene"):
                    lucene.result()
        yield Session(job, open_shards, encoder, stages, width=shards.width(settings.depth))


def _open_lucene(job: Job, shards: Iterable[Shard]) -> None:
    start(find_java(job.workers.java), job.workers.java_heap)
    for shard in shards:
        _ = shard.bm25
