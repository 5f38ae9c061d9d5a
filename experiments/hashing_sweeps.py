"""HAS with other values of β and δ: the form of its Figures 2 and 3, on MiniLM-L6 as the body.

WikiQA's test set, MAP and MRR in percent, protocol `answerable`, mean and deviation over the seeds of
`hashing_quality`. `wikiqa_map_beta_B` is `has` with that β where δ is 1e-6, `beta_5` among them;
`wikiqa_map_delta_eN` is with δ = 10^-N where β is 5 (`delta_0`: none). Each point is compared with β 5, δ
1e-6: `wikiqa_POINT_over_beta_5_difference` is MAP's, of each question's mean over the seeds, with its 95 %
interval (`_low`, `_high`) and `_p`.

Trainings are those of `hashing_quality`; with one --work for both commands complete ones are not repeated.
"""

from __future__ import annotations

from pathlib import Path

import torch

from experiments import hashing_quality
from experiments.exit_rows import Row, compared, figures
from experiments.hashing_quality import SETS, Run, one, prepare
from testing.harness import arguments, finish, shrink, trained_by, work_folder
from testing.smoke_data import small_encoder

TAKES = "hours; [--work FOLDER]"
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
SEEDS = SETS["wikiqa"].seeds


def main() -> None:
    paths = {"work": "folder of the trainings, which stay; out/hashing_quality"}
    options = arguments("hashing_sweeps", __doc__ or "", paths=paths)
    if options.smoke:
        one_epoch = SETS | {"wikiqa": SETS["wikiqa"]._replace(epochs=1)}
        shrink(vars(hashing_quality), ENCODER=small_encoder(), SETS=one_epoch)
        shrink(globals(), SEEDS=1, POINTS={name: POINTS[name] for name in (DEFAULT, "beta_1")})
    torch.set_num_threads(1)
    with work_folder(options, "hashing_quality") as work:
        result = trained_and_measured(options.data.resolve(), work)
    finish("hashing_sweeps", result, options.save)


def trained_and_measured(data: Path, work: Path) -> dict[str, float | int | str]:
    prepare(data, work)
    rows: dict[str, list[Row]] = {name: [] for name in POINTS}
    for seed in range(SEEDS):
        for name, settings in POINTS.items():
            rows[name].append(one(data, work, Run("wikiqa", "has", seed, **settings)))
    result: dict[str, float | int | str] = {"seeds": SEEDS}
    for name, seeds in rows.items():
        result |= figures("wikiqa", name, seeds)
        if name != DEFAULT:
            result |= compared("wikiqa", name, DEFAULT, rows)
    return result | {"trained_by": trained_by(work)}


if __name__ == "__main__":
    main()
