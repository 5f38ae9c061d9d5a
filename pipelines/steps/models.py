"""Models of a job: their device and threads, one copy of each in a worker process, and their part of a step's
fingerprint: the settings that decide their numbers, and the content of their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeVar, cast
from weakref import WeakValueDictionary

from answermill.files.model_files import folder_digest
from answermill.indexing.shards.dense import (
    DEFAULT,
    Encoder,
    EncoderOptions,
    Transformer,
    find_encoder,
    find_model,
    load_encoder,
    vector_length,
)
from answermill.indexing.shards.lucene.jvm import anserini_jar, find_java
from answermill.indexing.shards.vectors.quantizer import check_enough
from answermill.indexing.shards.vectors.vector_kinds import (
    EXACT,
    FLAT,
    VectorSearch,
    check_faiss,
    empty_index,
    rescore_for,
)
from answermill.pipelines.config.job_file import Job
from answermill.pipelines.errors import SETTINGS, JobError, setting_error
from answermill.ranking.entry import StageSettings, checkpoint_at
from answermill.ranking.reranker import Resources, SentenceEncoder
from answermill.ranking.rerankers.registry import code_digest, find
from answermill.schemas.arrays import Precision, PrecisionSetting

Device = Literal["auto", "cpu", "cuda"]
Model = TypeVar("Model")

WORKER_THREADS = 1
"""Torch's and FAISS's threads in a worker process; more cores are used by more `workers.processes`."""

_loaded: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
_loading = RLock()  # loading one model may load another


def device_of(setting: Device) -> Literal["cpu", "cuda"]:
    """Device of the models: the setting, with 'auto' = CUDA if this machine has it. Raises JobError (78) if
    it is CUDA, which this machine has not."""
    import torch

    if setting == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if setting == "cuda":
        raise JobError("device is 'cuda', and torch finds no CUDA here; give 'cpu' or 'auto'", SETTINGS)
    return "cpu"


def precision_of(setting: PrecisionSetting, device: str) -> Precision:
    """The dense encoder's precision: the setting, with 'auto' = bf16 where the device multiplies it natively,
    else fp32."""
    from answermill.ranking.transformer.devices import native_precision

    if setting != "auto":
        return setting
    return "bf16" if native_precision(device) == "bf16" else "fp32"


def emulates(precision: str, device: str) -> bool:
    """True if the device has no hardware for the precision, so that it takes several times as long as
    fp32."""
    import torch

    return device == "cpu" and not any(
        is_present for name, is_present in torch.cpu.get_capabilities().items() if precision in name
    )


def use_threads(threads: int = WORKER_THREADS) -> None:
    """Set torch's threads for this process, and FAISS's for this thread. A worker calls it before it loads or
    uses a model; loading a model never does. The number of threads changes no row: see
    `ranking.transformer.encoder.exact_windows`, and `DenseIndex.search`, which computes the scores of what
    FAISS finds anew."""
    import faiss
    import torch

    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)


def command_threads() -> int:
    """Threads of the command's own process, which works alone: OMP_NUM_THREADS, or one per core."""
    set_by_user = os.environ.get("OMP_NUM_THREADS", "")
    return int(set_by_user) if set_by_user.isdecimal() and int(set_by_user) else os.cpu_count() or 1


def shared(key: Hashable, load: Callable[[], Model]) -> Model:
    """The object that this process has loaded under the key, or `load()`; it is freed when nothing holds it
    any longer.

    The key names all that decides the object: its kind, its settings, and the `folder_digest` of its files.
    The object must be one that can be referred to weakly (so no list or tuple). Safe to call from several
    threads.
    """
    with _loading:
        model = _loaded.get(key)
        if model is None:
            model = _loaded[key] = load()
        return cast(Model, model)


def load_transformer(folder: Path, limit: int, device: str, precision: Precision) -> Transformer:
    """The transformer of the dense encoder: the packed encoder that the rerankers run on, if it supports the
    folder's model (BERT, MPNet, ModernBERT, DPR and others); else, as for DeBERTa, Hugging Face's own forward
    over padded texts."""
    from answermill.ranking.transformer.text_vectors import PackedTransformer, packed_tokeniser

    tokeniser = packed_tokeniser(folder, limit)
    if not isinstance(tokeniser, str):
        return PackedTransformer(folder, limit, device, precision, tokeniser)
    from answermill.ranking.transformer.padded import PaddedTransformer

    return PaddedTransformer(folder, limit, device, precision)


def dense_encoder(
    name: str = DEFAULT,
    question_name: str | None = None,
    *,
    beside: Path | None = None,
    max_tokens: int = 256,
    device: Device = "auto",
    precision: PrecisionSetting = "auto",
) -> Encoder:
    """An encoder of passages and questions, loaded once in this process. Raises ModelMissing if it cannot be
    had."""
    place = device_of(device)
    kind = precision_of(precision, place)
    digests = tuple(
        folder_digest(find_encoder(model, beside)) for model in (name, question_name) if model is not None
    )
    return shared(
        ("dense encoder", name, question_name, digests, max_tokens, place, kind),
        lambda: load_encoder(
            load_transformer, name, question_name, EncoderOptions(max_tokens, place, kind), beside
        ),
    )


def encoder_loader(beside: Path | None = None, device: Device = "auto") -> Callable[..., Encoder]:
    """Loader of the stages' own encoders, each loaded once in this process; `beside` as in `find_encoder`."""
    return partial(dense_encoder, beside=beside, device=device)


def passage_encoder(job: Job) -> Encoder:
    """The job's dense encoder, loaded once in this process. Raises ModelMissing if it cannot be had."""
    return dense_encoder(
        job.index.encoder,
        job.index.question_encoder,
        beside=job.folder,
        max_tokens=job.index.encoder_tokens,
        device=job.workers.device,
        precision=job.index.precision,
    )


def check_engines(job: Job) -> None:
    """Look for Java, Lucene, the encoder and FAISS before any work. Raises JavaMissing, ModelMissing, and as
    `check_vectors`."""
    find_java(job.workers.java)
    anserini_jar()
    for name in (job.index.encoder, job.index.question_encoder):
        if name is not None:
            find_encoder(name, job.folder)
    check_vectors(job)


def encoder_settings(job: Job, search: bool = True) -> dict[str, Any]:
    """All settings of the dense encoder that decide its vectors; with `search` also those that decide which
    of them an index that is not exact finds."""
    keys = {"encoder", "question_encoder", "encoder_tokens", "precision"}
    width = {"probes", "rescore"} if search and job.index.vectors != FLAT else set()
    return job.index.model_dump(include=keys | width)


def vector_search(job: Job, depth: int, times: int = 1) -> VectorSearch:
    """Width of the search of the dense index for the best `depth`; `times` as wide in what the job leaves
    open."""
    index = job.index
    if index.vectors == FLAT:
        return EXACT
    rescore = index.rescore or times * rescore_for(index.vectors)
    return VectorSearch(index.probes, rescore * depth, times=times)


def check_vectors(job: Job, rows: int | None = None) -> None:
    """Refuse a kind of dense index that FAISS has not, or not for vectors of the encoder's length, and two
    packages of FAISS at once; and a kind that cannot be trained on `rows` vectors, if that is known. Raises
    VectorsUnfit, FaissTwice, ModelMissing."""
    check_faiss()
    if job.index.vectors != FLAT:
        dimension = vector_length(find_encoder(job.index.encoder, job.folder))
        if dimension is not None:  # else the build refuses it, which knows the encoder
            empty_index(job.index.vectors, dimension, rows=1)
            if rows is not None:
                check_enough(job.index.vectors, dimension, rows)


def encoder_inputs(job: Job, questions: bool = True) -> dict[str, str]:
    """'encoder NAME' → digest of its files, for the encoder of passages and, with `questions`, that of
    questions.

    Raises ModelMissing if one cannot be had.
    """
    names = {job.index.encoder, job.index.question_encoder if questions else None}
    return {
        f"encoder {name}": folder_digest(find_encoder(name, job.folder)) or ""
        for name in sorted(filter(None, names))
    }


def checkpoint_folder(job: Job, stage: StageSettings) -> Path | None:
    """The stage's checkpoint, relative to the job file or by the name of a shipped one, or the shipped one of
    its reranker; None if the reranker has no model.

    Raises ValueError as `Entry.folder`, ModelMissing if a model that others have published cannot be had.
    """
    entry = find(stage.reranker)
    if entry.pretrained is not None:
        return entry.folder(stage.checkpoint, partial(find_model, beside=job.folder))
    if stage.checkpoint is None:
        return entry.folder()
    path = job.path(stage.checkpoint)
    shipped = checkpoint_at(path, stage.checkpoint)
    return entry.folder(shipped if shipped != path else job.tree(stage.checkpoint))


def checkpoint_inputs(job: Job, number: int, stage: StageSettings) -> dict[str, str]:
    """'checkpoint of STAGE' → digest of its content, or the shipped one's; empty if the stage has none.

    `number`: the stage's in the plan. Raises JobError (66, 78) with it, as `Entry.folder`.
    """
    try:
        folder = checkpoint_folder(job, stage)
    except ValueError as e:
        raise setting_error(e, f"rerank.stages.{number}") from e
    digest = None if folder is None else folder_digest(folder)
    return {} if digest is None else {f"checkpoint of {stage.key}": digest}


def model_inputs(job: Job, stages: Sequence[StageSettings]) -> dict[str, str]:
    """`checkpoint_inputs` of the stages, since a checkpoint that was trained again is another input; 'code of
    STAGE' → revision of a plug-in's code; and `encoder_inputs` if a stage uses the encoder.

    Raises JobError (78) as `checkpoint_inputs`, ModelMissing if the encoder cannot be had.
    """
    digests: dict[str, str] = {}
    for number, stage in enumerate(stages):
        digests |= checkpoint_inputs(job, number, stage)
        if (code := code_digest(stage.reranker)) is not None:
            digests[f"code of {stage.key}"] = code
    if any(find(stage.reranker).uses_encoder for stage in stages):
        digests |= encoder_inputs(job)
    return digests


def stage_resources(job: Job, stage: StageSettings, encoder: Callable[[], SentenceEncoder]) -> Resources:
    """Parts of the job that every model of the stage may use; `encoder` loads the job's encoder.

    Raises as `checkpoint_folder`.
    """
    return Resources(
        settings=stage,
        checkpoint=checkpoint_folder(job, stage),
        encoder=encoder if find(stage.reranker).uses_encoder else _no_encoder,
        model=partial(find_model, beside=job.folder),
        device=device_of(job.workers.device),
        path=job.file,
        encoder_of=encoder_loader(job.folder, job.workers.device),
    )


def _no_encoder() -> SentenceEncoder:
    raise RuntimeError(
        "this reranker wants the job's encoder: its registry entry must say `uses_encoder=True`"
    )
