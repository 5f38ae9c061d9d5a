"""Evaluations, from files to the table: published figures, protocols, and the wrong ways they stand
against."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.pipelines.errors import BAD_DATA, USAGE, JobError
from answermill.pipelines.learn.evaluate.evaluate import Counted, evaluate
from answermill.pipelines.learn.evaluate.plot import plot_coverage
from answermill.pipelines.learn.evaluate.rank import RankOptions
from answermill.pipelines.runs.manifests.manifest import Manifest
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.spec import Maker
from answermill.ranking.evaluation.risk_coverage import risk_coverage
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import Stage, run_stages
from answermill.ranking.rerankers.baselines.complete_sentence import CompleteSentence
from answermill.ranking.rerankers.baselines.overlap import Overlap
from answermill.schemas.evaluation import QuestionScore
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import ScoredCandidate
from testing.labelled_set import write_labelled


def percent(evaluation, metric):
    value, worst, best, _ = evaluation.means[metric]
    return tuple(round(100 * v, 2) for v in (value, worst, best))


@pytest.fixture(scope="session")
def wikiqa_test(shared_data):
    return shared_data / "wikiqa" / "wikiqa-test.parquet"


# Published figures.


def test_wikiqa_in_document_order_is_the_papers_rr_row(wikiqa_test):
    evaluation = evaluate("RR", wikiqa_test)
    assert (evaluation.kept, evaluation.dropped, evaluation.candidates) == (243, 390, 2351)
    assert [percent(evaluation, m)[0] for m in ("P@1", "MAP", "MRR")] == [46.09, 64.21, 64.27]


def test_the_papers_wo_row_is_the_worst_order_of_its_ties(wikiqa_test):
    """Cosinet Table 2 gives 32.51 / 51.02. Their expectation is 10 points higher."""
    evaluation = evaluate("WO", wikiqa_test)
    assert percent(evaluation, "P@1") == (45.12, 32.51, 66.26)
    assert percent(evaluation, "MAP")[:2] == (61.06, 51.02)


def test_the_papers_wo_rr_row_comes_out_with_its_tokens(wikiqa_test):
    evaluation = evaluate("WO+RR", wikiqa_test)
    assert percent(evaluation, "P@1") == (56.38, 56.38, 56.38)
    assert percent(evaluation, "MAP") == (68.25, 68.25, 68.25)


@pytest.mark.nightly
def test_the_papers_squad_rows_are_words_between_blanks_and_the_worst_order(shared_data):
    """Cosinet Table 2: WO 65.48 / 77.90, WO+RR 73.12 / 83.60; ours has other sentences, of a rule in place of
    a parser."""
    path = shared_data / "squad" / "squad-sent-test.parquet"
    wo, both = (evaluate(rule, path, ranker=RankOptions(words="blanks")) for rule in ("WO", "WO+RR"))
    assert percent(wo, "P@1")[1] == 65.6 and percent(wo, "MAP")[1] == 77.97
    assert percent(both, "P@1")[0] == 73.31 and percent(both, "MAP")[0] == 83.69


def test_random_order_has_no_published_row_that_it_equals(wikiqa_test):
    """Cosinet Table 2 gives 14.43 / 25.15, one draw or another protocol: neither is the expectation of any of
    ours."""
    figures = {
        p: (percent(evaluate("random", wikiqa_test, protocol=p), "P@1")[0])
        for p in ("raw", "answerable", "clean")
    }
    assert figures == {"raw": 7.81, "answerable": 20.36, "clean": 18.34}


@pytest.mark.parametrize(
    ("run", "reference", "questions", "map_", "mrr"),
    [
        ("CNN", "test-filtered", 237, 61.90, 62.81),
        ("CNN", "test", 243, 62.84, 63.73),
        ("CNN-Cnt", "test-filtered", 237, 65.91, 67.38),
        ("CNN-Cnt", "test", 243, 66.75, 68.18),
    ],
)
def test_the_runs_published_with_wikiqa_get_their_published_figures(
    shared_data, run, reference, questions, map_, mrr
):
    folder = shared_data / "wikiqa" / "published-run"
    evaluation = evaluate(str(folder / f"WikiQA.{run}.test.rank.gz"), folder / f"WikiQA-{reference}.ref.gz")
    assert evaluation.kept == questions
    assert (percent(evaluation, "MAP")[0], percent(evaluation, "MRR")[0]) == (map_, mrr)


def test_anserinis_run_gets_its_published_precision(shared_data):
    folder = shared_data / "retrieval" / "cacm"
    evaluation = evaluate(str(folder / "anserini-bm25-run.txt"), folder / "qrels.txt", metrics=("P@30",))
    assert percent(evaluation, "P@30")[0] == 19.42
    assert (evaluation.kept, evaluation.unknown_questions, evaluation.missing) == (52, 12, 493)
    assert evaluation.missing_correct == 493 and evaluation.unjudged["1"] > 0.3


# Protocols, and the wrong ways.


def test_a_constant_scorer_is_worth_chance_and_full_marks_under_compat_alone(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "A?", [0, 0, 0, 1]), ("b", "B?", [0, 1, 0, 0])])
    assert percent(evaluate("random", path), "MRR")[0] == 52.08
    compat = evaluate("random", path, protocol="compat")
    assert percent(compat, "MRR") == (100, 25, 100)
    assert "ties fall to the correct" in "\n".join(compat.lines())


def test_questions_are_told_apart_by_id_but_under_compat_by_text(tmp_path):
    path = write_labelled(
        tmp_path / "set.parquet", [("a", "Same?", [1, 0]), ("b", "Same?", [0, 0, 0, 1]), ("c", "No?", [0])]
    )
    by_id, by_text = evaluate("RR", path), evaluate("RR", path, protocol="compat")
    assert (by_id.kept, by_id.dropped) == (2, 1) and percent(by_id, "MRR")[0] == 62.5
    assert (by_text.kept, by_text.dropped) == (1, 1) and percent(by_text, "MRR")[0] == 100
    assert [q.question_id for q in by_text.questions if q.metric == "MRR"] == ["a"]


def test_what_a_protocol_drops_is_said(tmp_path):
    path = write_labelled(
        tmp_path / "set.parquet", [("a", "A?", [0, 1]), ("b", "B?", [0, 0]), ("c", "C?", [1])]
    )
    kept = {
        p: (evaluation.kept, evaluation.dropped)
        for p in ("raw", "answerable", "clean")
        if (evaluation := evaluate("RR", path, protocol=p))
    }
    assert kept == {"raw": (3, 0), "answerable": (2, 1), "clean": (1, 2)}
    assert percent(evaluate("RR", path, protocol="raw"), "P@1")[0] == 33.33


def test_a_protocol_that_keeps_nothing_is_an_error(tmp_path):
    with pytest.raises(JobError, match=r"protocol answerable keeps no question of .*, which has 1") as e:
        evaluate("RR", write_labelled(tmp_path / "set.parquet", [("a", "A?", [0, 0])]))
    assert e.value.code == BAD_DATA


def test_missing_candidates_count_as_not_found_and_are_reported(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "A?", [1, 0, 1]), ("b", "B?", [1, 0])])
    (tmp_path / "run.txt").write_text("a Q0 a-0 1 2 t\na Q0 a-1 2 1 t\n")
    evaluation = evaluate(str(tmp_path / "run.txt"), path)
    assert (evaluation.missing, evaluation.missing_correct, evaluation.empty_questions) == (3, 2, 1)
    assert percent(evaluation, "MAP")[0] == 25.0  # (1/2 + 0) / 2
    said = "\n".join(evaluation.lines())
    assert "3 judged candidates without a score, 2 of them correct" in said
    assert "1 of the questions kept have no score and count 0" in said


def test_unjudged_candidates_are_reported_by_depth_with_the_condensed_value_beside(tmp_path):
    (tmp_path / "run.txt").write_text("a Q0 x 1 3 t\na Q0 y 2 2 t\na Q0 z 3 1 t\n")
    (tmp_path / "qrels.txt").write_text("a 0 y 1\na 0 z 0\n")
    evaluation = evaluate(str(tmp_path / "run.txt"), tmp_path / "qrels.txt", metrics=("P@1", "MRR"))
    assert evaluation.unjudged == {"1": 1.0, "5": 1 / 3, "10": 1 / 3, "100": 1 / 3, "all": 1 / 3}
    assert evaluation.means["MRR"] == (0.5, 0.5, 0.5, 1.0)


def test_settings_that_mean_nothing_are_refused(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "A?", [0, 1])])
    (tmp_path / "run.txt").write_text("a Q0 a-0 1 2 t\n")
    for arguments, says in (
        ({"scores": str(tmp_path / "run.txt"), "by": "overlap"}, "--by overlap is for a scored/ folder"),
        ({"scores": "RR", "metrics": ("P@x",)}, "unknown metric 'P@x'"),
        ({"scores": "RR", "protocol": "best"}, "unknown protocol 'best'; known: raw"),
    ):
        with pytest.raises(JobError, match=says) as e:
            evaluate(labels=path, **arguments)
        assert e.value.code == USAGE


# Outputs.


def test_json_and_questions_say_what_the_table_says(tmp_path):
    path = write_labelled(
        tmp_path / "set.parquet", [("a", "A?", [0, 1]), ("b", "B?", [1, 0]), ("c", "C?", [0])]
    )
    evaluation = evaluate("WO", path)
    evaluation.write(tmp_path / "new" / "figures.json", tmp_path / "new" / "questions.parquet")
    figures = json.loads((tmp_path / "new" / "figures.json").read_text())
    assert figures["questions_kept"] == 2 and figures["protocol"] == "answerable"
    rows = QuestionScore.rows(pq.read_table(tmp_path / "new" / "questions.parquet"))
    assert {row.question for row in rows} == {"A?", "B?"}

    for metric in ("P@1", "MAP", "MRR", "nDCG@10"):
        values = [row.value for row in rows if row.metric == metric]
        assert sum(values) / len(values) == pytest.approx(figures[metric])
        assert f"{100 * figures[metric]:.2f}" in next(
            line for line in evaluation.lines() if line.startswith(metric)
        )


def test_the_sample_jobs_answers_are_evaluated_against_its_propagated_labels(sample_run):
    final = evaluate(str(sample_run / "scored"), sample_run / "labels" / "sentences")
    first = evaluate(str(sample_run / "scored"), sample_run / "labels" / "sentences", by="position")
    assert final.kept > 80 and 0.5 < final.means["P@1"][0] > first.means["P@1"][0] + 0.1
    assert final.unjudged["all"] > 0.5


# When to answer.


SURE = [("a", 0.9, 1), ("b", 0.8, 0), ("c", 0.7, 1), ("e", 0.1, 0)]
"""(question, score of its first candidate, its label); d has none. b and e have no correct candidate at
all."""


@pytest.fixture
def some_answered(tmp_path):
    """A run and the data set of its questions; a second candidate stands behind each first one."""
    sets = [
        ("a", "A?", [1, 0]),
        ("b", "B?", [0, 0]),
        ("c", "C?", [1, 1]),
        ("d", "D?", [1, 0]),
        ("e", "E?", [0, 0]),
    ]
    rows = [f"{q} Q0 {q}-{n} 1 {score - n} t\n" for q, score, _ in SURE for n in (0, 1)]
    (tmp_path / "run.txt").write_text("".join(rows))
    return str(tmp_path / "run.txt"), write_labelled(tmp_path / "set.parquet", sets)


def test_all_questions_count_for_the_coverage_whatever_the_protocol(some_answered):
    evaluations = [
        evaluate(*some_answered, protocol=p, coverage=True) for p in ("raw", "answerable", "clean", "compat")
    ]
    assert len({m.kept for m in evaluations}) > 1
    for m in evaluations:
        assert m.curve.coverage.tolist() == [0.2, 0.4, 0.6, 0.8]
        assert m.curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])

    figures = evaluations[0].summary()
    assert (figures["questions_all"], figures["questions_answered"], figures["accuracy_answered"]) == (
        5,
        4,
        0.5,
    )
    assert figures["aurc"] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert [figures[f"coverage_at_risk_{r}pct"] for r in (5, 10, 20)] == [0.2] * 3
    assert figures["confidence_at_risk_10pct"] == 0.9

    said = list(evaluations[0].lines())
    assert "all 5 questions: 4 answered, 50.00 % of them right; the most confident first, AURC 0.3333" in said
    assert said[-1] == "at most 20 % wrong:  20.00 % answered, those with a score of at least 0.9"


def test_without_the_option_nothing_is_said_of_coverage(some_answered):
    evaluation = evaluate(*some_answered)
    assert (
        evaluation.curve is None
        and "aurc" not in evaluation.summary()
        and "AURC" not in "\n".join(evaluation.lines())
    )


def test_questions_of_the_same_text_are_two_for_the_coverage_under_compat_too(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "Same?", [1, 0]), ("b", "Same?", [0, 0, 0, 1])])
    assert evaluate("RR", path, protocol="compat", coverage=True).curve.questions == 2


def test_a_tie_for_the_first_place_is_right_by_its_share_of_correct_ones(tmp_path):
    path = write_labelled(tmp_path / "set.parquet", [("a", "A?", [0, 0, 0, 1]), ("b", "B?", [0, 0])])
    curve = evaluate("random", path, coverage=True).curve
    assert curve.coverage.tolist() == [1] and curve.risk == pytest.approx([1 - 0.25 / 2])
    assert curve.aurc == pytest.approx(1 - 0.25 / 2)


TEXTS = [
    ("a", "Who sang the song?", [("No.", 0), ("He sang the song.", 1)]),
    ("b", "Where is the inn?", [("Here is an inn.", 0), ("Inn", 1)]),
    ("c", "Is it?", [("It is", 1), ("So", 0)]),
]
"""(question, its text, candidates with labels). c has no complete sentence."""


def write_texts(path):
    lists = [
        [
            LabelledCandidate(q, asked, f"{q}-{n}", q, "", n, text, label)
            for n, (text, label) in enumerate(candidates)
        ]
        for q, asked, candidates in TEXTS
    ]
    pq.write_table(LabelledCandidate.table([row for rows in lists for row in rows]), path)
    return path, [ranked_list(rows) for rows in lists]


def write_scored(folder, outcomes):
    with (writer := PartWriter(folder, ScoredCandidate, 0)):
        for outcome in outcomes:
            writer.write(outcome.rows())
    rows, record = writer.part.rows, ScoredCandidate
    Manifest(
        Maker("rerank"), record.__name__, record.fingerprint(), "", {}, {}, "1", rows, {}, (writer.part,)
    ).write(folder)
    return str(folder)


def test_a_rerankers_own_scores_are_its_confidence_not_its_order(tmp_path):
    curve = evaluate("overlap", write_texts(tmp_path / "set.parquet")[0], coverage=True).curve
    # C's answer shares two words, as b's.
    assert curve.least.tolist() == [3, 2] and curve.risk == pytest.approx([0, 1 / 3])


def test_what_the_plan_dropped_entirely_is_no_answer_though_the_metrics_see_its_order(tmp_path):
    path, lists = write_texts(tmp_path / "set.parquet")
    plan = [Stage(reranker.name, reranker()) for reranker in (CompleteSentence, Overlap)]
    scored = write_scored(tmp_path / "scored", run_stages(lists, plan, "sentence"))
    evaluation = evaluate(scored, path, metrics=("R@5",), coverage=True)
    assert evaluation.empty_questions == 0 and evaluation.means["R@5"][0] == 1
    assert evaluation.curve.least.tolist() == [3, 2] and evaluation.curve.risk.tolist() == [0, 0.5]
    assert evaluation.curve.coverage == pytest.approx([1 / 3, 2 / 3])
    by_stage = evaluate(scored, path, by="complete_sentence", coverage=True).curve
    assert by_stage.least.tolist() == [1] and by_stage.coverage == pytest.approx([2 / 3])


def test_where_nothing_is_answered_there_is_no_curve(tmp_path):
    path, lists = write_texts(tmp_path / "set.parquet")
    nothing = run_stages(lists[2:], [Stage("complete_sentence", CompleteSentence())], "sentence")
    scored = write_scored(tmp_path / "scored", nothing)
    assert evaluate(scored, path).means["P@1"][0] == pytest.approx(1 / 3)
    with pytest.raises(JobError, match="none of 3 questions has an answer") as e:
        evaluate(scored, path, coverage=True)
    assert e.value.code == BAD_DATA


def test_a_scored_folders_confidence_is_the_last_stages_score(sample_run):
    labels = sample_run / "labels" / "sentences"
    answers = [json.loads(line) for line in (sample_run / "answers.jsonl").read_text().splitlines()]
    final, first = (
        evaluate(str(sample_run / "scored"), labels, by=by, coverage=True).curve
        for by in ("final", "position")
    )
    confidences = {answer["score"] for answer in answers if answer["answer"] is not None}
    assert len(final.least) > 50 and set(final.least.tolist()) <= confidences
    assert first.least.max() < 0.1  # retrieval's reciprocal ranks
    raw = evaluate(str(sample_run / "scored"), labels, protocol="raw").means["P@1"][0]
    assert final.accuracy[-1] * len(final.running) == pytest.approx(raw * final.questions)
    assert final.aurc < 1 - final.accuracy[-1]  # the score tells something


def test_the_coverage_plot_has_the_same_bytes_every_time_and_others_for_other_curves(tmp_path):
    one, other = (risk_coverage([c for _, c, _ in SURE], right) for right in ([1, 0, 1, 0], [1, 1, 1, 0]))
    plots = {}
    for name, curves in (
        ("x", {"$_a": one, "b": other}),
        ("y", {"$_a": one, "b": other}),
        ("z", {"$_a": one, "b": one}),
    ):
        files = [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"]
        plot_coverage(files, curves)
        plots[name] = [file.read_bytes() for file in files]

    assert plots["x"] == plots["y"]
    assert all(a != b for a, b in zip(plots["x"], plots["z"], strict=True))
    assert (
        plots["x"][0].startswith(b"<?xml")
        and b"<dc:date>" not in plots["x"][0]
        and plots["x"][1].startswith(b"\x89PNG")
    )


def test_the_command_draws_the_plots_and_tells_the_figures(some_answered, tmp_path, capsys):
    files = [tmp_path / "new" / "curve.svg", tmp_path / "new" / "curve.png"]
    command = [
        "evaluate",
        some_answered[0],
        "--labels",
        str(some_answered[1]),
        "--json",
        str(tmp_path / "figures.json"),
    ]
    with pytest.raises(SystemExit) as e:
        main([*command, "--coverage", *map(str, files)])
    assert e.value.code == 0 and "AURC 0.3333" in capsys.readouterr().out

    assert all(file.stat().st_size > 1_000 for file in files)
    assert json.loads((tmp_path / "figures.json").read_text())["coverage_at_risk_5pct"] == 0.2
    with pytest.raises(SystemExit) as e:
        main([*command, "--coverage", "curve.pdf"])
    assert (
        e.value.code == USAGE
        and "curve.pdf: give a name that ends in .svg or .png" in capsys.readouterr().err
    )


def test_progress_counts_the_questions_that_were_ranked():
    rows = [(0, question, str(n), 0.0, 0.0) for n, question in enumerate("aaabbc")]
    counted = Counted(rows)
    assert [(row, counted.questions) for row in counted] == list(zip(rows, [0, 0, 0, 1, 1, 2], strict=True))
    assert counted.questions == 3
