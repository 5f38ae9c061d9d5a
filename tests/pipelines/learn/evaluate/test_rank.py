"""Rankers by name: rules, and rerankers with their own settings."""

from __future__ import annotations

import json

import pytest

from answermill.__main__ import main
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, SETTINGS, USAGE, JobError
from answermill.pipelines.learn.evaluate.evaluate import evaluate
from answermill.pipelines.learn.evaluate.rank import RankOptions
from testing.labelled_set import write_labelled


def test_a_reranker_by_name_is_evaluated_in_the_order_it_leaves(shared_data):
    result = evaluate("overlap", shared_data / "wikiqa" / "wikiqa-test.parquet")
    assert [round(100 * v, 2) for v in result.means["P@1"][:3]] == [56.79, 56.79, 56.79]
    assert result.missing == 0


def test_what_a_reranker_drops_is_missing(tmp_path):
    path = write_labelled(
        tmp_path / "set.parquet", [("a", "A?", [0, 1])]
    )  # two-word sentences are no complete ones
    with pytest.raises(JobError, match="no score in it"):
        evaluate("complete_sentence", path)


def test_a_ranker_by_name_needs_a_data_set(tmp_path):
    (tmp_path / "qrels.txt").write_text("a 0 y 1\n")
    with pytest.raises(JobError, match="WO needs texts to rank") as e:
        evaluate("WO", tmp_path / "qrels.txt")
    assert e.value.code == BAD_DATA


def test_options_that_are_not_for_this_ranker_are_refused(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "A?", [0, 1])])
    run = tmp_path / "run.txt"
    run.write_text("a Q0 a-0 1 2 t\n")

    for scores, options, code, says in (
        ("RR", {"checkpoint": "x"}, SETTINGS, "RR takes no checkpoint"),
        ("overlap", {"checkpoint": "x"}, SETTINGS, "overlap takes no checkpoint"),
        (
            "cosinet",
            {"checkpoint": "x"},
            INPUT_MISSING,
            "x is no checkpoint of cosinet: there is no such folder",
        ),
        (str(run), {"checkpoint": "x"}, USAGE, "--checkpoint x is for a reranker by name"),
        (str(run), {"settings": ["drop=[0.2]"]}, USAGE, r"--set drop=\[0.2\] is for a reranker by name"),
        ("WO", {"words": "letters"}, USAGE, "--words letters: unknown; known: cosinet, blanks"),
        ("WO", {"settings": ["drop=[0.2]"]}, SETTINGS, "WO is a rule and has no settings"),
        (
            "overlap",
            {"settings": ["drop=[0.2]"]},
            SETTINGS,
            "overlap has no setting 'drop'; it has no settings",
        ),
        (
            "cascade",
            {"settings": ["keep=3"]},
            SETTINGS,
            "cascade has no setting 'keep'; its settings: weights, weights_file, missing_context, "
            "precision, int8_loss, drop",
        ),
        ("cascade", {"settings": ["drop"]}, SETTINGS, "--set drop: write key=value"),
        (
            "cascade",
            {"settings": ["drop=[1.5]"]},
            SETTINGS,
            "--set drop.0: Input should be less than 1, not 1.5",
        ),
        ("cascade", {"settings": ["drop=[0.1, 0.2]"]}, SETTINGS, "2 drops"),
        ("peasi.easi", {"settings": ["threshold=0.5"]}, SETTINGS, "`threshold` of peasi.easi needs passages"),
    ):
        with pytest.raises(JobError, match=says) as e:
            evaluate(scores, path, ranker=RankOptions(**options))
        assert e.value.code == code, says
    for scores, options, says in (
        ("overlap", {"by": "position"}, "--by position is for a scored/ folder, and overlap ranks by itself"),
        ("overlap", {"ranker": RankOptions(words="blanks")}, "--words blanks is for WO and WO"),
        (str(run), {"ranker": RankOptions(words="blanks")}, "--words blanks is for a reranker"),
    ):
        with pytest.raises(JobError, match=says) as e:
            evaluate(scores, path, **options)
        assert e.value.code == USAGE, says


def test_a_pruned_cascade_is_measured_and_what_it_drops_is_not_found(tmp_path, capsys):
    path = write_labelled(
        tmp_path / "set.parquet", [("a", "A?", [0, 1] + [0] * 8), ("b", "B?", [1] + [0] * 9)]
    )
    whole = evaluate("cascade", path)
    pruned = evaluate("cascade", path, ranker=RankOptions(settings=["drop=[0.5]"]))
    assert (whole.candidates, whole.missing) == (20, 0)
    assert (pruned.candidates, pruned.missing) == (2, 18)  # of each question 10, 5, 3, 2 and 1 enter an exit
    assert pruned.scores == "cascade drop=[0.5]"

    with pytest.raises(SystemExit) as e:
        main(
            [
                "evaluate",
                "cascade",
                "--labels",
                str(path),
                "--set",
                "drop=[0.5]",
                "--json",
                str(tmp_path / "figures.json"),
            ]
        )

    assert e.value.code == 0 and "18 judged candidates without a score" in capsys.readouterr().out
    assert json.loads((tmp_path / "figures.json").read_text())["candidates_missing"] == 18
