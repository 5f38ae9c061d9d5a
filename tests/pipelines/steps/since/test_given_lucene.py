"""A Lucene index that Anserini has built is searched as it is: its own scores, in any order of documents; and
what cannot be read so is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from answermill.indexing.shards.lucene.jvm import find_java, start
from answermill.indexing.shards.shard_files import BM25, ShardMismatch
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.specs.index import SHARDS
from answermill.pipelines.specs.retrieve import RETRIEVED
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.index.index import step_of
from testing.tiny import write_dense

PAGES = 30
SUBJECTS = ("glaciers", "rivers", "senate", "violins", "comet", "vaccines", "harbour")
QUESTIONS = ("which glacier is number 7?", "happiest violin of the senate", "a comet, a comet, a river")


def text(page: int) -> str:
    return f"The {SUBJECTS[page % 7]} of {SUBJECTS[page % 5]} are the happiest, number {page}. " * (
        page % 4 + 1
    )


def write_index(folder: Path, pages: Iterable[int], **named: str) -> None:
    """By Anserini's SimpleIndexer, which pyserini's LuceneIndexer calls. `named`: other names of fields."""
    start(find_java())
    from jnius import autoclass  # which starts one with other settings, if none runs

    indexer = autoclass("io.anserini.index.SimpleIndexer")(str(folder))
    for page in pages:
        indexer.addRawDocument(json.dumps({"id": f"p{page}", named.get("contents", "contents"): text(page)}))
    indexer.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job; `run` with its passages; and `lucene`, an index of more documents, in another order."""
    folder = tmp_path_factory.mktemp("given")
    pages = (json.dumps({"id": f"p{page}", "text": text(page)}) for page in range(PAGES))
    (folder / "pages.jsonl").write_text("".join(f"{page}\n" for page in pages))
    asked = "".join(f"q{n}\t{question}\n" for n, question in enumerate(QUESTIONS))
    (folder / "questions.tsv").write_text(f"question_id\ttext\n{asked}")
    write_dense(folder / "encoder")
    (folder / "job.toml").write_text(
        """
        [ingest]
        input = ["pages.jsonl"]
        language = ""
        min_words = 1
        passages = "dpr"
        passage_words = 200
        [index]
        encoder = "encoder"
        shards = 1
        [retrieve]
        questions = "questions.tsv"
        sources = ["bm25"]
        depth = 8
        """
    )
    list(run_steps(load(folder / "job.toml"), folder / "run", ["ingest"], ()))
    write_index(folder / "lucene", range(PAGES + 6, -1, -1))
    return folder


def job(place: Path, lucene: Path, *overrides: str) -> Job:
    return load(place / "job.toml", [f"index.lucene='{lucene}'", *overrides])


def indexed(place: Path, settings: Job, run: Path, *steps: str) -> Path:
    if not run.exists():
        shutil.copytree(place / "run" / "passages", run / "passages")
    list(run_steps(settings, run, steps or ["index"], ()))
    return run


def theirs(lucene: Path, question: str, k1: float, b: float) -> dict[str, float]:
    """Page → score of all that Anserini's SimpleSearcher finds, which pyserini's LuceneSearcher calls."""
    from jnius import autoclass

    searcher = autoclass("io.anserini.search.SimpleSearcher")(str(lucene))
    searcher.set_bm25(k1, b)
    hits = searcher.search(question, 100)
    scores = {hit.docid: float(hit.score) for hit in hits}
    searcher.close()
    return scores


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.6, 0.75)])
def test_hits_have_the_scores_of_anserinis_searcher_and_are_its_best(
    place: Path, tmp_path: Path, k1: float, b: float
) -> None:
    settings = job(place, place / "lucene", f"retrieve.k1={k1}", f"retrieve.b={b}")
    run = indexed(place, settings, tmp_path / "out", "index", "retrieve")
    hits: dict[str, dict[str, Any]] = {}
    for hit in RETRIEVED.open(run).read():
        hits.setdefault(hit.question, {})[hit.passage.doc_id] = hit.bm25_score

    assert set(hits) == set(QUESTIONS)
    for question, ours in hits.items():
        scores = theirs(place / "lucene", question, k1, b)
        assert ours == pytest.approx({page: scores[page] for page in ours}, abs=2e-4)
        of_run = {page: score for page, score in scores.items() if int(page[1:]) < PAGES}
        assert len(ours) == 8 < len(of_run) < len(scores)
        assert {page for page, score in of_run.items() if score > min(ours.values()) + 2e-4} <= set(ours)


def test_the_shard_has_the_index_as_it_is_and_verify_finds_nothing(place: Path, tmp_path: Path) -> None:
    run = indexed(place, job(place, place / "lucene"), tmp_path / "out")
    (part,) = SHARDS.open(run).parts
    for file in (place / "lucene").iterdir():
        if file.name != "write.lock":
            assert (run / "shards" / part.file / BM25 / file.name).read_bytes() == file.read_bytes()
    assert not [finding for finding in Verification(run).findings() if finding.path.startswith("shards")]


def test_another_index_is_another_step_and_its_absence_changes_none(place: Path, tmp_path: Path) -> None:
    plain = step_of(load(place / "job.toml"), place / "run")
    assert "lucene" not in {*plain.settings, *plain.inputs}
    write_index(tmp_path / "other", range(PAGES))
    steps = [step_of(job(place, lucene), place / "run") for lucene in (place / "lucene", tmp_path / "other")]
    assert len({step.fingerprint() for step in (plain, *steps)}) == 3


def refusal(place: Path, lucene: Path, out: Path, *overrides: str) -> JobError:
    with pytest.raises(JobError) as e:
        indexed(place, job(place, lucene, *overrides), out)
    assert not (out / "shards").exists()
    return e.value


def delete_document(folder: Path, page: str) -> None:
    from jnius import autoclass

    index = "org.apache.lucene.index."
    directory = autoclass("org.apache.lucene.store.FSDirectory").open(
        autoclass("java.io.File")(str(folder)).toPath()
    )
    writer = autoclass(index + "IndexWriter")(directory, autoclass(index + "IndexWriterConfig")())
    term = autoclass(index + "Term")("id", page)
    writer.deleteDocuments(autoclass("org.apache.lucene.search.TermQuery")(term))
    writer.close()
    directory.close()


def test_an_index_that_cannot_be_read_as_it_is_is_refused(place: Path, tmp_path: Path) -> None:
    few, deleted, damaged, empty = (tmp_path / name for name in ("few", "deleted", "damaged", "empty"))
    write_index(few, range(PAGES - 2))
    for copy in (deleted, damaged):
        shutil.copytree(place / "lucene", copy)
    delete_document(deleted, "p3")
    for file in damaged.glob("segments_*"):
        file.write_bytes(file.read_bytes()[:-20])
    empty.mkdir()

    out = tmp_path / "out"
    says = {
        few: "2 pages of 30 are not in the index, page p28 first",
        deleted: "1 of its documents are deleted",
        damaged: "the Lucene here does not read this index",
        empty: "no Lucene index; give the folder that Anserini's IndexCollection has written",
    }
    for lucene, message in says.items():
        error = refusal(place, lucene, out)
        assert error.code == BAD_DATA and str(error).startswith("index.lucene: ") and message in str(error)


def test_an_index_by_another_analyser_is_refused(place: Path, tmp_path: Path) -> None:
    error = refusal(place, place / "lucene", tmp_path / "out", "index.language='fr'")
    assert error.code == SETTINGS and "by the analyser of index.language = 'fr'" in str(error)


def test_a_weight_of_titles_is_refused(place: Path, tmp_path: Path) -> None:
    settings = job(place, place / "lucene", "retrieve.title_weight=0.5")
    with pytest.raises((JobError, ShardMismatch), match=r"index\.lucene has no titles by themselves"):
        indexed(place, settings, tmp_path / "out", "index", "retrieve")


def test_the_keys_that_do_not_go_with_it_are_refused(place: Path) -> None:
    with pytest.raises(JobError, match="lucene is one index, and stays one; give shards = 1"):
        job(place, place / "lucene", "index.shards=2")
    with pytest.raises(JobError, match="lucene and since both say where words are taken from"):
        job(place, place / "lucene", "index.since=run")
