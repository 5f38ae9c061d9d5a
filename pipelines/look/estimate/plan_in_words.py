"""A plan in words and as a table, before any work: what each stage reads, keeps and costs.

Candidates are counted from the settings alone: at most as many passages as the indexes return, SENTENCES of
them to a passage, and of these what each stage's `keep` and `drop` leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.look.estimate.rates import Rates
from answermill.pipelines.specs.rerank import RERANK
from answermill.pipelines.steps.job_plan import plan_settings
from answermill.pipelines.steps.models import checkpoint_folder
from answermill.ranking.entry import Entry, StageSettings
from answermill.ranking.rerankers.registry import find

SENTENCES = 6.5
"""Sentences in a passage of about 100 words, as in the sample."""
_DEPTH, _SOURCES = 100, 2  # of a job without [retrieve]: the defaults
_ARITHMETIC = "arithmetic on known scores, next to nothing"
_PAIR = "a transformer over each pair of question and candidate"
_WORDS: Mapping[str, tuple[str, str]] = {
    "bi_encoder": (
        "orders by the cosine of question and candidate",
        "a published encoder over each",
    ),
    "blend": ("orders by a weighted sum of scores that are known", _ARITHMETIC),
    "blend_passages": ("orders passages by a weighted sum of scores that are known", _ARITHMETIC),
    "cascade": ("orders by a transformer that lets candidates go at exits between its layers", _PAIR),
    "compare_aggregate": (
        "orders by words compared one by one, over the list",
        "word vectors, on a processor",
    ),
    "complete_sentence": ("drops headings, menu entries and other fragments", "a look at each text"),
    "cosinet": ("orders by word vectors and what the list has in common", "word vectors, on a processor"),
    "cosinet_passages": ("orders whole passages by word vectors", "word vectors, on a processor"),
    "cross_encoder": ("orders by a published cross-encoder", _PAIR),
    "hashing": ("orders by bits of question and candidate", "a transformer where the index has no codes"),
    "late_interaction": ("orders by the best match of each word's vector", "a published encoder of tokens"),
    "multihead": ("orders by the mean of a student's heads", _PAIR),
    "overlap": ("orders by the number of the question's words", "a look at each text"),
    "peasi": ("orders sentences by their passage's score and their own", "a transformer over whole passages"),
    "peasi.easi": ("takes one sentence out of each passage", "a transformer over whole passages"),
    "peasi.pr": ("orders passages", "a transformer over whole passages"),
    "pointwise": ("orders by a monolithic cross-encoder", _PAIR),
    "probability": ("says how likely each candidate is right, and keeps the order", _ARITHMETIC),
    "probability_passages": ("says how likely each passage is right, and keeps the order", _ARITHMETIC),
    "same_answer": ("orders by the number of pages that say the same", "texts compared with each other"),
    "scores": ("orders by scores of a table", "a look into the table"),
    "sequential": ("orders by several cross-encoders of growing depth, each over fewer", _PAIR),
    "similarity": ("orders by the cosine of question and sentence", "the job's encoder over each candidate"),
    "support_pairs": (
        "orders by what other good candidates say for each",
        "a transformer over each pair of candidates",
    ),
    "support_vectors": (
        "orders by the cosine with other good candidates",
        "the job's encoder over each candidate",
    ),
}
"""Reranker → what it does, and what costs."""


@dataclass(frozen=True, slots=True)
class StageInWords:
    """A stage, with the candidates of one question that come in and stay, at most."""

    key: str
    reads: str
    incoming: float
    outgoing: float
    megabytes: float
    """Size of its model's files; 0 if it has none."""
    does: str
    keeps: str
    costs: str
    seconds: float | None
    """Processor seconds of a question, by the rates of a machine; None if they are not known."""


def stages_in_words(job: Job, rates: Rates | None = None) -> Iterator[StageInWords]:
    """The stages of the job's plan in order. Raises JobError (78) if it has none, or they do not fit."""
    settings, retrieve = plan_settings(job), job.retrieve
    passages = float(_DEPTH * _SOURCES if retrieve is None else retrieve.depth * len(retrieve.sources))
    kind, count = "passage", passages

    for stage in settings.stages:
        entry = find(stage.reranker)
        reranker = entry.reranker_of(stage)
        if (kind, reranker.reads) == ("passage", "sentence"):
            count *= SENTENCES
        elif reranker.reads == "passage":
            count = min(count, passages)

        folder = checkpoint_folder(job, stage)
        config = _config(folder)
        left, share = _left(stage, count, config)
        does, costs = _WORDS.get(stage.reranker, (_first_sentence(reranker), "unknown here"))
        yield StageInWords(
            stage.key,
            f"{reranker.reads}s",
            count,
            left,
            _megabytes(folder),
            f"{does}{_reading(stage)}",
            _keeps(stage, left, count),
            f"{costs}{_model(entry, stage, config, share)}",
            None if rates is None else _seconds(rates, stage, count),
        )
        kind, count = reranker.writes, left


def plan_lines(job: Job, rates: Rates | None = None) -> Iterator[str]:
    """The plan for people: what comes in, a table, and a sentence or two a stage."""
    stages = list(stages_in_words(job, rates))
    retrieve = job.retrieve
    depth, sources = (_DEPTH, ["bm25", "dense"]) if retrieve is None else (retrieve.depth, retrieve.sources)
    yield (
        f"A question comes with up to {depth * len(sources):,} passages: {depth:,} from each of "
        f"{' and '.join(sources)}, at about {SENTENCES} sentences a passage."
    )
    yield ""

    timed = any(stage.seconds is not None for stage in stages)
    width = max(5, *(len(stage.key) for stage in stages))
    yield f"   {'stage':<{width}}  {'reads':<9}  {'comes in':>8}  {'stays':>8}  {'model':>9}" + (
        f"  {'a question':>10}" * timed
    )
    for n, stage in enumerate(stages, 1):
        size = f"{stage.megabytes:,.1f} MB" if stage.megabytes else "-"
        row = f"{n:>2} {stage.key:<{width}}  {stage.reads:<9}  {stage.incoming:>8,.0f}"
        seconds = "-" if stage.seconds is None else f"{1000 * stage.seconds:,.0f} ms"
        yield f"{row}  {stage.outgoing:>8,.0f}  {size:>9}" + (f"  {seconds:>10}" * timed)
    if timed:
        yield f"{'':3}{'all':<{width}}{1000 * sum(stage.seconds or 0 for stage in stages):>{45},.0f} ms"

    yield ""
    for n, stage in enumerate(stages, 1):
        yield f"{n:>2} {stage.key}: {stage.does}; {stage.keeps}. Cost: {stage.costs}."
    yield ""
    advice = (
        "" if timed else "; `answermill plan JOB.toml --save-rates FILE` measures, and --rates FILE adds it"
    )
    yield f"Numbers are of one question, at the most, by the settings alone{advice}."


def _left(stage: StageSettings, count: float, config: Mapping[str, Any]) -> tuple[float, float]:
    """(candidates that stay, at most; share of the model's layers that they pass together)."""
    left, share = count, 1.0
    drop, exits = getattr(stage, "drop", None), config.get("exits")
    if drop and exits:
        rates = list(drop) * (len(exits) - 1) if len(drop) == 1 else list(drop)
        left, share = after_exits(count, exits, rates)
    return (left if stage.keep is None else min(left, stage.keep)), share


def after_exits(count: float, exits: Sequence[int], drop: Sequence[float]) -> tuple[float, float]:
    """(candidates after the last exit, share of all layers that the candidates pass) of a cascade with these
    exits, by layer, at each of which but the last a share is dropped.

    >>> after_exits(100, [2, 4], [0.5])
    (50.0, 0.75)
    """
    work, before, left = 0.0, 0, float(count)
    for n, layer in enumerate(exits):
        work += (layer - before) * left
        before = layer
        if n < len(drop) and n < len(exits) - 1:
            left *= 1 - drop[n]
    return left, work / (count * exits[-1]) if count else 1.0


def _keeps(stage: StageSettings, left: float, count: float) -> str:
    if stage.keep is not None and left < count:
        return f"the best {stage.keep:,} stay"
    if left < count:
        return f"{100 * left / count:.0f} % stay"
    return "keeps all that it does not drop" if stage.reranker == "complete_sentence" else "all stay"


def _reading(stage: StageSettings) -> str:
    """What is read beside the sentence, of a stage that says so."""
    context: Sequence[str] = getattr(stage, "context", ["sentence"])
    return "" if list(context) == ["sentence"] else f", of {' and '.join(context)} as one text"


def _model(entry: Entry, stage: StageSettings, config: Mapping[str, Any], share: float) -> str:
    name = stage.checkpoint or (f"the {entry.checkpoint} that ships" if entry.checkpoint else "")
    parts = [f"by {name}"] if name else []
    if share < 1:
        parts.append(
            f"{100 * share:.0f} % of what all candidates through all {config['exits'][-1]} layers cost"
        )
    return "".join(f", {part}" for part in parts)


def _seconds(rates: Rates, stage: StageSettings, count: float) -> float | None:
    """Processor seconds of a question, if the machine's rates have the stage."""
    rate = rates.item.get(f"{RERANK.name} {stage.key}")
    return None if rate is None else rate * count


def _config(folder: Path | None) -> Mapping[str, Any]:
    file = None if folder is None else folder / "config.json"
    if file is None or not file.is_file():
        return {}
    config = json.loads(file.read_text(encoding="utf-8"))
    return config if isinstance(config, dict) else {}


def _megabytes(folder: Path | None) -> float:
    return 0.0 if folder is None else sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def _first_sentence(reranker: type) -> str:
    """What the class of a plug-in says of itself."""
    text = " ".join((reranker.__doc__ or "a reranker of a plug-in").split())
    return text.partition(". ")[0].rstrip(".")
