"""Tuning from data set to folder, with a made cascade whose early exits are noisy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.indexing.shards.dense import find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, USAGE, JobError
from answermill.pipelines.learn.evaluate.tune import Aims, shares, tune, tune_files
from answermill.ranking.entry import SHIPPED
from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.cascade.exits import ExitRows
from answermill.ranking.rerankers.cascade.schedule import relative_cost
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.ranked import RankedList
from answermill.schemas.schedule import ExitScore, ScheduleScore


class NoisyCascade:
    """Scores that depend on the candidate alone, and see the word 'right' the better the deeper the exit."""

    exits = (2, 3, 4, 5, 6)
    depth = 6

    def __init__(self) -> None:
        self.seen: list[int] = []

    def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
        self.seen.append(len(lists))
        rows = []
        for ranked in lists:
            scores = np.empty((len(ranked.candidates), len(self.exits)))
            for n, candidate in enumerate(ranked.candidates):
                key = f"{ranked.question.question_id} {candidate.candidate_id}".encode()
                noise = np.random.default_rng(int.from_bytes(hashlib.sha256(key).digest()[:4], "big")).normal(
                    size=5
                )
                scores[n] = noise * (1, 0.8, 0.7, 0.6, 0.5) + 2 * ("right" in candidate.text)
            rows.append(ExitRows(scores, np.array([4 + len(c.text.split()) for c in ranked.candidates])))
        return rows


def write_set(file: Path, questions: int, seed: int) -> Path:
    generator = np.random.default_rng(seed)
    lines = ["question_id\tquestion\tsentence\tlabel"]
    for q in range(questions):
        count = int(generator.integers(8, 25))
        right = int(generator.integers(0, count))
        for n in range(count):
            words = "word " * int(generator.integers(1, 9))
            lines.append(
                f"{seed}-{q}\tWhat is {q}?\tNumber {n} "
                f"{words}{'right' if n == right else 'wrong'}.\t{int(n == right)}"
            )

    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sets")
    return write_set(folder / "dev.tsv", 160, 1), write_set(folder / "held.tsv", 80, 2)


AIMS = Aims(shares=(0.1, 0.3, 0.6), budget=0.62, metric="MAP")


@pytest.fixture(scope="module")
def tuned(sets, tmp_path_factory: pytest.TempPathFactory):
    tuning = tune(NoisyCascade(), sets[0], AIMS, held_out=sets[1], checkpoint="folder")
    out = tmp_path_factory.mktemp("tuned") / "out"
    tuning.write(out)
    return tuning, out


def test_the_model_sees_each_set_once_in_blocks(sets) -> None:
    model = NoisyCascade()
    tune(model, sets[0], AIMS, held_out=sets[1])
    assert model.seen == [64, 64, 32, 64, 16]


def test_every_schedule_is_a_row_with_its_cost(tuned) -> None:
    rows = ScheduleScore.rows(pq.read_table(tuned[1] / "schedules.parquet"))
    assert len(rows) == 3**4 + 3  # nothing dropped, .4 and .5 are not in the grid
    by_drops = {row.drops: row for row in rows}
    none = by_drops[0, 0, 0, 0]
    assert (none.cost, none.token_cost, none.lost, none.loss) == (1, 1, 0, 0)
    for row in rows:
        assert row.cost == pytest.approx(relative_cost(NoisyCascade.exits, row.drops, 6), abs=0.06)
    assert by_drops[0.6, 0.6, 0.6, 0.6].map < by_drops[0.1, 0.1, 0.1, 0.1].map < none.map + 0.02


def test_the_exits_scores_are_kept_for_every_candidate(tuned, sets) -> None:
    rows = ExitScore.rows(pq.read_table(tuned[1] / "exit_scores.parquet"))
    assert len(rows) == len(sets[0].read_text().splitlines()) - 1
    assert {row.exits for row in rows} == {NoisyCascade.exits} and {len(row.scores) for row in rows} == {5}
    assert sum(row.label for row in rows) == 160 and min(row.tokens for row in rows) > 4


def test_the_chosen_schedules_stand_in_one_flat_object(tuned) -> None:
    tuning, out = tuned
    values = json.loads((out / "schedules.json").read_text())
    assert not any(isinstance(value, dict) for value in values.values())
    assert (
        values["budget_cost"] <= 0.62
        and values["none_drops"] == [0, 0, 0, 0]
        and values["uniform_0.3_drops"] == [0.3] * 4
    )
    affordable = tuning.replayed.cost <= 0.62
    assert (
        values["budget_MAP"] == tuning.replayed.metrics["MAP"][affordable].max() >= values["uniform_0.4_MAP"]
    )

    assert values["guarantee_cost"] < 1 and values["guarantee_p"] <= 0.1
    assert values["guarantee"].startswith(
        "P(an answerable question loses every correct candidate) ≤ 0.05 with confidence 0.9"
    )
    assert values["none_held_out_cost"] == 1 and 0 <= values["guarantee_held_out_loss"] < 0.15
    assert values["checkpoint"] == "folder" and values["schedules"] == 84


def test_people_get_a_table_with_the_chosen_ones(tuned) -> None:
    said = list(tuned[0].lines())
    assert "160 questions, 160 answerable" in said[0] and said[0].endswith(
        "exits after layers 2 3 4 5 6 of 6"
    )
    assert said[4].split() == ["drops", "cost", "tokens", "P@1", "MAP", "MRR", "nDCG@10", "lost"]
    names = [line.split()[0] for line in said if line]
    assert names.count("budget") == names.count("guarantee") == 2  # dev and held out
    assert any("held out: 80 answerable questions" in line for line in said)


def test_the_plot_is_there_and_the_same_run_gives_the_same_bytes(tuned, sets, tmp_path: Path) -> None:
    tune(NoisyCascade(), sets[0], AIMS, held_out=sets[1], checkpoint="folder").write(tmp_path / "again")
    names = sorted(path.name for path in tuned[1].iterdir())
    assert names == ["cost.png", "cost.svg", "exit_scores.parquet", "schedules.json", "schedules.parquet"]
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (tuned[1] / name).read_bytes(), name
    assert (tuned[1] / "cost.png").read_bytes().startswith(b"\x89PNG")
    svg = (tuned[1] / "cost.svg").read_text()
    assert svg.startswith("<?xml") and "<dc:date>" not in svg


def test_without_a_held_out_set_and_with_few_questions_nothing_is_promised(tmp_path: Path) -> None:
    tuning = tune(NoisyCascade(), write_set(tmp_path / "few.tsv", 20, 3), AIMS)
    assert tuning.held is None and tuning.chosen["guarantee"] == (0, 0, 0, 0)
    tuning.write(tmp_path / "out")
    values = json.loads((tmp_path / "out" / "schedules.json").read_text())
    assert values["held_out"] is None and values["guarantee_p"] is None
    assert "45 needed; nothing is dropped" in values["guarantee"]


def test_with_zero_in_the_grid_an_exit_that_misleads_is_left_out(sets) -> None:
    class Misled(NoisyCascade):
        def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
            rows = super().exit_scores(lists)
            return [ExitRows(row.scores * (-1, 1, 1, 1, 1), row.tokens) for row in rows]

    without = tune(Misled(), sets[0], Aims(shares=(0.3, 0.6), budget=0.7, metric="MAP"))
    tuning = tune(Misled(), sets[0], Aims(shares=(0.0, 0.3, 0.6), budget=0.7, metric="MAP"))
    assert tuning.chosen["budget"][0] == 0 < tuning.chosen["budget"][1]
    best = [each.replayed.metrics["MAP"][each.number("budget")] for each in (without, tuning)]
    assert best[1] > best[0] + 0.1


@pytest.mark.parametrize(
    ("aims", "says"),
    [
        ({"shares": (0.1, 1.0)}, "--grid 0.1 1: give shares of at least 0 and below 1"),
        ({"shares": ()}, "--grid : give shares"),
        ({"budget": 0.0}, "--budget 0: give a cost above 0"),
        ({"metric": "MAPP"}, "--metric MAPP: unknown; known: P@1, MAP"),
        ({"delta": 0.0}, "--delta 0: give a probability"),
        ({"epsilon": 1.0}, "--epsilon 1: give a probability"),
    ],
)
def test_aims_that_cannot_be_meant_are_refused(aims, says: str) -> None:
    with pytest.raises(JobError) as e:
        Aims(**aims)
    assert says in str(e.value) and e.value.code == USAGE


def test_a_budget_that_nothing_can_meet_is_refused_before_the_model_runs(sets) -> None:
    model = NoisyCascade()
    with pytest.raises(
        JobError, match=r"--budget 0.3: the cheapest schedule, 0.6 0.6 0.6 0.6, costs 0.\d+; raise it"
    ) as e:
        tune(model, sets[0], Aims(budget=0.3))
    assert e.value.code == USAGE and not model.seen


def test_a_grid_that_is_too_large_is_refused_before_the_model_runs(sets) -> None:
    model = NoisyCascade()
    with pytest.raises(JobError, match="160,000 schedules for 5 exits; 100,000 is the most"):
        tune(model, sets[0], Aims(shares=tuple(n / 20 for n in range(20))))
    assert not model.seen


def test_the_dev_set_is_no_held_out_set(sets) -> None:
    with pytest.raises(JobError, match="is the dev set") as e:
        tune(NoisyCascade(), sets[0], AIMS, held_out=sets[0])
    assert e.value.code == USAGE


def test_a_set_without_answers_and_a_score_that_is_no_number_are_refused(sets, tmp_path: Path) -> None:
    empty = tmp_path / "empty.tsv"
    empty.write_text("question_id\tquestion\tsentence\tlabel\na\tWho?\tNobody.\t0\n")
    with pytest.raises(JobError, match="1 question, none with a correct candidate") as e:
        tune(NoisyCascade(), empty, AIMS)
    assert e.value.code == BAD_DATA

    class Broken(NoisyCascade):
        def exit_scores(self, lists: Sequence[RankedList]) -> list[ExitRows]:
            rows = super().exit_scores(lists)
            rows[1].scores[0, 2] = np.nan
            return rows

    with pytest.raises(JobError, match="score nan after layer 4 for candidate 0 of question 1-1") as e:
        tune(Broken(), sets[0], AIMS)
    assert e.value.code == BAD_DATA


def test_shares_are_numbers_with_commas() -> None:
    assert shares("0.1,0.2, 0.3") == (0.1, 0.2, 0.3)
    with pytest.raises(JobError, match=r"--grid 0.1;0.2: not numbers") as e:
        shares("0.1;0.2")
    assert e.value.code == USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--dev", "absent.tsv"), INPUT_MISSING, "absent.tsv: no such file"),
        (("--dev", "dev.tsv", "--held-out", "absent.tsv"), INPUT_MISSING, "absent.tsv: no such file"),
        (("--dev", "dev.tsv", "--delta", "0"), USAGE, "--delta 0"),
        (("--dev", "dev.tsv", "--grid", "0.1,x"), USAGE, "--grid 0.1,x"),
    ],
)
def test_the_command_refuses_with_what_to_type(
    sets, monkeypatch, capsys, arguments, code: int, says: str
) -> None:
    monkeypatch.chdir(sets[0].parent)
    with pytest.raises(SystemExit) as e:
        main(["tune", "no-checkpoint", "--out", "out", *arguments])
    assert (e.value.code, says in capsys.readouterr().err) == (code, True)
    assert not Path("out").exists()


def test_a_folder_that_is_no_cascade_s_checkpoint_is_refused(sets, tmp_path: Path) -> None:
    with pytest.raises(JobError) as e:
        tune_files(str(tmp_path), sets[0], AIMS)
    assert e.value.code == SETTINGS


def test_the_shipped_cascade_is_tuned_from_the_scores_that_it_serves(tmp_path: Path) -> None:
    dev = write_set(tmp_path / "dev.tsv", 6, 3)
    tuned = tune_files(str(SHIPPED / "cascade"), dev, Aims(shares=(0.1, 0.6), budget=0.9))
    model = load_reranker("cascade", model=find_model)
    lists = [ranked_list(rows) for rows in by_question(read_dataset(dev))]
    assert tuned.table.exits == model.exits == (2, 3, 4, 5, 6)
    scores = np.concatenate([rows.scores for rows in model.exit_scores(lists)])
    np.testing.assert_allclose(tuned.table.scores, scores, rtol=0, atol=0.51e-6)  # a score has six places
    schedule = tuned.replayed.schedules[-1]
    served = load_reranker("cascade", model=find_model, drop=list(schedule))
    served.rerank(lists)

    costs = served.costs()
    assert tuned.replayed.cost[-1] == pytest.approx(
        costs["layer_candidates"] / costs["full_layer_candidates"]
    )
    assert tuned.replayed.token_cost[-1] == pytest.approx(costs["layer_tokens"] / costs["full_layer_tokens"])
