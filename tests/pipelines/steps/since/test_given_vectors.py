"""Vectors of a FAISS file of others give the shards that encoding gives; and what does not belong together is
refused."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest

from answermill.indexing.shards.shard_files import CODED, DENSE
from answermill.indexing.shards.vectors.exact_index import DenseIndex
from answermill.indexing.shards.vectors.stored_vectors import StoredVectors
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.errors import BAD_DATA, SETTINGS, JobError
from answermill.pipelines.specs.index import INDEX, SHARDS
from answermill.pipelines.specs.ingest import PASSAGES
from answermill.pipelines.steps.chain import run_steps
from answermill.pipelines.steps.index.index import step_of
from answermill.pipelines.steps.models import passage_encoder
from testing.tiny import write_dense

PAGES = 30
SUBJECTS = ("glacier", "river", "senate", "violin", "comet", "vaccine", "harbour")


def text(page: int) -> str:
    return f"The {SUBJECTS[page % 7]} of {SUBJECTS[page % 5]} is number {page}."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job on DPR's table of passages; `run` with its passages; and, as others leave them, `index.dpr` with
    the vectors of more pages, in another order, and `ids.txt`."""
    folder = tmp_path_factory.mktemp("given")
    rows = (f'{page}\t"{text(page)}"\t{SUBJECTS[page % 3]}\n' for page in range(PAGES))
    (folder / "psgs_w100.tsv").write_text("id\ttext\ttitle\n" + "".join(rows))
    (folder / "questions.tsv").write_text("question_id\ttext\nq\twhich glacier is number 7?\n")
    write_dense(folder / "encoder")
    (folder / "job.toml").write_text(
        """
        [ingest]
        input = ["psgs_w100.tsv"]
        language = ""
        min_words = 1
        passages = "dpr"
        passage_words = 200
        [index]
        encoder = "encoder"
        [retrieve]
        questions = "questions.tsv"
        depth = 5
        """
    )
    list(run_steps(load(folder / "job.toml"), folder / "run", ["ingest"], ()))
    write_index(folder)
    return folder


def write_index(
    folder: Path, pages: Sequence[int] = (*range(PAGES + 5, -1, -1),), scale: float = 1.0
) -> None:
    texts = [(SUBJECTS[page % 3], text(page)) for page in pages]
    vectors = passage_encoder(load(folder / "job.toml")).encode_passages(texts)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors * np.float32(scale))
    faiss.write_index(index, str(folder / "index.dpr"))
    (folder / "ids.txt").write_text("".join(f"{page}\n" for page in pages))


@pytest.fixture
def own(place: Path, tmp_path: Path) -> Path:
    """A folder with the same job, whose files a test writes or changes."""
    for name in ("job.toml", "encoder", "questions.tsv"):
        (tmp_path / name).symlink_to(place / name)
    write_index(tmp_path)
    return tmp_path


def job(place: Path, *overrides: str) -> Job:
    files = (f"index.faiss='{place / 'index.dpr'}'", f"index.faiss_ids='{place / 'ids.txt'}'")
    return load(place / "job.toml", [*files, *overrides])


def indexed(place: Path, settings: Job, run: Path) -> Path:
    if not run.exists():
        shutil.copytree(place / "run" / "passages", run / "passages")
    list(run_steps(settings, run, ["index"], ()))
    return run


def vectors(run: Path) -> np.ndarray:
    parts = [DenseIndex.open(run / "shards" / part.file / DENSE) for part in SHARDS.open(run).parts]
    return np.concatenate([part.vectors.copy() for part in parts])


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_have_the_vectors_that_encoding_gives_and_nothing_is_encoded(
    place: Path, tmp_path: Path, shards: int
) -> None:
    plain = load(place / "job.toml", [f"index.shards={shards}"])
    anew = vectors(indexed(place, plain, tmp_path / "anew"))
    run = indexed(place, job(place, f"index.shards={shards}"), tmp_path / "given")
    assert np.abs(vectors(run) - anew).max() < 1e-6 and len(anew) == PAGES
    assert INDEX.counts_of(SHARDS.manifest(run)).vectors_taken_over == PAGES


def test_an_index_of_cells_is_trained_on_them_and_holds_them(place: Path, own: Path) -> None:
    write_index(own, scale=2.0)
    cells = job(own, "index.vectors='IVF1,SQ8'", "index.min_recall=0")
    run = indexed(place, cells, own / "out")
    assert INDEX.counts_of(SHARDS.manifest(run)).vectors_taken_over == PAGES
    (part,) = SHARDS.open(run).parts
    stored = StoredVectors.open(run / "shards" / part.file / CODED)[:PAGES]
    plain = vectors(indexed(place, job(place, "index.shards=1"), own / "plain"))
    assert stored == pytest.approx(2 * plain, abs=1e-2)


def test_a_vector_is_that_of_the_passage_s_page(place: Path, own: Path) -> None:
    write_index(own, scale=2.0)  # another length, so none is the encoder's own
    run = indexed(place, job(own, "index.shards=2"), own / "out")
    ids = [int(passage.doc_id) for passage in PASSAGES.open(place / "run").read()]
    texts = [(SUBJECTS[n % 3], text(n)) for n in ids]
    computed = passage_encoder(load(place / "job.toml")).encode_passages(texts)
    assert vectors(run) == pytest.approx(2 * computed, abs=1e-5)


def test_other_files_are_another_step_and_their_absence_changes_none(place: Path, own: Path) -> None:
    former = step_of(load(place / "job.toml"), place / "run")
    assert not {"faiss", "faiss_ids"} & {*former.settings, *former.inputs}
    taken = step_of(job(place), place / "run")
    write_index(own, scale=2.0)
    assert len({step.fingerprint() for step in (former, taken, step_of(job(own), place / "run"))}) == 3


def refusal(place: Path, folder: Path, *overrides: str) -> JobError:
    with pytest.raises(JobError) as e:
        indexed(place, job(folder, *overrides), folder / "out")
    assert not (folder / "out" / "shards").exists()
    return e.value


def test_a_pickle_is_refused_with_the_command_that_makes_ids(place: Path, own: Path) -> None:
    ids = [str(page) for page in range(PAGES + 5, -1, -1)]
    (own / "index_meta.dpr").write_bytes(pickle.dumps(ids))
    error = refusal(place, own, f"index.faiss_ids='{own / 'index_meta.dpr'}'")
    assert error.code == BAD_DATA and "index_meta.dpr is a pickle, which is never read" in str(error)
    code = re.search(r'python -c "(.*)" > ids.txt', str(error))
    assert code and "print(*pickle.load(open('index_meta.dpr', 'rb')), sep='\\n')" in code[1]


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        (range(PAGES - 2), "2 pages of 30 are not in the index, page 28 first: its id is not in"),
        ([*range(PAGES), 3], "has the id '3' twice"),
    ],
)
def test_a_page_has_one_row(place: Path, own: Path, pages, message: str) -> None:
    write_index(own, pages)
    error = refusal(place, own)
    assert error.code == BAD_DATA and message in str(error)


def test_a_page_of_several_passages_is_refused(place: Path, own: Path) -> None:
    cut = load(place / "job.toml", ["ingest.passage_words=4"])
    list(run_steps(cut, own / "run", ["ingest"], ()))
    error = refusal(own, own)
    assert error.code == SETTINGS and "page 0 has several passages" in str(error)


def test_vectors_of_another_encoder_are_refused_with_their_cosine(place: Path, own: Path) -> None:
    other = write_dense(own / "other", seed=5)
    error = refusal(place, own, f"index.encoder='{other}'")
    assert error.code == SETTINGS
    assert re.search(r"passage 0#0 is not by index.encoder .* their cosine is -?0\.\d+", str(error))
    wide = write_dense(own / "wide", size=64)
    error = refusal(place, own, f"index.encoder='{wide}'")
    assert error.code == BAD_DATA and "have 32 numbers, those of index.encoder 64" in str(error)


def test_a_redo_that_is_refused_for_other_vectors_removes_nothing(place: Path, own: Path) -> None:
    run = indexed(place, job(own), own / "out")
    (own / "ids.txt").write_text("0\n1\n")
    with pytest.raises(JobError, match="has 36 vectors, "):
        list(run_steps(job(own), run, ["index"], (), redo="index"))
    assert SHARDS.manifest(run) is not None and len(vectors(run)) == PAGES


def test_another_kind_of_index_and_another_number_of_ids_are_refused(place: Path, own: Path) -> None:
    (own / "ids.txt").write_text("0\n1\n")
    assert "has 36 vectors, " in str(refusal(place, own))
    faiss.write_index(faiss.IndexHNSWFlat(32, 4), str(own / "index.dpr"))
    assert "IndexHNSWFlat, not IndexFlatIP; give an exact index" in str(refusal(place, own))
    (own / "index.dpr").write_bytes(b"no index at all")
    assert "index.dpr is no index of FAISS" in str(refusal(place, own))


def test_the_keys_belong_together(place: Path) -> None:
    for key in (["index.faiss=x"], ["index.faiss_ids=x"]):
        with pytest.raises(JobError, match="faiss and faiss_ids belong together; give both"):
            load(place / "job.toml", key)
    with pytest.raises(JobError, match="both say where vectors are taken from"):
        job(place, "index.since=run")


def test_a_later_run_takes_none_of_them_over(place: Path, tmp_path: Path, capsys) -> None:
    indexed(place, job(place), tmp_path / "given")
    later = indexed(
        place, load(place / "job.toml", [f"index.since='{tmp_path / 'given'}'"]), tmp_path / "later"
    )
    assert INDEX.counts_of(SHARDS.manifest(later)).vectors_taken_over == 0
    assert "has vectors of index.faiss, so no vector is taken over" in capsys.readouterr().err
