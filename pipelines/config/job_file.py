"""JOB.toml → checked, frozen settings. Every key is declared here once: type, default, bounds and meaning.

Paths are relative to the job file's folder, or URLs of object stores. Configuration is data: nothing in it
names code.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, create_model, field_validator, model_validator

from answermill.indexing.shards.lucene.analyzers import ANALYZERS, ENGLISH
from answermill.pipelines.config import toml_file
from answermill.pipelines.config.annotate_section import Annotate as Annotate
from answermill.pipelines.config.ingest_section import Ingest as Ingest
from answermill.pipelines.config.rerank_section import Rerank as Rerank
from answermill.pipelines.config.toml_file import SettingsFile
from answermill.pipelines.config.workers import Workers
from answermill.pipelines.runs.watch.failure_hook import OnFailure
from answermill.pipelines.specs.registry import job_steps
from answermill.schemas.section import Count, Section


class Index(Section):
    """Passages in, index shards out."""

    shards: int = Field(0, ge=0, description="number of shards; 0 = one per passages_per_shard")
    passages_per_shard: int = Field(
        0,
        ge=0,
        description="most passages in a shard if `shards` is 0. 0 = 20,000, ten minutes of a core, until "
        "there are 16 shards for the cores to share; then up to 250,000, since a question costs a search of "
        "every shard. The rows found do not depend on it, and a build that is stopped loses no vectors",
    )
    language: str = Field(
        ENGLISH,
        description="ISO 639 code of the language whose analyser makes the words for BM25, of passages and "
        "questions; those that Lucene has, such as 'de', 'es', 'fr' or 'ja'",
    )
    encoder: str = Field(
        "all-MiniLM-L6-v2",
        description="dense encoder of passages: the embedded default, a model folder, relative to the job "
        "file, or a hub name",
    )
    question_encoder: str | None = Field(None, description="encoder of questions if it is another one (DPR)")
    encoder_tokens: int = Field(256, ge=8, description="tokens after which a text is cut for the encoder")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="'auto' is bf16 on processors and graphics cards that multiply it natively, else fp32",
    )
    vectors: str = Field(
        "flat",
        description="kind of dense index: 'flat' compares every vector; 'ivfpq' and 'ivfrabitq' hold a code "
        "of each in memory, 'hnsw' a graph; or a FAISS factory string of cells or a graph, such as "
        "'IVF256,PQ48'",
    )
    stored_vectors: Literal["fp16", "int8"] = Field(
        "fp16",
        description="form in which vectors stay on the disk, to score candidates exactly; not for 'flat'",
    )
    probes: int = Field(
        0,
        ge=0,
        description="cells that a question visits, or vectors of a graph; 0 = 16 times the root of the "
        "number of cells, or up to 4 times as many, until min_recall is reached; not for 'flat'",
    )
    rescore: int = Field(
        0,
        ge=0,
        description="candidates, for each passage of retrieve.depth, whose exact scores are computed; 0 = 8, "
        "or 2 of a graph, or up to 4 times as many, until min_recall is reached; not for 'flat'",
    )
    min_recall: float = Field(
        0.95,
        ge=0,
        le=1,
        description="share of the 100 nearest passages that the search must find, for sentences of the "
        "corpus, or the step fails; not for 'flat'",
    )
    since: str | None = Field(
        None,
        description="folder of an earlier run, or 'latest', whose shards are taken over where most of their "
        "passages are still there, and else the vectors of passages of the same title and text",
    )

    faiss: str | None = Field(
        None,
        description="FAISS file of others, such as DPR's index.dpr: an exact index (IndexFlatIP) by "
        "`encoder`, whose vectors are taken in place of encoding",
    )
    faiss_ids: str | None = Field(
        None, description="text file with the id of the page of each row of `faiss`, one a line"
    )

    lucene: str | None = Field(
        None,
        description="folder of a Lucene index of others, as Anserini and pyserini write it, whose documents "
        "are the pages, by the analyser of `language`; it is searched in place of indexing words anew",
    )

    @model_validator(mode="after")
    def _is_one_shard(self) -> Self:
        if self.lucene is not None and self.shards != 1:
            raise ValueError("lucene is one index, and stays one; give shards = 1")
        if self.lucene is not None and self.since is not None:
            raise ValueError("lucene and since both say where words are taken from; give one of them")
        return self

    @model_validator(mode="after")
    def _takes_vectors_from_one_place(self) -> Self:
        if (self.faiss is None) != (self.faiss_ids is None):
            raise ValueError("faiss and faiss_ids belong together; give both")
        if self.faiss is not None and self.since is not None:
            raise ValueError("faiss and since both say where vectors are taken from; give one of them")
        return self

    @field_validator("language")
    @classmethod
    def _has_an_analyser(cls, language: str) -> str:
        if language not in ANALYZERS:
            raise ValueError(f"no analyser for this language; there are {', '.join(sorted(ANALYZERS))}")
        return language

    @model_validator(mode="before")
    @classmethod
    def _constants_are_of_the_search(cls, settings: Any) -> Any:
        for key in ("k1", "b"):
            if isinstance(settings, Mapping) and key in settings:
                raise ValueError(f"{key} decides the search alone; write it as retrieve.{key}")
        return settings


class Rm3(Section):
    """RM3, pseudo-relevance feedback: BM25 looks for words of its first passages too."""

    passages: Count = Field(10, description="first passages of a question whose words are looked at")
    words: Count = Field(10, description="most words that are added")
    question_weight: float = Field(
        0.5, gt=0, lt=1, description="share of the weight that stays with the question's own words"
    )


class Retrieve(Section):
    """Questions in, ranked passages out."""

    questions: str = Field(
        description="TSV, CSV, JSONL or Parquet (question_id, text or question), plain or gzip"
    )
    columns: list[str] = Field(
        [], description="names of its columns, if they are unusual, e.g. ['question_id=nr', 'text=frage']"
    )
    question_rules: Literal["none", "well_formed"] = Field(
        "none",
        description="'well_formed' refuses what does not begin as a question, is no single sentence, or has "
        "blanks to fill",
    )
    question_words: Annotated[list[Count], Field(min_length=2, max_length=2)] = Field(
        [3, 30], description="words of a well-formed question: at least, at most"
    )
    question_scores_above: float | None = Field(
        None,
        ge=0,
        le=1,
        description="refuse questions whose column `well_formed`, a model's score from 0 to 1, is not above "
        "this",
    )
    max_questions: int = Field(
        0,
        ge=0,
        description="size of a sample, chosen by hash, of the questions that are not refused; 0 = all of "
        "them",
    )
    question_seed: int = Field(0, ge=0, description="seed of the sample of `max_questions`")
    depth: Count = Field(
        100,
        description="passages taken per question from each source; all are kept, so with two sources up to "
        "twice as many",
    )
    sources: Annotated[list[Literal["bm25", "dense"]], Field(min_length=1)] = Field(
        ["bm25", "dense"], description="indexes to search"
    )
    k1: float = Field(
        0.9, ge=0, description="BM25's k1; `answermill tune-bm25` finds k1 and b for your questions"
    )
    b: float = Field(0.4, ge=0, le=1, description="BM25's b")
    title_weight: float = Field(
        0.0,
        ge=0,
        description="times BM25's score of the title alone, which is added to that of title and text; 0 "
        "leaves it out",
    )
    rm3: Rm3 | None = None
    fusion_k: Count = Field(60, description="k of reciprocal rank fusion, 1 / (k + rank)")
    block: Count = Field(64, description="questions per unit of work, and per part of retrieved/ and scored/")

    @model_validator(mode="after")
    def _adds_words_to_no_titles(self) -> Self:
        if self.rm3 is not None and self.title_weight:
            raise ValueError(
                "rm3 adds words to title and text together; give title_weight = 0, or leave rm3 out"
            )
        if self.rm3 is not None and "bm25" not in self.sources:
            raise ValueError("rm3 is of BM25, which sources leaves out; add 'bm25', or leave rm3 out")
        return self


class Propagate(Section):
    """Labels of sentences in, labels of passages, documents and windows out."""

    labels: str | None = Field(
        None,
        description="TSV, CSV, JSONL or Parquet: question_id, sentence_id or sentence or both, label (0 or "
        "1); the run's collected/labels if absent",
    )
    columns: list[str] = Field(
        [], description="names of its columns, if they are unusual, e.g. ['question_id=nr', 'label=urteil']"
    )
    same_text: bool = Field(
        False, description="labels by sentence id hold for the sentences of the same text as well"
    )
    windows: Literal["none", "all", "center", "random"] = Field(
        "none",
        description="windows around labelled sentences: all, the one with the sentence in the middle, or "
        "one at random",
    )
    window_tokens: int = Field(
        200, ge=10, description="spaCy tokens that no window of several sentences exceeds"
    )
    places: Count = Field(
        5, description="positions in a window that the labelled sentence takes, from the first"
    )
    seed: int = Field(0, ge=0, description="seed of windows = 'random'")


class Job(SettingsFile):
    """A whole job; a step needs only its own sections. `job_type` adds the sections of further steps."""

    date: datetime.date | None = Field(
        None,
        description="what `{date}` and, say, `{date:%Y%m%d}` stand for in every text of this file and in "
        "--out; today's, by UTC, if absent",
    )
    ingest: Ingest | None = None
    index: Index = Index()
    retrieve: Retrieve | None = None
    rerank: Rerank | None = None
    annotate: Annotate | None = None
    propagate: Propagate | None = None
    workers: Workers = Workers()
    on_failure: OnFailure | None = None

    def section(self, step: str) -> Section | None:
        """The settings of a step; None if the job has none."""
        section: Section | None = getattr(self, step)
        return section

    @model_validator(mode="after")
    def _has_a_step(self) -> Self:
        optional = [
            step
            for step in job_steps()
            if step in type(self).model_fields and type(self).model_fields[step].default is None
        ]
        if all(self.section(step) is None for step in optional):
            raise ValueError(
                f"the job has no step: give at least one of {', '.join(f'[{step}]' for step in optional)}"
            )
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # a class that `job_type` made cannot be found by its name
        return _restore, (self.model_dump(), self._folder)


def job_type(steps: Collection[str]) -> type[Job]:
    """Job, with the sections of those steps that it does not declare itself. Sections of other steps are not
    imported."""
    added = {name: spec for name, spec in job_steps().items() if name not in Job.model_fields}
    fields: dict[str, Any] = {
        name: (spec.section | None if name in steps else None, None) for name, spec in added.items()
    }
    return create_model("Job", __base__=Job, **fields) if added else Job


def _restore(settings: Mapping[str, Any], folder: Path) -> Job:
    job = job_type(settings).model_validate(settings)
    job._folder = folder
    return job


def load(
    path: Path,
    overrides: Sequence[str] = (),
    latest: Callable[[], str | None] = lambda: None,
    today: Callable[[], datetime.date] = toml_file.utc_today,
) -> Job:
    """The job of a TOML file, with `overrides` like 'index.shards=4' or 'rerank.stages.0.keep=20' laid over
    it. Those of stages change the stages of a plan that the file names. `latest`: the run for
    `since = "latest"`; None = nothing is taken over. `today`: the date where the job names none.

    Raises JobError: 66 if there is no such file, 78 if it is not TOML, or if a key or value in it is wrong.
    """
    settings = toml_file.read_with_plan(path, overrides)
    settings = toml_file.filled(settings, latest, today)
    return toml_file.check(settings, job_type(settings), path)


def keys() -> Iterator[tuple[str, str, str, str]]:
    """Every key of a job file: (key, type, default, meaning)."""
    return toml_file.keys(job_type(job_steps()))
