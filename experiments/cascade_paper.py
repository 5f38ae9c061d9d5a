"""The Cascade Transformer trained as in its paper, in the form of its Table 2.

Every model begins with the plain encoder and learns by the binary cross-entropy of single pairs, from all
candidates: first the transfer, then the adapt to WikiQA, with three seeds (TANDA). Data, rates and epochs are
those of `cascade_trainings`. `mtN` is the monolithic model of the first N layers, which reads the first
token; SR runs all of these, one for each exit. The cascades have an exit behind each of these depths, and
differ in the exit that a step trains (§4.3.1): `paper` draws one uniformly, `early` draws the early ones more
often in the transfer and in the first epoch of the adapt, `round_robin` takes each in turn, `stop` draws
uniformly and lets no gradient below the exit before, `all` trains all exits in each step, which is ours.

Keys: `wikiqa_<metric>_<row>`: WikiQA's test set, in percent, protocol `answerable`, means over the seeds,
with `.._deviation`; `transferred_..`: the same before the adapt. Rows: `mtN`, `monolithic` (the deepest),
`sequential_aN` and, of each cascade, `.._exitN`, cut behind layer N, and `.._aN`, where a share N/10 leaves
at each exit but the last. `cost` is layers × candidates relative to the monolithic model's.
`wikiqa_b_over_a_difference` is of MAP, of each question's mean over the seeds, with its 95 % interval
(`_low`, `_high`) and `_p`. A model that is not complete has no rows: `seeds_<model>` counts the adapts that
are. Nothing is chosen on the test set.

Trainings are those of `answermill train`, one after the other, and are kept in --work: complete ones are not
repeated, stopped ones continue. --models names those to train, in this order; rows are of all that are
complete. With --transfer N the transfer has N questions of each of its sets, and all stands in
WORK/transfer_N. --body base has twelve layers of 768, exits behind 4, 6, 8, 10 and 12, and keys
`base_wikiqa_..`; it takes a card, or a night, and --save writes `cascade_paper_base.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from answermill.indexing.shards.dense import DEFAULT
from answermill.ranking.rerankers.cascade.exits import ExitScores
from answermill.ranking.training.state import finished
from experiments import cascade_trainings
from experiments.cascade_trainings import SAMPLINGS, Training
from experiments.exit_rows import Row, cascade_rows, compared, exit_scores, figures, row, sequential_rows
from experiments.question_sets.learnable import Questions, answered
from testing.harness import arguments, finish, say, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = "three hours of training, kept in --work"
DECIDED = "Nothing ships by it."
ALPHAS = (0.3, 0.4, 0.5)
WAYS: dict[str, dict[str, Any]] = {
    "paper": SAMPLINGS["uniform"],
    "early": {"sampling": "early"},
    **{name: SAMPLINGS[name] for name in ("round_robin", "stop", "all")},
}
"""Cascade → its settings."""


class Body(NamedTuple):
    """A transformer with exits. `rates`: peak of the learning rate in the transfer and in the adapt; those of
    `cascade_trainings` if None."""

    encoder: str
    exits: tuple[int, ...]
    prefix: str = ""
    rates: tuple[float | None, float | None] = (None, None)

    @property
    def depth(self) -> int:
        return self.exits[-1]


BODIES = {
    "default": Body(DEFAULT, cascade_trainings.EXITS),
    "base": Body("all-mpnet-base-v2", (4, 6, 8, 10, 12), "base_", (2e-5, 1e-5)),
}


def sections(body: Body) -> dict[str, dict[str, Any]]:
    """Model → its settings, in the order in which they are trained."""
    monolithic = {
        f"mt{depth}": {"reranker": "pointwise", "pooling": "first", "layers": depth} for depth in body.exits
    }
    cascades = {name: {"reranker": "cascade", "exits": list(body.exits), **way} for name, way in WAYS.items()}
    deepest = f"mt{body.depth}"
    first = {deepest: monolithic[deepest], "paper": cascades["paper"], "early": cascades["early"]}
    return first | monolithic | cascades


def trainings(body: Body, models: Sequence[str]) -> Iterator[Training]:
    """The models' transfers, then their adapts, seed by seed."""
    pairs: dict[str, Any] = {"loss": "bce", "bce_weight": 0.0, "negatives": None}
    transfer_rate, adapt_rate = body.rates
    for model in models:
        section = sections(body)[model] | pairs | {"encoder": body.encoder}
        yield Training(f"{model}-transfer", "transfer", section, rate=transfer_rate)

    # The checkpoint of the transfer has layers, exits and pooling.
    for seed in cascade_trainings.SEEDS:
        for model in models:
            kept = {key: sections(body)[model].get(key) for key in ("reranker", "sampling", "stop_gradient")}
            section = {key: value for key, value in kept.items() if value is not None} | pairs
            yield Training(f"{model}-{seed}", "wikiqa", section, seed, f"{model}-transfer", adapt_rate)


def wanted(models: str | None, body: Body) -> list[str]:
    """The models that an option names, or all if it is absent; 'none' is none of them. Raises SystemExit for
    an unknown one."""
    known = list(sections(body))
    if models == "none":
        return []
    names = models.split(",") if models is not None else known
    if unknown := set(names) - set(known):
        raise SystemExit(
            f"experiments.cascade_paper: no model {min(unknown)!r}; give --models some of {','.join(known)}"
        )
    return names


def tables(work: Path, lists: Questions, body: Body, end: str) -> dict[str, ExitScores]:
    """Model → scores at its exits, of the trainings with this end of their name that are complete."""
    folders = {model: work / f"{model}-{end}" for model in sections(body)}
    return {
        model: exit_scores(folder, lists, body.depth) for model, folder in folders.items() if finished(folder)
    }


def rows_of(scored: dict[str, ExitScores], body: Body) -> dict[str, Row]:
    """Rows of one seed's models, or of one test's: MT, SR if it has all of its models, and each cascade."""
    monolithic = {f"mt{depth}": scored[f"mt{depth}"] for depth in body.exits if f"mt{depth}" in scored}
    deepest = f"mt{body.depth}"
    rows = {("monolithic" if name == deepest else name): row(table) for name, table in monolithic.items()}
    for name in WAYS:
        if name in scored:
            rows |= cascade_rows(name, scored[name], ALPHAS)
    if len(monolithic) == len(body.exits):
        rows |= sequential_rows(list(monolithic.values()), ALPHAS)
    return rows


def pairs(body: Body) -> Iterator[tuple[str, str]]:
    """Pairs of rows to compare: the paper's claims, and its ablations."""
    ends = ("a0", *(f"a{10 * alpha:.0f}" for alpha in ALPHAS))
    for name in WAYS:
        yield from ((f"{name}_{end}", "monolithic") for end in ends)
        yield from ((f"{name}_exit{depth}", f"mt{depth}") for depth in body.exits[:-1])
        if name != "paper":
            yield from ((f"{name}_{end}", f"paper_{end}") for end in ends)
    yield from ((f"paper_{end}", f"sequential_{end}") for end in ends)
    yield "paper_a5", f"mt{body.exits[1]}"  # of about its cost


def measured(data: Path, work: Path, body: Body) -> dict[str, float | int | str]:
    lists = answered(data / "wikiqa/wikiqa-test.parquet")
    result: dict[str, float | int | str] = {"wikiqa_questions": len(lists)}
    ends = {"transferred": ["transfer"], "wikiqa": [str(seed) for seed in cascade_trainings.SEEDS]}
    for name, trained in ends.items():
        rows: dict[str, list[Row]] = {}
        for end in trained:
            scored = tables(work, lists, body, end)
            for model in scored if name == "wikiqa" else ():
                result[f"seeds_{model}"] = int(result.get(f"seeds_{model}", 0)) + 1
            for key, one in rows_of(scored, body).items():
                rows.setdefault(key, []).append(one)

        test = f"{body.prefix}{name}"
        for key, seeds in rows.items():
            result |= figures(test, key, seeds)
            say(f"{test} {key:<16} MAP {result[f'{test}_map_{key}']:.2f}")
        for row_name, over in pairs(body):
            if row_name in rows and over in rows:
                result |= compared(test, row_name, over, rows)
    return result


def main() -> None:
    options = arguments(
        "cascade_paper",
        __doc__ or "",
        paths={"work": "folder of the trainings, which stay; out/cascade_paper, or out/cascade_paper_base"},
        choices={"body": tuple(BODIES)},
        texts={"models": "those to train, with commas between, or 'none'; all if absent"},
        numbers={"transfer": "questions of each set of the transfer; those of cascade_trainings if absent"},
    )
    if options.smoke:
        small = {name: Body(small_encoder(), (2, 6), body.prefix) for name, body in BODIES.items()}
        shrink(globals(), BODIES=small, WAYS={name: WAYS[name] for name in ("paper", "early")})
        shrink(vars(cascade_trainings), SEEDS=(0, 1), ADAPT_EPOCHS=1)
    elif options.transfer:
        most = {name: int(options.transfer) for name in cascade_trainings.TRANSFER}
        shrink(vars(cascade_trainings), TRANSFER=most)
    torch.set_num_threads(1)

    body, data = BODIES[options.body], options.data.resolve()
    name = "cascade_paper" if options.body == "default" else "cascade_paper_base"
    models = wanted(options.models, body)
    with work_folder(options, name) as folder:
        work = folder / f"transfer_{options.transfer:.0f}" if options.transfer else folder
        work.mkdir(exist_ok=True)
        cascade_trainings.prepare(data, work)
        for training in trainings(body, models):
            say(cascade_trainings.train(work, training))
        result = measured(data, work, body)
        result["transfer_questions"] = len(answered(work / "transfer-train.parquet"))
        result["trained_by"] = trained_by(work)
    finish(name, result, options.save)


if __name__ == "__main__":
    main()
