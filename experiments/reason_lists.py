"""Lists of why, how and what-is questions, of which L-train has few: factoid questions are nine tenths of
SQuAD.

Three sources, each of questions that share no words with a test question, and without a candidate that
answers one: SQuAD v1.1 train's own, with the sentences of their paragraph; FairytaleQA's explicit ones, with
those of their section; and WikiWhy's, whose right candidate is the cause and whose wrong ones are the effect,
which says the question again, and the causes of OTHERS other questions. SOURCES says how many of each are
drawn, by hash, to learn from.

    python -m experiments.reason_lists --data ../shared/data [--against FOLDER]

ranks the lists of SQuAD and FairytaleQA that are not drawn by the last exit of the cascade that ships, and of
one in FOLDER. Keys: `reasons_questions`; metrics in percent; `…_shipped_over_against`: the difference in P@1
and in MRR, its 95 % interval (`_low`, `_high`) and `_p` of a paired randomisation test.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.entry import SHIPPED
from answermill.schemas.labels import LabelledCandidate
from experiments import exit_rows
from experiments.question_sets import draw, sources
from experiments.question_sets.gold import drawn
from experiments.question_sets.learnable import Questions, learnable
from testing.harness import arguments, finish, shrink
from testing.smoke_data import small_checkpoint

MEASURED_MODELS = ("cascade",)
DECIDED = (
    "A former cascade was the mean of the weights before and after it learnt from these lists: the mean "
    "kept what it knew of L-dev's questions, and gained on why, how and what-is questions. The teacher of "
    "the one that ships has learnt from them too."
)
SOURCES = {"squad": 3_000, "fairytaleqa": 1_500, "wikiwhy": 2_500}
"""Most questions of each source."""
SQUAD = "qa-train/squad-train/squad-sent-train-v1.1.parquet"
FAIRYTALES = "qa-train/fairytaleqa/fairytaleqa-sent.parquet"
WIKIWHY = "qa-train/wikiwhy/wikiwhy-pairs.jsonl.gz"
OTHERS = 5
REASON = re.compile(r"why\b|for what reason|what (?:caus|led|ma[dk]e)", re.IGNORECASE)
QUANTITY = "many|much|long|old|far|often|big|large|tall|high|deep|fast|wide|heavy|late"
MANNER = re.compile(rf"how\b(?! (?:{QUANTITY})\b)", re.IGNORECASE)
DEFINITION = re.compile(r"what (?:is|are) (?:an? |the )?[\w-]+(?: [\w-]+)?\?", re.IGNORECASE)
NAME = "FairytaleQA (Xu et al. 2022) and WikiWhy (Ho et al. 2023)"
LICENCE = "Apache 2.0 (FairytaleQA), MIT (WikiWhy)"


def reason_lists(data: Path) -> Questions:
    """Lists to learn from, one for each question, by question id."""
    by_source = {"squad": squad(data), "fairytaleqa": fairytales(data), "wikiwhy": wikiwhy(data)}
    lists = [rows for name, members in by_source.items() for rows in parted(data, name, members)[0]]
    return sorted(lists, key=lambda rows: rows[0].question_id)


def held_out(data: Path) -> Questions:
    """Lists that nothing learns from, of the sources whose candidates are sentences of a text."""
    by_source = {"squad": squad(data), "fairytaleqa": fairytales(data)}
    return [rows for name, members in by_source.items() for rows in parted(data, name, members)[1]]


def parted(data: Path, name: str, members: Questions) -> tuple[Questions, Questions]:
    """Lists of a source that may be learnt from: those that are drawn, and the others."""
    apart = {rows[0].question_id: rows for rows in learnable(data, members)}
    chosen = set(drawn(apart, SOURCES[name]))
    return [apart[key] for key in sorted(chosen)], [rows for key, rows in apart.items() if key not in chosen]


def squad(data: Path) -> Questions:
    """Lists of SQuAD, of documents that no question of L-test or L-dev is about."""
    tests = [question for members in draw.test_pool(data).values() for question in members]
    is_apart, leaks = draw.apart_from([*tests, *draw.dev_set(data)]), draw.leaked(data)
    members = (
        question
        for question in sources.squad_train(data)
        if is_reasoned(question.text) and question.question_id not in leaks
    )
    ids = {question.question_id.partition(":")[2] for question in members if is_apart(question)}
    lists = (rows for rows in by_question(read_dataset(data / SQUAD)) if rows[0].question_id in ids)
    return [[replace(row, title=row.title.replace("_", " ")) for row in rows] for rows in lists]


def is_reasoned(question: str) -> bool:
    return any(kind.match(question) for kind in (REASON, MANNER, DEFINITION))


def fairytales(data: Path) -> Questions:
    """Lists of FairytaleQA. Sentences follow each other where a question is about two sections."""
    lists: dict[str, list[LabelledCandidate]] = {}
    for row in pq.read_table(data / FAIRYTALES).to_pylist():
        if is_reasoned(row["question"]):
            rows, key, title = (
                lists.setdefault(row["question_id"], []),
                row["question_id"],
                row["document_title"],
            )
            place = f"{key}-{len(rows)}", row["document_id"], title.replace("-", " "), len(rows)
            rows.append(LabelledCandidate(key, row["question"], *place, row["sentence"], row["label"]))
    return list(lists.values())


def wikiwhy(data: Path) -> Questions:
    with gzip.open(data / WIKIWHY, "rt", encoding="utf-8") as lines:
        pairs = [json.loads(line) for line in lines]
    pairs.sort(key=lambda pair: hashlib.sha256(pair["id"].encode()).digest())
    return [list(wikiwhy_rows(pairs, n)) for n in range(len(pairs))]


def wikiwhy_rows(pairs: list[dict[str, str]], n: int) -> Iterator[LabelledCandidate]:
    pair = pairs[n]
    others = [pairs[(n + step) % len(pairs)]["cause"] for step in range(1, OTHERS + 1)]
    key = f"wikiwhy-{pair['id']}"
    for position, text in enumerate((pair["effect"], pair["cause"], *others)):
        place = f"{key}-{position}", f"{key}-{position}", "", position
        yield LabelledCandidate(
            key, pair["question"], *place, text.strip(), int(position == 1), previous="", next=""
        )


def main() -> None:
    options = arguments(
        "reason_lists", __doc__ or "", paths={"against": "folder of a cascade to compare with"}
    )
    shipped = SHIPPED / "cascade"
    if options.smoke:
        shrink(globals(), SOURCES=dict.fromkeys(SOURCES, 1))
        shipped = options.against = Path(small_checkpoint("cascade"))

    lists = held_out(options.data)
    folders = {"shipped": shipped} | ({"against": options.against} if options.against else {})
    rows = {name: [exit_rows.row(exit_rows.exit_scores(folder, lists))] for name, folder in folders.items()}
    result: dict[str, float | int | str] = {"reasons_questions": len(lists)}
    for name, seeds in rows.items():
        result |= exit_rows.figures("reasons", name, seeds)
    if options.against:
        for metric in ("p1", "mrr"):
            result |= exit_rows.compared(f"reasons_{metric}", "shipped", "against", rows, metric)

    finish("reason_lists", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
