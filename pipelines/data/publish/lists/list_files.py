"""Lists of sentences of a run, as files: train.parquet, dev.parquet, test.parquet, a card, and the counts,
written last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from answermill.files.atomic_files import write_text
from answermill.pipelines.data.inputs.columns import AS_NAMED, Columns
from answermill.pipelines.data.inputs.tables import read_answers, read_splits
from answermill.pipelines.data.publish.left_out import count_in_words
from answermill.pipelines.data.publish.lists.list_rules import KINDS, ListRules, RetrievedSentence
from answermill.pipelines.data.publish.lists.list_sources import ReadRanking, Sources, by_rank, by_stage
from answermill.pipelines.data.publish.lists.retrieval_scores import with_scores
from answermill.pipelines.data.publish.lists.training_lists import build
from answermill.pipelines.data.publish.question_splits import LabelledQuestions
from answermill.pipelines.data.publish.training_set import SetFiles, digests
from answermill.pipelines.data.splits import SPLITS
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.runs.manifests.run_folder import stage_name
from answermill.pipelines.runs.new_folder import new_folder
from answermill.pipelines.runs.parquet_folder import Folder, read_batches
from answermill.pipelines.runs.watch.progress import reading
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.propagate import SENTENCE_LABELS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.specs.retrieve import QUESTIONS, RETRIEVED
from answermill.schemas.corpus import Passage
from answermill.schemas.labels import LabelledCandidate, SentenceLabel
from answermill.schemas.ranked import Hit, ScoredCandidate
from answermill.schemas.record import Record

CARD = "README.md"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The set's name and licence, in its maker's words."""

    name: str
    licence: str


def write_lists(
    run: Path,
    out: Path,
    rules: ListRules,
    attribution: Attribution,
    *,
    split_file: Path | None = None,
    answers: Path | None = None,
    columns: Columns = AS_NAMED,
) -> str:
    """Draw the lists of a run and write the folder; returns a line for people.

    `rules.by` names the stage that ranks the sentences. None takes the last stage of scored/ or, if there is
    none, the rank of the passage, as 'retrieved' does. `columns` are those of both files.

    Raises JobError: 66 if the run lacks a folder or a file is missing, 65 if one is wrong or no label can be
    used, 73 if `out` has files, 78 if the plan has no such stage.
    """
    with new_folder(out):
        return _written(run, out, rules, attribution, split_file=split_file, answers=answers, columns=columns)


def _written(
    run: Path,
    out: Path,
    rules: ListRules,
    attribution: Attribution,
    *,
    split_file: Path | None,
    answers: Path | None,
    columns: Columns,
) -> str:
    files = SetFiles(out, "sentences", LabelledCandidate, _tally)
    splits = read_splits(split_file, columns) if split_file is not None else None
    strings = read_answers(answers, columns) if answers is not None else None
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
    if strings is not None and not labelled & {q for q, texts in strings.items() if texts}:
        raise JobError(
            f"{answers}: it has answers of none of the {len(labelled)} labelled questions", BAD_DATA
        )

    questions = {q.question_id: q.text for q in folders["questions"].where("question_id", labelled)}
    passages = folders["passages"]
    sources = Sources(_reader(ranking, stage), lambda ids: passages.where("doc_id", ids), _ids(passages))
    lists = build(LabelledQuestions(labels, questions, splits), sources, rules, strings)

    with reading(
        "retrieval scores",
        folders[RETRIEVED.name].where("question_id", {rows[0].question_id for _, rows in lists.lists}),
    ) as hits:
        lists = with_scores(lists, hits)

    rows = files.write_splits(lists.lists, len(lists.lists))
    settings = replace(rules, by=stage or RETRIEVED.name).settings(drawn=splits is None)
    inputs = digests(folders, {"split_file": split_file, "answers": answers})
    content = {**settings, **dict(sorted(lists.counts.items())), **rows, "inputs": inputs}
    write_text(out / CARD, _card(attribution, content))

    return files.write_summary(content)


def _ranking(run: Path, by: str | None) -> tuple[str | None, str, Folder[Any]]:
    """The stage that ranks the sentences, None for the passages' rank; and the folder to read, after its
    name."""
    manifest = SCORED.manifest(run)
    if by == RETRIEVED.name or (by is None and manifest is None):
        return None, RETRIEVED.name, RETRIEVED.open(run)
    scored = SCORED.open(run)
    stages = [stage_name(stage) for stage in scored.manifest.settings["stages"]]
    if by is not None and by not in stages:
        raise JobError(
            f"--by {by}: {scored.path} has {', '.join(stages)}; name one of them, or {RETRIEVED.name}",
            SETTINGS,
        )
    return by or stages[-1], "scored", scored


def _reader(ranking: Folder[Record], stage: str | None) -> ReadRanking:
    """A function that reads the ranking of some questions, with progress on stderr."""

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


def _tally(rows: Sequence[LabelledCandidate]) -> dict[str, int]:
    """Counts of a question's rows."""
    return {"candidates": len(rows), "positives": sum(row.label for row in rows)}


def _count(name: str, number: int) -> str:
    return count_in_words(name, number) if "_left_out_" in name else f"{name.replace('_', ' ')}: {number:,}"


def _card(attribution: Attribution, content: Mapping[str, Any]) -> str:
    """The set's README: its content, its making, its limits."""
    numbers = {
        name: [f"{content[f'{name}_{count}']:,}" for count in ("questions", *_tally([]))] for name in SPLITS
    }
    shares = ", ".join(
        f"{share:g} {kind}" for share, kind in zip(content["negative_shares"], KINDS, strict=True)
    )
    rule = (
        "as a file says"
        if content["shares"] is None
        else " / ".join(f"{share:g}" for share in content["shares"])
    )

    apart = "no document stands" if content["documents_apart"] else "documents may stand"
    known = {*ListRules.__dataclass_fields__, "inputs"}
    counts = [f"- {_count(name, n)}" for name, n in content.items() if name not in known]
    lines = "\n".join
    return f"""\
# {attribution.name}

Questions with sentences of web pages, right and wrong ones, for training answer sentence selection. Written by
AnswerMill. Licence: {attribution.licence}.

| split | questions | sentences | right |
|---|---:|---:|---:|
{lines(f"| {' | '.join([name, *cells])} |" for name, cells in numbers.items())}

## Rules

- Up to {content["negatives"]} wrong sentences of a question; shares by where they are from: {shares}.
  passage: a passage that holds a right one; document: elsewhere in its document; retrieved: other documents, drawn
  from the {content["depth"]} best sentences by `{content["by"]}`; random: random passages.
- A sentence that nobody judged counts as wrong, unless it has the text of a right one, or is of a right one's
  document and holds an answer string. Some of them answer all the same.
- Splits by question: {rule}, seed {content["seed"]}; questions whose words have a Jaccard similarity of
  {content["similar"]:g} or more stand together; {apart} in two splits.

## Counts

{lines(counts)}

## Inputs

{lines(f"- {name}: `{digest}`" for name, digest in content["inputs"].items())}
"""
