"""The multiple-heads student in its paper's regime: a large teacher, a small student, the whole grid of α and
τ, and heads that read the first token.

The largest teacher, `base`, is the shipped `cascade_base` at its last exit, 12 layers of 768, which has
learnt nothing of the two data sets; `has` and `birnn` are those of `multihead_trainings.py`, trained on the
set. Platt's regression on the set's dev lists makes scores logits, which are computed once and kept. A
student has MiniLM-L6's body and begins with the transferred cross-encoder of `cascade_trainings.py`, which
here reads the first token, as do all heads. α and τ are those of the paper's twelve pairs (§3.2) whose
students are best on dev, the mean of SEEDS; they are searched for `mhs` and, apart, for the student of the
best teacher, `kd_single`. The other students have `mhs`' pair, `mhs_single` has `kd_single`'s. With --pairs
these two are given, such as 0.9:1,0.5:3, which `multihead_quality` chose on WikiQA's dev set with smaller
teachers; then nothing is searched, and `pairs_tried` is 1.

Sets: `wikiqa`, and `squad`, SQuAD-sent: LEARN questions of SQuADShifts to learn from, QUESTIONS test
questions, drawn by hash. Rows, all over SEEDS: `alone`, `kd_<teacher>`, `kd_sum`, `kd_rr`, `mhs`; heads
without a teacher, `mhs_none`, and all with the best one, `mhs_single` (Table 3); `mhs_b4` and `mhs_b3`
(Table 4). `ensemble` and `ensemble_teachers` are of the students of one teacher each and of the teachers,
with the weights that are best on dev (`.._weights`, seed 0's), and `.._even` their mean.

Keys: `<set>_<metric>_<row>`, test set, in percent, protocol `answerable`; `<set>_alpha`, `_tau`, and those of
`_single_`; `teacher_map` and `student_map`, WikiQA's, of the best teacher and of `alone`.
`<set>_mhs_over_<row>_difference` is of MAP, of each question's mean over the seeds, with `_low`, `_high` and
`_p`; `_wilcoxon_p`, `_spearman` and `_spearman_p` are the tests that the paper names. `mhs_over_single` and
`mhs_over_single_p` repeat WikiQA's. `teacher_pairs_per_s`: pairs of dev that `base` scored in a second of one
thread.

Trainings are kept in --work, one folder each: complete ones are not repeated, stopped ones continue.
--processes of them run at a time, each on one thread. --only trains and measures one set, --seeds the first
ones alone; more can be added later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from answermill.files.atomic_files import replacing, write_text
from answermill.ranking.entry import SHIPPED
from answermill.ranking.evaluation.significance import compare
from answermill.schemas.arrays import Floats
from answermill.schemas.labels import LabelledCandidate
from experiments import cascade_trainings, hashing_quality, multihead_trainings
from experiments.cascade_trainings import DEPTH
from experiments.exit_rows import Row, compared, figures
from experiments.multihead_quality import Models, dev_score
from experiments.multihead_trainings import (
    ALPHAS,
    FIRST,
    SEEDS,
    TAUS,
    Lesson,
    Training,
    as_logits,
    platt,
    scores,
    table_of,
    train,
    train_other,
    write_logits,
)
from experiments.question_sets.learnable import answered, learnable, some_of
from testing.harness import arguments, finish, print_results, processes, say, shrink, trained_by, work_folder
from testing.smoke_data import small_checkpoint, small_encoder

TAKES = (
    "twenty hours of one core, three with --only wikiqa, --pairs and --seeds 2, kept in --work, beside pip "
    "install answermill[base]"
)
MEASURED_MODELS = ("cascade_base",)
DECIDED = (
    "No multiple-heads student ships: taught by a model of 12 layers beside two others, it is not shown "
    "ahead of a student of that teacher alone, nor of one without a teacher."
)

BASE = SHIPPED / "cascade_base"
TEACHERS = ("base", "has", "birnn")
STRATEGIES = {"kd_sum": "sum", "kd_rr": "round_robin", "mhs": "mhs"}
TRANSFER = "first-transfer"
FILES = {name: hashing_quality.SETS[name] for name in ("wikiqa", "squad")}
LEARN, DEV, QUESTIONS = {"wikiqa": None, "squad": 1_000}, 200, 1_000
GRID = tuple(Lesson(alpha, tau) for alpha, tau in product(ALPHAS, TAUS))
HEAD_LAYERS = (2, 3)
OTHERS = ("alone", "single", "kd_sum", "kd_rr", "mhs_none", "mhs_single", "ensemble", "ensemble_even")


def prepare(data: Path, work: Path) -> None:
    """Write the lists of each set's splits: all of WikiQA's with an answer, and draws of SQuAD-sent's."""
    cascade_trainings.prepare(data, work)
    numbers = {"train": LEARN["squad"], "dev": DEV, "test": QUESTIONS}
    for name, files in FILES.items():
        for split, number in numbers.items():
            file = work / f"{name}-{split}.parquet"
            if file.is_file():
                continue
            lists = answered(data / getattr(files, "learn" if split == "train" else split))
            lists = learnable(data, lists) if split == "train" else lists
            lists = lists if name == "wikiqa" or number is None else some_of(lists, number)
            with replacing(file) as temporary:
                pq.write_table(LabelledCandidate.table([row for rows in lists for row in rows]), temporary)


def train_transfer(work: Path) -> str:
    """Train the cross-encoder that students begin with; its classifier reads the first token."""
    torch.set_num_threads(1)
    section = {"reranker": "pointwise", "pooling": "first"}
    return cascade_trainings.train(work, cascade_trainings.Training(TRANSFER, "transfer", section))


def teacher_scores(work: Path, name: str, teacher: str, split: str) -> Floats:
    """[n]: scores of a set's split, kept in a file beside it."""
    file = work / f"{name}-{split}-{teacher}.npy"
    if not file.is_file():
        lists = answered(work / f"{name}-{split}.parquet")
        is_base = teacher == "base"
        began = time.process_time()
        computed = scores(BASE, lists, drop=[0.0]) if is_base else scores(work / f"{name}-{teacher}", lists)
        if is_base and split == "dev":
            rate = {"teacher_pairs_per_s": len(computed) / (time.process_time() - began)}
            write_text(work / f"{name}-speed.json", json.dumps(rate))
        with replacing(file) as temporary, temporary.open("wb") as out:
            np.save(out, computed)
    kept: Floats = np.load(file, allow_pickle=False)
    return kept


def teacher_logits(work: Path, name: str, teacher: str, split: str) -> Floats:
    """[n]: scores of a teacher as logits, by Platt's regression on the set's dev lists."""
    dev = teacher_scores(work, name, teacher, "dev")
    fitted = platt(dev, answered(work / f"{name}-dev.parquet"))
    return as_logits(teacher_scores(work, name, teacher, split), fitted)


def student(name: str, row: str, seed: int, lesson: Lesson | None) -> Training:
    """Training of a row on a set; `lesson` None: without a teacher. `kd_<teacher>` and `mhs_single-<teacher>`
    have one teacher."""
    single = next((teacher for teacher in TEACHERS if row.endswith(teacher)), None)
    section: dict[str, Any] = {
        "reranker": "multihead" if row.startswith("mhs") else "pointwise",
        "encoder": TRANSFER,
    }
    if row.startswith("mhs_b"):
        section["head_layers"] = DEPTH - int(row.removeprefix("mhs_b"))
    if lesson is None:
        return Training(f"{name}-{row}-{seed}", section, seed, None, name)
    taught = {
        "teachers": [single] if single else list(TEACHERS),
        "strategy": "single" if single else STRATEGIES.get(row, "mhs"),
        "alpha": lesson.alpha,
        "tau": lesson.tau,
    }
    return Training(f"{name}-{row}-{lesson.alpha:g}-{lesson.tau:g}-{seed}", section, seed, taught, name)


def best_lesson(work: Path, name: str, row: str, pool: Executor) -> Lesson:
    """The pair of the grid by whose students, one a seed, `best_of` decides on dev."""
    tried = {lesson: [student(name, row, seed, lesson) for seed in SEEDS] for lesson in GRID}
    print_results(
        pool.submit(train, work, training) for trainings in tried.values() for training in trainings
    )
    return best_of(
        {lesson: [dev_score(work / training.name) for training in row] for lesson, row in tried.items()}
    )


def best_of(scores: Mapping[Lesson, Sequence[float]]) -> Lesson:
    """The pair with the highest mean over the seeds; of equal ones the first.

    >>> best_of({Lesson(0.0, 1.0): [0.9, 0.1], Lesson(0.5, 1.0): [0.6, 0.6], Lesson(0.5, 3.0): [0.7, 0.5]})
    Lesson(alpha=0.5, tau=1.0)
    """
    return max(scores, key=lambda lesson: round(float(np.mean(scores[lesson])), 9))


def students(
    name: str, best: str, lesson: Lesson, single: Lesson, head_layers: Sequence[int]
) -> dict[str, list[Training]]:
    """Row → its trainings, one a seed. `head_layers`: layers of the heads of Table 4's rows."""
    lessons: dict[str, Lesson | None] = {"alone": None, "mhs_none": None}
    lessons |= dict.fromkeys((*STRATEGIES, *(f"mhs_b{DEPTH - layers}" for layers in head_layers)), lesson)
    lessons |= {f"kd_{teacher}": single if teacher == best else lesson for teacher in TEACHERS}
    lessons |= {f"mhs_single-{best}": single}
    return {
        row.partition("-")[0]: [student(name, row, seed, row_lesson) for seed in SEEDS]
        for row, row_lesson in lessons.items()
    }


def tests(name: str, over: str, rows: dict[str, list[Row]]) -> Iterator[tuple[str, float]]:
    """The comparison of `mhs` with a row, and the tests that the paper names."""
    yield from compared(name, "mhs", over, rows)
    a, b = (np.mean([seed.values["map"] for seed in rows[row]], axis=0) for row in (over, "mhs"))
    result, key = compare(a, b), f"{name}_mhs_over_{over}"
    yield f"{key}_wilcoxon_p", result.wilcoxon_p
    if result.spearman is not None and result.spearman_p is not None:
        yield from ((f"{key}_spearman", result.spearman), (f"{key}_spearman_p", result.spearman_p))


def given(text: str) -> list[Lesson]:
    """Pairs as --pairs writes them: `mhs`' and `kd_single`'s. Raises SystemExit if these are not two of the
    paper's.

    >>> given("0.9:1,0.5:3")
    [Lesson(alpha=0.9, tau=1.0), Lesson(alpha=0.5, tau=3.0)]
    """
    written = {f"{lesson.alpha:g}:{lesson.tau:g}": lesson for lesson in GRID}
    names = text.split(",")
    if len(names) != 2 or not written.keys() >= set(names):
        raise SystemExit(
            f"experiments.multihead_paper: --pairs {text}: give two, with a comma between, of "
            f"{', '.join(written)}"
        )
    return [written[name] for name in names]


def of_set(
    data: Path, work: Path, name: str, pool: Executor, pairs: Sequence[Lesson] | None = None
) -> dict[str, Any]:
    """Train and measure all rows of a set. `pairs`: those of `mhs` and `kd_single`; None searches them."""
    folders = {teacher: work / f"{name}-{teacher}" for teacher in TEACHERS if teacher != "base"}
    print_results(
        pool.submit(train_other, data, work, teacher, name, folder) for teacher, folder in folders.items()
    )
    train_lists, dev, test = (
        answered(work / f"{name}-{split}.parquet") for split in ("train", "dev", "test")
    )
    if not table_of(work, name).is_file():
        columns = {teacher: teacher_logits(work, name, teacher, "train") for teacher in TEACHERS}
        write_logits(table_of(work, name), train_lists, columns)

    def logits(teacher: str, on_dev: bool) -> Floats:
        return teacher_logits(work, name, teacher, "dev" if on_dev else "test")

    models = Models(work, dev, test, TEACHERS, logits)
    on_dev = {teacher: models.row(models.scores(teacher, dev=True), dev=True) for teacher in TEACHERS}
    best = max(TEACHERS, key=lambda teacher: float(on_dev[teacher].values["map"].mean()))
    lesson, single = pairs or [best_lesson(work, name, row, pool) for row in ("mhs", f"kd_{best}")]
    trainings = students(name, best, lesson, single, () if pairs else HEAD_LAYERS)
    print_results(pool.submit(train, work, row[n]) for n in range(len(SEEDS)) for row in trainings.values())
    rows = {row: [models.row(models.scores(each.name)) for each in seeds] for row, seeds in trainings.items()}
    rows |= {teacher: [models.row(models.scores(teacher))] for teacher in TEACHERS}

    result: dict[str, Any] = {f"{name}_questions": len(test), f"{name}_best_teacher": best}
    result |= {f"{name}_alpha": lesson.alpha, f"{name}_tau": lesson.tau}
    result |= {f"{name}_single_alpha": single.alpha, f"{name}_single_tau": single.tau}
    members = [[trainings[f"kd_{teacher}"][n].name for teacher in TEACHERS] for n in range(len(SEEDS))]
    for row, ensembles in {"ensemble": members, "ensemble_teachers": [list(TEACHERS)]}.items():
        weighed = [models.ensemble(names) for names in ensembles]
        rows[row], result[f"{name}_{row}_weights"] = [each for each, _ in weighed], weighed[0][1]
        rows[f"{row}_even"] = [even(models, names) for names in ensembles]

    rows["single"] = rows[f"kd_{best}"]
    for row, seeds in rows.items():
        result |= figures(name, row, seeds)
    for row in (*OTHERS, best):
        result |= tests(name, row, rows)
    return result


def even(models: Models, names: Sequence[str]) -> Row:
    """Row of the mean of the models' logits."""
    return models.row(np.mean([models.scores(name) for name in names], axis=0))


def trained_and_measured(
    data: Path, work: Path, names: Sequence[str], pool: Executor, pairs: Sequence[Lesson] | None
) -> dict[str, Any]:
    prepare(data, work)
    print_results([pool.submit(train_transfer, work)])
    result: dict[str, Any] = {"seeds": len(SEEDS), "pairs_tried": 1 if pairs else len(GRID)}
    for name in names:
        result |= of_set(data, work, name, pool, pairs)
        said = ", ".join(f"{row} {result[f'{name}_map_{row}']:.2f}" for row in ("mhs", "single", "alone"))
        say(f"{name}, MAP: {said}")
        result |= json.loads((work / f"{name}-speed.json").read_text(encoding="utf-8"))
    if "wikiqa" in names:
        result["teacher_map"] = result[f"wikiqa_map_{result['wikiqa_best_teacher']}"]
        result["student_map"] = result["wikiqa_map_alone"]
        result["mhs_over_single"] = result["wikiqa_mhs_over_single_difference"]
        result["mhs_over_single_p"] = result["wikiqa_mhs_over_single_p"]
    return result


def main() -> None:
    options = arguments(
        "multihead_paper",
        __doc__ or "",
        paths={"work": "folder of the trainings, which stay; out/multihead_paper"},
        numbers={"processes": "trainings at a time; 1", "seeds": "seeds of each student; 3"},
        choices={"only": ("all", *FILES)},
        texts={"pairs": "α:τ of mhs and of kd_single, with a comma between; the paper's twelve are searched"},
    )
    if options.smoke:
        shrink(vars(multihead_trainings), EPOCHS=1)
        shrink(vars(cascade_trainings), ENCODER=small_encoder())
        shrink(vars(hashing_quality), ENCODER=small_encoder())
        shrink(
            globals(),
            BASE=Path(small_checkpoint("cascade")),
            GRID=GRID[:2],
            SEEDS=(FIRST,),
            HEAD_LAYERS=(2,),
        )
    if options.seeds:
        shrink(globals(), SEEDS=SEEDS[: int(options.seeds)])
    torch.set_num_threads(1)
    with (
        work_folder(options, "multihead_paper") as work,
        processes(int(options.processes or 1), options.smoke) as pool,
    ):
        names = tuple(FILES) if options.only == "all" else (options.only,)
        pairs = given(options.pairs) if options.pairs else None
        result = trained_and_measured(options.data.resolve(), work, names, pool, pairs)
        result["trained_by"] = trained_by(work)
    finish("multihead_paper", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
