"""Statistics of data sets as we read them, beside those that the papers print; and speed and memory of
reading a large table.

SQuAD-sent is built from SQuAD v2.0 dev by each splitter and compared with squad-sent-test.parquet, which
another built: `same_positive` is the percentage of answerable questions whose positive sentence is the same
text in both.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import tracemalloc
from pathlib import Path

from answermill.pipelines.data.convert.statistics import PUBLISHED, DatasetStatistics, table
from answermill.pipelines.data.formats import read_dataset
from testing.harness import arguments, finish, say, seconds, shrink

DECIDED = "`answermill dataset` counts spaCy's tokens or words between blanks: the paper's table mixes both."
QUESTIONS, PER_QUESTION = 1_000, 400  # like ASNQ's, where 57,242 questions have 413 each


def report(
    name: str, counted: DatasetStatistics, published: tuple[str, str], result: dict[str, float | int | str]
) -> None:
    """Print the table, and add its figures to the result."""
    say("\n".join([f"\n{name}", *table(counted, PUBLISHED.get(published, ()))]))
    tally = counted.over("all")
    result |= {
        f"{name}_questions": tally.questions,
        f"{name}_candidates": tally.candidates,
        f"{name}_answered": tally.answered,
    }
    result[f"{name}_average_candidates"] = tally.average_candidates
    result[f"{name}_question_length"] = tally.question_length
    result[f"{name}_candidate_length"] = tally.candidate_length


def squad_sent(data: Path, splitter: str, result: dict[str, float | int | str]) -> None:
    path = data / "squad/squad-dev-v2.0.json.gz"
    shared = {c.question_id: c.text for c in read_dataset(data / "squad/squad-sent-test.parquet") if c.label}
    positives = [c for c in read_dataset(path, splitter=splitter) if c.label]
    counted = DatasetStatistics("blanks").add(read_dataset(path, splitter=splitter))
    name = f"squad_sent_{splitter}"
    say("\n".join([f"\n{name}, words between blanks", *table(counted, PUBLISHED["squad-sent", "test"])]))
    result[f"{name}_sentences"] = counted.over("all").candidates
    result[f"{name}_answered"] = counted.over("all").answered
    result[f"{name}_candidate_length"] = counted.over("all").candidate_length

    result[f"{name}_p1"] = 100 * statistics.mean(c.position == 0 for c in positives)
    result[f"{name}_map"] = 100 * statistics.mean(1 / (c.position + 1) for c in positives)
    result[f"{name}_same_positive"] = 100 * statistics.mean(
        shared.get(c.question_id) == c.text for c in positives
    )


def write_table(path: Path) -> None:
    """Write a table like ASNQ: sentences of 22 words, one in 400 positive."""
    draw = random.Random(1)
    words = [f"word{n}" for n in range(5_000)]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(QUESTIONS):
            question = " ".join(draw.choices(words, k=9))
            for n in range(PER_QUESTION):
                file.write(
                    f"{question}\t{' '.join(draw.choices(words, k=22))}\t{4 if n == 7 else draw.randint(1, 3)}\n"
                )


def stream(rounds: int, result: dict[str, float | int | str]) -> None:
    """Measure rows per second of reading, and of reading with statistics, and the peak of Python's own memory
    for both together, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "asnq.tsv"
        write_table(path)
        result |= {"tab_rows": QUESTIONS * PER_QUESTION, "tab_file_mb": path.stat().st_size / 1e6}
        read: list[float] = []
        counted: list[float] = []

        for _ in range(rounds):
            with seconds(read):
                for _candidate in read_dataset(path, "asnq"):
                    pass
            with seconds(counted):
                DatasetStatistics().add(read_dataset(path, "asnq"))
            say(f"read {read[-1]:.2f} s, with statistics {counted[-1]:.2f} s")

        tracemalloc.start()
        DatasetStatistics("blanks").add(read_dataset(path, "asnq"))
        result["tab_peak_mb"] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()

    result["rows_per_s"] = QUESTIONS * PER_QUESTION / statistics.median(read)
    result["statistics_rows_per_s"] = QUESTIONS * PER_QUESTION / statistics.median(counted)


def main() -> None:
    options = arguments("datasets", __doc__ or "")
    if options.smoke:
        shrink(globals(), QUESTIONS=10, PER_QUESTION=20)
    result: dict[str, float | int | str] = {}

    for split in ("train", "dev", "test"):
        report(
            f"wikiqa_{split}",
            DatasetStatistics().add(read_dataset(options.data / f"wikiqa/wikiqa-{split}.parquet")),
            ("wikiqa", split),
            result,
        )

    for split in ("dev", "test"):
        report(
            f"selqa_{split}",
            DatasetStatistics().add(read_dataset(options.data / f"selqa/selqa-{split}.parquet")),
            ("selqa", split),
            result,
        )
        path = options.data / f"insuranceqa-v1-partial/{split}.jsonl.gz"
        report(
            f"insuranceqa_partial_{split}",
            DatasetStatistics().add(read_dataset(path)),
            ("insuranceqa", split),
            result,
        )

    parquet = read_dataset(options.data / "squad/squad-sent-test.parquet")
    report("squad_sent_parquet", DatasetStatistics("blanks").add(parquet), ("squad-sent", "test"), result)
    for splitter in ("rules", "spacy"):
        squad_sent(options.data, splitter, result)
    result["squad_sent_same_positive"] = result["squad_sent_rules_same_positive"]
    stream(options.rounds, result)
    finish("datasets", result, options.save)


if __name__ == "__main__":
    main()
