"""Rank an AS2 data set by name: with a rule baseline, or with any reranker of the registry and its own
settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.formats.format import Form
from answermill.pipelines.errors import SETTINGS, USAGE, JobError, setting_error
from answermill.pipelines.learn.evaluate.candidate_values import SureValue
from answermill.pipelines.runs.watch.progress import print_line
from answermill.pipelines.steps.models import dense_encoder, device_of, encoder_loader
from answermill.pipelines.steps.rerank.missing_context import check_context
from answermill.ranking.entry import StageSettings
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage, ranked_by
from answermill.ranking.reranker import Costed, Reranker
from answermill.ranking.rerankers.baselines.overlap import RULES, WORDS, Rule, rule_scores
from answermill.ranking.rerankers.registry import find, known, load_reranker
from answermill.schemas.corpus import Passage
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.plug_ins import is_code
from answermill.schemas.ranked import RankedList

_LISTS = 64  # handed to a reranker at once


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Options for ranking a data set by name; the defaults are for all rankers."""

    checkpoint: str | None = None
    """The reranker's model folder; the shipped one if None."""
    settings: Sequence[str] = ()
    """The reranker's stage settings, as 'key=value' with TOML's values, e.g. 'drop=[0.2]'."""
    words: str | None = None
    """Definition of a word for the rules WO and WO+RR: a key of
    `answermill.ranking.rerankers.baselines.overlap.WORDS`; cosinet if None."""


DEFAULTS = RankOptions()


def is_ranker(name: str, options: RankOptions = DEFAULTS) -> bool:
    """True for the name of a rule or a reranker. A file or folder of a reranker's name is read as scores,
    unless the options have a checkpoint."""
    if name in RULES or is_code(name):
        return True
    return name in known() and (options.checkpoint is not None or not Path(name).exists())


def rank(name: str, dataset: Path, form: Form = None, options: RankOptions = DEFAULTS) -> Iterator[SureValue]:
    """A data set's candidates, each with its rule's score, or minus its place in the reranker's order; and
    with its score as the confidence. Candidates that the reranker drops are left out.

    Raises JobError: 78 if a setting or checkpoint is wrong or not for this ranker, 66 if it is not there, 2
    if `words` is unknown or not for it, 65 and 66 as `read_dataset` does.
    """
    lists = by_question(read_dataset(dataset, form))
    for rule in RULES:
        if name == rule:
            return _by_rule(rule, lists, options)
    if options.words is not None:
        raise JobError(f"--words {options.words} is for WO and WO+RR; leave it out for {name}", USAGE)
    reranker, checkpoint = load_ranker(name, options)
    settings = find(name).stage(**_settings(name, options.settings))
    check_context([settings], lambda: [Stage(name, reranker)], lambda: _passages(dataset, form))
    return _by_reranker(name, checkpoint, reranker, lists)


def _passages(dataset: Path, form: Form) -> Iterator[Passage]:
    return (
        c.hit.passage
        for rows in by_question(read_dataset(dataset, form))
        for c in ranked_list(rows).candidates
    )


def _by_rule(
    name: Rule, lists: Iterator[list[LabelledCandidate]], options: RankOptions
) -> Iterator[SureValue]:
    if options.checkpoint is not None:
        raise JobError(
            f"{name} takes no checkpoint, but {options.checkpoint!r} is given; leave it out", SETTINGS
        )
    if options.settings:
        raise JobError(
            f"--set {options.settings[0]}: {name} is a rule and has no settings; leave it out", SETTINGS
        )
    words = options.words or "cosinet"
    if words not in WORDS:
        raise JobError(f"--words {words}: unknown; known: {', '.join(WORDS)}", USAGE)

    words_of = WORDS[words]()
    for rows in lists:
        scores = rule_scores(name, rows[0].question, [row.text for row in rows], words_of)
        for row, score in zip(rows, scores, strict=True):
            yield 0, row.question_id, row.candidate_id, score, score


def _by_reranker(
    name: str, checkpoint: Path | None, reranker: Reranker, lists: Iterator[list[LabelledCandidate]]
) -> Iterator[SureValue]:
    while block := [ranked_list(rows) for rows in islice(lists, _LISTS)]:
        yield from _order(ranked_by(reranker, block, f"ranker {name}", checkpoint))
    for key, n in (reranker.costs() if isinstance(reranker, Costed) else {}).items():
        if key.startswith("without_") and n:
            print_line(f"{name}: {n:,} candidates {key.replace('_', ' ')}, which it reads")


def _order(lists: Sequence[RankedList]) -> Iterator[SureValue]:
    for ranked in lists:
        for place, candidate in enumerate(ranked.candidates, 1):
            yield 0, ranked.question.question_id, candidate.candidate_id, float(-place), candidate.score


def load_ranker(name: str, options: RankOptions = DEFAULTS) -> tuple[Reranker, Path | None]:
    """A reranker, and the folder of its model. Raises JobError: 78 if a setting or the checkpoint is
    wrong, 66 if it is not there."""
    settings = _settings(name, options.settings)

    try:
        find(name).stage(**settings).check_scores(())
        reranker = load_reranker(
            name,
            options.checkpoint,
            encoder=dense_encoder,
            model=find_model,
            encoder_of=encoder_loader(),
            device=device_of("auto"),
            **settings,
        )
        return reranker, find(name).folder(options.checkpoint, find_model)
    except ValidationError as e:
        error = e.errors()[0]
        key = ".".join(map(str, error["loc"]))
        raise JobError(f"--set {key}: {error['msg']}, not {error['input']!r}", SETTINGS) from e
    except ValueError as e:
        raise setting_error(e) from e


def _settings(name: str, written: Sequence[str]) -> dict[str, Any]:
    """'key=value's as settings. Raises JobError (78) if the reranker has no such key."""
    known = [key for key in find(name).settings.model_fields if key not in StageSettings.model_fields]
    settings = {}
    for setting in written:
        key, equals, value = setting.partition("=")
        if not equals:
            raise JobError(f"--set {setting}: write key=value, e.g. --set drop=[0.2]", SETTINGS)
        if key not in known:
            choice = f"its settings: {', '.join(known)}" if known else "it has no settings"
            raise JobError(f"--set {setting}: {name} has no setting {key!r}; {choice}", SETTINGS)
        try:
            settings[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key] = value

    return settings


class Counted:
    """A ranker's rows as a stream, and the number of questions read so far; the rows of a question follow
    each other."""

    def __init__(self, rows: Iterable[SureValue]) -> None:
        self._rows, self.questions = rows, 0

    def __iter__(self) -> Iterator[SureValue]:
        for _, rows in groupby(self._rows, key=itemgetter(1)):
            yield from rows
            self.questions += 1
