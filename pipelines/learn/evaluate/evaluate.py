"""Evaluate: scores and labels -> a table, JSON and one row per question and metric.

The scores are those of a file or folder, or of a ranker by name that is run over an AS2 data set; both go
through the same join and the same metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq

from answermill.files.atomic_files import write_text
from answermill.files.remote import as_path
from answermill.pipelines.data.formats.format import Form, table_form
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError, counted
from answermill.pipelines.learn.evaluate.candidate_values import CandidateValues
from answermill.pipelines.learn.evaluate.join import Joined, join
from answermill.pipelines.learn.evaluate.rank import DEFAULTS, Counted, RankOptions, is_ranker, rank
from answermill.pipelines.learn.evaluate.reference_labels import read_labels
from answermill.pipelines.learn.evaluate.scores import FINAL, bar_of, read_scores
from answermill.pipelines.runs.shown import Shown
from answermill.pipelines.runs.watch.progress import progress
from answermill.ranking.evaluation.metrics import (
    METRICS,
    PROTOCOLS,
    UNJUDGED,
    Judged,
    Protocol,
    Values,
    check_metrics,
    measure,
    unjudged_share,
)
from answermill.ranking.evaluation.risk_coverage import (
    AnswersAtBar,
    RiskCoverage,
    answers_at_bar,
    first_answers,
    risk_coverage,
)
from answermill.schemas.arrays import Floats
from answermill.schemas.evaluation import QuestionScore

Means = tuple[float, float, float, float]
"""(value, worst, best, condensed) of a metric; see `QuestionScore`."""
DEPTHS = (1, 5, 10, 100)
RISKS = (5, 10, 20)
"""Wrong answers, in percent of those given, for which the coverage is reported."""


@dataclass(frozen=True, slots=True)
class Evaluation(Shown):
    """Scores measured under one protocol. All counts but `dropped` are of the questions kept; metrics are
    means, 0 to 1."""

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
    means: Mapping[str, Means]
    questions: tuple[QuestionScore, ...]
    firsts: Mapping[str, str]
    """Question id → id of its first candidate; see `Joined`."""
    curve: RiskCoverage | None = None
    """Curve over all questions that have labels, whatever the protocol; None if it was not requested."""
    at_bar: AnswersAtBar | None = None
    """Answers that the run's rerank.answers has given; None if it has no bar."""

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

        if self.at_bar:
            flat |= {f"answers_{name}": value for name, value in asdict(self.at_bar).items()}

        return flat

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each question and metric."""
        return (row.to_dict() for row in self.questions)

    def lines(self) -> Iterator[str]:
        """The table for people; metrics in percent."""
        yield f"{self.scores} against {self.labels}"
        meaning = {
            "raw": "all questions",
            "answerable": "with a correct candidate",
            "clean": "with correct and wrong candidates",
        }
        questions = meaning.get(
            self.protocol, "as the field's posted code: same text is one question, ties fall to the correct"
        )
        kept = counted(self.kept, "question")
        yield f"protocol {self.protocol} ({questions}): {kept} kept, {self.dropped:,} dropped"
        yield from self.gaps()
        yield ""
        heads = ["worst tie", "best tie"] + ["judged only"] * bool(self.unjudged["all"])
        yield f"{'metric':<10}{'value':>8}" + "".join(f"{head:>13}" for head in heads)
        for metric, values in self.means.items():
            rest = values[1 : len(heads) + 1]
            yield f"{metric:<10}{100 * values[0]:>8.2f}" + "".join(f"{100 * v:>13.2f}" for v in rest)

        if self.curve:
            yield ""
            right = (
                f"{len(self.curve.running):,} answered, {100 * self.curve.accuracy[-1]:.2f} % of them right"
            )
            yield (
                f"all {self.curve.questions:,} questions: {right}; the most confident first, AURC "
                f"{self.curve.aurc:.4f}"
            )
            for risk in RISKS:
                least = self.curve.confidence_at(risk / 100)
                answered = "none" if least is None else f"those with a score of at least {least:g}"
                yield (
                    f"at most {risk:>2} % wrong: {100 * self.curve.coverage_at(risk / 100):>6.2f} % "
                    f"answered, {answered}"
                )

        if self.at_bar:
            yield ""
            yield from _bar_lines(self.at_bar)

    def gaps(self) -> Iterator[str]:
        """Lines on the questions and candidates that only the scores or only the labels have."""
        if self.unknown_questions:
            ending = "has no label and is" if self.unknown_questions == 1 else "have no label and are"
            yield f"{counted(self.unknown_questions, 'question')} of the scores {ending} left out"
        if self.empty_questions:
            yield f"{self.empty_questions:,} of the questions kept have no score and count 0"
        if self.missing:
            correct = f"{self.missing_correct:,} of them correct"
            missing = counted(self.missing, "judged candidate")
            yield f"{missing} without a score, {correct}: they count as not found"

        if self.unjudged["all"]:
            shares = ", ".join(
                f"{100 * share:.1f} % @{depth}" for depth, share in self.unjudged.items() if depth != "all"
            )
            whole = f"{100 * self.unjudged['all']:.1f} % of {self.candidates:,} candidates"
            yield f"unjudged: {whole}, {shares}; they count as wrong, and are left out under 'judged only'"

    def write(
        self, json_file: Path | None, questions_file: Path | None, coverage_files: Sequence[Path] = ()
    ) -> None:
        """Write the summary as JSON, the questions as Parquet and the curve as plots, each if a file is
        named."""
        if json_file:
            write_text(json_file, json.dumps(self.summary(), indent=1, ensure_ascii=False) + "\n")
        if questions_file:
            questions_file.parent.mkdir(parents=True, exist_ok=True)
            table = QuestionScore.table(self.questions)
            pq.write_table(table, questions_file, compression="zstd", write_page_checksum=True)
        if self.curve and coverage_files:
            from answermill.pipelines.learn.evaluate.plot import plot_coverage

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
    form: Form = None,
    ranker: RankOptions = DEFAULTS,
    coverage: bool = False,
) -> Evaluation:
    """Evaluate scores against labels; with `coverage`, the risk-coverage curve too.

    `scores` is a file or folder (`by`: see `read_scores`), or the name of a ranker that ranks the data set
    `labels`, with the options `ranker`. `form` is that of a data set whose form is not recognised. Candidates
    that a reranker drops are not found. Raises JobError: 2 on an unknown protocol or metric, 65 and 66 as the
    readers do, 78 if a reranker cannot be loaded.
    """
    if protocol not in PROTOCOLS:
        raise JobError(f"unknown protocol {protocol!r}; known: {', '.join(PROTOCOLS)}", USAGE)

    try:
        check_metrics(metrics)
    except ValueError as e:
        raise JobError(str(e), USAGE) from e

    reference = read_labels(labels, form)
    if is_ranker(scores, ranker):
        if not reference.closed:
            problem = f"{labels} is not recognised as an AS2 data set; name its --form if it is one"
            raise JobError(f"{scores} needs texts to rank: {problem}", BAD_DATA)
        if by != FINAL:
            raise JobError(f"--by {by} is for a scored/ folder, and {scores} ranks by itself", USAGE)
        ranked = Counted(rank(scores, labels, form, ranker))
        with progress("evaluate", len(reference.questions), lambda: ranked.questions, what="questions"):
            values = CandidateValues.from_rows(labels, ranked)
    else:
        _check_no_ranker_options(scores, ranker)
        values = read_scores(as_path(scores), by, table_form(form).columns)

    joined = join(values, reference)
    name = " ".join([scores, *ranker.settings]) if by == FINAL else f"{scores} by {by}"
    result = _evaluation(name, str(labels), joined, protocol, metrics)
    bar = bar_of(as_path(scores)) if by == FINAL and not is_ranker(scores, ranker) else None
    return replace(
        result,
        curve=_curve(scores, joined) if coverage else None,
        at_bar=answers_at_bar(bar, joined.judged, joined.confidence, joined.is_answer)
        if bar is not None
        else None,
    )


def _bar_lines(at_bar: AnswersAtBar) -> Iterator[str]:
    answered = at_bar.right + at_bar.wrong
    wrong = at_bar.wrong / answered if answered else 0.0
    yield (
        f"answers of probability {at_bar.bar:g} or more: {at_bar.right:g} right, {at_bar.wrong:g} wrong "
        f"({100 * wrong:.2f} % of those given), {at_bar.declined:,} declined, "
        f"{100 * answered / (answered + at_bar.declined):.2f} % answered"
    )
    if at_bar.unanswerable:
        questions = f"{counted(at_bar.unanswerable, 'question')} without a correct candidate in the labels"
        yield f"{at_bar.declined_unanswerable:,} of {questions} declined"


def _check_no_ranker_options(scores: str, options: RankOptions) -> None:
    """Raise JobError (2) if options of a ranker are given for a file of scores."""
    written = [f"--set {setting}" for setting in options.settings]
    named = {"checkpoint": options.checkpoint, "words": options.words}
    written += [f"--{name} {value}" for name, value in named.items() if value is not None]
    if written:
        raise JobError(
            f"{written[0]} is for a reranker by name, and {scores} is a file or folder; leave it out", USAGE
        )


def _curve(scores: str, joined: Joined) -> RiskCoverage:
    """The curve, where the answer to a question is its first candidate, right if that is correct; without a
    ranked one there is no answer."""
    try:
        return risk_coverage(*first_answers(joined.judged, joined.confidence, joined.is_answer))
    except ValueError as e:
        raise JobError(f"{scores}: {e}", BAD_DATA) from e


def _evaluation(
    scores: str, labels: str, joined: Joined, protocol: Protocol, metrics: Sequence[str]
) -> Evaluation:
    judged, ids, texts = joined.judged, joined.question_ids, joined.texts
    if protocol == "compat":
        groups: dict[str, int] = {}
        numbers = np.array(
            [groups.setdefault(text or ids[n], len(groups)) for n, text in enumerate(texts)], np.int64
        )
        firsts = np.unique(numbers, return_index=True)[1]
        judged, ids, texts = (
            judged.regrouped(numbers),
            tuple(ids[n] for n in firsts),
            tuple(texts[n] for n in firsts),
        )

    kept = judged.kept(protocol)
    if not kept.any():
        raise JobError(
            f"protocol {protocol} keeps no question of {labels}, which has {judged.questions:,}", BAD_DATA
        )

    counts = kept[judged.question]  # [candidates]
    ranked, correct = judged.count(judged.ranked), judged.count(judged.label > 0)
    missing = counts & ~judged.ranked
    unjudged = {str(depth): unjudged_share(judged, depth, kept) for depth in DEPTHS}
    labels_ranked = judged.label[counts & judged.ranked]
    unjudged["all"] = float((labels_ranked == UNJUDGED).mean()) if len(labels_ranked) else 0.0
    columns = _columns(judged, protocol, metrics)

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
        firsts=dict(zip(joined.question_ids, joined.firsts, strict=True)),
        means={
            metric: cast(Means, tuple(float(v[kept].mean()) for v in values))
            for metric, values in columns.items()
        },
        questions=tuple(
            QuestionScore(
                question_id=ids[n],
                question=texts[n],
                protocol=protocol,
                metric=metric,
                value=float(values[0][n]),
                worst=float(values[1][n]),
                best=float(values[2][n]),
                condensed=float(values[3][n]),
                candidates=int(ranked[n]),
                correct=int(correct[n]),
            )
            for metric, values in columns.items()
            for n in np.flatnonzero(kept)
        ),
    )


def _columns(
    judged: Judged, protocol: Protocol, metrics: Sequence[str]
) -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
    """Metric → (value, worst, best, condensed), [questions] each; under compat the value is the best
    order's."""
    values = measure(judged, metrics)
    condensed = measure(judged.condensed(), metrics) if (judged.label == UNJUDGED).any() else values

    def value(metric: Values) -> Floats:
        return metric.best if protocol == "compat" else metric.expected

    return {m: (value(values[m]), values[m].worst, values[m].best, value(condensed[m])) for m in metrics}
