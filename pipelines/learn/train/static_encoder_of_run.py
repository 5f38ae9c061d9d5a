"""Static encoder: the passages of a run, and the dense encoder as the teacher -> a static encoder that gives
passages nearly the teacher's vectors, many times as fast.

A sample of the passages is encoded by the teacher, or taken from the run's shards/ where they hold its
vectors. A fifth of the sample is not learnt from: there the best passages by the static encoder are compared
with the best by the teacher.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from answermill.files.atomic_files import replace_folder, write_text
from answermill.files.model_files import NO_LIMIT, write_sums
from answermill.files.store import creating
from answermill.indexing.shards.dense import DEFAULT, Encoder, find_model, joined
from answermill.indexing.shards.encoders.static_encoder import (
    MODULES,
    TOKENIZER,
    WEIGHTS,
    StaticEncoder,
    Vectors,
)
from answermill.indexing.shards.encoders.static_fit import bags, fit, start_of, write_static
from answermill.indexing.shards.shard_builder import PassageEncoder
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.tables import read_question_texts
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, SETTINGS, JobError
from answermill.pipelines.learn.train.training_card import CARD
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.retrieve import QUESTIONS
from answermill.pipelines.steps.models import command_threads, dense_encoder, use_threads
from answermill.pipelines.steps.since.earlier_vectors import KnownVectors
from answermill.schemas.corpus import Passage

LEAST = 100
"""Passages without which there is nothing to learn or to compare."""
DEPTH, ASKED = 100, 500
"""Passages of a list that is compared, at most, and questions."""
HELD_OUT = 5
"""One passage of this number is not learnt from."""
_BLOCK = 1_024
Texts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """Settings of the learning and of the comparison."""

    teacher: str = DEFAULT
    passages: int = 20_000
    """Size of the sample."""
    questions: Path | None = None
    """Questions of the comparison; those that the run has asked, or else sentences of its passages, if
    None."""
    columns: Columns = AS_NAMED
    """The user's names of the columns of `questions`."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Lists by the teacher for questions, over passages that were not learnt from."""

    passages: Texts
    questions: Sequence[str]
    by_teacher: Vectors
    """The questions' vectors [questions, d]."""
    best: npt.NDArray[np.int64]
    """[questions, depth]: the passages of the teacher's lists."""

    def shares(self, encoder: Encoder) -> tuple[float, float]:
        """Percentage of the teacher's lists that is in the encoder's, with the questions encoded by the
        teacher, and by the encoder itself."""
        passages = encoder.encode_passages(self.passages)
        both = (self.by_teacher, encoder.encode_questions(self.questions))
        lists = [best_of(questions, passages, self.best.shape[1]) for questions in both]
        first, second = (
            100 * float(np.mean([len(np.intersect1d(*pair)) for pair in zip(self.best, rows, strict=True)]))
            for rows in lists
        )
        return first / self.best.shape[1], second / self.best.shape[1]


@dataclass(frozen=True, slots=True)
class Lesson:
    """Passages with the teacher's vectors, to learn from, and lists that say what was learnt."""

    teacher: Encoder
    folder: Path
    """The teacher's."""
    passages: Texts
    vectors: Vectors
    """[passages, d]"""
    comparison: Comparison


def learn(run: Path, out: Path, options: StaticOptions) -> Iterator[str]:
    """Write the encoder's folder; yields lines on what was learnt.

    Raises JobError: 73 if `out` has files, and the errors of `lesson`.
    """
    if out.exists() and any(out.iterdir()):
        raise JobError(f"{out} has files; give another folder, or remove it", OUTPUT_EXISTS)

    use_threads(command_threads())
    task = lesson(run, options)
    learnt, compared = len(task.passages), len(task.comparison.passages)
    yield f"learnt from {learnt:,} passages; compared on {compared:,} others"

    tokenizer = task.folder / TOKENIZER
    with tempfile.TemporaryDirectory() as name, creating(out) as unfinished:
        single = Path(name)
        alone = _alone(task.teacher, tokenizer)
        write_static(single, alone, tokenizer)
        ids, starts = StaticEncoder(single, NO_LIMIT).tokens([joined(*text) for text in task.passages])
        texts = bags(ids, starts, len(alone))
        start = start_of(alone, texts, task.vectors)
        write_static(single, start, tokenizer)
        write_static(unfinished, fit(texts, task.vectors, start), tokenizer)

        depth = task.comparison.best.shape[1]
        lines = [f"{f'of the first {depth}':<18}{'questions by the teacher':>26}{'by itself':>12}"]
        for title, place in (("single tokens", single), ("learnt", unfinished)):
            shares = task.comparison.shares(dense_encoder(str(place)))
            lines.append(f"{title:<18}{shares[0]:>24.1f} %{shares[1]:>10.1f} %")
        yield from lines

        write_text(unfinished / CARD, card(options.teacher, task.folder, learnt, compared, lines))
        write_sums(unfinished, (MODULES, TOKENIZER, WEIGHTS))
        replace_folder(unfinished, out)

    yield f"written: {out}"


def lesson(run: Path, options: StaticOptions) -> Lesson:
    """The lesson of a run.

    Raises JobError: 66 if it has no passages/, 65 if there are fewer than LEAST, 78 if the teacher's vectors
    are not of length 1; ModelMissing if the teacher cannot be had.
    """
    folder, passages = find_model(options.teacher), PASSAGES.open(run)
    if min(passages.rows, options.passages) < LEAST:
        raise JobError(
            f"{passages.path} and --passages give {min(passages.rows, options.passages)} passages; give "
            f"{LEAST} or more",
            BAD_DATA,
        )

    teacher = dense_encoder(options.teacher)
    texts, sentences = sample(passages, options)
    shards = SHARDS.find(run)
    known = teacher if shards is None else KnownVectors.of_shards(teacher, shards)
    vectors = _encoded(known, texts)
    if np.abs(np.linalg.norm(vectors[:LEAST], axis=1) - 1).max() > 1e-3:
        raise JobError(
            f"the vectors of {options.teacher} are not of length 1, and those of a static encoder are; give "
            "another --teacher",
            SETTINGS,
        )

    held = np.arange(len(texts)) % HELD_OUT == 0
    learnt = [text for text, is_held in zip(texts, held, strict=True) if not is_held]
    compared = [texts[n] for n in np.flatnonzero(held)]
    questions = _questions(run, options, [sentences[n] for n in np.flatnonzero(held)])
    asked = teacher.encode_questions(questions)
    best = best_of(asked, vectors[held], min(DEPTH, len(compared) // 4))
    comparison = Comparison(compared, questions, asked, best)
    return Lesson(teacher, folder, learnt, vectors[~held], comparison)


def sample(passages: Folder[Passage], options: StaticOptions) -> tuple[Texts, list[str]]:
    """(title, text) of passages that are drawn by the seed, in a drawn order, and a sentence of each, ''
    where it has none."""
    drawn = np.random.default_rng(options.seed).permutation(passages.rows)[: options.passages]
    order = np.argsort(drawn)
    wanted, texts, sentences, first = drawn[order], Texts(), list[str](), 0
    for part in passages.parts:
        for batch in read_batches(passages.path, part, ["title", "text", "sentences"]):
            low, high = np.searchsorted(wanted, (first, first + batch.num_rows))
            for row in batch.take(wanted[low:high] - first).to_pylist() if high > low else ():
                texts.append((row["title"], row["text"]))
                inside = row["sentences"]
                sentences.append(inside[len(inside) // 2]["text"] if inside else "")
            first += batch.num_rows

    places = np.argsort(order).tolist()
    return [texts[n] for n in places], [sentences[n] for n in places]


def best_of(questions: Vectors, passages: Vectors, depth: int) -> npt.NDArray[np.int64]:
    """[questions, depth]: the nearest passages, best first; ties by number.

    >>> best_of(np.eye(2), np.array([[1, 0], [0, 2], [1, 1]]), 2).tolist()
    [[0, 2], [1, 2]]
    """
    scores = np.round(questions.astype(np.float64) @ passages.astype(np.float64).T, 6)
    nearest: npt.NDArray[np.int64] = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return nearest


def _questions(run: Path, options: StaticOptions, sentences: Sequence[str]) -> list[str]:
    """At most ASKED different questions, drawn by the seed."""
    asked = None if options.questions is not None else QUESTIONS.find(run)
    if options.questions is not None:
        texts = read_question_texts(options.questions, options.columns)
    elif asked is not None and asked.rows:
        texts = [question.text for question in asked.read()]
    else:
        texts = [text for text in sentences if text]
    texts = list(dict.fromkeys(texts)) or ["?"]
    drawn = np.random.default_rng(options.seed).permutation(len(texts))[:ASKED]
    return [texts[n] for n in drawn]


def _encoded(encoder: PassageEncoder, texts: Texts) -> Vectors:
    """[texts, d], a block at a time."""
    blocks = [
        encoder.encode_passages(texts[start : start + _BLOCK]) for start in range(0, len(texts), _BLOCK)
    ]
    return np.concatenate(blocks)


def _alone(teacher: Encoder, tokenizer: Path) -> Vectors:
    """[tokens, d]: the teacher's vector of each token as a text; zeros for special tokens, which say
    nothing."""
    from tokenizers import Tokenizer

    known = Tokenizer.from_file(str(tokenizer))
    count = 1 + max(known.get_vocab().values(), default=-1)
    special = {number for number, token in known.get_added_tokens_decoder().items() if token.special}
    words = [
        "" if number in special else known.decode([number]).removeprefix("##").strip()
        for number in range(count)
    ]
    vectors = np.zeros((count, teacher.dimension), np.float32)
    rows = [number for number, word in enumerate(words) if word]
    vectors[rows] = teacher.encode_sentences([words[number] for number in rows])
    return vectors


def card(teacher: str, folder: Path, learnt: int, compared: int, table: Sequence[str]) -> str:
    """Model card: what it was learnt from, its figures, and its use."""
    from answermill.files.copies import digest_of

    digest = digest_of(*sorted(folder.glob("*.safetensors")))
    name = teacher if "/" not in teacher else folder.name
    return "\n".join(
        [
            "# A static encoder of AnswerMill",
            "",
            f"Learnt from {name} (weights {digest[:16]}) on {learnt:,} passages. The percentage of the "
            f"teacher's best passages, of {compared:,} others, that is among its own best:",
            "",
            *(f"    {line}" for line in table),
            "",
            '`index.encoder = "FOLDER"` encodes passages by it; `index.question_encoder` can name the '
            "teacher for the questions. sentence-transformers loads the folder too.",
            "",
            "- Licence: that of the teacher, and of the text; add it before you pass the folder on.",
            "",
        ]
    )
