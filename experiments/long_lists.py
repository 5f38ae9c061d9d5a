"""Long lists of real retrieval, for the project's choices of models (L-dev) and for measuring (L-test).

Our own job searches one corpus for each question: corpus-wiki, SQuAD train's articles and QED's pages, 12,000
documents. A list is the sentences of the 100 passages that BM25 finds and of the 100 that the dense index
finds, in the order of their reciprocal rank fusion. Documents of test questions are in the corpus, their
labels are not. `question_sets/draw.py` draws the questions, `question_sets/gold.py` defines the answers.

All files are kept in --work and read from there by the next benchmark; a stopped run continues. In Python:

    from experiments.long_lists import read_lists
    lists = read_lists(data, work, "dev")           # builds what is missing
    for one in lists:
        one.ranked                                  # RankedList of sentences, in the order of retrieval
        one.gold, one.lenient                       # ids of the candidates that are answers, by either rule
        one.asked                                   # the question: id, text, title, gold, short answers
        one.passages                                # RankedList of passages: what a plan's `run_stages` takes

A question whose answer is no retrieved sentence has an empty `gold`, as have all of the sets
`dev-without-answer` and `test-without-answer`. Keys: `<set>_asked` questions,
`<set>_questions` of them with an answer in the list, `<set>_sentences` of a list, and the recall of passages
with an answer, in percent of all asked.

--encoder builds the dense index by another model, in the fastest precision of the processor, and compares
it with the default encoder, whose lists are built too: `<set>_<source>_r<k>_difference` is its recall less
the default's, with a 95 % interval (`_low`, `_high`) and `_p`. --save writes `long_lists_encoder.json`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from answermill.files.atomic_files import sha256, write_text
from answermill.indexing.shards.dense import DEFAULT
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps import chain
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.plan import to_sentences
from answermill.ranking.transformer.devices import fast
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import RankedList
from experiments.percents import difference
from experiments.question_sets.draw import questions
from experiments.question_sets.gold import Asked
from experiments.question_sets.sources import DOCUMENT_FILES, documents
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import shared_place, small_encoder

DECIDED = (
    "Which questions choose and which measure: L-dev is for every choice, and L-test for measuring alone. "
    "The dense encoder stays: on L-dev one of eight times the cost gains nothing."
)
SETS = ("test", "dev")
ASKED = (*SETS, "test-without-answer", "dev-without-answer")
"""Sets whose questions are asked of the corpus; `figures` are of SETS."""
REVISION = 3
"""Number to raise when the documents are built in another way, or passages get another column."""
ENCODER, DEPTH, SHARDS, PROCESSES = DEFAULT, 100, 4, 2
RECALLS = (1, 10, 100)


@dataclass(frozen=True, slots=True)
class LongList:
    """A question with its retrieved passages and sentences."""

    asked: Asked
    passages: RankedList
    ranked: RankedList
    gold: frozenset[str]
    lenient: frozenset[str]


def read_lists(data: Path, work: Path, name: str, encoder: str | None = None) -> list[LongList]:
    """Lists of a set, by question id; first builds those that are not in `work`. `encoder`: of the dense
    index; ENCODER if None.

    Raises JobError (73) while another process is building them.
    """
    asked = {question.question_id: question for question in questions(data, name)}
    run = retrieve(data, work, encoder)
    hits = RETRIEVED.open(run).where("question_id", asked)
    retrieved = {ranked.question.question_id: ranked for ranked in ranked_lists(hits)}
    return [judged(question, retrieved[key]) for key, question in sorted(asked.items())]


def judged(asked: Asked, passages: RankedList) -> LongList:
    ranked = to_sentences(passages)
    ids: dict[bool, set[str]] = {True: set(), False: set()}
    for candidate in ranked.candidates:
        place = candidate.hit.passage.doc_id, candidate.text
        if asked.lenient(*place):
            ids[asked.strict(*place)].add(candidate.candidate_id)
    return LongList(asked, passages, ranked, frozenset(ids[True]), frozenset(ids[True] | ids[False]))


JOB = """[ingest]
input = ["documents.jsonl"]
min_words = 1

[index]
shards = {shards}
encoder = {encoder}
precision = "{precision}"

[retrieve]
questions = "questions.jsonl"
depth = {depth}

[workers]
processes = {processes}
"""


def job_in(folder: Path, encoder: str) -> Job:
    """Job of the file in the folder. Its paths are relative to it, so that the run is the same wherever a
    benchmark is started. ENCODER's vectors are the same on every processor, too."""
    precision = "bf16" if encoder != ENCODER and fast("cpu") is torch.bfloat16 else "fp32"
    settings = {"encoder": json.dumps(encoder), "precision": precision, "depth": DEPTH}
    write_text(folder / "job.toml", JOB.format(shards=SHARDS, processes=PROCESSES, **settings))
    return load(folder / "job.toml")


def retrieve(data: Path, work: Path, encoder: str | None = None) -> Path:
    """Run folder whose retrieved/ has the questions of all sets ASKED."""
    encoder = encoder or ENCODER
    folder = place(data, work, encoder)
    if not (folder / "documents.jsonl").is_file():
        rows = (json.dumps(row, ensure_ascii=False) + "\n" for row in documents(data))
        write_text(folder / "documents.jsonl", "".join(rows))

    asked = ({"question_id": q.question_id, "text": q.text} for name in ASKED for q in questions(data, name))
    lines = [json.dumps(row, ensure_ascii=False) for row in asked]
    if not is_same(folder / "questions.jsonl", "\n".join(lines) + "\n"):
        write_text(folder / "questions.jsonl", "\n".join(lines) + "\n")
    run, job = folder / "run", job_in(folder, encoder)
    before = RETRIEVED.manifest(run)
    if before is None or before.inputs["questions"] != sha256(folder / "questions.jsonl"):
        carry_out(job, run, ["ingest", "index"])
        carry_out(job, run, ["retrieve"], None if before is None else "retrieve")

    return run


def place(data: Path, work: Path, encoder: str) -> Path:
    """Folder for these files and settings; for a token copy of the data one for all benchmarks."""
    decisive = [REVISION, encoder, DEPTH, SHARDS, [sha256(data / file) for file in DOCUMENT_FILES]]
    key = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:12]
    folder = (shared_place(data) or work) / f"lists-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def carry_out(job: Job, run: Path, steps: Sequence[str], redo: str | None = None) -> None:
    for line in chain.run_steps(job, run, steps, (), redo=redo):
        say(line)


def small_lists() -> None:
    """Set short lists by a random encoder, for --smoke."""
    shrink(globals(), ENCODER=small_encoder(), DEPTH=5, PROCESSES=1)


def best_ranks(lists: Sequence[LongList]) -> dict[str, Floats]:
    """Source → [questions]: rank of its first passage with an answer, infinite if it found none."""

    def best(question: LongList, source: str) -> float:
        hits = [c.hit for c in question.ranked.candidates if c.candidate_id in question.gold]
        ranks = [getattr(hit, source) for hit in hits]
        return min((float(rank) for rank in ranks if rank is not None), default=np.inf)

    sources = {"bm25": "bm25_rank", "dense": "dense_rank", "fused": "rank"}
    return {name: np.array([best(one, source) for one in lists]) for name, source in sources.items()}


def figures(name: str, lists: Sequence[LongList]) -> dict[str, float | int | str]:
    """Figures of a set."""
    answered = [question for question in lists if question.gold]
    recalls = {
        f"{name}_{source}_r{k}": 100 * float(np.mean(ranks <= k))
        for source, ranks in best_ranks(lists).items()
        for k in RECALLS
    }
    counts = {
        f"{name}_questions_{source}": count
        for source, count in Counter(question.asked.source for question in answered).items()
    }

    return {
        f"{name}_asked": len(lists),
        f"{name}_questions": len(answered),
        **counts,
        f"{name}_passages": sum(len(question.passages.candidates) for question in lists) / len(lists),
        f"{name}_sentences": sum(len(question.ranked.candidates) for question in lists) / len(lists),
        f"{name}_answers": sum(len(question.gold) for question in answered) / len(answered),
        f"{name}_lenient_answers": sum(len(question.lenient) for question in answered) / len(answered),
        **recalls,
    }


def differences(
    name: str, default: Mapping[str, Floats], other: Mapping[str, Floats]
) -> dict[str, float | int | str]:
    """Recall of an encoder's lists less that of the default's, which are of the same questions."""
    result: dict[str, float | int | str] = {}
    for source in ("dense", "fused"):
        for k in RECALLS:
            before, after = ((ranks[source] <= k).astype(float) for ranks in (default, other))
            result |= difference(f"{name}_{source}_r{k}", compare(before, after))
    return result


def main() -> None:
    options = arguments(
        "long_lists",
        __doc__ or "",
        paths={"work": "folder that keeps corpus, index and lists; out/long_lists"},
        texts={"encoder": "another dense encoder, a folder or a name"},
    )
    if options.smoke:
        small_lists()
    configure_logging()
    data = options.data.resolve()

    result: dict[str, float | int | str] = {}
    with work_folder(options, "long_lists") as work:
        for name in SETS:
            lists = read_lists(data, work, name, options.encoder)
            result |= figures(name, lists)
            if options.encoder:
                result |= differences(name, *map(best_ranks, (read_lists(data, work, name), lists)))

    finish("long_lists_encoder" if options.encoder else "long_lists", result, options.save)


if __name__ == "__main__":
    main()
