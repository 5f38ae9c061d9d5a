"""Cosinet in its six forms on WikiQA (Cosinet Table 4), and on SQuAD-sent and SelQA (Table 5).

Protocol `answerable`; MAP, MRR and P@1 of the test set in percent, mean and deviation over seeds. The paper's
settings: 3 epochs, slanted triangle, 2e-4 list-wise, 2e-3 pointwise; 4 questions a step (not stated there; of
1, 4 and 8 the best on dev). The checkpoint is the epoch that was best on dev. Keys `wikiqa_map_<variant>` are
with the best vectors, the MiniLM-derived ones; `…_word2vec` and `…_glove` with two small files, which lack
most of the words. Five seeds each; matrix products in bfloat16, as `cosinet_speed` times them. --learn wikiqa
and squad each have a run and a result file; wikiqa's has no suffix. SQuAD-sent is trained on the shared
substitute, and by `cosinet_quality_squad_full` on the paper's whole set; SelQA, which has no training set
here, is ranked by the models of SQuAD-sent.

--work keeps a file of figures for each training, which the same revision does not repeat.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.rerankers.cosinet.heads import FORMS, Form
from answermill.ranking.training.list_models import MODELS, ListOptions, ListTask, vocabulary
from answermill.ranking.training.loop import Dev, Output, Recipe, train
from answermill.ranking.word_vectors.embeddings import Embeddings, derive
from answermill.ranking.word_vectors.vector_files import read
from answermill.schemas.labels import LabelledCandidate
from testing.harness import arguments, finish, processes, revision, say, shrink, work_folder

TAKES = "an hour"
DECIDED = (
    "A step's 4 questions, a number that the paper does not state: the best of 1, 4 and 8 on dev, one seed."
)

SEEDS = range(5)
SMOKE_FORMS: tuple[Form, ...] = ("pointwise", "birnn")
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "16000000000",
    "MALLOC_TOP_PAD_": "200000000",
}
"""Settings of glibc, which else returns large arrays to the system and fetches them again; that costs
Compare-Aggregate a sixth of its time."""
VECTORS = {
    "minilm": "all-MiniLM-L6-v2",
    "word2vec": "embeddings/word2vec-googlenews-8000x300.npz",
    "glove": "embeddings/glove-twitter-11925x25.npz",
}
WORK = {"work": "folder for what each training found; out/NAME"}
PAPER = {  # MAP, MRR on WikiQA (Table 4), with Numberbatch
    "pointwise": (70.95, 72.86),
    "list": (71.22, 73.07),
    "rnn": (74.78, 76.35),
    "birnn": (75.62, 77.13),
    "lstm": (74.31, 75.78),
    "bilstm": (75.32, 76.85),
}


class Run(NamedTuple):
    data: str  # 'wikiqa' or 'squad'
    vectors: str
    model: str
    form: Form
    seed: int
    rate: float
    precision: Literal["fp32", "bf16"] = "bf16"

    @property
    def variant(self) -> str:
        """Name of the model in keys."""
        prefix = "ca_" if self.model == "compare_aggregate" else ""
        return f"{prefix}{self.form}" + ("" if self.vectors == "minilm" else f"_{self.vectors}")


Questions = list[list[LabelledCandidate]]
_data: dict[str, tuple[Questions, Dev, dict[str, Dev]]] = {}
_embeddings: dict[tuple[str, str], Embeddings] = {}


def runs(data: str) -> Iterator[Run]:
    forms: tuple[Form, ...] = FORMS if data == "wikiqa" else ("pointwise", "list", "birnn")
    for vectors in VECTORS if data == "wikiqa" else ("minilm",):
        yield from (Run(data, vectors, "cosinet", form, seed, rate(form)) for form in forms for seed in SEEDS)


def rate(form: Form) -> float:
    """Learning rate of the paper."""
    return 2e-3 if form == "pointwise" else 2e-4


def load(folder: Path, data: str) -> tuple[Questions, Dev, dict[str, Dev]]:
    """(training questions, dev, test sets), with answerable questions only; read once a process."""
    if data not in _data:

        def questions(name: str) -> Questions:
            return [
                rows for rows in by_question(read_dataset(folder / name)) if any(row.label for row in rows)
            ]

        if data == "wikiqa":
            learn, dev, tests = (
                questions(f"wikiqa/wikiqa-{split}.parquet") for split in ("train", "dev", "test")
            )
            _data[data] = learn, Dev(dev), {"wikiqa": Dev(tests)}
            texts = [*learn, *dev, *tests]
        else:
            learn, dev, tests = (
                questions(f"squad/squad-sent-{split}.parquet") for split in ("train", "dev", "test")
            )
            selqa = questions("selqa/selqa-test.parquet")
            _data[data] = learn, Dev(dev), {"squad": Dev(tests), "selqa": Dev(selqa)}
            texts = [*learn, *dev, *tests, *selqa]

        words = vocabulary(texts)
        for vectors, name in VECTORS.items():
            if vectors == "minilm":
                _embeddings[data, vectors] = derive(words, find_model(name), name)
            elif data == "wikiqa":
                _embeddings[data, vectors] = read_archive(folder / name, words)

    return _data[data]


def read_archive(path: Path, words: Mapping[str, int]) -> Embeddings:
    """Vectors of an .npz of `words` and `vectors`, which is rewritten in word2vec's binary form to be
    read."""
    with np.load(path, allow_pickle=False) as archive, tempfile.NamedTemporaryFile() as file:
        names, vectors = archive["words"].tolist(), archive["vectors"].astype("<f4")
        file.write(f"{len(names)} {vectors.shape[1]}\n".encode())
        file.writelines(f"{name} ".encode() + row.tobytes() for name, row in zip(names, vectors, strict=True))
        file.flush()
        return read(Path(file.name), words)[0]


def one(folder: Path, run: Run) -> tuple[Run, dict[str, float]]:
    """Train, and measure on the test sets; returns the run, and metric → percent, with the best dev MAP."""
    torch.set_num_threads(1)
    learn, dev, tests = load(folder, run.data)
    torch.manual_seed(run.seed)
    embeddings = _embeddings[run.data, run.vectors]
    best: dict[str, torch.Tensor] = {}

    def keep(_: Path, model: torch.nn.Module, __: Embeddings) -> None:
        _.mkdir(parents=True)
        best.update({name: value.clone() for name, value in model.state_dict().items()})

    task = ListTask(embeddings, learn, keep, ListOptions(run.model, run.form, batch=4, seed=run.seed))
    recipe = Recipe(epochs=3, learning_rate=run.rate, precision=run.precision, seed=run.seed)
    with tempfile.TemporaryDirectory() as state:
        history = train(task, dev, recipe, Output(Path(state), "benchmark"))
    assert history.best is not None
    task.model.load_state_dict(best)
    reranker = task.reranker()
    measured = {
        f"{name}_{metric.lower().replace('@', '')}": 100 * value
        for name, test in tests.items()
        for metric, value in test.scores(reranker, ("MAP", "MRR", "P@1"), "answerable").items()
    }

    return run, measured | {f"{run.data}_dev_map": 100 * history.best.dev}


Results = list[tuple[Run, dict[str, float]]]


def train_all(options: argparse.Namespace, todo: Sequence[Run], name: str) -> Results:
    """Figures of each run, in the order of `todo`. They are kept in --work, and this revision does not repeat
    its runs."""
    with work_folder(options, name) as work:
        os.environ |= KEEP_MEMORY
        figures = {run: kept for run in todo if (kept := _kept(work, run)) is not None}
        with processes(inline=options.smoke) as pool:
            running = [pool.submit(one, options.data, run) for run in todo if run not in figures]
            say(f"{len(figures)} of {len(todo)} are trained")
            for done in as_completed(running):
                run, values = done.result()
                figures[run] = values
                _file(work, run).write_text(json.dumps({"revision": revision(), **values}), encoding="utf-8")
                text = ", ".join(f"{key} {value:.2f}" for key, value in values.items())
                say(f"{len(figures)} of {len(todo)}: {' '.join(map(str, run))}: {text}")

    return [(run, figures[run]) for run in todo]


def _kept(work: Path, run: Run) -> dict[str, float] | None:
    """Figures of a run by this revision; None if it has not run."""
    try:
        figures = json.loads(_file(work, run).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return figures if figures.pop("revision") == revision() else None


def _file(work: Path, run: Run) -> Path:
    return work / f"{'-'.join(map(str, run))}.json"


def summary(results: Results) -> dict[str, float]:
    """Mean, deviation and number of seeds for each metric, variant and kind of vectors."""
    by_variant: dict[tuple[str, str], list[dict[str, float]]] = {}
    for run, figures in results:
        by_variant.setdefault((run.data, run.variant), []).append(figures)
    result: dict[str, float] = {}
    for (data, variant), values in by_variant.items():
        for key in values[0]:
            seeds = [figures[key] for figures in values]
            result[f"{key}_{variant}"] = float(np.mean(seeds))
            if len(seeds) > 1:
                result[f"{key}_{variant}_deviation"] = float(np.std(seeds, ddof=1))
        result[f"{data}_seeds_{variant}"] = len(values)
    return result


def parameters(name: str, prefix: str = "") -> dict[str, float]:
    """Number of trainable parameters of a model's six forms, at 300 numbers a word."""
    vectors = np.zeros((2, 300), np.float32)
    models = {form: MODELS[name].model(vectors, form, 300) for form in FORMS}
    return {
        f"parameters_{prefix}{form}": sum(p.numel() for p in model.parameters())
        for form, model in models.items()
    }


def beside_the_paper(
    result: Mapping[str, float], paper: Mapping[str, tuple[float, float]], prefix: str = "", suffix: str = ""
) -> None:
    for form, (map_, mrr) in ((form, figures) for form, figures in paper.items() if form in FORMS):
        variant = f"{prefix}{form}{suffix}"
        ours = f"{result[f'wikiqa_map_{variant}']:.2f} / {result[f'wikiqa_mrr_{variant}']:.2f}"
        say(f"WikiQA {form:<10} MAP / MRR {ours}; the paper {map_} / {mrr}")


def main() -> None:
    options = arguments("cosinet_quality", __doc__ or "", paths=WORK, choices={"learn": ("wikiqa", "squad")})
    if options.smoke:
        shrink(globals(), SEEDS=range(1), FORMS=SMOKE_FORMS, VECTORS={"minilm": VECTORS["minilm"]})
    results = train_all(options, list(runs(options.learn)), "cosinet_quality")
    if options.learn == "squad":
        finish("cosinet_quality_squad", summary(results), options.save)
        return
    result = {**parameters("cosinet"), **summary(results)}
    beside_the_paper(result, PAPER)
    finish("cosinet_quality", result, options.save)


if __name__ == "__main__":
    main()
