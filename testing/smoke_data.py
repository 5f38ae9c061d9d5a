"""A token copy of the measuring data, and a token transformer, for `--smoke`: a benchmark on them takes
seconds.

The copy has a few questions of each data set, a stretch of each document of corpus-wiki that they are about,
and the smallest crawl files; everything else is linked. The files have the names and the form of the whole
data.
"""

from __future__ import annotations

import atexit
import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

QUESTIONS = {"wikiqa": 6, "squad": 12, "selqa": 6, "qa-train/squad-train": 6, "qa-train/nq-qed": 6}
"""Questions of each set and split."""
DOCUMENTS, LETTERS, LINES, POOL, ARTICLES, CRAWL_FILES, COLLECTED = 30, 6_000, 3, 20, 2, 2, 100
COLLECTIONS = ("retrieval/cacm", "retrieval/cranfield")
PREFIX = "answermill-smoke-"
WIDTH = 16  # of the transformer
SQUAD_TRAIN = "qa-train/squad-train/squad-train-v1.1.json.gz"
PIECES = 10_000  # that its tokenizer knows: the default's first ones, with all letters
TITLES = {
    "squad-sent-train": "squadshifts-new-wiki",
    "squad-sent-dev": "squad-dev",
    "squad-sent-test": "squad-dev",
}


@cache
def small_data(data: Path) -> Path:
    """A folder that has the copy until this process ends."""
    folder = new_folder()
    for source in sorted(data.iterdir()):
        if source.is_dir():
            (folder / source.name).mkdir()
            for file in sorted(source.iterdir()):
                (folder / source.name / file.name).symlink_to(file.resolve())

    for name in (*QUESTIONS, *COLLECTIONS):
        if (folder / name).is_symlink():  # a folder in a folder
            (folder / name).unlink()
            (folder / name).mkdir()
            for file in sorted((data / name).iterdir()):
                (folder / name / file.name).symlink_to(file.resolve())

    documents: dict[str, str] = {}
    titles: set[str] = set()
    for name, questions in QUESTIONS.items():
        for file in sorted((data / name).glob("*.parquet")):
            table = some_questions(pq.read_table(file), questions)
            replace(folder / name / file.name, lambda path, table=table: pq.write_table(table, path))  # type: ignore[misc]
            documents = answers_of(file.stem, table) | documents
            titles |= set(table["document_title"].to_pylist())

    corpus = [json.loads(row) for row in rows(data / "corpus-wiki/documents.jsonl.gz")]
    corpus.sort(key=lambda row: row["doc_id"] not in documents)
    kept = corpus[: max(DOCUMENTS, len(documents))]
    lines = [
        json.dumps(row | {"text": stretch(row["text"], documents.get(row["doc_id"], ""))}) for row in kept
    ]
    write_rows(folder / "corpus-wiki/documents.jsonl.gz", lines)

    for split in ("train", "dev", "test"):
        file = Path(f"insuranceqa-v1-partial/{split}.jsonl.gz")
        entries = [json.loads(row) for row in rows(data / file)[:LINES]]
        # Train has no pools.
        pools = [{"pool_ids": small_pool(row)} if "pool_ids" in row else {} for row in entries]
        write_rows(folder / file, [json.dumps(row | pool) for row, pool in zip(entries, pools, strict=True)])

    for file in sorted((data / "squad").glob("*.json.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as source_file:
            articles = json.load(source_file)
        write_rows(
            folder / "squad" / file.name, [json.dumps(articles | {"data": articles["data"][:ARTICLES]})]
        )

    with gzip.open(data / SQUAD_TRAIN, "rt", encoding="utf-8") as source_file:
        articles = json.load(source_file)
    named = [article for article in articles["data"] if article["title"] in titles]
    write_rows(folder / SQUAD_TRAIN, [json.dumps(articles | {"data": named})])
    for name in COLLECTIONS:
        for part in ("docs.jsonl.gz", "queries.jsonl.gz"):
            write_rows(folder / name / part, rows(data / name / part)[:COLLECTED])

    for name, pattern in (("warc", "*.warc.gz"), ("web-html", "*.warc.gz")):
        files = sorted((data / name).glob(pattern), key=lambda file: file.stat().st_size)
        for file in (folder / name).iterdir():
            if ".warc" in file.name and file.name not in {small.name for small in files[:CRAWL_FILES]}:
                file.unlink()

    return folder


def shared_place(data: Path) -> Path | None:
    """A folder for files made of a token copy, which stays for the benchmarks after this one; None for the
    whole data."""
    return data / "built" if data.name.startswith(PREFIX) else None


def new_folder() -> Path:
    """A folder that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def small_checkpoint(name: str) -> str:
    """A folder with a random `cosinet`, `cascade`, `hashing`, or `peasi` that does both of its stages."""
    import torch

    from answermill.ranking.rerankers.cascade import cascade_model
    from answermill.ranking.rerankers.cosinet.cosinet import CosinetModel
    from answermill.ranking.rerankers.cosinet.list_checkpoint import save_list_model
    from answermill.ranking.rerankers.hashing import hashing_model
    from answermill.ranking.rerankers.peasi import peasi_model
    from answermill.ranking.transformer.encoder import LayeredEncoder
    from answermill.ranking.transformer.huggingface import Shape
    from answermill.ranking.transformer.packing import Tokeniser
    from answermill.ranking.word_vectors.embeddings import Embeddings

    folder, tokeniser = new_folder(), Tokeniser(Path(small_encoder()), 64)
    torch.manual_seed(0)
    body = LayeredEncoder(
        Shape(layers=2, width=WIDTH, heads=2, inner=2 * WIDTH, vocabulary=PIECES, positions=64)
    )

    if name == "cosinet":
        words = ("answer", "sentence", "the")
        vectors = np.random.default_rng(0).normal(size=(1 + len(words), WIDTH)).astype(np.float32)
        vectors[0] = 0
        save_list_model(folder, CosinetModel(vectors, "pointwise", WIDTH), Embeddings(words, vectors))
    elif name == "cascade":
        cascade_model.save(folder, name, cascade_model.CascadeModel(body, (1, 2)), tokeniser)
    elif name == "hashing":
        hashing_model.save(folder, hashing_model.HashingModel(body, "has", 8), tokeniser)
    else:
        peasi_model.save(folder, peasi_model.PeasiModel(body, "joint", 2), tokeniser)

    return str(folder)


@cache
def small_encoder() -> str:
    """A folder with a random transformer: as many layers as the default encoder's, 16 numbers wide, and a
    small tokenizer."""
    import torch

    from answermill.indexing.shards.dense import DEFAULT, find_model
    from answermill.ranking.transformer.encoder import LayeredEncoder
    from answermill.ranking.transformer.huggingface import Shape

    folder, default = new_folder(), find_model(DEFAULT)
    torch.manual_seed(0)
    LayeredEncoder(Shape(layers=6, width=WIDTH, heads=2, inner=2 * WIDTH, vocabulary=PIECES)).save(folder)
    tokenizer = json.loads((default / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {piece: number for piece, number in vocabulary.items() if number < PIECES}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with (default / "vocab.txt").open(encoding="utf-8") as pieces:
        (folder / "vocab.txt").write_text("".join(islice(pieces, PIECES)), encoding="utf-8")

    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(default / name, folder)
    return str(folder)


def small_plan(fitted: bool) -> Path:
    """The sample's job file with a random cascade and encoder. `fitted`: with the weights of the shipped
    files in it, which belong to other models; else it names files in its own folder that are not there."""
    from answermill.ranking.rerankers.blend.weights import WeightsFile

    sample = Path(__file__).resolve().parents[1] / "pipelines/data/sample"
    text = (sample / "job.toml").read_text(encoding="utf-8")
    text = text.replace("[index]", f"[index]\nencoder = {json.dumps(small_encoder())}")
    text = text.replace('"cascade"', f'"cascade"\ncheckpoint = {json.dumps(small_checkpoint("cascade"))}')

    for name in re.findall(r'weights_file = "([^"]+)"', text) if fitted else ():
        weights = WeightsFile.read(sample / name).fits[-1].weights
        table = ", ".join(f"{key} = {weight}" for key, weight in weights.items())
        text = text.replace(f'weights_file = "{name}"', f"weights = {{{table}}}")

    file = new_folder() / "job.toml"
    file.write_text(text, encoding="utf-8")
    return file


def some_questions(table: pa.Table, number: int) -> pa.Table:
    """The rows of `number` questions, evenly spaced, two thirds of them with an answer (all, if all have
    one)."""
    questions = list(dict.fromkeys(table["question_id"].to_pylist()))
    answered = set(table.filter(pc.greater(table["label"], 0))["question_id"].to_pylist())
    with_answer = [question for question in questions if question in answered]
    without = [question for question in questions if question not in answered]
    chosen = spaced(without, number // 3)
    chosen += spaced(with_answer, number - len(chosen))
    return table.filter(pc.is_in(table["question_id"], pa.array(chosen)))


def spaced(questions: list[str], number: int) -> list[str]:
    return questions[:: max(1, len(questions) // number)][:number]


def answers_of(name: str, table: pa.Table) -> dict[str, str]:
    """Id in corpus-wiki of each document that the questions are about, and the first answer in it, empty if
    it has none."""
    if name in TITLES:
        ids = [f"{TITLES[name]}:{title}" for title in table["document_title"].to_pylist()]
    elif (source := name.partition("-")[0]) in ("wikiqa", "selqa"):
        ids = [f"{source}:{document}" for document in table["document_id"].to_pylist()]
    else:
        return {}
    answers = dict.fromkeys(ids, "")
    for key, text, label in zip(ids, table["sentence"].to_pylist(), table["label"].to_pylist(), strict=True):
        answers[key] = answers[key] or (text if label else "")
    return answers


def stretch(text: str, answer: str) -> str:
    """LETTERS of a text: its beginning, or from the line of the answer if that is not there."""
    first = text.find(answer)
    start = 0 if first + len(answer) < LETTERS else text.rfind("\n", 0, first) + 1
    return text[start : start + LETTERS]


def small_pool(row: dict[str, list[str]]) -> list[str]:
    """The right answers of a question's pool, and others up to POOL in all."""
    right = set(row["positive_ids"])
    wrong = [answer for answer in row["pool_ids"] if answer not in right]
    kept = {*right, *wrong[: max(0, POOL - len(right))]}
    return [answer for answer in row["pool_ids"] if answer in kept]


def rows(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def write_rows(file: Path, lines: list[str]) -> None:
    def write(path: Path) -> None:
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as out:
            out.writelines(line + "\n" for line in lines)

    replace(file, write)


def replace(link: Path, write: Callable[[Path], object]) -> None:
    """Write a file, in place of a link if there is one."""
    link.unlink(missing_ok=True)
    write(link)
