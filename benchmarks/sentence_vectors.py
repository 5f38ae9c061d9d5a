"""`similarity` over the sample web: sentences encoded at rerank, beside their vectors read from the index in
fp16 and in int8.

One stage over all sentences of the retrieved passages, each encoded behind its title; the models are loaded
and the files read once before. `speedup_` is the median of the rounds' ratios. `bytes_a_sentence_` are those
of both files of a set, which a shard has once for each different text (`sentences`). `same_first_answers_`
are percent of the questions; `largest_score_difference_` is over all sentences of all questions.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Literal

from answermill.pipelines.config.job_file import load
from answermill.pipelines.data import sample
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.job_plan import load_plan
from answermill.pipelines.steps.rerank.question_groups import ranked_lists
from answermill.ranking.plan import Stage, run_stages
from answermill.schemas.ranked import RankedList
from testing.harness import arguments, finish, say, seconds
from testing.smoke_data import small_encoder

TAKES = "half a minute"

Form = Literal["encoded", "fp16", "int8"]
FORMS: tuple[Form, ...] = ("encoded", "fp16", "int8")
STAGE = '[[rerank.stages]]\nreranker = "similarity"\nname = "{form}"\ncontext = ["title", "sentence"]\n'


def write_job(folder: Path, smoke: bool) -> Path:
    """A copy of the sample whose plan is the stage in all its forms; returns the job file."""
    job = sample.copy_to(folder)
    text, _, _ = job.read_text(encoding="utf-8").partition("[[rerank.stages]]")
    if smoke:
        from testing.tiny import ask_fewer

        ask_fewer(folder, every=15)
        text = text.replace("[index]", f"[index]\nencoder = {json.dumps(small_encoder())}")
        text = text.replace("depth = 20", "depth = 2")
    for form in FORMS:
        text += STAGE.format(form=form) + ("" if form == "encoded" else f'stored = "{form}"\n')
    job.write_text(text, encoding="utf-8")
    return job


def bytes_a_sentence(run: Path, form: Form, sentences: int) -> float:
    """Bytes a sentence of the shards' files in this form."""
    size = 0
    for shard in (run / "shards").glob("0*"):
        contents = json.loads((shard / "shard.json").read_text(encoding="utf-8"))
        (model,) = (codes["model"] for codes in contents["codes"] if codes["form"] == form)
        size += sum(
            file["size"] for name, file in contents["files"].items() if name.startswith(f"codes/{model}/")
        )
    return size / sentences


def scores(lists: list[RankedList], stage: Stage) -> list[dict[str, float]]:
    """Sentence → its score, the best first, for each question."""
    return [
        {c.candidate_id: c.stages[-1].score for c in outcome.kept.candidates}
        for outcome in run_stages(lists, [stage])
    ]


def main() -> None:
    options = arguments("sentence_vectors", __doc__ or "", needs_data=False)
    with tempfile.TemporaryDirectory() as folder:
        job, run = load(write_job(Path(folder), options.smoke)), Path(folder) / "run"
        for line in run_steps(job, run, ["ingest", "index", "retrieve"], ()):
            say(str(line))
        sentences = INDEX.counts_of(SHARDS.manifest(run)).sentence_vectors // 2  # in each of the two forms
        lists = list(ranked_lists(RETRIEVED.open(run).read()))
        plan = dict(zip(FORMS, load_plan(job, run), strict=True))
        scored = {form: scores(lists, stage) for form, stage in plan.items()}
        taken: dict[Form, list[float]] = {form: [] for form in FORMS}

        for _ in range(options.rounds):
            for form, stage in plan.items():
                with seconds(taken[form]):
                    run_stages(lists, [stage])

        result: dict[str, float | int | str] = {
            "questions": len(lists),
            "candidates": sum(map(len, scored["encoded"])),
            "sentences": sentences,
        }
        result |= {f"bytes_a_sentence_{form}": bytes_a_sentence(run, form, sentences) for form in FORMS[1:]}

    result |= {f"rerank_seconds_{form}": statistics.median(times) for form, times in taken.items()}
    for form in FORMS[1:]:
        pairs = list(zip(scored["encoded"], scored[form], strict=True))
        same = statistics.fmean(next(iter(exact), "") == next(iter(rounded), "") for exact, rounded in pairs)
        result[f"speedup_{form}"] = statistics.median(
            a / b for a, b in zip(taken["encoded"], taken[form], strict=True)
        )
        result[f"same_first_answers_{form}"] = 100 * same
        result[f"largest_score_difference_{form}"] = max(
            abs(exact[key] - rounded[key]) for exact, rounded in pairs for key in exact
        )

    finish("sentence_vectors", result, options.save)


if __name__ == "__main__":
    main()
