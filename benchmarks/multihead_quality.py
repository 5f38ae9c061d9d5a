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

Keys: `<set>_map_<model>`, P@1 and MRR too, in percent, protocol `answerable`; of `wikiqa` test, and of the first QUESTIONS
questions of SQuAD-sent's test set, to which nothing was adapted. `.._4` and `.._3` are students of fewer layers; without a
number they have 6. The figures of students are means over SEEDS, `.._std` the deviations, and `.._first` the first seed's;
teachers, and students that the first seed alone has, have one number. `p_..` are Wilcoxon's p of WikiQA's average precision,
first seed; `agreement_<i>_<j>` is Fig. 3, head i with teacher j.

Settings are small so that it can be had: `minutes` is what the run took, shorter where --work held trainings of an earlier
one. A second of EPOCHS would take most of it again.
"""

from __future__ import annotations

import hashlib
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.cascade_quality import SQUAD, WIKIQA, questions
from benchmarks.harness import arguments, finish, processes, say, tell, trained_by
from indexing.shards.dense import find_model
from pipelines.config.job_file import Job
from pipelines.config.training_file import TrainJob
from pipelines.convert.as_run import write_candidates
from pipelines.steps.chain import run_steps
from pipelines.steps.models import device_of
from pipelines.train.train import run
from ranking.cascade.cascade import Cascade
from ranking.checkpoint import kind_of
from ranking.evaluation.ensemble import Scored, agreement, tuned
from ranking.evaluation.metrics import Floats, Judged, measure
from ranking.evaluation.significance import compare
from ranking.lists import ranked_list
from ranking.multihead.multihead import MultiHead
from ranking.multihead.multihead import load as load_student
from ranking.registry import load_reranker
from schemas.labels import LabelledCandidate

FIRST = 0
SEEDS = (FIRST, 1, 2)  # of the students
SIZES = (6, 4, 3)  # their layers
TRANSFER, DEV_QUESTIONS, QUESTIONS = 1_500, 150, 300
EPOCHS, ALPHA, TAU = 1, 0.5, 3.0
TRANSFER_RATE, ADAPT_RATE = 1e-4, 5e-5
HEAD_LAYERS = (2, 3)
EXITS, DROP = (2, 3, 4, 5), 0.3
TEACHERS, HYDRA = ("t6", "t4", "t3"), ("h0", "h1", "h2")
TESTS = ("wikiqa", "squad")
METRICS = {"MAP": "map", "MRR": "mrr", "P@1": "p1"}
STRATEGIES = {"kd_sum": "sum", "kd_rr": "round_robin", "mhs": "mhs"}

Questions = list[list[LabelledCandidate]]


def prepare(data: Path, work: Path) -> None:
    """squad-train, squad-dev, squad, wikiqa-dev, wikiqa; and the training sets of each of TEACHERS."""
    if (work / "wikiqa.parquet").is_file():
        return
    train = questions(data / "squad/squad-sent-train.parquet", TRANSFER)
    adapt = questions(data / "wikiqa/wikiqa-train.parquet")
    sets: dict[str, Questions] = {"squad-train": train, "wikiqa-train": adapt}
    for n, name in enumerate(TEACHERS):
        sets |= {f"squad-train-{name}": without_some(train, n), f"wikiqa-train-{name}": without_some(adapt, n)}
    sets["squad-dev"] = questions(data / "squad/squad-sent-dev.parquet", DEV_QUESTIONS)
    sets["squad"] = questions(data / "squad/squad-sent-test.parquet", QUESTIONS)
    sets["wikiqa-dev"] = questions(data / "wikiqa/wikiqa-dev.parquet")
    sets["wikiqa"] = questions(data / "wikiqa/wikiqa-test.parquet")
    for name, found in sets.items():
        pq.write_table(LabelledCandidate.table([row for rows in found for row in rows]), work / f"{name}.parquet")


def without_some(asked: Questions, third: int) -> Questions:
    """Without one of three thirds of the wrong candidates, chosen by hash."""
    made = []
    for rows in asked:
        kept = [row for row in rows if row.label or digest(row) % 3 != third]
        made.append([replace(row, position=n) for n, row in enumerate(kept)])
    return made


def digest(row: LabelledCandidate) -> int:
    return hashlib.sha256(f"{row.question_id}:{row.candidate_id}".encode()).digest()[0]


class Training(NamedTuple):
    """`data`: the name of the data set, of which there is also a dev set."""

    name: str
    data: str
    section: dict[str, Any]
    seed: int = 0
    distil: dict[str, Any] | None = None


def training(work: Path, given: Training) -> TrainJob:
    transfer = given.data.startswith("squad")
    common = {"tokens": 1_000, "classifier_rate": 10.0 if transfer else 5.0, "words": "source", "store": "fp16"}
    dev = work / ("squad-dev.parquet" if transfer else "wikiqa-dev.parquet")
    job: dict[str, Any] = {
        "transformer": {**common, **given.section},
        "data": {**(SQUAD if transfer else WIKIQA), "train": [str(work / f"{given.data}.parquet")], "dev": [str(dev)]},
        "train": {
            "epochs": 1 if transfer else EPOCHS,
            "learning_rate": TRANSFER_RATE if transfer else ADAPT_RATE,
            "schedule": "linear",
            "precision": "bf16",
            "clip": 1.0,
            "seed": given.seed,
        },
    }
    if given.distil:
        job["distil"] = {"tables": [str(work / "table")], "alpha": ALPHA, "tau": TAU, **given.distil}
    return TrainJob.model_validate(job)


def train(work: Path, given: Training) -> str:
    torch.set_num_threads(1)
    *_, last = run(training(work, given), work / given.name)
    return f"{given.name}: {last}"


def transfers() -> Iterator[Training]:
    for n, name in enumerate(TEACHERS):
        layers = {"layers": int(name[1])} if name != "t6" else {}
        yield Training(f"{name}-transfer", f"squad-train-{name}", {"reranker": "pointwise", **layers}, 10 + n)
    for n, name in enumerate(HYDRA):
        yield Training(f"{name}-transfer", "squad-train", {"reranker": "pointwise"}, n)


def adapts(work: Path) -> Iterator[Training]:
    for n, name in enumerate((*TEACHERS, *HYDRA)):
        data = f"wikiqa-train-{name}" if name in TEACHERS else "wikiqa-train"
        yield Training(name, data, {"reranker": "pointwise", "encoder": str(work / f"{name}-transfer")}, n % 3)


def table(work: Path) -> None:
    """All teachers' logits of WikiQA's training set."""
    write_candidates([work / "wikiqa-train.parquet"], work / "table")
    stages = [{"reranker": "pointwise", "name": name, "checkpoint": str(work / name)} for name in (*TEACHERS, *HYDRA)]
    job = Job.model_validate({"rerank": {"stages": stages}, "workers": {"processes": 2}})
    for line in run_steps(job, work / "table", ["rerank"], ()):
        say(line)


def students(work: Path, best: str) -> Iterator[Training]:
    """Named <model>[_<layers>]-<seed>; they begin with a transfer of their size."""
    all_three: dict[str, Any] = {"teachers": list(TEACHERS), "strategy": "mhs"}
    for seed, size in itertools.product(SEEDS, SIZES):
        end = f"{'' if size == 6 else f'_{size}'}-{seed}"
        begun = {"encoder": str(work / ("h0-transfer" if size == 6 else f"t{size}-transfer"))}
        plain, heads = {"reranker": "pointwise", **begun}, {"reranker": "multihead", **begun}
        yield Training(f"alone{end}", "wikiqa-train", plain, seed)
        for teacher in TEACHERS if size == 6 else (best,):
            taught = {"teachers": [teacher], "strategy": "single"}
            yield Training(f"kd_{teacher}{end}", "wikiqa-train", plain, seed, taught)
        for name, strategy in STRATEGIES.items():
            taught = all_three | {"strategy": strategy}
            yield Training(f"{name}{end}", "wikiqa-train", heads if name == "mhs" else plain, seed, taught)
        if size == 6:
            yield Training(f"hydra{end}", "wikiqa-train", heads, seed, {"teachers": list(HYDRA), "strategy": "mhs"})
        if size == 6 and seed == FIRST:
            single = {"teachers": [best], "strategy": "single"}
            yield Training(f"mhs_none{end}", "wikiqa-train", heads, seed)
            yield Training(f"mhs_single{end}", "wikiqa-train", heads, seed, single)
            for layers in HEAD_LAYERS:
                split = heads | {"head_layers": layers}
                yield Training(f"mhs_b{size - layers}{end}", "wikiqa-train", split, seed, all_three)
            yield Training(f"ct{end}", "wikiqa-train", {"reranker": "cascade", "exits": [*EXITS, 6], **begun}, seed)


def pruned(work: Path) -> Training:
    begun = {"reranker": "multihead", "encoder": str(work / f"ct-{FIRST}")}
    return Training(f"ct_mhs-{FIRST}", "wikiqa-train", begun, FIRST, {"teachers": list(TEACHERS), "strategy": "mhs"})


def ensembles() -> dict[str, tuple[str, ...]]:
    """Each one's members."""
    made = {"ensemble_teachers": TEACHERS, "ensemble_hydra": HYDRA}
    return made | {f"ensemble-{seed}": tuple(f"kd_{teacher}-{seed}" for teacher in TEACHERS) for seed in SEEDS}


class Found(NamedTuple):
    """A model's scores of a set, and what they cost; [n] each, NaN where a candidate was dropped."""

    scores: Floats
    cost: float


def scored(work: Path, name: str, test: str, drop: float = 0.0, head: int | None = None) -> Found:
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
    return Found(np.array(values), spent["layer_candidates"] / (6 * spent["candidates"]))


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


def main() -> None:
    given = arguments(
        "multihead_quality",
        __doc__ or "",
        paths={"work": "folder of the trainings, which stay; out/multihead_quality"},
        smoke=False,
    )
    began = time.monotonic()
    data, work = given.data.resolve(), (given.work or Path("out/multihead_quality")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    prepare(data, work)
    sets = {name: questions(work / f"{name}.parquet") for name in ("wikiqa-dev", "wikiqa", "squad")}
    result: dict[str, float | int | str] = {f"{name}_questions": len(rows) for name, rows in sets.items()}
    result["seeds"] = len(SEEDS)
    with processes() as pool:

        def trained(each: Iterator[Training]) -> list[str]:
            wanted = list(each)
            tell([pool.submit(train, work, one) for one in wanted])
            return [one.name for one in wanted]

        def scoring(names: Iterable[str], *tests: str, drop: float = 0.0) -> dict[tuple[str, str], Future[Found]]:
            end = ":a3" if drop else ""
            return {(name + end, t): pool.submit(scored, work, name, t, drop) for name in names for t in tests}

        trained(transfers())
        teachers = trained(adapts(work))
        table(work)
        passes = scoring(teachers, "wikiqa-dev")
        dev = {name: passes[name, "wikiqa-dev"].result().scores for name in TEACHERS}
        means = {name: float(per_question(sets["wikiqa-dev"], values)["map"].mean()) for name, values in dev.items()}
        best = max(TEACHERS, key=lambda name: means[name])
        result["best_teacher"] = best
        names = trained(students(work, best))
        last = pruned(work)
        waiting = pool.submit(train, work, last)
        members = {name for each in ensembles().values() for name in each}
        passes |= scoring(sorted(members.difference(teachers)), "wikiqa-dev")
        passes |= scoring((*teachers, *names), *TESTS)
        heads = [pool.submit(scored, work, f"mhs-{FIRST}", "wikiqa", 0.0, n) for n in range(len(TEACHERS))]
        tell([waiting])
        passes |= scoring([last.name], *TESTS) | scoring([f"ct-{FIRST}", last.name], *TESTS, drop=DROP)
        found = {key: future.result() for key, future in passes.items()}
        of_heads = [future.result().scores for future in heads]
    result |= report(sets, found, best)
    matrix = agreement(beside(sets["wikiqa"], of_heads), beside(sets["wikiqa"], [found[t, "wikiqa"].scores for t in TEACHERS]))
    for (i, j), value in np.ndenumerate(matrix):
        result[f"agreement_{i + 1}_{TEACHERS[j]}"] = 100 * float(value)
    result |= {"minutes": (time.monotonic() - began) / 60, "trained_by": trained_by(work)}
    finish("multihead_quality", result, given.save)


def report(sets: dict[str, Questions], found: dict[tuple[str, str], Found], best: str) -> Iterator[tuple[str, Any]]:
    """Every figure but the agreement."""
    scores = {key: each.scores for key, each in found.items()}
    for name, members in ensembles().items():
        weights, _ = tuned(beside(sets["wikiqa-dev"], [scores[m, "wikiqa-dev"] for m in members]), "MAP", "answerable")
        yield f"weights_{key_of(name, best)}", " ".join(f"{weight:g}" for weight in weights)
        for test in TESTS:
            columns = [scores[member, test] for member in members]
            scores[name, test] = np.stack(columns, 1) @ np.array(weights)
    for test in TESTS:
        values: dict[str, list[float]] = defaultdict(list)
        each = {name: per_question(sets[test], column) for (name, of), column in scores.items() if of == test}
        for name, metrics in each.items():
            for metric, per in metrics.items():
                values[f"{metric}_{key_of(name, best)}"].append(100 * float(per.mean()))
        for key, over_seeds in values.items():
            yield f"{test}_{key}", statistics.fmean(over_seeds)
            if len(over_seeds) > 1:
                yield f"{test}_{key}_std", statistics.stdev(over_seeds)
                yield f"{test}_{key}_first", over_seeds[0]
        if test == "wikiqa":
            for size in SIZES:
                end = f"{'' if size == 6 else f'_{size}'}-{FIRST}"
                for model in ("alone", f"kd_{best}", "kd_sum", "kd_rr", *(("hydra", "ensemble") if size == 6 else ())):
                    c = compare(each[model + end]["map"], each["mhs" + end]["map"])
                    other = key_of(model + end, best)
                    yield f"p_mhs_over_{other}", c.wilcoxon_p
                    yield f"spearman_mhs_{other}", c.spearman if c.spearman is not None else "none"
    for (name, test), made in found.items():
        if test == "wikiqa" and name.startswith(("ct", f"mhs-{FIRST}", f"alone-{FIRST}")):
            yield f"cost_{key_of(name, best)}", made.cost


def key_of(name: str, best: str) -> str:
    """'kd_t6_4-0' → 'kd_single_4' where t6 is the best teacher; 'ct-0:a3' → 'ct_a3'."""
    model, _, rest = name.partition("-")
    end = "_a3" if rest.endswith(":a3") else ""
    return model.replace(f"kd_{best}", "kd_single") + end


if __name__ == "__main__":
    main()
