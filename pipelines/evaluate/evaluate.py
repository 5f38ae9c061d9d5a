"""Evaluate: scores and labels in; a table, JSON and one row per question and metric out.

What is evaluated is a file of scores, or a ranker by name (a rule baseline, or any reranker of the registry) run over an
AS2 data set: both go through the same join and the same metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipelines.datasets import by_question, read_dataset
from pipelines.errors import BAD_DATA, SETTINGS, USAGE, JobError
from pipelines.evaluate.plot import FORMS, plot_coverage
from pipelines.evaluate.scores import FINAL, Joined, Rows, join, read_labels, read_scores
from pipelines.steps.models import device_of
from ranking.baselines.overlap import RULES, WORDS, rule_scores
from ranking.evaluation.metrics import METRICS, PROTOCOLS, UNJUDGED, Protocol, Values, check_metric, measure, unjudged_share
from ranking.evaluation.risk_coverage import RiskCoverage, first_answers, risk_coverage
from ranking.lists import ranked_list
from ranking.registry import RERANKERS, load_reranker
from ranking.reranker import SentenceEncoder
from schemas.atomic_files import write_text
from schemas.evaluation import QuestionScore
from schemas.ranked import RankedList

DEPTHS = (1, 5, 10, 100)
RISKS = (5, 10, 20)
"""Wrong answers, in percent of those given, for which the coverage is told."""
_LISTS = 64  # handed to a reranker at once


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One run of scores under one protocol. Counts are of the questions kept, dropped excepted; metrics are means, 0 to 1."""

    scores: str
    labels: str
    protocol: Protocol
    kept: int
    dropped: int
    unknown_questions: int
    empty_questions: int
    candidates: int
    missing: int
    missing_correct: int
    unjudged: Mapping[str, float]
    """Expected share of unjudged candidates among the first 1, 5, .. ranked ones, and among 'all'."""
    means: Mapping[str, tuple[float, float, float, float]]
    """Metric → (value, worst, best, condensed)."""
    questions: tuple[QuestionScore, ...]
    curve: RiskCoverage | None = None
    """Of all questions that have labels, whatever the protocol; None where it was not asked for."""

    def summary(self) -> dict[str, Any]:
        """One flat object; metrics from 0 to 1."""
        flat: dict[str, Any] = {
            "scores": self.scores,
            "labels": self.labels,
            "protocol": self.protocol,
            "questions_kept": self.kept,
            "questions_dropped": self.dropped,
            "questions_without_labels": self.unknown_questions,
            "questions_without_scores": self.empty_questions,
            "candidates": self.candidates,
            "candidates_missing": self.missing,
            "candidates_missing_correct": self.missing_correct,
        }
        flat |= {f"unjudged@{depth}": share for depth, share in self.unjudged.items()}
        for metric, values in self.means.items():
            names = (metric, f"{metric}_worst", f"{metric}_best", f"{metric}_condensed")
            flat |= dict(zip(names, values, strict=True))
        if self.curve:
            flat |= {"questions_all": self.curve.questions, "questions_answered": len(self.curve.running)}
            flat |= {"accuracy_answered": float(self.curve.accuracy[-1]), "aurc": self.curve.aurc}
            for risk in RISKS:
                flat[f"coverage_at_risk_{risk}pct"] = self.curve.coverage_at(risk / 100)
                flat[f"confidence_at_risk_{risk}pct"] = self.curve.confidence_at(risk / 100)
        return flat

    def lines(self) -> Iterator[str]:
        """The table for people; metrics in percent."""
        yield f"{self.scores} against {self.labels}"
        meaning = {
            "raw": "all questions",
            "answerable": "with a correct candidate",
            "clean": "with correct and wrong candidates",
        }
        what = meaning.get(self.protocol, "as the field's posted code: same text is one question, ties fall to the correct")
        yield f"protocol {self.protocol} ({what}): {self.kept:,} questions kept, {self.dropped:,} dropped"
        if self.unknown_questions:
            yield f"{self.unknown_questions:,} questions of the scores have no label and are left out"
        if self.empty_questions:
            yield f"{self.empty_questions:,} of the questions kept have no score and count 0"
        if self.missing:
            correct = f"{self.missing_correct:,} of them correct"
            yield f"{self.missing:,} judged candidates have no score, {correct}: they count as not found"
        if self.unjudged["all"]:
            shares = ", ".join(f"{100 * share:.1f} % @{depth}" for depth, share in self.unjudged.items() if depth != "all")
            whole = f"{100 * self.unjudged['all']:.1f} % of {self.candidates:,} candidates"
            yield f"unjudged: {whole}, {shares}; they count as wrong, and are left out under 'judged only'"
        yield ""
        heads = ["worst tie", "best tie"] + ["judged only"] * bool(self.unjudged["all"])
        yield f"{'metric':<10}{'value':>8}" + "".join(f"{head:>13}" for head in heads)
        for metric, values in self.means.items():
            rest = values[1 : len(heads) + 1]
            yield f"{metric:<10}{100 * values[0]:>8.2f}" + "".join(f"{100 * v:>13.2f}" for v in rest)
        if self.curve:
            yield ""
            right = f"{len(self.curve.running):,} answered, {100 * self.curve.accuracy[-1]:.2f} % of them right"
            yield f"all {self.curve.questions:,} questions: {right}; the most confident first, AURC {self.curve.aurc:.4f}"
            for risk in RISKS:
                least = self.curve.confidence_at(risk / 100)
                where = "none" if least is None else f"those with a score of at least {least:g}"
                yield f"at most {risk:>2} % wrong: {100 * self.curve.coverage_at(risk / 100):>6.2f} % answered, {where}"

    def write(self, json_file: Path | None, questions_file: Path | None, coverage_files: Sequence[Path] = ()) -> None:
        """The summary as JSON, the questions as Parquet, and the curve as a plot, where a file is named."""
        if json_file:
            write_text(json_file, json.dumps(self.summary(), indent=1, ensure_ascii=False) + "\n")
        if questions_file:
            questions_file.parent.mkdir(parents=True, exist_ok=True)
            table = QuestionScore.table(self.questions)
            pq.write_table(table, questions_file, compression="zstd", write_page_checksum=True)
        if self.curve and coverage_files:
            for file in coverage_files:
                file.parent.mkdir(parents=True, exist_ok=True)
            plot_coverage(coverage_files, {self.scores: self.curve})


def evaluate(
    scores: str,
    labels: Path,
    *,
    protocol: Protocol = "answerable",
    metrics: Sequence[str] = METRICS,
    by: str = FINAL,
    form: str | None = None,
    checkpoint: str | None = None,
    words: str = "cosinet",
    coverage: bool = False,
) -> Evaluation:
    """Evaluate a file or folder of scores, or a ranker by its name, against labels; with the risk-coverage curve by `coverage`.

    Raises JobError: 2 on an unknown protocol or metric, 65 and 66 as the readers do, 78 where a reranker cannot be loaded.
    """
    if protocol not in PROTOCOLS:
        raise JobError(f"unknown protocol {protocol!r}; known: {', '.join(PROTOCOLS)}", USAGE)
    try:
        for metric in metrics:
            check_metric(metric)
    except ValueError as e:
        raise JobError(str(e), USAGE) from e
    known = read_labels(labels, form)
    named = scores in RULES or (scores in RERANKERS and not Path(scores).exists())
    if checkpoint is not None and not named:
        raise JobError(f"--checkpoint {checkpoint} is for a reranker by name; {scores} is none", USAGE)
    if named and not known.closed:
        raise JobError(f"{scores} needs texts to rank; give an AS2 data set as --labels, not {labels}", BAD_DATA)
    found = Rows.of(labels, rank(scores, labels, form, checkpoint, words)) if named else read_scores(Path(scores), by)
    joined = join(found, known)
    made = _evaluation(scores if by == FINAL else f"{scores} by {by}", str(labels), joined, protocol, metrics)
    return replace(made, curve=_curve(scores, joined)) if coverage else made


def check_plots(files: Sequence[Path]) -> None:
    """Raises JobError (2) where a file's name does not end as a plot's."""
    for file in files:
        if file.suffix not in FORMS:
            raise JobError(f"{file}: give a name that ends in {' or '.join(FORMS)}", USAGE)


def rank(
    name: str, dataset: Path, form: str | None = None, checkpoint: str | None = None, words: str = "cosinet"
) -> Iterator[tuple[int, str, str, float, float]]:
    """A data set's candidates with the scores of a rule baseline (its ties left open), or in a reranker's order; for each its
    score as the confidence."""
    lists = by_question(read_dataset(dataset, form))
    if name in RULES:
        if checkpoint is not None:
            raise JobError(f"{name} takes no checkpoint, but {checkpoint!r} is given", SETTINGS)
        if words not in WORDS:
            raise JobError(f"--words {words}: unknown; known: {', '.join(WORDS)}", USAGE)
        words_of = WORDS[words]()
        for rows in lists:
            scores = rule_scores(name, rows[0].question, [row.text for row in rows], words_of)
            for row, score in zip(rows, scores, strict=True):
                yield 0, row.question_id, row.candidate_id, score, score
        return
    try:
        reranker = load_reranker(name, checkpoint, encoder=_default_encoder, model=_model, device=device_of("auto"))
    except ValueError as e:
        raise JobError(str(e), SETTINGS) from e
    block = []
    for rows in lists:
        block.append(ranked_list(rows))
        if len(block) == _LISTS:
            yield from _order(reranker.rerank(block))
            block = []
    yield from _order(reranker.rerank(block))


def _order(lists: Sequence[RankedList]) -> Iterator[tuple[int, str, str, float, float]]:
    for ranked in lists:
        for place, candidate in enumerate(ranked.candidates, 1):
            yield 0, ranked.question.question_id, candidate.candidate_id, float(-place), candidate.score


def _model(name: str) -> Path:
    from indexing.shards.dense import find_model  # imports torch

    return find_model(name)


def _default_encoder() -> SentenceEncoder:
    from pipelines.steps.models import dense_encoder  # imports torch

    return dense_encoder()


def _curve(scores: str, joined: Joined) -> RiskCoverage:
    """The answer to a question is its first candidate, right where that is correct; without a ranked one there is none."""
    try:
        return risk_coverage(*first_answers(joined.judged, joined.confidence))
    except ValueError as e:
        raise JobError(f"{scores}: {e}", BAD_DATA) from e


def _evaluation(scores: str, labels: str, joined: Joined, protocol: Protocol, metrics: Sequence[str]) -> Evaluation:
    judged, ids, texts = joined.judged, joined.question_ids, joined.texts
    if protocol == "compat":
        groups: dict[str, int] = {}
        numbers = np.array([groups.setdefault(text or ids[n], len(groups)) for n, text in enumerate(texts)], np.int64)
        firsts = np.unique(numbers, return_index=True)[1]
        judged, ids, texts = judged.regrouped(numbers), tuple(ids[n] for n in firsts), tuple(texts[n] for n in firsts)
    kept = judged.kept(protocol)
    if not kept.any():
        raise JobError(f"protocol {protocol} keeps none of the {judged.questions} questions of {labels}", BAD_DATA)
    values = measure(judged, metrics)
    condensed = measure(judged.condensed(), metrics) if (judged.label == UNJUDGED).any() else values
    here = kept[judged.question]
    ranked, correct = judged.count(judged.ranked), judged.count(judged.label > 0)
    missing = here & ~judged.ranked
    unjudged = {str(depth): unjudged_share(judged, depth, kept) for depth in DEPTHS}
    unjudged["all"] = float((judged.label[here & judged.ranked] == UNJUDGED).mean()) if (here & judged.ranked).any() else 0.0

    def value(of: Values) -> Any:
        return of.best if protocol == "compat" else of.expected

    return Evaluation(
        scores=scores,
        labels=labels,
        protocol=protocol,
        kept=int(kept.sum()),
        dropped=int((~kept).sum()),
        unknown_questions=joined.unknown_questions,
        empty_questions=int((kept & (ranked == 0)).sum()),
        candidates=int(ranked[kept].sum()),
        missing=int(missing.sum()),
        missing_correct=int((missing & (judged.label > 0)).sum()),
        unjudged=unjudged,
        means={
            m: tuple(float(v[kept].mean()) for v in (value(of), of.worst, of.best, value(condensed[m])))  # type: ignore[misc]
            for m, of in values.items()
        },
        questions=tuple(
            QuestionScore(
                question_id=ids[n],
                question=texts[n],
                protocol=protocol,
                metric=m,
                value=float(value(of)[n]),
                worst=float(of.worst[n]),
                best=float(of.best[n]),
                condensed=float(value(condensed[m])[n]),
                candidates=int(ranked[n]),
                correct=int(correct[n]),
            )
            for m, of in values.items()
            for n in np.flatnonzero(kept)
        ),
    )
