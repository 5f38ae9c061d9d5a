"""The multiple-heads student and its rivals, in the form of its Tables 2 to 4, on MiniLM-L6 as the body.

Its teachers are of the student's size, and the search of α and τ is short; `multihead_paper` has the paper's
regime.

Teachers that differ in kind (`multihead_trainings.py`): `cross`, `has` and `birnn`; `cross1` and `cross2` are
for Hydra. Each student begins with the transferred cross-encoder and learns from WikiQA and the teachers'
logits (§3.2): `alone`; `kd_<teacher>` with each teacher; `kd_sum`; `kd_rr`; `mhs`, B_5 3H_1; `hydra`. With
the first seed alone: `mhs_none`, heads without a teacher, and `mhs_single`, all with the best one (Table 3);
`mhs_b4` and `mhs_b3`, B_4 3H_2 and B_3 3H_3 (Table 4); `ct`, a cascade, and `ct_mhs`, which begins with it:
exits in the body, three heads after it; `.._a3` lets α = .3 leave at each exit, and `cost_..` is layers ×
candidates relative to 6 layers.

α and τ are values of the paper's grid that are best on WikiQA's dev set, with the first seed: τ first, with α
= .5, and then α with that τ. They are searched for `mhs` (`alpha`, `tau`), and apart for the student of the
teacher that is best on dev, `kd_single` (`single_alpha`, `single_tau`), so that neither has the other's. The
other students have those of `mhs`.

Ensembles, weights tuned on WikiQA's dev set: `ensemble_teachers`; `ensemble_hydra`; `ensemble`, of the
students that have one teacher each (row 12 of Table 2).

Keys: `wikiqa_map_<model>`, P@1, MRR and nDCG@10 too, WikiQA's test set in percent, protocol `answerable`. The
figures of students are means over SEEDS, with `.._deviation`. `wikiqa_mhs_over_<model>_difference` is of MAP,
of each question's mean over the seeds, with its 95 % interval (`_low`, `_high`) and `_p`.
`agreement_<i>_<teacher>` is Fig. 3, head i of the first seed's `mhs` with each teacher, left out for a head
that answers no question rightly.

Trainings are kept in --work, one folder each: complete ones are not repeated, stopped ones continue.
--processes of them run at a time, each on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.steps.models import device_of
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.evaluation.ensemble import Scored, agreement, tuned
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cascade.cascade import Cascade
from answermill.ranking.rerankers.multihead.multihead import MultiHead
from answermill.ranking.rerankers.multihead.multihead import load as load_student
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.training.state import finished
from answermill.schemas.arrays import Floats
from experiments import cascade_trainings, hashing_quality, multihead_trainings
from experiments.exit_rows import Row, compared, figures, values
from experiments.multihead_trainings import (
    AFTER_CT,
    FIRST,
    HYDRA,
    TEACHERS,
    Lesson,
    Training,
    alone,
    logits,
    parts,
    scores,
    student,
    train,
)
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, print_results, processes, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = "hours of training, kept in --work; [--processes N]"
DECIDED = "Nothing ships by it: that several teachers make a better student than one is not confirmed."

DROP = 0.3
ALPHA = 0.5
"""Weight of the labels while τ is searched."""
STRATEGIES = ("kd_sum", "kd_rr", "mhs", "hydra")


class Models:
    """Trained models of a folder, measured on a set's dev and test lists."""

    def __init__(
        self,
        work: Path,
        dev: Questions,
        test: Questions,
        teachers: Collection[str],
        teacher_logits: Callable[[str, bool], Floats],
    ) -> None:
        """`teacher_logits`: a teacher's logits [n] on dev, or else on the test set."""
        self.work, self.dev, self.test = work, dev, test
        self._teachers, self._teacher_logits = teachers, teacher_logits
        self._known: dict[tuple[str, bool], Floats] = {}

    def scores(self, name: str, dev: bool = False) -> Floats:
        """[n]: scores of a student, or logits of a teacher, on the test set or on dev."""
        if (name, dev) not in self._known:
            self._known[name, dev] = (
                self._teacher_logits(name, dev)
                if name in self._teachers
                else scores(self.work / name, self.dev if dev else self.test)
            )
        return self._known[name, dev]

    def beside(self, columns: Sequence[Floats], dev: bool = False) -> Scored:
        lists = self.dev if dev else self.test
        question = np.repeat(np.arange(len(lists)), [len(rows) for rows in lists])
        return Scored(
            question, np.array([row.label for rows in lists for row in rows], np.int64), np.stack(columns, 1)
        )

    def row(self, score: Floats, cost: float = 0.0, dev: bool = False) -> Row:
        """Row of scores [n]; dropped candidates, NaN, rank last, tied."""
        table = self.beside([np.where(np.isnan(score), np.nanmin(score) - 1, score)], dev)
        return Row(values(table.question, table.label, table.scores[:, 0]), cost)

    def ensemble(self, members: Sequence[str]) -> tuple[Row, str]:
        """Row of the linear combination that is best on dev, and its weights."""
        weights, _ = tuned(
            self.beside([self.scores(name, dev=True) for name in members], dev=True), "MAP", "answerable"
        )
        total = np.stack([self.scores(name) for name in members], 1) @ np.array(weights)
        return self.row(total), " ".join(f"{weight:g}" for weight in weights)

    def pruned(self, name: str, drop: float) -> Row:
        """Row of a model with exits, at each of which a share leaves, with its cost."""
        settings: dict[str, Any] = {"drop": [drop]} if drop else {}
        folder = self.work / name
        ranker = load_reranker(
            kind_of(folder), folder, model=find_model, device=device_of("auto"), **settings
        )
        assert isinstance(ranker, Cascade)
        ranked = ranker.rerank([ranked_list(rows) for rows in self.test])
        known = [{c.candidate_id: c.score for c in result.candidates} for result in ranked]
        score = [
            list_scores.get(r.candidate_id, np.nan)
            for rows, list_scores in zip(self.test, known, strict=True)
            for r in rows
        ]

        costs = ranker.costs()
        return self.row(
            np.array(score), costs["layer_candidates"] / (cascade_trainings.DEPTH * costs["candidates"])
        )

    def heads(self, name: str) -> Iterator[Floats]:
        """Scores [n] of each head of a student."""
        model, tokeniser = load_student(self.work / name, find_model)

        for number in range(len(model.heads)):
            ranked = MultiHead(model.only(number), tokeniser).rerank(
                [ranked_list(rows) for rows in self.test]
            )
            known = [{c.candidate_id: c.score for c in result.candidates} for result in ranked]
            yield np.array(
                [
                    list_scores[r.candidate_id]
                    for rows, list_scores in zip(self.test, known, strict=True)
                    for r in rows
                ]
            )


def best_lessons(work: Path, pool: Executor, students: Sequence[str]) -> dict[str, Lesson]:
    """Student of the first seed → the τ that is best on dev with α = ALPHA, and the α that is best with this
    τ; of equal ones the first."""
    best = {name: Lesson(ALPHA, 1.0) for name in students}
    for key, grid in (("tau", multihead_trainings.TAUS), ("alpha", multihead_trainings.ALPHAS)):
        tried = {name: [lesson._replace(**{key: value}) for value in grid] for name, lesson in best.items()}
        print_results(
            pool.submit(train, work, student(name, FIRST, lesson))
            for name, lessons in tried.items()
            for lesson in lessons
        )
        best = {name: best_on_dev(work, name, lessons) for name, lessons in tried.items()}
    return best


def best_on_dev(work: Path, name: str, lessons: Sequence[Lesson]) -> Lesson:
    return max(lessons, key=lambda lesson: dev_score(work / student(name, FIRST, lesson).name))


def dev_score(folder: Path) -> float:
    history = finished(folder)
    assert history is not None and history.best is not None
    return history.best.dev


def trained_and_measured(data: Path, work: Path, pool: Executor) -> dict[str, Any]:
    """Train all models, each after the one that it begins with, and measure them."""
    multihead_trainings.train_teachers(data, work, pool)
    multihead_trainings.write_table(work)
    dev, test = (answered(data / f"wikiqa/wikiqa-{split}.parquet") for split in ("dev", "test"))

    def teacher_logits(name: str, on_dev: bool) -> Floats:
        return logits(work, name, dev if on_dev else test)

    models = Models(work, dev, test, multihead_trainings.ALL, teacher_logits)
    best = max(TEACHERS, key=lambda name: dev_score(multihead_trainings.folder_of(work, name)))
    lesson, single_lesson = best_lessons(work, pool, ("mhs", f"kd_{best}")).values()
    result: dict[str, Any] = {
        "seeds": len(multihead_trainings.SEEDS),
        "best_teacher": best,
        "alpha": lesson.alpha,
    }

    result |= {"tau": lesson.tau, "single_alpha": single_lesson.alpha, "single_tau": single_lesson.tau}
    students = {seed: students_of(seed, lesson, best, single_lesson) for seed in multihead_trainings.SEEDS}
    others = list(parts(lesson, best))
    print_results(
        pool.submit(train, work, training)
        for seed_students in students.values()
        for training in seed_students.values()
    )
    print_results(pool.submit(train, work, training) for training in others if training.name != AFTER_CT)
    print_results(pool.submit(train, work, training) for training in others if training.name == AFTER_CT)
    rows: dict[str, list[Row]] = {name: [models.row(models.scores(name))] for name in multihead_trainings.ALL}
    members: dict[str, list[tuple[str, ...]]] = {
        "ensemble_teachers": [TEACHERS],
        "ensemble_hydra": [HYDRA],
        "ensemble": [],
    }

    for seed_students in students.values():
        for name, training in seed_students.items():
            rows.setdefault(name, []).append(models.row(models.scores(training.name)))
        members["ensemble"].append(tuple(seed_students[f"kd_{name}"].name for name in TEACHERS))

    for training in others:
        name, _, _ = training.name.partition("-")
        rows[name] = [models.pruned(training.name, 0.0)]
        if name.startswith("ct"):
            rows[f"{name}_a3"] = [models.pruned(training.name, DROP)]

    for name, ensembles in members.items():
        combined = [models.ensemble(names) for names in ensembles]
        rows[name], result[f"weights_{name}"] = [row for row, _ in combined], combined[0][1]

    rows["kd_single"] = rows[f"kd_{best}"]
    result["wikiqa_questions"] = len(models.test)
    for name, seeds in rows.items():
        result |= figures("wikiqa", name, seeds)
    for other in ("alone", "kd_single", "kd_sum", "kd_rr", "hydra", "ensemble", best):
        result |= compared("wikiqa", "mhs", other, rows)
    heads = list(models.heads(student("mhs", FIRST, lesson).name))
    agreed = agreement(models.beside(heads), models.beside([models.scores(name) for name in TEACHERS]))
    for (i, j), value in np.ndenumerate(agreed):
        if not np.isnan(value):
            result[f"agreement_{i + 1}_{TEACHERS[j]}"] = 100 * float(value)

    return result


def students_of(seed: int, lesson: Lesson, best: str, single_lesson: Lesson) -> dict[str, Training]:
    """Key → training, for the students of each seed."""
    students = {"alone": alone(seed)} | {name: student(name, seed, lesson) for name in STRATEGIES}
    return students | {
        f"kd_{name}": student(f"kd_{name}", seed, single_lesson if name == best else lesson)
        for name in TEACHERS
    }


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/multihead_quality"}
    numbers = {"processes": "trainings at a time; 1"}
    options = arguments("multihead_quality", __doc__ or "", paths=paths, numbers=numbers)

    if options.smoke:
        few = {"SEEDS": (FIRST,), "ALPHAS": (0.5,), "TAUS": (1.0, 3.0), "HEAD_LAYERS": (2,), "EPOCHS": 1}
        shrink(vars(multihead_trainings), **few)
        shrink(vars(cascade_trainings), ENCODER=small_encoder(), ADAPT_EPOCHS=1)
        shrink(vars(hashing_quality), ENCODER=small_encoder())

    torch.set_num_threads(1)
    with (
        work_folder(options, "multihead_quality") as work,
        processes(int(options.processes or 1), options.smoke) as pool,
    ):
        result = trained_and_measured(options.data.resolve(), work, pool)
        result["trained_by"] = trained_by(work)

    finish("multihead_quality", result, options.save)


if __name__ == "__main__":
    main()
