"""L-train: lists to learn from, retrieved as those of L-dev and L-test are, of other questions; and L-dev's
lists to stop by.

The run of `long_lists` is asked the questions of L-train (`question_sets/draw.py`); a sentence of the gold
document is right by the rule of all benchmarks. Lists are those of `answermill sentences`: NEGATIVES wrong
sentences each, of the passage, of the document, of other documents among the best by the default plan's first
blend, and random ones. No answer of a test question is in a list, neither as right nor as wrong; and a
question with more than MOST_RIGHT right sentences, whose answer is a scrap of text that is all over a
document, has no list. Rows have retrieval's scores and their place in the passage. `dev.parquet` has the
DEV_DEPTH best sentences of each list of L-dev, by the same blend.

    python -m experiments.train_lists --work FOLDER      # then FOLDER/train/train.parquet, FOLDER/train/dev.parquet

In a training file both are data sets as they are. Keys: questions and sentences of each set, negatives by
kind, what was left out. A stopped run is resumed. --questions takes a part of L-train, drawn by hash.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from answermill.files.atomic_files import write_text
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.publish.lists.list_files import Attribution, write_lists
from answermill.pipelines.data.publish.lists.list_rules import ListRules
from answermill.pipelines.data.publish.lists.list_sources import places
from answermill.pipelines.data.publish.lists.retrieval_scores import retrieved_scores
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.ranking.plan import run_stages
from answermill.schemas.labels import LabelledCandidate
from experiments import long_lists
from experiments.first_stage import first_of_plan
from experiments.question_sets import draw
from experiments.question_sets.gold import Asked, canonical, drawn
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.smoke_data import small_plan

MEASURED_MODELS = ("cosinet",)
DECIDED = (
    "What the checkpoints that ship learn from. Questions with more than four right sentences are left "
    "out, since one had 42, a scrap that stands all over its document."
)
SAMPLE = Path(__file__).resolve().parents[1] / "pipelines/data/sample/job.toml"
SET = "train"
NEGATIVES, MOST_RIGHT, DEV_DEPTH, AT_ONCE = 20, 4, 40, 32
GIVEN = ("documents", "passages", "rejects", "shards", "inputs.json")
"""Parts of the run of `long_lists` that do not depend on the questions."""


def job_in(folder: Path) -> Job:
    """Job of `long_lists` with L-train's questions and labels, and the default plan's stages up to the first
    that drops candidates."""
    shared = long_lists.job_in(folder.parent, long_lists.ENCODER)
    text = (
        (folder.parent / "job.toml")
        .read_text(encoding="utf-8")
        .replace('["documents.jsonl"]', '["../documents.jsonl"]')
    )
    plan = load(SAMPLE)
    assert plan.rerank is not None and shared.retrieve is not None

    for stage in plan.rerank.stages:
        keys = stage.model_dump(exclude_unset=True, exclude_none=True)
        if "weights_file" in keys:
            weights = plan.path(keys["weights_file"])
            # A name beside the job is the same in every checkout.
            shutil.copyfile(weights, folder / weights.name)
            keys["weights_file"] = weights.name
        keys.pop("keep", None)
        text += "\n[[rerank.stages]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
        if stage.keep is not None:
            break

    write_text(folder / "job.toml", text + '\n[propagate]\nlabels = "labels.jsonl"\n')
    return load(folder / "job.toml")


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def asked_run(data: Path, work: Path, asked: Sequence[Asked]) -> Path:
    """Run folder with what was retrieved for these questions, scored by the first blend, and their labels."""
    shared = long_lists.retrieve(data, work)
    folder = shared.parent / f"train-{len(asked)}"
    run = folder / "run"

    if not run.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "copied").mkdir(parents=True)
        for name in GIVEN:
            source, target = shared / name, folder / "copied" / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
        (folder / "copied").rename(run)

    write_text(folder / "questions.jsonl", "".join(json.dumps(row) + "\n" for row in question_rows(asked)))
    write_text(folder / "labels.jsonl", "".join(json.dumps(row) + "\n" for row in label_rows(shared, asked)))
    long_lists.carry_out(job_in(folder), run, ["retrieve", "rerank", "propagate"])
    return run


def question_rows(asked: Sequence[Asked]) -> Iterator[dict[str, object]]:
    for question in asked:
        yield {"question_id": question.question_id, "text": question.text, "answers": question.strings}


def label_rows(run: Path, asked: Sequence[Asked]) -> Iterator[dict[str, object]]:
    """Labels of the sentences of the corpus that are answers."""
    sentences: dict[str, dict[str, str]] = {}
    wanted = {doc_id for question in asked for doc_id in question.documents}
    for passage in PASSAGES.open(run).where("doc_id", wanted):
        sentences.setdefault(passage.doc_id, {}).update(
            (place.sentence_id, place.text) for place in places(passage)
        )
    for question in asked:
        for doc_id in sorted(question.documents):
            for sentence_id, text in sentences.get(doc_id, {}).items():
                if question.strict(doc_id, text):
                    yield {"question_id": question.question_id, "sentence_id": sentence_id, "label": 1}


def without_test_answers(
    rows: Sequence[LabelledCandidate], answers: frozenset[str]
) -> list[LabelledCandidate]:
    """Rows whose sentence is no answer of a test question, in each question's order."""
    kept = (row for row in rows if canonical(row.text) not in answers)
    return [replace(row, position=n) for question in by_question(kept) for n, row in enumerate(question)]


def without_scraps(rows: Sequence[LabelledCandidate]) -> list[LabelledCandidate]:
    """Lists of the questions that have no more than MOST_RIGHT right sentences."""
    return [
        row
        for question in by_question(rows)
        if sum(row.label for row in question) <= MOST_RIGHT
        for row in question
    ]


def dev_rows(data: Path, work: Path) -> list[LabelledCandidate]:
    """The DEV_DEPTH best sentences of each list of L-dev that has an answer among them."""
    lists = [ranked for ranked in long_lists.read_lists(data, work, "dev") if ranked.gold]
    plan = first_of_plan(SAMPLE)
    plan[-1] = replace(plan[-1], keep=DEV_DEPTH)
    rows = []

    for start in range(0, len(lists), AT_ONCE):
        some = lists[start : start + AT_ONCE]
        for dev_list, outcome in zip(some, run_stages([one.passages for one in some], plan), strict=True):
            kept, scores = outcome.kept.candidates, retrieved_scores(dev_list.ranked)
            if dev_list.gold.isdisjoint(c.candidate_id for c in kept):
                continue

            for n, c in enumerate(kept):
                (place,) = (place for place in places(c.hit.passage) if place.sentence_id == c.candidate_id)
                rows.append(
                    LabelledCandidate(
                        question_id=dev_list.asked.question_id,
                        question=dev_list.asked.text,
                        candidate_id=c.candidate_id,
                        doc_id=place.doc_id,
                        title=place.title,
                        position=n,
                        text=c.text,
                        label=int(c.candidate_id in dev_list.gold),
                        previous=place.previous,
                        next=place.next,
                        place=place.number,
                        **scores[c.candidate_id],
                    )
                )

    return rows


def has_all_columns(file: Path) -> bool:
    """True if the rows have all columns of today; lists without some are drawn again, of the same run."""
    return set(LabelledCandidate.schema().names) <= set(pq.read_schema(file).names)


def written(data: Path, work: Path, asked: Sequence[Asked]) -> dict[str, float | int | str]:
    """Write train.parquet and dev.parquet; the study's keys."""
    out = work / "train"
    run, lists = asked_run(data, work, asked), out / f"lists-{len(asked)}"
    splits, answers = out / "splits.jsonl", out / "answers.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    write_text(
        splits,
        "".join(
            json.dumps({"question_id": question.question_id, "split": "train"}) + "\n" for question in asked
        ),
    )
    write_text(answers, "".join(json.dumps(row) + "\n" for row in question_rows(asked)))

    if (lists / "sentences.json").exists() and not has_all_columns(lists / "train.parquet"):
        shutil.rmtree(lists)
    if not (lists / "sentences.json").exists():
        name = Attribution("L-train", "CC BY-SA 4.0 (SQuAD), CC BY-SA 3.0 (Natural Questions)")
        write_lists(
            run, lists, ListRules(negatives=NEGATIVES, by="first"), name, split_file=splits, answers=answers
        )

    counts = json.loads((lists / "sentences.json").read_text(encoding="utf-8"))
    rows = list(read_dataset(lists / "train.parquet"))
    no_scraps = without_scraps(rows)
    apart = without_test_answers(no_scraps, draw.test_answers(data))
    pq.write_table(LabelledCandidate.table(apart), out / "train.parquet")
    dev = dev_rows(data, work)
    pq.write_table(LabelledCandidate.table(dev), out / "dev.parquet")
    result: dict[str, float | int | str] = {"train_asked": len(asked), "train_sentences": len(apart)}
    result["train_questions"] = len({row.question_id for row in apart if row.label})

    result["train_scraps_left_out"] = len(rows) - len(no_scraps)
    result["train_test_answers_left_out"] = len(no_scraps) - len(apart)
    result |= {
        f"train_{key}": counts[key] for key in sorted(counts) if key.startswith(("negatives_", "candidates_"))
    }
    result |= {"dev_questions": len({row.question_id for row in dev}), "dev_sentences": len(dev)}
    say(f"{out}: {result['train_questions']} questions, {len(apart)} sentences")

    return result


def small_lists() -> None:
    """Shrink the lists for --smoke: few wrong sentences, drawn by a token plan, of short lists."""
    shrink(globals(), SAMPLE=small_plan(fitted=True), NEGATIVES=3, SET="dev")
    long_lists.small_lists()


def main() -> None:
    options = arguments(
        "train_lists",
        __doc__ or "",
        paths={"work": "folder that keeps the lists; out/long_lists"},
        numbers={"questions": "of L-train, drawn by hash; all of them if absent"},
    )
    if options.smoke:
        small_lists()
    data = options.data.resolve()

    with work_folder(options, "long_lists") as work:
        asked = draw.questions(data, SET)
        names = set(drawn((question.question_id for question in asked), int(options.questions or len(asked))))
        result = written(data, work, [question for question in asked if question.question_id in names])

    finish("train_lists", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
