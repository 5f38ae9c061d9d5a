"""Training data as files: train.parquet, dev.parquet, test.parquet and, written last, a summary of rules,
counts and inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from answermill.files.atomic_files import sha256, write_text
from answermill.pipelines.data.splits import SPLITS, Split
from answermill.pipelines.runs.parquet_folder import Folder, whole_file
from answermill.pipelines.runs.watch.progress import progress
from answermill.schemas.record import Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class SetFiles(Generic[R]):
    """The files of a set in a folder."""

    out: Path
    name: str
    """Name of the summary, without .json."""
    record: type[R]
    tally: Callable[[Sequence[R]], Mapping[str, int]]
    """A question's rows → their counts, all 0 without rows."""

    @property
    def summary(self) -> Path:
        return self.out / f"{self.name}.json"

    def write_splits(self, questions: Iterable[tuple[Split, Sequence[R]]], number: int) -> dict[str, int]:
        """Write the rows of `number` questions, each with its split; returns '<split>_<name>' → count."""
        counts = {f"{split}_{name}": 0 for split in SPLITS for name in ("questions", *self.tally([]))}
        done = 0

        with ExitStack() as files, progress(self.name, number, lambda: done, what="questions"):
            writers = {
                split: files.enter_context(whole_file(self.out / f"{split}.parquet", self.record))
                for split in SPLITS
            }
            for split, rows in questions:
                writers[split](rows)
                for name, n in {"questions": 1, **self.tally(rows)}.items():
                    counts[f"{split}_{name}"] += n
                done += 1

        return counts

    def write_summary(self, content: Mapping[str, Any]) -> str:
        """Write the summary; returns a line for people, with the counts of each split."""
        write_text(self.summary, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        names = ("questions", *self.tally([]))
        counts = {split: [f"{content[f'{split}_{name}']:,} {name}" for name in names] for split in SPLITS}
        splits = [f"{split} {', '.join(clauses)}" for split, clauses in counts.items()]
        return f"{self.name:<10} {'; '.join(splits)}; {self.summary} has all counts"


def digests(folders: Mapping[str, Folder[Any] | None], files: Mapping[str, Path | None]) -> dict[str, str]:
    """Digests of the inputs, by name; those that are None are left out."""
    known = {name: folder.digest() for name, folder in folders.items() if folder is not None}
    return known | {name: sha256(file) for name, file in files.items() if file is not None}
