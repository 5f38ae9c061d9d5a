"""Card of a checkpoint: what it is, what it learnt from, how the training went, and its settings.

Its head is YAML that the Hugging Face hub reads.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from answermill.files.atomic_files import write_text
from answermill.indexing.shards.dense import DEFAULT
from answermill.indexing.shards.encoders.sliced_model import BASE
from answermill.pipelines.config.training_file import TrainJob
from answermill.pipelines.data.licences import hub_id
from answermill.pipelines.learn.train.curves import CURVES
from answermill.pipelines.revision import code_version
from answermill.ranking.entry import file_keys
from answermill.ranking.training.state import History
from answermill.ranking.training.update.speed import Speed

CARD = "README.md"
HUB_NAMES = {DEFAULT: f"sentence-transformers/{DEFAULT}", **dict.fromkeys(BASE.names, BASE.hub_name)}
"""Public body → its repository on the hub."""
_REPOSITORY = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


def card(
    job: TrainJob,
    history: History,
    parameters: int,
    *,
    description: str,
    digests: Mapping[str, str],
    speed: Speed,
) -> Iterator[str]:
    """The lines of a checkpoint's card."""
    best = history.best
    assert best is not None
    reranker = job.trained.reranker
    yield f"---\n{head(job)}\n---"
    yield ""
    yield f"# {job.trained.title}"
    yield ""
    yield (
        f'A checkpoint of AnswerMill {revision()}; `reranker = "{reranker}"`, `checkpoint = "<this folder>"`.'
    )
    yield ""
    yield f"- Trained on {job.data.name}. Licence of the data: {job.data.licence}."
    yield "- A hub shows the licence that this card begins with: the data's, until you write another one."
    yield f"- {parameters:,} parameters. {description[:1].upper()}{description[1:]}."

    score = f"{job.train.metric} ({job.train.protocol}): {100 * best.dev:.2f}"
    yield f"- Best dev {score}, at step {best.step:,} of {history.step:,}."
    yield f"- {speed}, torch {torch.__version__}."
    yield ""
    yield f"![Loss and dev {job.train.metric} by step]({CURVES})"
    yield ""
    yield "| step | epoch | loss | dev |"
    yield "|---|---|---|---|"
    for evaluation in history.evaluations:
        yield (
            f"| {evaluation.step:,} | {evaluation.epoch:.2f} | {evaluation.loss:.4f} | "
            f"{100 * evaluation.dev:.2f} |"
        )
    yield ""

    yield "Made from these files, by SHA-256:"
    yield ""
    yield from (f"- `{Path(file).name}` {digest}" for file, digest in digests.items())
    yield ""
    yield "```json"
    yield json.dumps(without_folders(job), indent=1, ensure_ascii=False)
    yield "```"


def head(job: TrainJob) -> str:
    """The YAML that a hub reads. A body or a data set stands in it if its name can be a repository's."""
    from huggingface_hub import ModelCardData  # takes half a second, so not at the top

    licence, data = hub_id(job.data.licence), job.data.name
    body = str(getattr(job.trained, "encoder", ""))
    is_remote = body.count("/") == 1 and _REPOSITORY.fullmatch(body) and not job.path(body).exists()
    fields = ModelCardData(
        license=licence or "other",
        license_name=None if licence else job.data.licence,
        library_name="answermill",
        pipeline_tag="text-ranking",
        tags=["answermill", "answer-sentence-selection", job.trained.reranker],
        base_model=HUB_NAMES.get(body, body if is_remote else None),
        datasets=[data] if _REPOSITORY.fullmatch(data) else None,
    )
    return fields.to_yaml()


def revision() -> str:
    """The package's version, and the commit where it runs from a checkout, marked where the code differs from
    it."""
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty=, changed",
    ]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return code_version()

    return (
        f"{code_version()}, commit {described.stdout.strip()}"
        if described.returncode == 0
        else code_version()
    )


def add_note(folder: Path, note: str, former: str | None = None) -> None:
    """Write a note below the title of a folder's card, if there is one. `former`: beginning of a note whose
    place it takes."""
    if not (folder / CARD).is_file():
        return
    card = (folder / CARD).read_text(encoding="utf-8")
    if former is not None:
        card = re.sub(rf"^{re.escape(former)}.*\n\n", "", card, flags=re.MULTILINE)
    noted = re.sub(r"^# .*\n", lambda title: f"{title[0]}\n{note}\n", card, count=1, flags=re.MULTILINE)
    write_text(folder / CARD, noted)


def without_folders(job: TrainJob) -> dict[str, Any]:
    """The file's tables with files by their names: the reader of the card has other folders."""
    tables = job.tables()
    for section, settings in ((job.section, job.trained), ("data", job.data), ("distil", job.distil)):
        for key in file_keys(type(settings)) if settings is not None else ():
            value = tables[section][key]
            tables[section][key] = (
                [Path(name).name for name in value] if isinstance(value, list) else Path(value).name
            )
    return tables
