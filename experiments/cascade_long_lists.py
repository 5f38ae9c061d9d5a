"""The Cascade Transformer's Table 3 on long lists: the cascade, monolithic models and SR over tens and
hundreds of sentences.

Models: those of `cascade_paper` after the transfer, not adapted, as far as they are complete, and `shipped`,
the default plan's cascade, which reads the neighbours too and has learnt from other data. Lists: `test`,
questions of L-test (`long_lists`) with all their retrieved sentences, some 733; `hotpotqa`, questions of a
sample of HotpotQA with the sentences of their ten paragraphs, some 41, of which two or three are supporting
facts that answer only together. Both are drawn by hash from questions with an answer in the list, and no
model has learnt from them. Nothing is chosen here.

Keys: `<set>_<metric>_<row>` in percent, rows and costs as in `cascade_paper`; `<set>_b_over_a_difference`, of
MAP, and `<set>_p1_b_over_a_difference`, of P@1, with a 95 % interval over questions (`_low`, `_high`) and
`_p`. `transfers`: the models of --trainings that were complete.

--work keeps the lists and the scores of every text at every exit, so that a stopped run goes on, and more
questions compute only new ones. --trainings is the folder of `cascade_paper`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.steps.models import device_of
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.cascade.cascade_model import load
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.training.state import finished
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import RankedList
from experiments.cascade_paper import ALPHAS, BODIES, pairs, rows_of, sections
from experiments.exit_rows import cascade_rows, compared, figures
from experiments.long_lists import read_lists, small_lists
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import remember
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_checkpoint

TAKES = "an hour, after the trainings of cascade_paper"
MEASURED_MODELS = ("cascade",)
DECIDED = "Nothing ships by it: on L-test nothing is chosen."
QUESTIONS = {"hotpotqa": 400, "test": 200}
"""Set → its questions."""
HOTPOTQA = "qa-train/hotpotqa-sample/hotpotqa-sample.parquet"
SHIPPED_MODEL, BODY = SHIPPED / "cascade", BODIES["default"]


class Judged(NamedTuple):
    """A question's list, with the label of each candidate."""

    ranked: RankedList
    labels: list[int]


def l_test(data: Path, work: Path, number: int) -> list[Judged]:
    """Whole lists of `number` questions of L-test, of those with an answer in the list."""
    lists = [question for question in read_lists(data, work, "test") if question.gold]
    names = set(drawn((question.asked.question_id for question in lists), number))
    return [
        Judged(question.ranked, [int(c.candidate_id in question.gold) for c in question.ranked.candidates])
        for question in lists
        if question.asked.question_id in names
    ]


def hotpotqa(data: Path, _: Path, number: int) -> list[Judged]:
    """Lists of `number` questions of HotpotQA's sample, the sentences of a question's paragraphs one after
    the other."""
    questions: dict[str, list[LabelledCandidate]] = {}
    for row in pq.read_table(data / HOTPOTQA).to_pylist():
        name, doc_id = row["question_id"], row["document_id"]
        rows = questions.setdefault(name, [])
        sentence, place = f"{doc_id}/{row['sentence_index']}", len(rows)
        title, text, label = row["document_title"], row["sentence"], int(row["label"])
        rows.append(LabelledCandidate(name, row["question"], sentence, doc_id, title, place, text, label))
    names = drawn((name for name, rows in questions.items() if any(row.label for row in rows)), number)
    return [
        Judged(ranked_list(rows), [row.label for row in rows]) for rows in (questions[name] for name in names)
    ]


def models(trainings: Path) -> Iterator[tuple[str, Path]]:
    """(name, checkpoint) of `shipped` and of the transfers in a folder of `cascade_paper` that are
    complete."""
    yield "shipped", SHIPPED_MODEL
    for name in sections(BODY):
        if finished(trainings / f"{name}-transfer"):
            yield name, trainings / f"{name}-transfer"


def scores(name: str, checkpoint: Path, lists: Sequence[Judged], work: Path) -> ExitScores:
    """Scores of all candidates at all exits; those that are in `work` are not computed again."""
    cascade = Cascade(*load(checkpoint, kind_of(checkpoint), find_model), device=device_of("auto"))
    (stage,) = remember([Stage(name, cascade, checkpoint=checkpoint)], work)
    assert isinstance(stage.reranker, Cascade)
    ids = [each.ranked.question.question_id for each in lists]
    rows = stage.reranker.exit_scores([each.ranked for each in lists])
    depth = BODY.depth if name in sections(BODY) else cascade.depth
    return ExitScores.of(cascade.exits, depth, ids, [each.labels for each in lists], rows)


def table3(test: str, tables: dict[str, ExitScores]) -> Iterator[tuple[str, float]]:
    """Keys and figures of a set's rows and of their differences."""
    shipped = cascade_rows("shipped", tables["shipped"], ALPHAS)
    trained = {name: table for name, table in tables.items() if name != "shipped"}
    rows = {name: [one] for name, one in (shipped | rows_of(trained, BODY)).items()}
    for name, seeds in rows.items():
        of_row = dict(figures(test, name, seeds))
        yield from of_row.items()
        values = ", ".join(f"{metric} {of_row[f'{test}_{metric}_{name}']:.2f}" for metric in ("map", "p1"))
        say(f"{test}: {name:<18} {values}, cost {of_row[f'{test}_cost_{name}']:.2f}")

    own = ((f"shipped_a{10 * alpha:.0f}", "shipped_a0") for alpha in ALPHAS)
    for name, over in (*pairs(BODY), *own):
        if name in rows and over in rows:
            yield from compared(test, name, over, rows)
            yield from compared(f"{test}_p1", name, over, rows, "p1")


def lists_of(options: argparse.Namespace, work: Path) -> dict[str, list[Judged]]:
    """Set → its lists; a set of no questions is left out."""
    data, readers = options.data.resolve(), {"hotpotqa": hotpotqa, "test": l_test}
    asked = {test: getattr(options, test) for test in QUESTIONS}
    numbers = {test: most if asked[test] is None else int(asked[test]) for test, most in QUESTIONS.items()}
    return {test: readers[test](data, work, number) for test, number in numbers.items() if number}


def options_of(name: str, description: str) -> argparse.Namespace:
    """Options of a command over these lists. With --smoke the lists are short, and the model is a random
    one."""
    options = arguments(
        name,
        description,
        paths={
            "work": "folder that keeps lists and scores; out/long_lists",
            "trainings": "folder of the trainings; out/cascade_paper",
        },
        numbers={
            test: f"questions of this set, drawn by hash; {most} if absent, and 0 leaves it out"
            for test, most in QUESTIONS.items()
        },
    )
    options.trainings = (options.trainings or Path("out/cascade_paper")).resolve()
    if options.smoke:
        small_lists()
        shrink(
            globals(),
            SHIPPED_MODEL=Path(small_checkpoint("cascade")),
            QUESTIONS=dict.fromkeys(QUESTIONS, 3),
        )
    torch.set_num_threads(1)
    return options


def main() -> None:
    options = options_of("cascade_long_lists", __doc__ or "")
    with work_folder(options, "long_lists") as work:
        checkpoints = dict(models(options.trainings))
        result: dict[str, float | int | str] = {
            "transfers": " ".join(name for name in checkpoints if name != "shipped"),
            "trained_by": trained_by(options.trainings),
        }
        for test, lists in lists_of(options, work).items():
            candidates = sum(len(each.labels) for each in lists)
            result |= {f"{test}_questions": len(lists), f"{test}_sentences": candidates / len(lists)}
            tables = {name: scores(name, checkpoint, lists, work) for name, checkpoint in checkpoints.items()}
            result |= table3(test, tables)
    finish("cascade_long_lists", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
