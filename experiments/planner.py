"""Errors of a plan: its predictions before a run, from a part of its input, against the run's actual time and
output.

The held-out job is the sample's, whole; the planner sees at most PAGES of its 70 pages and QUESTIONS of its
90 questions. The others, `real_…`, are of real pages: ingest of all crawl files, HTML pages and Wikipedia
documents, of which it sees as many as `answermill plan` does; and index of the crawl files alone, since
encoding all would take a quarter of an hour, and retrieve of WikiQA's questions from it; of these it sees a
fifth. Seconds are those of the processor, each step's in a new process on one core, so that other work counts
little.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data.sample import copy_to
from answermill.pipelines.look.estimate import plan, sample_runs
from answermill.pipelines.look.estimate.actual import actual, compared
from answermill.pipelines.look.estimate.plan_file import RunEstimate
from answermill.pipelines.look.estimate.sample_runs import take
from answermill.pipelines.specs.run import Run
from experiments.question_sets import sources
from testing.harness import Inline, arguments, finish, processes, say, shrink
from testing.smoke_data import small_encoder

TAKES = "ten minutes"
MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = (
    "How `answermill plan` draws its sample: up to 1,000 pages, since from fewer 11 to 17 % too few "
    "passages of real pages were planned; and that a step's start is measured in a new process."
)

PAGES, QUESTIONS, STEP_S = 40, 30, sample_runs.STEP_S
STEPS = ("ingest", "index", "retrieve", "rerank")
SETTINGS: tuple[str, ...] = ()
"""Settings in place of the sample job's."""
REAL = {"ingest": ("warc", "web-html", "corpus-wiki"), "retrieve": ("warc",)}
"""Last step of a job → folders of the measuring data with the pages of its prediction."""
REAL_PAGES = {"ingest": plan.PAGES, "retrieve": 200}
REAL_QUESTIONS = 600
ENCODER: dict[str, str] = {}
"""Setting of the encoder for the real pages; the default if empty."""


def predict(job: Job, pages: int, questions: int, step_s: float) -> RunEstimate:
    """Plan of a job, from at most that many pages and questions."""
    former = plan.PAGES, plan.QUESTIONS, sample_runs.STEP_S
    plan.PAGES, plan.QUESTIONS, sample_runs.STEP_S = pages, questions, step_s
    try:
        return plan.plan_of(job)[0]
    finally:
        plan.PAGES, plan.QUESTIONS, sample_runs.STEP_S = former


def error(predicted: float, measured: float) -> float:
    """Error of a prediction, in percent of the measured value."""
    return 100 * (predicted - measured) / max(measured, 1e-9)


def inputs(data: Path, folder: str) -> list[str]:
    """Files of pages in a folder of the measuring data."""
    kinds = (".warc", ".warc.gz", ".wet.gz", ".jsonl.gz")
    return [str(file) for file in sorted((data / folder).iterdir()) if file.name.endswith(kinds)]


def real_job(last: str, data: Path, folder: Path) -> Job:
    """Job of ingest of real pages; or of an index of them, searched for REAL_QUESTIONS questions."""
    values: dict[str, Any] = {
        "ingest": {"input": [file for name in REAL[last] for file in inputs(data, name)]}
    }
    if last == "retrieve":
        questions = sources.wikiqa(data, "train")[:REAL_QUESTIONS]
        rows = "".join(f"{question.question_id}\t{question.text}\n" for question in questions)
        (folder / "questions.tsv").write_text(f"question_id\ttext\n{rows}", encoding="utf-8")
        values |= {"index": ENCODER, "retrieve": {"questions": str(folder / "questions.tsv")}}
    return Job.model_validate(values)


def real_pages(data: Path, smoke: bool) -> dict[str, float]:
    """Predicted and actual figures of jobs on real pages."""
    result: dict[str, float] = {}
    for last in REAL:
        with tempfile.TemporaryDirectory() as folder:
            job, run = real_job(last, data, Path(folder)), Path(folder) / "run"
            say(f"plan real pages to {last}")
            with processes(1, inline=smoke) as pool:
                predicted = pool.submit(predict, job, REAL_PAGES[last], QUESTIONS, STEP_S).result()
            actual_s: dict[str, float] = {}

            for step in STEPS[: STEPS.index(last) + 1]:
                say(f"run {step}")
                with processes(1, inline=smoke) as pool:
                    actual_s[step] = pool.submit(take, job, run, step).result()

            passages = error(*compared(predicted, actual(Run.open(run))).get("passages", (0.0, 0.0)))
            for step in actual_s if last == "ingest" else [*actual_s][1:]:
                result |= {
                    f"real_predicted_{step}_s": predicted.seconds[step],
                    f"real_actual_{step}_s": actual_s[step],
                }
                result[f"real_error_{step}"] = error(predicted.seconds[step], actual_s[step])
                result |= {
                    f"real_{step}_pages": predicted.counts["pages"],
                    f"real_{step}_pages_drawn": predicted.drawn,
                }
                result[f"real_error_{step}_passages"] = passages

            if "questions" in predicted.counts:
                result["real_questions"] = predicted.counts["questions"]

    return result


def main() -> None:
    options = arguments("planner", "predicted against actual, on a job that the plan was not fitted on")
    if options.smoke:
        encoder = {"encoder": small_encoder()}
        sample_runs.new_process = Inline
        settings = ("retrieve.max_questions=6", f"index.encoder={encoder['encoder']}")
        shrink(
            globals(),
            PAGES=12,
            REAL=dict.fromkeys(REAL, ("corpus-wiki",)),
            REAL_PAGES=dict.fromkeys(REAL, 12),
            REAL_QUESTIONS=6,
            QUESTIONS=4,
            STEP_S=0.5,
            SETTINGS=settings,
            ENCODER=encoder,
        )

    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        file = copy_to(Path(folder))
        if options.smoke:
            text = file.read_text(encoding="utf-8")
            start, end = text.index("[[rerank.stages]]"), text.index("[propagate]")
            file.write_text(
                text[:start] + '[[rerank.stages]]\nreranker = "overlap"\nkeep = 5\n\n' + text[end:],
                encoding="utf-8",
            )

        job, run = load(file, SETTINGS), Path(folder) / "run"
        say("plan")
        with processes(1, inline=options.smoke) as pool:
            predicted = pool.submit(predict, job, PAGES, QUESTIONS, STEP_S).result()
        actual_s: dict[str, float] = {}

        for step in STEPS:
            say(f"run {step}")
            with processes(1, inline=options.smoke) as pool:
                actual_s[step] = pool.submit(take, job, run, step).result()

        result: dict[str, float] = {"pages_drawn": predicted.drawn, "pages": predicted.counts["pages"]}
        for step in STEPS:
            result |= {f"predicted_{step}_s": predicted.seconds[step], f"actual_{step}_s": actual_s[step]}
            result[f"error_{step}"] = error(predicted.seconds[step], actual_s[step])

        for name, (expected, value) in compared(predicted, actual(Run.open(run))).items():
            if not name.startswith("seconds of "):
                result[f"error_{name.replace(' of ', '_')}"] = error(expected, value)

    result |= real_pages(options.data.resolve(), options.smoke)
    finish("planner", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
