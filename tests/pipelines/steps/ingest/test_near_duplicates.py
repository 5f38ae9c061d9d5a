from __future__ import annotations

import json
import random

import numpy as np
import pytest

from answermill.indexing.documents.near_duplicates import signatures
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.ingest import ingest
from answermill.pipelines.steps.ingest.repeated.near_duplicates import compare, resolve
from answermill.schemas.corpus import Document, Passage, Rejected

RECORDS = {"documents": Document, "passages": Passage, "rejects": Rejected}


def text(seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(
        f"the {draw.choice(['moon', 'tide', 'river'])} of {draw.randrange(99)} rose;" for _ in range(60)
    )


def job(folder, files, **settings) -> Job:
    folder.mkdir(exist_ok=True)
    for name, pages in files.items():
        lines = [json.dumps({"id": doc_id, "text": page, "language": "en"}) for doc_id, page in pages.items()]
        (folder / name).write_text("\n".join(lines) + "\n")
    settings = {"input": [str(folder / "*.jsonl")], "near_duplicates": 0.8, **settings}
    return Job.model_validate({"ingest": settings})


def rows(run):
    return {name: list(folder_specs()[name].open(run).read()) for name in RECORDS}


def digests(run):
    return {name: folder_specs()[name].open(run).digest() for name in RECORDS}


FILES = {
    "a.jsonl": {"m": text(1), "n": text(2), "o": text(3)},
    "b.jsonl": {
        "c": text(1) + " Printed on a rainy day.",
        "z": text(2) + " Shared by a friend.",
        "e": text(3),
    },
}


def test_of_near_pages_the_one_with_the_smallest_id_is_kept_and_the_reject_names_it(tmp_path) -> None:
    ingest.ingest(job(tmp_path / "in", FILES), tmp_path / "run")
    kept = rows(tmp_path / "run")
    assert [document.doc_id for document in kept["documents"]] == ["n", "o", "c"]
    assert {passage.doc_id for passage in kept["passages"]} == {"n", "o", "c"}
    assert [(reject.source_record, reject.reason, reject.detail) for reject in kept["rejects"]] == [
        ("m", "near_duplicate", "its text is nearly that of c, which is kept"),
        ("z", "near_duplicate", "its text is nearly that of n, which is kept"),
        ("e", "duplicate", "its text came before in the input"),
    ]


@pytest.mark.nightly
def test_the_rows_are_the_same_in_one_file_and_with_two_workers(tmp_path) -> None:
    ingest.ingest(job(tmp_path / "in", FILES), tmp_path / "run")
    parallel = job(tmp_path / "in", FILES)
    parallel = parallel.model_copy(update={"workers": parallel.workers.model_copy(update={"processes": 2})})
    ingest.ingest(parallel, tmp_path / "parallel")
    assert rows(tmp_path / "parallel") == rows(tmp_path / "run")
    assert digests(tmp_path / "parallel") == digests(tmp_path / "run")
    one = job(tmp_path / "one", {"all.jsonl": {**FILES["a.jsonl"], **FILES["b.jsonl"]}})
    ingest.ingest(one, tmp_path / "single")
    kept = [document.doc_id for document in rows(tmp_path / "single")["documents"]]
    assert kept == [document.doc_id for document in rows(tmp_path / "run")["documents"]]


def test_the_order_in_which_documents_meet_does_not_matter() -> None:
    texts = {
        "c": text(1),
        "b": text(1) + " Printed on a rainy day.",
        "a": text(1) + " Shared by a friend.",
        "z": text(2),
    }
    signed = []
    for unit, (doc_id, each) in enumerate(texts.items()):
        rows, bands = signatures([each])
        signed.append((unit, f"part {unit}", np.array([0]), [doc_id], bands[:, 0], rows))

    signed = [member for member in signed if member[4] == signed[0][4]]  # those of one bucket
    assert len(signed) > 1
    once, again = (
        [
            (unit, part, gone.tolist(), kept)
            for unit, (part, gone, kept) in resolve("", [pairs for _, pairs in compare((0, 0), members)])
        ]
        for members in (signed, signed[::-1])
    )
    assert once == again != []


def test_a_page_near_one_of_an_earlier_run_is_refused_whatever_its_id(tmp_path) -> None:
    ingest.ingest(job(tmp_path / "old", {"a.jsonl": FILES["a.jsonl"]}), tmp_path / "earlier")
    new = {"b.jsonl": {**FILES["b.jsonl"], "q": text(9)}}
    ingest.ingest(job(tmp_path / "new", new, since=str(tmp_path / "earlier")), tmp_path / "run")
    kept = rows(tmp_path / "run")
    assert [document.doc_id for document in kept["documents"]] == ["q"]
    assert [reject.detail for reject in kept["rejects"]] == [
        f"its text is nearly that of {doc_id} of the earlier run, which is kept" for doc_id in "mno"
    ]


def test_settings_that_make_no_sense_are_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"0 or from 0\.8 to 1, not 0\.5"):
        job(tmp_path / "in", FILES, near_duplicates=0.5)
    with pytest.raises(JobError, match="is the run itself") as refused:
        ingest.ingest(job(tmp_path / "in", FILES, since=str(tmp_path / "run")), tmp_path / "run")
    assert refused.value.code == SETTINGS
