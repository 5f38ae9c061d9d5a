"""Rerank: retrieved passages in; scored candidates out, one row for each with its whole history, and the best
answers.

A part of retrieved/ is one unit of work: whole lists of some questions, so that list-wise rerankers see what
they need; the part of questions/ with its number has these questions, and those that found nothing. Within it
groups of questions are done one after the other (question_groups.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from answermill.pipelines.config.growth import Cost, WholeStep
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import carry, define
from answermill.pipelines.errors import BAD_DATA, JobError, counted
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.failures import REASON, Failure
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.parquet_folder import Folder, read_batches, read_part
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meter
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.specs.rerank import (
    ANSWERS,
    ANSWERS_FILE,
    RERANK,
    SCORED,
    SCORED_REJECTS,
    RerankCounts,
    StageCounts,
)
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.index import sentence_codes
from answermill.pipelines.steps.job_plan import (
    CheckedPlan,
    check_stages,
    load_checked,
    load_without_encoder,
    plan_settings,
    stage_models,
)
from answermill.pipelines.steps.model_work import ModelWork
from answermill.pipelines.steps.models import device_of, encoder_settings
from answermill.pipelines.steps.rerank.answers import (
    ALL_GIVEN,
    AnswerRule,
    best_of,
    questions_of,
    write_jsonl,
)
from answermill.pipelines.steps.rerank.missing_context import check_context
from answermill.pipelines.steps.rerank.question_groups import KeptGroups, groups, ranked_lists
from answermill.pipelines.steps.since.earlier_scores import (
    Former,
    StepPlan,
    computed_again,
    same_stages,
    taking_over,
)
from answermill.pipelines.steps.since.former_run import former_run
from answermill.ranking.plan import Stage
from answermill.schemas.corpus import Question, Rejected
from answermill.schemas.ranked import Answer, Hit, ScoredCandidate


def step_of(job: Job, run: Path) -> Step[RerankCounts]:
    """The rerank step of a run. Raises JobError if retrieved/ is missing, ModelMissing if its encoder cannot
    be had."""
    return _step(job, run, CheckedPlan.of(job))


def _step(job: Job, run: Path, plan: CheckedPlan) -> Step[RerankCounts]:
    retrieved = RETRIEVED.open(run)
    settings = plan.settings.model_dump(exclude={"allow_empty", "since"})  # these decide no row
    inputs = {"retrieved": retrieved.digest(), **plan.inputs}
    if plan.uses_encoder:
        settings["encoder"] = encoder_settings(job, search=False)
    if plan.settings.answers.has_bar:
        rule = AnswerRule.of(job, plan.settings)
        settings["answer_rule"] = {"bar": rule.bar, "promise": rule.promise}
    return Step(run, RERANK, settings, inputs)


def rerank(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; return its summary line. Raises JobError (65) if nothing at all is
    kept."""
    return rerank_plan(job, run, beam_options, CheckedPlan.of(job))


def rerank_plan(job: Job, run: Path, beam_options: Sequence[str], plan: CheckedPlan) -> str:
    """Run the step, unless it is complete, by the job's checked plan. Returns and raises as `rerank`."""
    step = _step(job, run, plan)
    commit = Commit(step)
    if commit.is_complete():
        return summary(run) + " (complete)"

    retrieved = RETRIEVED.open(run)
    questions = questions_of(run, retrieved)
    commit.begin(job.workers)
    sentence_codes.check(plan.stages, plan.codes, run)
    check_context(
        plan.stages,
        lambda: load_without_encoder(plan, run),
        lambda: (hit.passage for hit in retrieved.read()),
    )

    work = _work(job, run, plan, step)
    sizes = [part.rows for part in retrieved.parts]

    def reject(failure: Failure) -> Report[RerankCounts]:
        return reject_part(questions, retrieved, failure, step)

    processes = job.workers.processes
    outcome = carry(
        step, len(sizes), work, beam_options, processes, sizes=sizes, what="passages", reject=reject
    )
    counts = outcome.counts
    if sum(sizes) != counts.passages + counts.rejected_passages:
        raise RuntimeError(f"{sum(sizes)} passages came in: {counts}")

    if counts.candidates and not counts.kept and not plan.settings.allow_empty:
        raise JobError(
            f"rerank kept none of {counts.candidates:,} candidates of {counts.questions:,} questions"
            f"{counts.emptied}; look at `drop`, `threshold` and the checkpoints of the stages, or, if that "
            "may be, set rerank.allow_empty = true",
            BAD_DATA,
        )

    answers = write_jsonl(run, outcome.parts(ANSWERS.name))
    commit.finish(outcome, [answers])
    return summary(run)


def _work(job: Job, run: Path, plan: CheckedPlan, step: Step[RerankCounts]) -> RunStages:
    retrieved = RETRIEVED.open(run)
    return RunStages(plan, questions_of(run, retrieved), retrieved, step, _former(job, run, plan))


def join(job: Job, run: Path, _block: str, engine: Engine) -> None:
    """Do a machine's share of the units."""
    plan = CheckedPlan.of(job)
    step = _step(job, run, plan)
    define(engine, step, len(RETRIEVED.open(run).parts), _work(job, run, plan, step))


def check(job: Job, run: Path) -> CheckedPlan:
    """Refuse what the step would refuse; return its plan. Raises as `check_stages`, and JobError if the
    earlier run has no scores."""
    plan = check_stages(job, run)
    AnswerRule.of(job, plan.settings)
    _former_scores(job, run)
    return plan


def _former_scores(job: Job, run: Path) -> Folder[ScoredCandidate] | None:
    earlier = former_run(job, "rerank", run)
    return None if earlier is None else SCORED.open(earlier)


def _former(job: Job, run: Path, plan: CheckedPlan) -> Former | None:
    """The earlier run whose scores are taken over; None if there is none, or if none of its stages is one of
    the plan's."""
    scored = _former_scores(job, run)
    if scored is None:
        return None

    same = same_stages(
        StepPlan(
            plan.stages,
            plan.model_of_stage,
            stage_models,
            encoder_settings(job, search=False),
            RERANK.revision,
        ),
        scored,
    )
    if reason := computed_again(plan.stages):
        print_line(f"rerank.since: {reason}")
    if not same:
        print_line(
            f"rerank.since: no stage of {scored.path.parent} has scores for this plan, so none are taken "
            "over; a stage takes over those that one with its model and settings gave there"
        )
        return None

    return Former(scored.path.parent, same)


class RunStages(ModelWork):
    """A part of questions and of their retrieved hits → a part of scored candidates and of answers; and the
    unit's report."""

    def __init__(
        self,
        plan: CheckedPlan,
        questions: Folder[Question],
        retrieved: Folder[Hit],
        step: Step[RerankCounts],
        former: Former | None = None,
    ) -> None:
        super().__init__(step.name, step.work, RerankCounts)
        self._plan, self._step, self._former = plan, step, former
        self._questions, self._retrieved = questions, retrieved
        self._rule = AnswerRule.of(plan.job, plan.settings)

    def load(self) -> None:
        stages = load_checked(self._plan, self._step.run)
        self._stages = taking_over(stages, self._former) if self._former is not None else stages

    def work(self, unit: int) -> None:
        with Meter(self._step.work, unit) as meter:
            on_card = device_of(self._plan.job.workers.device) == "cuda"
            rerank_part(
                unit,
                self._questions,
                self._retrieved,
                self._stages,
                self._step,
                rule=self._rule,
                on_group=meter.add,
                on_card=on_card,
            )


def rerank_part(
    unit: int,
    questions: Folder[Question],
    retrieved: Folder[Hit],
    plan: Sequence[Stage],
    step: Step[RerankCounts],
    *,
    rule: AnswerRule = ALL_GIVEN,
    on_group: Callable[[int, int], object] = lambda passages, resumed: None,
    on_card: bool = False,
) -> None:
    """Run the plan over one part's lists, group by group; write all candidates and the best; report the unit.
    `rule`: which of the best are given as answers.

    `on_group` is called after each group with the number of its passages, and of those that a former run had
    done. `on_card`: in groups that suit a graphics card.
    """
    kept = KeptGroups(step.work / f"groups-{unit:05d}")
    counts = RerankCounts()
    best: dict[str, Answer] = {}

    with SCORED.writer(step.run, unit) as scored, ANSWERS.writer(step.run, unit) as answers:
        hits = read_part(retrieved.path, retrieved.parts[unit], Hit)
        for number, lists in enumerate(groups(ranked_lists(hits), on_card)):
            before = kept.read(number, lists)
            rows, group_counts = before or kept.rerank(number, lists, plan)
            scored.write(rows)
            best |= best_of(lists, rows, rule)
            counts = counts + group_counts
            on_group(group_counts.passages, group_counts.passages if before else 0)
        for question in read_part(questions.path, questions.parts[unit], Question):
            answers.write([best.get(question.question_id) or Answer(question.question_id, question.text)])
    counts = replace(
        counts,
        answered=sum(answer.answer is not None for answer in best.values()),
        declined=sum(answer.declined is not None for answer in best.values()),
        several_pages=sum((answer.pages or 0) > 1 for answer in best.values()),
        several_sites=sum((answer.sites or 0) > 1 for answer in best.values()),
    )
    step.reports.write(Report(unit, {SCORED.name: scored.parts, ANSWERS.name: answers.parts}, counts))
    kept.delete()


def reject_part(
    questions: Folder[Question], retrieved: Folder[Hit], failure: Failure, step: Step[RerankCounts]
) -> Report[RerankCounts]:
    """Write the questions of a part whose unit failed to scored_rejects/ and, without an answer, to
    answers/."""
    part = retrieved.parts[failure.unit]
    passages = Counter[str]()
    first: dict[str, int] = {}  # question → the row of its first passage

    for batch in read_batches(retrieved.path, part, ["question_id"]):
        for question_id in batch.column("question_id").to_pylist():
            first.setdefault(question_id, passages.total())
            passages[question_id] += 1

    with (
        SCORED.writer(step.run, failure.unit) as scored,
        ANSWERS.writer(step.run, failure.unit) as answers,
        SCORED_REJECTS.writer(step.run, failure.unit) as rejects,
    ):
        for question in read_part(questions.path, questions.parts[failure.unit], Question):
            answers.write([Answer(question.question_id, question.text)])
        for question_id, row in first.items():
            detail = f"{counted(passages[question_id], 'passage')}: {failure.reason}"
            rejects.write(
                [Rejected(f"{retrieved.path.name}/{part.file}", row, question_id, "", REASON, detail)]
            )

    counts = RerankCounts(
        failed_units=1, rejected={REASON: rejects.part.rows}, rejected_passages=passages.total()
    )
    parts = {SCORED.name: scored.parts, ANSWERS.name: answers.parts, SCORED_REJECTS.name: rejects.parts}
    return step.reports.write(Report(failure.unit, parts, counts))


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = RERANK.counts_of(SCORED.open(run).manifest)
    failed = f" + {counted(counts.rejects, 'reject')} ({REASON})" if counts.rejects else ""
    grouped = f" + {counts.grouped:,} grouped" if counts.grouped else ""
    clauses = [
        f"{counted(counts.questions, 'question')}{failed}, {counted(counts.passages, 'passage')}",
        f"{counted(counts.candidates, 'candidate')} = {counts.kept:,} kept{grouped} + {counts.dropped:,} "
        "dropped",
        *([_given(counts)] if counts.declined else []),
        *(clause for stage in counts.stages.items() for clause in stage_clauses(*stage, counts.questions)),
        *([f"{counted(counts.several_pages, 'answer')} on several pages"] if counts.several_pages else []),
    ]
    return f"rerank     {'; '.join(clauses)}; best answers in {ANSWERS_FILE}"


def _given(counts: RerankCounts) -> str:
    asked = counts.answered + counts.declined
    return (
        f"{counts.answered:,} answered, {counts.declined:,} declined ({counts.answered / asked:.0%} answered)"
    )


def stage_clauses(key: str, stage: StageCounts, questions: int) -> Iterator[str]:
    """Clauses for people about a stage: its costs, if the reranker counts them, and what its candidates
    lacked."""
    if (milliseconds := stage.costs.get("milliseconds")) is not None:
        full = stage.full_layer_tokens
        share = f" took {stage.layer_tokens / full:.0%} of all layers × tokens," if full else ""
        yield (
            f"{key}{share} {milliseconds / 1000:,.1f} s, {milliseconds / max(1, questions):,.1f} ms a "
            "question"
        )
    if cut := stage.costs.get("tokens_cut"):
        yield f"{key}: {counted(cut, 'token')} cut, beyond the length that it reads"
    for part, n in stage.missing.items():
        yield f"{key}: {counted(n, 'candidate')} without {part}"
    if encoded := stage.costs.get("sentences_encoded"):
        yield f"{key}: {counted(encoded, 'sentence')} without a stored vector, encoded"
    if (taken := stage.costs.get("taken_over")) is not None:
        yield f"{key}: {counted(taken, 'score')} taken over"


def grow(step: WholeStep) -> None:
    """Scale each stage by its own candidates: after a `keep` no more than that, however many are before
    it."""
    counts, questions, scale = step.sample.counts(RERANK), step.before["questions"], step.scale
    step.counts["layer_tokens"], step.costs = 0, {}
    for stage in plan_settings(step.job).stages:
        sampled = counts.stages[stage.key]
        step.costs[stage.key] = Cost(sampled.seconds, sampled.incoming, sampled.incoming * scale)
        step.counts["layer_tokens"] += sampled.layer_tokens * scale
        if stage.keep is not None and sampled.outgoing:
            scale = min(
                scale, max(questions / max(1, counts.questions), questions * stage.keep / sampled.outgoing)
            )


def foresee(job: Job) -> str:
    """Clause on the plan, and on what it cannot take over from an earlier run."""
    settings = plan_settings(job)
    stages = f"reranks by {', '.join(stage.key for stage in settings.stages)}"
    again = computed_again(settings.stages) if settings.since is not None else ""
    return f"{stages}; {again}" if again else stages


STEP = StepCode(rerank, check, step_of, run_checked=rerank_plan, foresee=foresee, grow=grow, join=join)
