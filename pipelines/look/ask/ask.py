"""`answermill ask`: questions in, lines with their answers out; stderr says how long each part took."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from answermill.files.remote import as_path
from answermill.indexing.passages.text import one_line
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import counted
from answermill.pipelines.look.ask.run_plan import job_of
from answermill.pipelines.look.ask.session import Seconds, opened
from answermill.pipelines.runs.manifests.run_folder import check_run
from answermill.pipelines.runs.watch.progress import print_line


def answer_questions(
    run: Path,
    questions: Iterable[str],
    job_file: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    answers: int = 3,
    as_json: bool = False,
    imported: float = 0.0,
) -> Iterator[str]:
    """Lines with the answers of each question, as soon as they are known; blank questions are left out.

    `job_file`: job whose plan replaces the run's; `imported`: seconds that loading the program took. Raises
    JobError: 66 if the run is not there, and as `job_of`, retrieve and rerank do.
    """
    run = as_path(run).absolute()  # Java has the working directory of its start
    check_run(run)
    seconds = Seconds()
    seconds.parts["imports"] = imported
    with seconds("plan"):
        job = job_of(run, overrides) if job_file is None else load(job_file, overrides)

    with opened(run, job, seconds) as session:
        print_line(f"ready after {seconds}")
        for text in questions:
            if not one_line(text):
                continue
            reply = session.ask(text)
            if as_json:
                yield json.dumps(reply.json(answers), ensure_ascii=False)
            else:
                yield from reply.lines(answers)
            counts = f"{counted(len(reply.passages), 'passage')}, {counted(len(reply.rows), 'candidate')}"
            print_line(f"  {counts} in {reply.seconds}")
