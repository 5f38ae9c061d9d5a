"""The multiple-heads student beside what it is compared with, in the form of its Tables 2 to 4, on MiniLM-L6 as the body.

Teachers: `t6`, `t4` and `t3`, cross-encoders of 6, 4 and 3 layers, each of which sees the data in another order and misses
another third of the wrong candidates; and, for Hydra, `h0` to `h2`, of 6 layers, which differ by the seed alone. All are
transferred from TRANSFER questions of SQuAD-sent (1 epoch) and adapted to WikiQA (EPOCHS). They score WikiQA's training set
by `answermill candidates` and `rerank`; from that table students of 6, 4 and 3 layers learn in the adapt (§3.2), each from
the transferred body of its size: `alone`; `kd_single` with the teacher that is best on dev; `kd_sum`; `kd_rr`; `mhs`, B_(n-1)
3H_1; and with 6 layers `hydra`, and `kd_<teacher>` with each teacher. With the first seed alone: `mhs_none`, heads without
a teacher, and `mhs_single`, all with the best (Table 3); `mhs_b4` and `mhs_b3`, B_4 3H_2 and B_3 3H_3 (Table 4); and those of
`ct` below. α and τ are not searched: ALPHA, TAU.

Ensembles, weights tuned on WikiQA's dev set: `ensemble_teachers`; `ensemble_hydra`; `ensemble`, of the three students of 6
layers that have one teacher each (row 12 of Table 2). `ct` is a cascade with EXITS, and `ct_mhs` begins with it: exits in the
body, three heads after it; `.._a3` lets α = .3 leave at each exit, `cost_..` is layers × candidates relative to 6 layers.

Keys: `<set>_map_<model>`, P@1 and MRR too, in percent, protocol `answerable`; of `wikiqa` test, and of QUESTIONS of
SQuAD-sent's test set, drawn by hash, to which nothing was adapted. `.._4` and `.._3` are students of fewer layers; without a
number they have 6. The figures of students are means over SEEDS, `.._std` the deviations, and `.._first` the first seed's;
teachers, and students that the first seed alone has, have one number. `p_..` are Wilcoxon's p of WikiQA's average precision,
first seed; `agreement_<i>_<j>` is Fig. 3, head i with teacher j, left out of a head that answers no question rightly.

Settings are small so that it can be had: `minutes` is what the run took, shorter where --work held trainings of an earlier
one. A second of EPOCHS would take most of it again.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import multihead_trainings
from benchmarks.cascade_quality import questions
from benchmarks.harness import arguments, finish, processes, shrink, tell, trained_by, work_folder
from benchmarks.multihead_trainings import FIRST, HYDRA, TEACHERS, Questions, Training
from benchmarks.smoke_data import small_encoder
from indexing.shards.dense import find_model
from pipelines.steps.models import device_of
from ranking.cascade.cascade import Cascade
from ranking.checkpoint import kind_of
from ranking.evaluation.ensemble import Scored, agreement, tuned
from ranking.evaluation.metrics import Floats, Judged, measure
from ranking.evaluation.significance import compare
from ranking.lists import ranked_list
from ranking.multihead.multihead import MultiHead
from ranking.multihead.multihead import load as load_student
from ranking.registry import load_reranker

DROP = 0.3
TESTS = ("wikiqa", "squad")
METRICS = {"MAP": "map", "MRR": "mrr", "P@1": "p1"}


def ensembles() -> dict[str, tuple[str, ...]]:
    """Each one's members."""
    members = {"ensemble_teachers": TEACHERS, "ensemble_hydra": HYDRA}
    students = {f"ensemble-{seed}": tuple(f"kd_{teacher}-{seed}" for teacher in TEACHERS) for seed in multihead_trainings.SEEDS}
    return members | students


class Measured(NamedTuple):
    """A model's scores of a set, and what they cost; [n] each, NaN where a candidate was dropped."""

    scores: Floats
    cost: float


Key = tuple[str, str]
"""A model's name and a test set's."""


def scored(work: Path, name: str, test: str, drop: float = 0.0, head: int | None = None) -> Measured:
    torch.set_num_threads(1)
    drops = {"drop": [drop]} if drop else {}
    if head is None:
        ranker: Any = load_reranker(kind_of(work / name), work / name, model=find_model, device=device_of("auto"), **drops)
    else:
        model, tokeniser = load_student(work / name, find_model)
        ranker = MultiHead(model.only(head), tokeniser)
    assert isinstance(ranker, Cascade)
    rows = questions(work / f"{test}.parquet")
    known: dict[tuple[str, str], float] = {}
    for ranked in ranker.rerank([ranked_list(each) for each in rows]):
        known |= {(ranked.question.question_id, c.candidate_id): c.score for c in ranked.candidates}
    spent = ranker.costs()
    values = [known.get((row.question_id, row.candidate_id), np.nan) for each in rows for row in each]
    return Measured(np.array(values), spent["layer_candidates"] / (6 * spent["candidates"]))


def per_question(rows: Questions, scores: Floats) -> dict[str, Floats]:
    """Each metric of each question; what was dropped comes last, tied."""
    lists, first = [], 0
    for each in rows:
        here = scores[first : first + len(each)]
        lists.append((np.where(np.isnan(here), np.nanmin(here) - 1, here).tolist(), [row.label for row in each]))
        first += len(each)
    return {METRICS[name]: values.expected for name, values in measure(Judged.of(lists), tuple(METRICS)).items()}


def beside(rows: Questions, columns: Sequence[Floats]) -> Scored:
    question = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    label = np.array([row.label for each in rows for row in each], np.int64)
    return Scored(question, label, np.stack(columns, 1))


class Trainer(NamedTuple):
    """Trains and scores models of the folder `work`, in the processes of `pool`."""

    work: Path
    pool: Executor

    def train(self, wanted: Iterable[Training]) -> list[str]:
        """Train them, which waits for the last; their names."""
        trainings = list(wanted)
        tell([self.pool.submit(multihead_trainings.train, self.work, training) for training in trainings])
        return [training.name for training in trainings]

    def score(self, names: Iterable[str], *tests: str, drop: float = 0.0) -> dict[Key, Future[Measured]]:
        end = ":a3" if drop else ""
        return {(name + end, test): self.pool.submit(scored, self.work, name, test, drop) for name in names for test in tests}


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/multihead_quality"}
    options = arguments("multihead_quality", __doc__ or "", paths=paths)
    if options.smoke:
        few = {"TRANSFER": 4, "DEV_QUESTIONS": 4, "QUESTIONS": 4, "SEEDS": (FIRST,), "SIZES": (6,), "HEAD_LAYERS": (2,)}
        shrink(vars(multihead_trainings), **few, ENCODER=small_encoder(), PROCESSES=1)
    began = time.monotonic()
    with work_folder(options, "multihead_quality") as work:
        multihead_trainings.prepare(options.data.resolve(), work)
        sets = {name: questions(work / f"{name}.parquet") for name in ("wikiqa-dev", *TESTS)}
        with processes(inline=options.smoke) as pool:
            result = trained_and_measured(Trainer(work, pool), sets)
        result |= {"minutes": (time.monotonic() - began) / 60, "trained_by": trained_by(work)}
    finish("multihead_quality", result, options.save)


def trained_and_measured(trainer: Trainer, sets: dict[str, Questions]) -> dict[str, Any]:
    """Everything is trained in order of what begins with what; meanwhile what is trained is scored."""
    work = trainer.work
    trainer.train(multihead_trainings.transfers())
    teachers = trainer.train(multihead_trainings.adapts(work))
    multihead_trainings.table(work)
    passes = trainer.score(teachers, "wikiqa-dev")
    dev = {name: per_question(sets["wikiqa-dev"], passes[name, "wikiqa-dev"].result().scores) for name in TEACHERS}
    best = max(TEACHERS, key=lambda name: float(dev[name]["map"].mean()))
    students = trainer.train(multihead_trainings.students(work, best))
    members = {name for each in ensembles().values() for name in each}
    passes |= trainer.score(sorted(members.difference(teachers)), "wikiqa-dev")
    passes |= trainer.score((*teachers, *students), *TESTS)
    of_head = partial(trainer.pool.submit, scored, work, f"mhs-{FIRST}", "wikiqa", 0.0)
    heads = [of_head(number) for number in range(len(TEACHERS))]
    (last,) = trainer.train([multihead_trainings.pruned(work)])
    passes |= trainer.score([last], *TESTS) | trainer.score([f"ct-{FIRST}", last], *TESTS, drop=DROP)
    measured = {key: future.result() for key, future in passes.items()}
    result: dict[str, Any] = {f"{name}_questions": len(rows) for name, rows in sets.items()}
    result |= {"seeds": len(multihead_trainings.SEEDS), "best_teacher": best}
    result |= report(sets, measured, best)
    by_head = beside(sets["wikiqa"], [future.result().scores for future in heads])
    by_teacher = beside(sets["wikiqa"], [measured[name, "wikiqa"].scores for name in TEACHERS])
    for (i, j), value in np.ndenumerate(agreement(by_head, by_teacher)):
        if not np.isnan(value):
            result[f"agreement_{i + 1}_{TEACHERS[j]}"] = 100 * float(value)
    return result


def report(sets: dict[str, Questions], measured: dict[Key, Measured], best: str) -> Iterator[tuple[str, Any]]:
    """Every figure but the agreement."""
    scores = {key: each.scores for key, each in measured.items()}
    for name, members in ensembles().items():
        weights, _ = tuned(beside(sets["wikiqa-dev"], [scores[m, "wikiqa-dev"] for m in members]), "MAP", "answerable")
        yield f"weights_{key_of(name, best)}", " ".join(f"{weight:g}" for weight in weights)
        for test in TESTS:
            columns = [scores[member, test] for member in members]
            scores[name, test] = np.stack(columns, 1) @ np.array(weights)
    for test in TESTS:
        values: dict[str, list[float]] = defaultdict(list)
        each = {name: per_question(sets[test], column) for (name, other), column in scores.items() if other == test}
        for name, metrics in each.items():
            for metric, per in metrics.items():
                values[f"{metric}_{key_of(name, best)}"].append(100 * float(per.mean()))
        for key, over_seeds in values.items():
            yield f"{test}_{key}", statistics.fmean(over_seeds)
            if len(over_seeds) > 1:
                yield f"{test}_{key}_std", statistics.stdev(over_seeds)
                yield f"{test}_{key}_first", over_seeds[0]
        if test == "wikiqa":
            for size in multihead_trainings.SIZES:
                end = f"{'' if size == 6 else f'_{size}'}-{FIRST}"
                for model in ("alone", f"kd_{best}", "kd_sum", "kd_rr", *(("hydra", "ensemble") if size == 6 else ())):
                    c = compare(each[model + end]["map"], each["mhs" + end]["map"])
                    other = key_of(model + end, best)
                    yield f"p_mhs_over_{other}", c.wilcoxon_p
                    yield f"spearman_mhs_{other}", c.spearman if c.spearman is not None else "none"
    for (name, test), model in measured.items():
        if test == "wikiqa" and name.startswith(("ct", f"mhs-{FIRST}", f"alone-{FIRST}")):
            yield f"cost_{key_of(name, best)}", model.cost


def key_of(name: str, best: str) -> str:
    """'kd_t6_4-0' → 'kd_single_4' where t6 is the best teacher; 'ct-0:a3' → 'ct_a3'."""
    model, _, rest = name.partition("-")
    end = "_a3" if rest.endswith(":a3") else ""
    return model.replace(f"kd_{best}", "kd_single") + end


if __name__ == "__main__":
    main()
