"""HAS with other values of β and δ: the form of its Figures 2 and 3, on MiniLM-L6 as the body.

Test set, in percent, protocol `answerable`, mean and deviation over the seeds of `hashing_quality`.
`wikiqa_map_beta_B`, MRR too, is `has` with that β where δ is 1e-6, `beta_5` among them; `wikiqa_map_delta_eN`
is with δ = 10^-N where β is 5 (`delta_0`: none). Each point is compared with β 5, δ 1e-6:
`wikiqa_POINT_over_beta_5_difference` is MAP's, of each question's mean over the seeds, with its 95 % interval
(`_low`, `_high`) and `_p`.

--set insuranceqa, Figure 2, has P@1 in the place of MAP, trains as `hashing_quality --regime long` does, and
saves to `hashing_sweeps_insuranceqa.json`.

Trainings are those of `hashing_quality`; with one --work for both commands complete ones are not repeated.
"""

from __future__ import annotations

from pathlib import Path

import torch

from experiments import hashing_quality
from experiments.exit_rows import Row, compared, figures
from experiments.hashing_quality import LONG_SETS, Run, key_of, one, prepare
from testing.harness import arguments, finish, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = "hours; --set insuranceqa a day and a half of a core"
DECIDED = "Nothing ships by it: δ of 10⁻⁴ costs MAP, and no other point can be told from β 5 and δ 10⁻⁶."

DEFAULT = "beta_5"
POINTS: dict[str, dict[str, float]] = {
    DEFAULT: {},
    "beta_1": {"beta": 1.0},
    "beta_2": {"beta": 2.0},
    "beta_10": {"beta": 10.0},
    "beta_20": {"beta": 20.0},
    "delta_0": {"delta": 0.0},
    "delta_e7": {"delta": 1e-7},
    "delta_e5": {"delta": 1e-5},
    "delta_e4": {"delta": 1e-4},
}
RESULTS = {"wikiqa": "hashing_sweeps", "insuranceqa": "hashing_sweeps_insuranceqa"}
"""Set → its saved result."""
TRAININGS = {"wikiqa": "hashing_quality", "insuranceqa": "hashing_quality_long"}
"""Set → the folder of its trainings in out/."""


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/hashing_quality, or .._long for insuranceqa"}
    options = arguments("hashing_sweeps", __doc__ or "", paths=paths, choices={"set": tuple(RESULTS)})
    if options.set == "insuranceqa":
        shrink(vars(hashing_quality), SETS=LONG_SETS)
    if options.smoke:
        sets = hashing_quality.SETS
        short = sets | {options.set: sets[options.set]._replace(epochs=1, seeds=1)}
        shrink(vars(hashing_quality), ENCODER=small_encoder(), SETS=short)
        shrink(globals(), POINTS={name: POINTS[name] for name in (DEFAULT, "beta_1")})
    torch.set_num_threads(1)
    with work_folder(options, TRAININGS[options.set]) as work:
        result = trained_and_measured(options.data.resolve(), work, options.set)
    finish(RESULTS[options.set], result, options.save)


def trained_and_measured(data: Path, work: Path, name: str) -> dict[str, float | int | str]:
    prepare(data, work)
    settings = hashing_quality.SETS[name]
    rows: dict[str, list[Row]] = {point: [] for point in POINTS}
    for seed in range(settings.seeds):
        for point, values in POINTS.items():
            rows[point].append(one(data, work, Run(name, "has", seed, **values)))
    result: dict[str, float | int | str] = {"seeds": settings.seeds}
    for point, seeds in rows.items():
        result |= figures(name, point, seeds)
        if point != DEFAULT:
            result |= compared(name, point, DEFAULT, rows, key_of(settings.metrics[0]))
    return result | {"trained_by": trained_by(work)}


if __name__ == "__main__":
    main()
