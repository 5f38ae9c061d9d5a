"""Cosinet over whole paragraphs, `cosinet_passages`, on BoolQ: the form of Cosinet Table 6.

The paper's candidates are the paragraphs of the page that a question of Natural Questions was asked of. Here
questions are queries for yes or no, and the candidates are the paragraph that holds the answer and up to
eight others of its article, those with most words of the question. In which order they stood is not known:
candidates are put in one by hash, and the recurrent forms, which would read it, are left out. A tenth of the
articles, drawn by hash, is the test set, and another one dev, on which nothing is chosen.

Rows: `pointwise` and `list`, trained as in `cosinet_quality_squad_full` and with its keys, `boolq_` in the
place of `squad_`; `shipped`, the shipped Cosinet, which has learnt nothing of BoolQ and whose features a set
without retrieval lacks; `overlap`, words that question and paragraph share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.lists import ranked_list, ranked_passages
from answermill.ranking.rerankers.cosinet.cosinet import CosinetModel, CosinetPassages
from answermill.ranking.rerankers.cosinet.heads import Form
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.list_models import vocabulary
from answermill.ranking.training.loop import Dev
from answermill.ranking.word_vectors.embeddings import derive
from answermill.schemas.labels import LabelledCandidate, LabelledPassage
from answermill.schemas.ranked import RankedList
from experiments.cosinet_quality_squad_full import Data, Measured, Run, learnt, once, scored, shown, summary
from experiments.question_sets.gold import drawn
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, say, shrink, work_folder

TAKES = "a quarter of an hour of one core, kept in --work"
MEASURED_MODELS = ("cosinet",)
DECIDED = "Nothing ships by it: who ranks paragraphs trains on paragraphs, as the page says."

FORMS: tuple[Form, ...] = ("pointwise", "list")
SEEDS = 3
QUESTIONS: int | None = None  # of --smoke; None: all
PAIRS = (("list", "pointwise"), ("pointwise", "shipped"), ("pointwise", "overlap"), ("shipped", "overlap"))


def load(data: Path) -> Data:
    """The articles that are learnt from, dev's and the test set's, and vectors of their words."""
    lists = [shuffled(rows) for rows in answered(data / "qa-train/boolq/boolq-passages.parquet")[:QUESTIONS]]
    articles = {rows[0].doc_id for rows in lists}
    tenth = max(1, len(articles) // 10)
    test = set(drawn(articles, tenth))
    dev = set(drawn(articles - test, tenth))
    words = vocabulary(lists)

    return Data(
        [rows for rows in lists if rows[0].doc_id not in test | dev],
        [rows for rows in lists if rows[0].doc_id in dev],
        [rows for rows in lists if rows[0].doc_id in test],
        derive(words, find_model(DEFAULT), DEFAULT),
    )


def shuffled(rows: list[LabelledCandidate]) -> list[LabelledCandidate]:
    """A question's paragraphs in an order by hash: in the file the right one is the first."""
    mixed = sorted(rows, key=lambda row: hashlib.sha256(f"{row.question_id} {row.text}".encode()).digest())
    return [replace(row, position=position) for position, row in enumerate(mixed)]


def passages(lists: Questions) -> Iterator[RankedList]:
    """The paragraphs as passages, which have no sentences here."""
    for rows in lists:
        yield ranked_passages(
            [
                LabelledPassage(
                    row.question_id,
                    row.question,
                    f"{row.doc_id}#{row.candidate_id}",
                    row.doc_id,
                    row.title,
                    row.text,
                    row.label,
                    "retrieved",
                    (),
                )
                for row in rows
            ]
        )


def trained(data: Data, run: Run) -> Measured:
    task, seconds = learnt(data, run)
    assert isinstance(task.model, CosinetModel)
    reranker = CosinetPassages(task.model, data.embeddings)
    dev_lists = list(passages(data.dev))
    labels = [
        {c.candidate_id: row.label for c, row in zip(ranked.candidates, rows, strict=True)}
        for ranked, rows in zip(dev_lists, data.dev, strict=True)
    ]
    dev = Dev.of(dev_lists, labels).score(reranker, "P@1", "answerable")
    result = scored(data.test, reranker, list(passages(data.test)))
    return Measured(result.values, {"train_s": seconds, **result.seconds}, dev)


def main() -> None:
    options = arguments(
        "cosinet_passages",
        __doc__ or "",
        paths={"work": "folder for what each training found; out/cosinet_passages"},
    )
    if options.smoke:
        shrink(globals(), SEEDS=1, QUESTIONS=40)
    torch.set_num_threads(1)
    with work_folder(options, "cosinet_passages") as work:
        data = load(options.data.resolve())
        shipped = load_reranker("cosinet_passages", model=find_model)
        rows = {
            "overlap": [
                scored(data.test, load_reranker("overlap"), [ranked_list(rows) for rows in data.test])
            ],
            "shipped": [scored(data.test, shipped, list(passages(data.test)))],
        }
        for seed in range(SEEDS):
            for form in FORMS:
                run = Run("cosinet", form, seed)
                measured = once(work / f"{form}-{seed}.json", partial(trained, data, run))
                rows.setdefault(form, []).append(measured)
                say(f"{form}, seed {seed}: {shown(measured)}")
        result = summary("boolq", data, rows, PAIRS)
    finish("cosinet_passages", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
