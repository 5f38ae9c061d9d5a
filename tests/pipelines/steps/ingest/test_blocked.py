from __future__ import annotations

import json

import pytest

from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.specs.ingest import DOCUMENTS, INGEST, REJECTS
from answermill.pipelines.steps.ingest import ingest

TEXT = "The river runs slowly to the wide grey sea on day"


def job(folder, block_list: str | None) -> Job:
    urls = [
        "https://a.example/1",
        "https://shop.b.example/2",
        "https://b.example/3",
        "https://c.example/shop/4",
    ]
    pages = [{"id": url, "url": url, "text": f"{TEXT} {n}", "language": "en"} for n, url in enumerate(urls)]
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    if block_list is not None:
        (folder / "blocked.txt").write_text(block_list)

    settings = {
        "input": [str(folder / "pages.jsonl")],
        "min_words": 5,
        "block_list": str(folder / "blocked.txt"),
    }

    return Job.model_validate({"ingest": settings})


def test_pages_on_the_block_list_are_refused_and_counted(tmp_path) -> None:
    ingest.ingest(job(tmp_path, "# shops\nshop.b.example\nc.example/shop\n"), tmp_path / "run")
    documents = DOCUMENTS.open(tmp_path / "run")
    assert [document.url for document in documents.read()] == ["https://a.example/1", "https://b.example/3"]
    rejects = REJECTS.open(tmp_path / "run").read()
    assert [(reject.reason, reject.detail) for reject in rejects] == [
        ("blocked", "'shop.b.example' is on the block list"),
        ("blocked", "'c.example/shop' is on the block list"),
    ]
    assert INGEST.counts_of(documents.manifest).rejected["blocked"] == 2


@pytest.mark.parametrize(
    ("content", "code", "what"),
    [
        (None, INPUT_MISSING, "no such file"),
        ("#\n", BAD_DATA, "nothing is in it"),
        ("two words", BAD_DATA, "line 1: no host"),
    ],
)
def test_a_block_list_that_cannot_be_read_is_refused_before_work_begins(
    tmp_path, content, code, what
) -> None:
    with pytest.raises(JobError, match=what) as refused:
        ingest.step_of(job(tmp_path, content), tmp_path / "run")
    assert refused.value.code == code
