"""Retrieve: questions in; for each the best passages of all shards out, by BM25, by dense vectors, and fused.

Questions that the job's rules refuse, or its sample leaves out, are kept in questions_rejects/. The others
are searched in passes (`plan`), each of which leaves parts for the next in the step's work folder: a run that
was stopped goes on there. No process opens more than a shard at a time, or holds the hits of more than a
group of questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from answermill.indexing.shards.vectors.vector_kinds import first_for
from answermill.pipelines.config.growth import Cost, WholeStep
from answermill.pipelines.config.job_file import Job, Retrieve
from answermill.pipelines.config.step_code import StepCode
from answermill.pipelines.data.inputs.columns import Columns
from answermill.pipelines.data.inputs.questions import QuestionChoice, choose, describe
from answermill.pipelines.engine.protocol import Engine
from answermill.pipelines.engine.runner import naming_what_is_missing, open_engine
from answermill.pipelines.errors import counted
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.step import Step
from answermill.pipelines.runs.watch.meter import Meters, add_up
from answermill.pipelines.runs.watch.progress import progress
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.retrieve import (
    QUESTIONS_REJECTS,
    RETRIEVE,
    RETRIEVED,
    PassCounts,
    RetrieveCounts,
)
from answermill.pipelines.steps.models import (
    check_engines,
    encoder_inputs,
    encoder_settings,
)
from answermill.pipelines.steps.retrieve.asked_questions import (
    AskedQuestions,
    settings_of,
    write_asked,
    written_asked,
)
from answermill.pipelines.steps.retrieve.feedback import (
    CountFeedback,
    FeedbackWord,
    ReadFeedback,
    first_settings,
)
from answermill.pipelines.steps.retrieve.more_candidates import FindWanted, SearchAgain, Wanted
from answermill.pipelines.steps.retrieve.open_shards import RunShards
from answermill.pipelines.steps.retrieve.passes import ON_CARD, TIMES, Pass, Turn, define
from answermill.pipelines.steps.retrieve.shard_hits import QuestionVector, ShardHit
from answermill.pipelines.steps.retrieve.shard_search import (
    CountWords,
    EncodeQuestions,
    SearchShard,
)
from answermill.pipelines.steps.retrieve.word_counts import WordCount
from answermill.pipelines.steps.retrieve.write_blocks import WriteBlocks
from answermill.schemas.record import Record


def choose_questions(job: Job) -> QuestionChoice:
    """The questions that are searched, and those that are not. Raises JobError as `questions.choose` does."""
    settings = settings_of(job)
    return choose(job.path(settings.questions), settings)


def check(job: Job, run: Path) -> None:
    """Check the questions, and look for Java, Lucene and the encoder, before any work. Raises as
    `choose_questions` and `check_engines`."""
    choose_questions(job)
    check_engines(job)


def step_of(job: Job, run: Path) -> Step[RetrieveCounts]:
    """The retrieve step of a run. Raises JobError if shards/ or the questions are missing, ModelMissing if an
    encoder is."""
    shards = SHARDS.open(run)
    settings = settings_of(job)
    questions = Columns.of(settings.columns).digest(job.path(settings.questions))
    inputs = {"questions": questions, "shards": shards.manifest.fingerprint}
    others = {"questions", "columns", *(["rm3"] if settings.rm3 is None else [])}
    decisive = settings.model_dump(exclude=others)
    if "dense" in settings.sources:
        decisive["encoder"] = encoder_settings(job) | _widened(shards.manifest)
        inputs |= encoder_inputs(job)
    return Step(run, RETRIEVE, decisive, inputs)


def _widened(shards: Manifest) -> dict[str, int]:
    """How many times as wide as by itself the dense index is searched, if more than once."""
    times = INDEX.counts_of(shards).recall_times
    return {"times": times} if times > 1 else {}


def retrieve(job: Job, run: Path, beam_options: Sequence[str] = ()) -> str:
    """Run the step, unless it is complete; return its summary line."""
    step, settings = step_of(job, run), settings_of(job)
    commit = Commit(step)
    if commit.is_complete():
        return summary(run) + " (complete)"

    commit.begin(job.workers)
    choice = choose_questions(job)
    questions = choice.questions
    blocks = -(-len(questions) // settings.block)
    done = step.reports.numbers()
    pending = [number for number in range(blocks) if number not in done]
    asked = write_asked(step, questions, pending, settings.block, job.workers)
    turns = plan(asked, RunShards.of(job, run), settings, step)

    if pending:
        for turn in turns:
            Commit(turn.target.step).begin(job.workers)
        # A group whose blocks were written may have lost one since.
        turns[-1].target.step.reports.forget(asked.groups_with(pending))
        meters = [Meters(turn.target.step.work, turn.sizes) for turn in turns]
        items, units = sum(sum(turn.sizes) for turn in turns), sum(len(turn.sizes) for turn in turns)

        with (
            progress("retrieve", items, lambda: add_up(meters), what="look-ups", units=units),
            naming_what_is_missing(step, blocks),
            open_engine(
                beam_options,
                job.workers.processes,
                max(len(turn.sizes) for turn in turns),
                step.work,
                step.name,
            ) as engine,
        ):
            define(engine, turns)
        turns[-1].target.reports(asked.groups)  # raises if a unit of any pass has failed

    outcome = commit.reported(blocks)
    outcome.include(write_rejects(choice, step, blocks))
    if asked.part.rows == len(questions):  # else blocks were lost, and the time of the others is unknown
        outcome.include(Report(blocks, {}, times(turns)))
    if outcome.counts.questions != len(questions):
        raise RuntimeError(f"{len(questions)} questions came in, {outcome.counts.questions} were searched")

    commit.finish(outcome)
    return summary(run)


def join(job: Job, run: Path, _block: str, engine: Engine) -> None:
    """Do a machine's share of all passes."""
    step, settings = step_of(job, run), settings_of(job)
    define(engine, plan(written_asked(step, settings.block), RunShards.of(job, run), settings, step))


def plan(
    asked: AskedQuestions, shards: RunShards, settings: Retrieve, step: Step[RetrieveCounts]
) -> list[Turn]:
    """The passes that search the asked questions, in their order. `look/ask/block_search.py` does the same
    without passes, a block at a time.

    Each writes parts for the next into the step's work folder, and the last one the parts of the step.
    """
    # What a pass writes depends on the step's own settings and on the division of the questions.
    division = {"asked": asked.part.sha256, "cut": f"{asked.blocks_per_group} {asked.groups_per_batch}"}
    in_group = [asked.questions_in(asked.group(number)) for number in asked.groups]
    in_batch = [sum(in_group[batch.start : batch.stop]) for batch in map(asked.batch, asked.batches)]
    turns: list[Turn] = []
    words = vectors = None

    def define_pass(name: str, record: type[Record], units: int) -> Pass:
        return Pass(step.within(name, {name: record}, PassCounts, division), units)

    # Of an index that is not exact, each of many shards sends a few candidates, and more that are wanted.
    width = shards.width(settings.depth)
    if width.candidates and "dense" in settings.sources:
        width = replace(width, first=first_for(width.candidates, shards.count))
    if width.first:
        division |= {"first": str(width.first)}

    # A unit is a group of questions: they are encoded once, not once for each shard.
    if "dense" in settings.sources:
        vectors = define_pass("vectors", QuestionVector, len(asked.groups))
        turns.append(Turn("Encode questions", vectors, EncodeQuestions(vectors, asked, shards.job), in_group))

    # A unit is a shard: in how many of its passages each word of all questions occurs.
    if "bm25" in settings.sources:
        words = define_pass("words", WordCount, shards.count)
        turns.append(
            Turn("Count words", words, CountWords(words, asked, shards), [asked.part.rows] * shards.count)
        )

    in_search = [size for size in in_batch for _ in range(shards.count)]
    feedback = None
    if settings.rm3 is not None:
        first = define_pass("first", ShardHit, len(in_search))
        search = SearchShard(first, asked, shards, first_settings(settings), words=words, vectors=None)
        turns.append(Turn("Search for feedback", first, search, in_search))

        read = define_pass("feedback", FeedbackWord, len(asked.groups))
        turns.append(
            Turn("Read feedback", read, ReadFeedback(read, asked, shards, settings, first), in_group)
        )
        added = define_pass("added", WordCount, shards.count)
        count = CountFeedback(added, asked, shards, read)
        turns.append(Turn("Count feedback", added, count, [asked.part.rows] * shards.count))
        feedback = (read, added)

    # A unit is a shard and a batch of questions: its best for each, in a part for each group of the batch.
    hits = define_pass("hits", ShardHit, len(in_search))
    search = SearchShard(
        hits, asked, shards, settings, words=words, vectors=vectors, width=width, feedback=feedback
    )
    turns.append(Turn("Search", hits, search, in_search))
    passes = [hits]

    if width.first and vectors is not None:
        wanted = define_pass("wanted", Wanted, len(asked.groups))
        find = FindWanted(wanted, asked, shards, settings, width=width, hits=hits)
        turns.append(Turn("Find wanted candidates", wanted, find, in_group))
        more = define_pass("more", ShardHit, len(in_search))
        again = SearchAgain(more, asked, shards, settings, width=width, vectors=vectors, wanted=wanted)
        turns.append(Turn("Search for more", more, again, in_search))
        passes.append(more)

    # A unit is a group of questions: it merges a part of each shard, fuses, fetches passages, and writes.
    lists = Pass(step.within("lists", {}, RetrieveCounts, division), len(asked.groups))
    write = WriteBlocks(lists, asked, shards, settings, hits=passes, step=step)
    return [*turns, Turn("Write blocks", lists, write, in_group)]


def times(turns: Sequence[Turn]) -> RetrieveCounts:
    """Milliseconds that all units of the passes have reported."""
    counts = [report.counts for turn in turns for report in turn.target.step.reports.each()]
    return RetrieveCounts(**{name: sum(getattr(unit, name) for unit in counts) for name in (*TIMES, ON_CARD)})


def write_rejects(choice: QuestionChoice, step: Step[RetrieveCounts], unit: int) -> Report[RetrieveCounts]:
    """Write the questions that are not searched to questions_rejects/, as the unit after the last block."""
    with QUESTIONS_REJECTS.writer(step.run, unit) as writer:
        writer.write(choice.rejects)
    total = len(choice.questions) + len(choice.rejects)
    counts = RetrieveCounts(
        questions_given=total,
        questions_numbered=choice.numbered,
        rejected=dict(sorted(choice.reasons.items())),
    )
    return Report(unit, {QUESTIONS_REJECTS.name: writer.parts}, counts)


def summary(run: Path) -> str:
    """One line for people, from the manifest."""
    counts = RETRIEVE.counts_of(RETRIEVED.open(run).manifest)
    questions = counted(counts.questions, "question")
    if counts.rejects:
        reasons = describe(Counter(counts.rejected))
        questions = f"{counts.questions_given:,} given = {questions} + {counts.rejects:,} rejects ({reasons})"
    if counts.questions_numbered:
        questions += " (their ids are line numbers)"
    hits = f"{counted(counts.hits, 'passage')} ({counts.bm25:,} by BM25, {counts.dense:,} by dense)"
    times = (("BM25", counts.bm25_ms), ("dense", counts.dense_ms))
    speed = ", ".join(f"{name} {1000 * counts.questions / ms:,.0f} questions/s" for name, ms in times if ms)
    nothing = f"{counted(counts.without_hits, 'question')} found none"
    return f"retrieve   {questions}, {hits}; {nothing}{f'; {speed}' if speed else ''}"


def sample_depth(depth: int, passages: int) -> int:
    """Passages that a run of a sample of the corpus takes from each index: a fifth of them, or the job's
    depth."""
    return min(depth, max(5, passages // 5))


def grow(step: WholeStep) -> None:
    """Scale the hits by the length of lists, to no more than all passages for each question, and the time of
    BM25 by the shards that each question needs."""
    settings, counts, questions = (
        settings_of(step.job),
        step.sample.counts(RETRIEVE),
        step.before["questions"],
    )
    passages = step.sample.counts(INDEX).passages
    longer = min(settings.depth, step.before[PASSAGES.name]) / min(
        sample_depth(settings.depth, passages), passages
    )
    hits = min(counts.hits * step.scale * longer, questions * step.before[PASSAGES.name])
    step.counts["hits"] = step.rows[RETRIEVED.name] = hits

    bm25 = counts.bm25_ms / 1000
    step.costs = {
        "": Cost(counts.seconds - bm25, counts.questions, questions),
        "in each shard": Cost(bm25, counts.questions, questions * step.units),
    }
    step.parts = -(-round(questions) // settings.block)


def foresee(job: Job) -> str:
    """Clause on the questions; reads all of them."""
    choice = choose_questions(job)
    asked = counted(len(choice.questions), "question")
    if not choice.rejects:
        return f"asks {asked}"
    reasons = describe(choice.reasons)
    return f"asks {asked} of {len(choice.questions) + len(choice.rejects):,} given; refuses {reasons}"


STEP = StepCode(retrieve, check, step_of, foresee=foresee, grow=grow, join=join)
