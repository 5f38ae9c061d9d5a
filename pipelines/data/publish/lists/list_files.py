"""Lists of sentences of a run, as files: train.parquet, dev.parquet, test.parquet, a card, and the counts, written last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import sha256, write_text
from answermill.pipelines.data.inputs.tables import read_answers, read_splits
from answermill.pipelines.data.publish.lists.list_rules import KINDS, ListRules, RetrievedSentence
from answermill.pipelines.data.publish.lists.list_sources import ReadRanking, by_rank, by_stage
from answermill.pipelines.data.publish.lists.retrieval_scores import with_scores
from answermill.pipelines.data.publish.lists.training_lists import TrainingLists, build
from answermill.pipelines.data.splits import SPLITS
from answermill.pipelines.errors import BAD_DATA, OUTPUT_EXISTS, SETTINGS, JobError
from answermill.pipelines.runs.parquet_folder import Folder, read_batches, whole_file
from answermill.pipelines.runs.watch.progress import progress, reading
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.schemas.corpus import Passage
from answermill.schemas.labels import LabelledCandidate, SentenceLabel
from answermill.schemas.ranked import Hit, ScoredCandidate
from answermill.schemas.record import Record

SUMMARY, CARD = "sentences.json", "README.md"


@dataclass(frozen=True, slots=True)
class Named:
    """What the card says of the set, in its maker's words."""

    name: str
    licence: str


def write_lists(
    run: Path, out: Path, rules: ListRules, named: Named, split_file: Path | None = None, answers: Path | None = None
) -> str:
    """Draw the lists of a run and write the folder; returns the content of its sentences.json.

    `rules.by` None: the last stage of scored/, if there is one, else the rank of the passage; so does 'retrieved'.

    Raises JobError: 66 if the run lacks a folder or a file is missing, 65 if one is wrong or no label can be used, 73 if `out`
    is complete already, 78 if the plan has no such stage.
    """
    if (out / SUMMARY).exists():
        raise JobError(f"{out} is written already; name another --out", OUTPUT_EXISTS)
    splits = read_splits(split_file) if split_file is not None else None
    strings = read_answers(answers) if answers is not None else None
    folders: dict[str, Folder[Any]] = {
        "labels": SENTENCE_LABELS.open(run),
        "passages": PASSAGES.open(run),
        "questions": QUESTIONS.open(run),
        RETRIEVED.name: RETRIEVED.open(run),
    }
    stage, name, ranking = _ranking(run, rules.by)
    folders[name] = ranking
    labels: list[SentenceLabel] = list(folders["labels"].read())
    labelled = {label.question_id for label in labels}
    if strings is not None and not labelled & {q for q, own in strings.items() if own}:
        raise JobError(f"{answers}: it has answers of none of the {len(labelled)} labelled questions", BAD_DATA)
    questions = {each.question_id: each.text for each in folders["questions"].where("question_id", labelled)}
    lists = build(
        labels,
        questions,
        _reader(ranking, stage),
        lambda ids: folders["passages"].where("doc_id", ids),
        _ids(folders["passages"]),
        rules,
        splits,
        strings,
    )
    with reading(
        "retrieval scores", folders[RETRIEVED.name].where("question_id", {rows[0].question_id for _, rows in lists.lists})
    ) as hits:
        lists = with_scores(lists, hits)
    inputs = {name: folder.digest() for name, folder in folders.items()}
    inputs |= {name: sha256(file) for name, file in (("split_file", split_file), ("answers", answers)) if file is not None}
    counts = _write_splits(lists, out)
    settings = asdict(replace(rules, by=stage or RETRIEVED.name)) | ({} if splits is None else {"shares": None})
    content = {**settings, **counts, "inputs": inputs}
    write_text(out / CARD, "\n".join(_card(named, content)) + "\n")
    summary = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_text(out / SUMMARY, summary)
    return summary


def _ranking(run: Path, by: str | None) -> tuple[str | None, str, Folder[Any]]:
    """The stage that says which sentences are the best, None for the passages' rank; and the folder to read, with its name."""
    manifest = SCORED.manifest(run)
    if by == RETRIEVED.name or (by is None and manifest is None):
        return None, RETRIEVED.name, RETRIEVED.open(run)
    scored = SCORED.open(run)
    stages = [stage["name"] or stage["reranker"] for stage in scored.manifest.settings["stages"]]
    if by is not None and by not in stages:
        raise JobError(f"--by {by}: {scored.path} has {', '.join(stages)}; name one of them, or {RETRIEVED}", SETTINGS)
    return by or stages[-1], "scored", scored


def _reader(ranking: Folder[Record], stage: str | None) -> ReadRanking:
    """Reads the ranking of some questions, with progress on stderr."""

    def read(question_ids: Set[str]) -> Iterator[RetrievedSentence]:
        with reading("sentences", ranking.where("question_id", question_ids)) as rows:
            if stage is None:
                yield from by_rank(row for row in rows if isinstance(row, Hit))
            else:
                yield from by_stage((row for row in rows if isinstance(row, ScoredCandidate)), stage)

    return read


def _ids(passages: Folder[Passage]) -> Iterator[tuple[str, str]]:
    """(passage_id, doc_id) of all passages."""
    for part in passages.parts:
        for batch in read_batches(passages.path, part, ["passage_id", "doc_id"], rows=8_192):
            yield from zip(batch["passage_id"].to_pylist(), batch["doc_id"].to_pylist(), strict=True)


def _write_splits(lists: TrainingLists, out: Path) -> dict[str, int]:
    """Write train, dev and test; returns the counts of `lists`, and the rows of each split."""
    rows = {f"{name}_{what}": 0 for name in SPLITS for what in ("questions", "candidates", "positives")}
    done = 0
    with ExitStack() as files, progress("sentences", len(lists.lists), lambda: done, what="questions"):
        writers = {name: files.enter_context(whole_file(out / f"{name}.parquet", LabelledCandidate)) for name in SPLITS}
        for split, group in groupby(lists.lists, key=lambda each: each[0]):
            for _, of_question in group:
                writers[split](of_question)
                rows[f"{split}_questions"] += 1
                rows[f"{split}_candidates"] += len(of_question)
                rows[f"{split}_positives"] += sum(row.label for row in of_question)
                done += 1
    always: Counter[str] = Counter({"positives": 0, **{f"negatives_{kind}": 0 for kind in KINDS}})
    return dict(sorted({**always, **lists.counts}.items())) | rows


def _card(named: Named, content: Mapping[str, Any]) -> Iterator[str]:
    """The set's README: what is in it, how it came about, what it is not good for."""
    yield f"# {named.name}"
    yield ""
    yield "Questions with sentences of web pages, right and wrong ones, for training answer sentence selection. Written by"
    yield f"AnswerMill. Licence: {named.licence}."
    yield ""
    yield "| split | questions | sentences | right |"
    yield "|---|---:|---:|---:|"
    for name in SPLITS:
        yield (
            f"| {name} | "
            + " | ".join(f"{content[f'{name}_{what}']:,}" for what in ("questions", "candidates", "positives"))
            + " |"
        )
    yield ""
    yield "## Rules"
    yield ""
    shares = ", ".join(f"{share:g} {kind}" for share, kind in zip(content["negative_shares"], KINDS, strict=True))
    yield f"- Up to {content['negatives']} wrong sentences of a question; shares by where they are from: {shares}."
    yield "  passage: a passage that holds a right one; document: elsewhere in its document; retrieved: other documents, drawn"
    yield f"  from the {content['depth']} best sentences by `{content['by']}`; random: random passages."
    yield "- A sentence that nobody judged counts as wrong, unless it has the text of a right one, or is of a right one's"
    yield "  document and holds an answer string. Some of them answer all the same."
    split = content["shares"]
    how = "as a file says" if split is None else " / ".join(f"{share:g}" for share in split)
    apart = "no document stands" if content["documents_apart"] else "documents may stand"
    yield f"- Splits by question: {how}, seed {content['seed']}; questions whose words have a Jaccard similarity of"
    yield f"  {content['similar']:g} or more stand together; {apart} in two splits."
    yield ""
    yield "## Counts"
    yield ""
    known = {*ListRules.__dataclass_fields__, "inputs"}
    yield from (f"- {name.replace('_', ' ')}: {n:,}" for name, n in content.items() if name not in known)
    yield ""
    yield "## Inputs"
    yield ""
    yield from (f"- {name}: `{digest}`" for name, digest in content["inputs"].items())
