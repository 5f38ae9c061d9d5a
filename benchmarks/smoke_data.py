"""A token copy of the measuring data, and a token transformer, on which a benchmark takes seconds: what `--smoke` runs on.

The copy has a few questions of each data set, the beginnings of those documents of corpus-wiki that they are about, and the
smallest crawl files; everything else is linked. The files have the names and the form of the whole data.
"""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

QUESTIONS = {"wikiqa": 6, "squad": 12, "selqa": 6, "qa-train/squad-train": 6, "qa-train/nq-qed": 6}
"""Questions of each set and split."""
DOCUMENTS, LETTERS, LINES, ARTICLES, CRAWL_FILES = 30, 30_000, 3, 2, 2
PREFIX = "answermill-smoke-"
WIDTH = 16  # of the transformer
SQUAD_TRAIN = "qa-train/squad-train/squad-train-v1.1.json.gz"
TITLES = {"squad-sent-train": "squadshifts-new-wiki", "squad-sent-dev": "squad-dev", "squad-sent-test": "squad-dev"}


@cache
def small_data(data: Path) -> Path:
    """A folder that has the copy until this process ends."""
    folder = new_folder()
    for source in sorted(data.iterdir()):
        if source.is_dir():
            (folder / source.name).mkdir()
            for file in sorted(source.iterdir()):
                (folder / source.name / file.name).symlink_to(file.resolve())
    for name in QUESTIONS:
        if (folder / name).is_symlink():  # a folder in a folder
            (folder / name).unlink()
            (folder / name).mkdir()
            for file in sorted((data / name).iterdir()):
                (folder / name / file.name).symlink_to(file.resolve())
    documents: set[str] = set()
    titles: set[str] = set()
    for name, questions in QUESTIONS.items():
        for file in sorted((data / name).glob("*.parquet")):
            table = some_questions(pq.read_table(file), questions)
            replace(folder / name / file.name, lambda path, table=table: pq.write_table(table, path))  # type: ignore[misc]
            documents |= documents_of(file.stem, table)
            titles |= set(table["document_title"].to_pylist())
    corpus = [json.loads(row) for row in rows(data / "corpus-wiki/documents.jsonl.gz")]
    corpus.sort(key=lambda row: row["doc_id"] not in documents)
    kept = corpus[: max(DOCUMENTS, len(documents))]
    lines = [json.dumps(row | {"text": row["text"][:LETTERS]}) for row in kept]
    write_rows(folder / "corpus-wiki/documents.jsonl.gz", lines)
    for split in ("train", "dev", "test"):
        file = Path(f"insuranceqa-v1-partial/{split}.jsonl.gz")
        write_rows(folder / file, rows(data / file)[:LINES])
    for file in sorted((data / "squad").glob("*.json.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as source_file:
            articles = json.load(source_file)
        write_rows(folder / "squad" / file.name, [json.dumps(articles | {"data": articles["data"][:ARTICLES]})])
    with gzip.open(data / SQUAD_TRAIN, "rt", encoding="utf-8") as source_file:
        articles = json.load(source_file)
    asked = [article for article in articles["data"] if article["title"] in titles]
    write_rows(folder / SQUAD_TRAIN, [json.dumps(articles | {"data": asked})])
    for name, pattern in (("warc", "*.warc.gz"), ("web-html", "*.warc.gz")):
        files = sorted((data / name).glob(pattern), key=lambda file: file.stat().st_size)
        for file in (folder / name).iterdir():
            if ".warc" in file.name and file.name not in {small.name for small in files[:CRAWL_FILES]}:
                file.unlink()
    return folder


def shared_place(data: Path) -> Path | None:
    """A folder for what is built of a token copy, which stays for the benchmarks after this one; None of the whole data."""
    return data / "built" if data.name.startswith(PREFIX) else None


def new_folder() -> Path:
    """Removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def small_checkpoint(name: str) -> str:
    """A folder with a random `cascade`, or a `peasi` that does both of its stages."""
    import torch

    from indexing.shards.dense import DEFAULT, find_model
    from ranking.cascade import cascade_model
    from ranking.peasi import peasi_model
    from ranking.transformer.encoder import LayeredEncoder
    from ranking.transformer.huggingface import Shape
    from ranking.transformer.packing import Tokeniser

    folder, tokeniser = new_folder(), Tokeniser(find_model(DEFAULT), 64)
    torch.manual_seed(0)
    body = LayeredEncoder(Shape(layers=2, width=WIDTH, heads=2, inner=2 * WIDTH, vocabulary=30_522, positions=64))
    if name == "cascade":
        cascade_model.save(folder, name, cascade_model.CascadeModel(body, (1, 2)), tokeniser)
    else:
        peasi_model.save(folder, peasi_model.PeasiModel(body, "joint", 2), tokeniser)
    return str(folder)


@cache
def small_encoder() -> str:
    """A folder with a random transformer: as many layers as the default encoder's, 16 numbers wide, and its tokenizer."""
    import torch
    import transformers

    from indexing.shards.dense import DEFAULT, find_model

    folder = new_folder()
    torch.manual_seed(0)
    shape = {"hidden_size": WIDTH, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 2 * WIDTH}
    transformers.BertModel(transformers.BertConfig(vocab_size=30_522, **shape)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(find_model(DEFAULT) / name, folder)
    return str(folder)


def some_questions(table: pa.Table, number: int) -> pa.Table:
    """The rows of `number` questions, evenly spaced, two thirds of them with an answer (all, if all have one)."""
    questions = list(dict.fromkeys(table["question_id"].to_pylist()))
    answered = set(table.filter(pc.greater(table["label"], 0))["question_id"].to_pylist())
    with_answer = [question for question in questions if question in answered]
    without = [question for question in questions if question not in answered]
    chosen = spaced(without, number // 3)
    chosen += spaced(with_answer, number - len(chosen))
    return table.filter(pc.is_in(table["question_id"], pa.array(chosen)))


def spaced(questions: list[str], number: int) -> list[str]:
    return questions[:: max(1, len(questions) // number)][:number]


def documents_of(name: str, table: pa.Table) -> set[str]:
    """Ids in corpus-wiki of the documents that the questions are about."""
    if name in TITLES:
        return {f"{TITLES[name]}:{title}" for title in table["document_title"].to_pylist()}
    source = name.partition("-")[0]
    return {f"{source}:{document}" for document in table["document_id"].to_pylist()} if source in ("wikiqa", "selqa") else set()


def rows(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def write_rows(file: Path, lines: list[str]) -> None:
    def write(path: Path) -> None:
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as out:
            out.writelines(line + "\n" for line in lines)

    replace(file, write)


def replace(link: Path, write: Callable[[Path], object]) -> None:
    """Write a file in place of a link."""
    link.unlink()
    write(link)
