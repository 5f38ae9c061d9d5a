"""Plans of rerankers over texts in memory: the same stages, models and rules as in `[[rerank.stages]]` of a
job file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.toml_file import explain
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.specs.shipped_plans import PLANS, PlanName, shipped_stages
from answermill.ranking.entry import MEMBERS, StageSettings, check_kinds
from answermill.ranking.rerankers.registry import giving
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList
from answermill.user_errors import as_job_errors, listed

if TYPE_CHECKING:
    from answermill.ranking.plan import Reranked
    from answermill.ranking.reranker import Reranker

Device = Literal["auto", "cpu", "cuda"]


def stage(reranker: str, **settings: Any) -> StageSettings:
    """One stage of a plan: a reranker's name and its settings, e.g. `stage("cascade", drop=[0.3], keep=5)`.

    Raises JobError (78) for an unknown reranker or a wrong setting.
    """
    rerank_section = _job({"rerank": {"stages": [{"reranker": reranker, **settings}]}}).rerank
    assert rerank_section is not None  # given in the line above
    return rerank_section.stages[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence that a plan returned, the best first."""

    text: str
    rank: int
    """Rank of the sentence, from 1."""
    score: float
    """Score of the last stage: higher is better, comparable within one question only; of a stage
    `probability` the probability that the sentence is right."""
    index: int
    """Number, from 0, of the given text that holds it."""
    start: int
    """Code point of that text at which it starts."""


class Plan:
    """Stages with their models loaded.

    Use one plan for many questions:

        plan = Plan([stage("cosinet", keep=25), stage("cascade", drop=[0.2])], device="cpu")
        texts = ["The dam is 126 m high.", "It was completed in 1970."]
        best = plan.rerank("When was the dam completed?", texts)[0]
    """

    @as_job_errors
    def __init__(
        self,
        stages: PlanName | Sequence[StageSettings | str | Reranker],
        *,
        device: Device = "auto",
        encoder: str | None = None,
    ) -> None:
        """`stages`: settings of `stage`, names of rerankers, or rerankers of your own, objects with the
        members of `answermill.ranking.reranker.Reranker` (`load` is not asked for); or the name of a plan
        that ships, as of a job's `rerank.plan`. `encoder`: folder or name of the model for stages that
        compare vectors, the embedded one if None. Raises JobError if a stage, a checkpoint or the device is
        wrong, or if stages do not fit together."""
        from answermill.pipelines.steps.job_plan import load_plan  # imports torch

        if isinstance(stages, str) and stages in PLANS:
            stages = [stage(**table) for table in shipped_stages(stages)]

        with ExitStack() as block:
            tables = []
            for each in listed(stages, "stages", f"['cosinet'], or a plan's name: {', '.join(PLANS)}"):
                if _is_own(each):
                    check_kinds(str(each.name), each)
                    tables.append({"reranker": block.enter_context(giving(each))})
                else:
                    tables.append(_stage_keys(each))

            settings: dict[str, Any] = {"rerank": {"stages": tables}, "workers": {"device": device}}
            if encoder is not None:
                settings["index"] = {"encoder": encoder}
            job = _job(settings)
            self._settings, self._stages = job.rerank.stages if job.rerank else [], load_plan(job)

    def rerank(self, question: str, texts: Sequence[str], *, split: bool = False) -> list[Answer]:
        """Answers that the plan keeps, best first; texts of equal score in their given order.

        `split` is for texts that are passages: they are cut into sentences first. Stages that read passages
        read each text as one.
        """
        return self.rerank_all([(question, texts)], split=split)[0]

    @as_job_errors
    def rerank_all(
        self,
        questions: Sequence[tuple[str, Sequence[str]]],
        *,
        split: bool = False,
        ids: Sequence[str] | None = None,
    ) -> list[list[Answer]]:
        """Answers to several questions at once, which fills the batches of a GPU; see `rerank`.

        `ids`: those by which the table of a stage `scores` knows the questions; their texts if None. Raises
        JobError (65) if a question or text is none, naming it, or if the ids are not as many as the
        questions.
        """
        if ids is not None and len(ids) != len(questions):
            raise JobError(f"{len(questions):,} questions have {len(ids):,} ids; give one each", BAD_DATA)
        lists = [
            _ranked_list(question if ids is None else ids[n], question, texts, split)
            for n, (question, texts) in enumerate(questions)
        ]
        return [list(_answers(outcome)) for outcome in self.run(lists)]

    @as_job_errors
    def bar(self, max_wrong: float, confidence: float = 0.9) -> float:
        """Least score of a first answer if at most `max_wrong` of those given may be wrong, as
        `rerank.answers.max_wrong` of a job chooses it; the plan ends with a stage `probability`.

        Raises JobError (78), with why, if no bar can promise it, or the scores are no probabilities.
        """
        from answermill.pipelines.steps.rerank.answers import AnswerRule

        answers = {"max_wrong": max_wrong, "confidence": confidence}
        job = _job({"rerank": {"stages": [_stage_keys(s) for s in self._settings], "answers": answers}})
        assert job.rerank is not None  # given in the line above
        return AnswerRule.of(job, job.rerank).bar

    @as_job_errors
    def run(self, lists: Sequence[RankedList]) -> list[Reranked]:
        """Run the stages over whole ranked lists of passages; returns the kept and the departed candidates.

        Raises JobError (65) if a stage with `missing_context = "refuse"` reads titles, or neighbours, and no
        passage has any.
        """
        from answermill.pipelines.steps.rerank.missing_context import check_context
        from answermill.ranking.plan import run_stages

        check_context(
            self._settings, lambda: self._stages, lambda: (c.hit.passage for r in lists for c in r.candidates)
        )
        return run_stages(lists, self._stages)


def rerank(
    question: str,
    texts: Sequence[str],
    plan: Plan | PlanName | Sequence[StageSettings | str | Reranker] = ("cascade",),
    *,
    split: bool = False,
    device: Device = "auto",
) -> list[Answer]:
    """Rank `texts` as answers to `question` by a plan; see `Plan.rerank`.

    A plan given by name or as stages loads its models for this call alone; load a `Plan` once to rerank for
    many questions.
    """
    loaded = plan if isinstance(plan, Plan) else Plan(plan, device=device)
    return loaded.rerank(question, texts, split=split)


def _job(settings: dict[str, Any]) -> Job:
    """Job with these sections of a job file. Raises JobError (78) if a key or value is wrong."""
    try:
        return Job.model_validate(settings)
    except ValidationError as e:
        raise JobError("; ".join(explain(error, Job, settings) for error in e.errors()), SETTINGS) from e


def _is_own(stage: object) -> bool:
    """True for a reranker that the caller has built."""
    return not isinstance(stage, type) and all(hasattr(stage, member) for member in MEMBERS)


def _stage_keys(stage: StageSettings | str) -> dict[str, Any]:
    if isinstance(stage, str):
        return {"reranker": stage}
    if isinstance(stage, StageSettings):
        return stage.model_dump(exclude_unset=True)
    raise JobError(
        f"a stage is the name of a reranker, what am.stage(name, ...) gives, or a reranker of your own with "
        f"{', '.join(MEMBERS)}, and not a {type(stage).__name__}",
        SETTINGS,
    )


def _ranked_list(question_id: str, question: str, texts: Sequence[str], split: bool) -> RankedList:
    """Ranked list with each text as one passage, in one sentence or split; positions count from 0."""
    _check_text(question, "the question")
    passages = (
        _passage(n, _check_text(text, f"text {n} of the question {question!r:.60}"), split)
        for n, text in enumerate(listed(texts, "texts", "[text]"))
    )
    candidates = (
        Candidate(Hit(question_id, question, rank, 1 / rank, None, None, None, None, passage), None, rank - 1)
        for rank, passage in enumerate(passages, 1)
    )
    return RankedList(Question(question_id, question), tuple(candidates))


def _check_text(text: object, name: str) -> str:
    """The text. Raises JobError (65) if it is none, or has letters that no encoding can write."""
    if not isinstance(text, str):
        raise JobError(f"{name} is {text!r:.40}; give a string", BAD_DATA)
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise JobError(
            f"{name} has half a surrogate pair, {text[e.start]!r}, at {e.start}; decode it again, or give "
            "text.encode(errors='replace').decode()",
            BAD_DATA,
        ) from None
    return str(text)


def _passage(n: int, text: str, split: bool) -> Passage:
    spans: Sequence[tuple[int, int]] = [(0, len(text))]
    if split:
        from answermill.indexing.passages.sentences import sentence_spans

        spans = list(sentence_spans(text)) or spans  # a blank text stays, as a sentence without words
    sentences = tuple(Sentence(f"{n}@{start}", start, end, text[start:end]) for start, end in spans)
    return Passage(f"{n}#0", str(n), "", "", 0, len(text), text, sentences)


def _answers(outcome: Reranked) -> Iterator[Answer]:
    for rank, candidate in enumerate(outcome.kept.candidates, 1):
        place = candidate.sentence or candidate.hit.passage
        yield Answer(candidate.text, rank, candidate.score, int(candidate.hit.passage.doc_id), place.start)
