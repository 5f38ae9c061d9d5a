"""The recipe for a data set (`pipelines/data/recipes/wqa.toml`) from a crawl to train, dev and test, with
annotation simulated.

Crawl: DOCUMENTS of `corpus-wiki` with Wikipedia's address, and all real WARC and WET files of `warc/`.
Questions: ANSWERED of WikiQA's test set and SQuAD's, whose answer sentence is known, and OTHERS of NQ-open,
whose is not. Three people, each wrong in a share of the judgements (ERRORS), label the packs for Label Studio
by the known answers, some of which are controls; then collect, with votes weighted by the controls,
propagate, passages.

Keys in the form of WQA's Table 1: `questions`, `documents`, `passages_positive` / `_negative`
(question–passage pairs) and `sentences_…` (question–sentence pairs). `propagation_precision`: passages
labelled positive that hold a known answer; `propagation_recall`: passages of the corpus that hold one and are
labelled positive, in percent; `…_of_judged`: only those whose answer sentence was judged. `simulation_…`:
DRAWS draws of the strata over the scored sentences of SIMULATED questions, truth known: the mean of the
estimated number of correct sentences, the true one, and their difference in standard errors of that mean
(`_z`); so for prevalence, with the share of correct ones among all judged beside (`_naive`), and the top's
recall.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import load
from answermill.pipelines.data.publish.passage_set import PassageRules
from answermill.pipelines.data.publish.training_passages import write_passages
from answermill.pipelines.specs.annotate import TASKS
from answermill.pipelines.specs.collect import LABELS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.specs.propagate import PASSAGE_LABELS
from answermill.pipelines.specs.rerank import SCORED
from answermill.pipelines.steps import chain
from answermill.pipelines.steps.annotate import sampling
from answermill.pipelines.steps.collect.collect import collect
from answermill.pipelines.steps.collect.resolution import ResolutionRules
from answermill.schemas.annotation import Task
from experiments import wqa_questions
from experiments.question_sets.gold import is_answer
from experiments.wqa_questions import Question, questions
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_encoder

MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = (
    "Nothing ships by it. That the estimated recall of the top is not usable here, since correct "
    "sentences are rare, is its advice: judge more sentences at random."
)
RECIPE = Path(chain.__file__).parents[1] / "data" / "recipes" / "wqa.toml"
DOCUMENTS, ANSWERED, OTHERS, DEPTH, DRAWS, SIMULATED, SEED = 1_200, 150, 150, 100, 1_000, 20, 0
ERRORS = {"ann": 0.01, "ben": 0.03, "cat": 0.06}
CONTROLS = 0.2  # share of the answered questions whose answers are given as controls
WINDOW_TOKENS = 200
SETTINGS: tuple[str, ...] = ()  # that differ from the recipe's, besides the data


class Truth:
    """The known answers."""

    def __init__(self, asked: list[Question]) -> None:
        self._of = {question.question_id: question for question in asked}

    def __call__(self, question_id: str, doc_id: str, sentence: str) -> bool:
        known = self._of.get(question_id)
        return known is not None and known.doc_id == doc_id and is_answer(fold(sentence), known.gold)

    def documents(self) -> set[str]:
        return {question.doc_id for question in self._of.values()}


def crawl(data: Path, folder: Path, first: set[str]) -> None:
    """Write crawl/wiki.jsonl.gz: the documents `first` of corpus-wiki and, in the order of a hash, others;
    with addresses."""
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows.sort(key=lambda row: (row["doc_id"] not in first, sampling.draw(SEED, row["doc_id"])))
    (folder / "crawl").mkdir()

    with gzip.open(folder / "crawl/wiki.jsonl.gz", "wt", encoding="utf-8") as file:
        for row in rows[:DOCUMENTS]:
            url = "https://en.wikipedia.org/wiki/" + re.sub(r"\W+", "_", row["title"])
            file.write(
                json.dumps({"id": row["doc_id"], "url": url, "title": row["title"], "text": row["text"]})
                + "\n"
            )

    for path in sorted((data / "warc").iterdir()):
        if ".warc" in path.name and ".wat" not in path.name:
            shutil.copyfile(path, folder / "crawl" / path.name)


def ask(data: Path, folder: Path, asked: list[Question]) -> None:
    with gzip.open(data / "questions/nq-open-dev.jsonl.gz", "rt", encoding="utf-8") as file:
        others = [json.loads(line)["question"] for line in file]
    rows = [(question.question_id, question.text) for question in asked]
    rows += [(f"nq:{n}", text) for n, text in enumerate(random.Random(SEED).sample(others, OTHERS))]
    write_lines(folder / "questions.jsonl", ({"question_id": key, "text": text} for key, text in rows))

    chosen = [
        question for question in asked if sampling.draw(SEED, "controls", question.question_id) < CONTROLS
    ]
    known = (
        {"question_id": q.question_id, "sentence": text, "label": 1}
        for q in chosen
        for text in sorted(q.gold)
    )
    write_lines(folder / "controls.jsonl", known)


def write_lines(path: Path, rows: Iterable[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def annotated(
    packs: Path, tasks: dict[str, Task], truth: Truth
) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Packs for Label Studio with the people's judgements, by the truth and their share of errors."""
    for path in sorted(packs.rglob("tasks-*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))
        for n, row in enumerate(rows, 1):
            task = tasks[row["data"]["task_id"]]
            right = truth(task.question_id, task.doc_id, task.sentence)
            row |= {"id": n, "annotations": []}
            for name, error in ERRORS.items():
                judgement = right != (sampling.draw(SEED, name, task.task_id) < error)
                value = {"choices": ["correct" if judgement else "wrong"]}
                result = [{"from_name": "answer", "to_name": "sentence", "type": "choices", "value": value}]
                row["annotations"].append({"completed_by": name, "was_cancelled": False, "result": result})
        yield path, rows


class Simulated(NamedTuple):
    question_id: str
    label: int
    stratum: str
    probability: float


def simulate(folder: Path, truth: Truth) -> dict[str, float]:
    """Estimators of the strata, over DRAWS draws of the real choice, against the truth of all scored
    sentences."""
    population: dict[str, dict[str, int]] = defaultdict(dict)
    for row in SCORED.open(folder).read():
        if row.unit == "sentence":
            population[row.question_id][row.candidate_id] = int(truth(row.question_id, row.doc_id, row.text))

    with_answer = sorted(question for question, labels in population.items() if any(labels.values()))
    population = {question: population[question] for question in with_answer[:SIMULATED]}
    correct = sum(sum(labels.values()) for labels in population.values())
    sentences = sum(map(len, population.values()))
    estimates = []

    for seed in range(DRAWS):
        rules = sampling.SamplingRules(seed=seed)
        judged = [
            Simulated(question, list(labels.values())[chosen.number], chosen.stratum, chosen.probability)
            for question, labels in population.items()
            for chosen in sampling.choose(question, list(labels), {}, rules)
        ]
        overall, _ = sampling.estimate(judged)
        naive = sum(row.label for row in judged) / len(judged)
        estimates.append((overall.correct, overall.prevalence, overall.recall, naive))

    values = np.array(estimates)
    means, errors = values.mean(0), values.std(0, ddof=1) / np.sqrt(DRAWS)
    top = sum(sum(list(labels.values())[:15]) for labels in population.values())
    true = np.array([correct, correct / sentences, top / correct])
    with_z = {
        f"simulation_{name}_z": float((mean - value) / error)
        for name, mean, value, error in zip(("correct", "prevalence"), means, true, errors, strict=False)
        if error  # where all draws agree there are no standard errors
    }

    return {
        "simulation_draws": DRAWS,
        "simulation_sentences": sentences,
        "simulation_correct": correct,
        "simulation_correct_mean": float(means[0]),
        "simulation_prevalence": 100 * float(true[1]),
        "simulation_prevalence_mean": 100 * float(means[1]),
        "simulation_prevalence_naive": 100 * float(means[3]),
        "simulation_recall": 100 * float(true[2]),
        "simulation_recall_mean": 100 * float(means[2]),
        **with_z,
    }


def propagated(folder: Path, truth: Truth, asked: list[Question]) -> dict[str, float]:
    """Labels of passages against the passages that truly hold an answer."""
    judged = {(task.question_id, task.sentence_id) for task in TASKS.open(folder).read()}
    of_document: dict[str, list[str]] = defaultdict(list)
    for question in asked:
        of_document[question.doc_id].append(question.question_id)
    holds, reached = set(), set()

    for passage in PASSAGES.open(folder).read():
        for key in of_document.get(passage.doc_id, ()):
            right = [s.sentence_id for s in passage.sentences if truth(key, passage.doc_id, s.text)]
            if right:
                holds.add((key, passage.passage_id))
            if any((key, sentence_id) in judged for sentence_id in right):
                reached.add((key, passage.passage_id))

    labels = list(PASSAGE_LABELS.open(folder).read())
    positive = {(label.question_id, label.passage_id) for label in labels if label.label}
    return {
        "passages_positive": len(positive),
        "passages_negative": len(labels) - len(positive),
        "propagation_precision": 100 * len(positive & holds) / len(positive),
        "propagation_recall": 100 * len(positive & holds) / len(holds),
        "propagation_recall_of_judged": 100 * len(positive & reached) / len(reached),
    }


def main() -> None:
    options = arguments(
        "wqa", __doc__ or "", paths={"work": "folder of the run, which stays and is gone on with"}
    )
    if options.smoke:
        shrink(vars(wqa_questions), DEV_ARTICLES=6)
        cheap = (f"index.encoder={small_encoder()}", "rerank.stages=[{reranker = 'overlap', keep = 20}]")
        shrink(
            globals(),
            DOCUMENTS=20,
            ANSWERED=8,
            OTHERS=4,
            DEPTH=10,
            DRAWS=20,
            SIMULATED=8,
            CONTROLS=1.0,
            SETTINGS=cheap,
        )

    data = options.data.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(options.work or temporary).resolve()
        result = recipe(data, work)

    finish("wqa", result, options.save, MEASURED_MODELS)


def recipe(data: Path, work: Path) -> dict[str, float | int | str]:
    known = [
        question for question in questions(data) if question.gold and question.split in ("squad", "wikiqa")
    ]
    asked = sorted(known, key=lambda question: sampling.draw(SEED, question.question_id))[:ANSWERED]
    truth, folder = Truth(asked), work / "run"

    if not (work / "questions.jsonl").is_file():
        work.mkdir(parents=True, exist_ok=True)
        crawl(data, work, truth.documents())
        ask(data, work, asked)

    shutil.copyfile(RECIPE, work / "wqa.toml")
    settings = [
        "ingest.input=['crawl/*']",
        "ingest.domains=20",
        f"retrieve.depth={DEPTH}",
        "annotate.annotators=3",
        "annotate.controls=controls.jsonl",
        *SETTINGS,
    ]
    job = load(work / "wqa.toml", settings)

    result: dict[str, float | int | str] = {}
    for name in chain.steps_of(job):
        if name != "propagate":
            for line in chain.run_steps(job, folder, [name], ()):
                say(line)

    tasks = {task.task_id: task for task in TASKS.open(folder).read()}
    (work / "exports").mkdir(exist_ok=True)
    exports = []
    for path, rows in annotated(folder / "packs/label-studio", tasks, truth):
        exports.append(work / "exports" / path.name)
        exports[-1].write_text(json.dumps(rows), encoding="utf-8")

    for line in collect(folder, exports, ResolutionRules("weighted")):
        say(line)
    for line in chain.run_steps(job, folder, ["propagate"], ()):
        say(line)
    shutil.rmtree(work / "data", ignore_errors=True)
    write_passages(folder, work / "data", PassageRules(max_tokens=WINDOW_TOKENS, seed=SEED))
    passages = json.loads((work / "data/passages.json").read_text(encoding="utf-8"))
    say(json.dumps(passages))

    labels = list(LABELS.open(folder).read())
    right = [row.label == truth(row.question_id, row.doc_id, row.sentence) for row in labels]
    agreement = json.loads((folder / "collected/agreement.json").read_text(encoding="utf-8"))
    say(json.dumps(agreement)[:2_000])
    overall, _ = sampling.estimate(labels)
    result |= {
        "questions": len({row.question_id for row in labels}),
        "documents": len({row.doc_id for row in labels}),
        "tasks": len(tasks),
        "sentences_positive": sum(row.label for row in labels),
        "sentences_negative": sum(1 - row.label for row in labels),
        "label_accuracy": 100 * float(np.mean(right)),
        "estimated_recall_of_top": 100 * overall.recall,
        **propagated(folder, truth, asked),
        **{
            f"data_{name}": value
            for name, value in passages.items()
            if name.startswith(("train_", "dev_", "test_"))
        },
        **simulate(folder, truth),
    }

    return result


if __name__ == "__main__":
    main()
