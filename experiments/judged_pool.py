"""Best sentences of L-test that count as wrong, judged: how many are right all the same.

A question of L-test has labels in one document, so a right sentence of another page, or another right
sentence of its page, counts as wrong. POOLED questions whose answer is retrieved are drawn by hash. What each
plan puts first there, and the first three of the default plan, was judged by a language model in two readings
(`testing/judgements.py`), unless it is labelled as an answer; `judged_pool.tsv` has it by the ids of question
and sentence, without the texts. These judgements measure; no model learns from them, and nothing is chosen by
them.

Plans, as in `chain`: those of PLANS, whose best sentences are judged. Keys: `wrong_<plan>` first sentences
that count as wrong; `wrong_but_right_<plan>`, the share of them that is judged right, in percent, with its
Wilson interval `.._low` to `.._high`, and `wrong_but_right` that of the default plan; `p1_<plan>` by the
labels and `p1_judged_<plan>` where these count as right too, with bootstrapped intervals; `success3_default`
and `success3_judged_default`, the share of questions with a right one among the first three;
`p1_judged_gain_over_<plan>`, what the default plan leads by in `p1_judged`, with `.._p` of a paired
randomisation test. `judged` sentences, `judged_right` of them, `kappa` of the readings, and `unjudged` best
sentences that lack a judgement: --sheet FILE writes these, to be judged.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from answermill.files.atomic_files import replacing
from answermill.indexing.documents.exact_duplicates import text_hash
from answermill.pipelines.config.job_file import load
from answermill.pipelines.steps.collect.annotator_agreement import Share
from answermill.pipelines.steps.job_plan import CheckedPlan, load_stages
from answermill.pipelines.steps.models import passage_encoder
from answermill.ranking.evaluation.significance import compare
from answermill.ranking.plan import Stage, run_stages
from answermill.schemas.arrays import Floats
from answermill.schemas.ranked import Candidate
from experiments import chain
from experiments.long_lists import LongList, read_lists, small_lists
from experiments.percents import ends, gain
from experiments.question_sets.gold import drawn
from experiments.question_sets.memory import RememberedEncoder, remember
from testing.harness import arguments, finish, say, shrink, work_folder
from testing.judgements import agreement, read_judgements
from testing.smoke_data import small_plan

TAKES = "ten minutes, with the scores that chain keeps in --work"
MEASURED_MODELS = ("cascade", "cosinet")
DECIDED = "Nothing ships by it: on L-test nothing is chosen."
SHEET = Path(__file__).with_name("judged_pool.tsv")
PLACE = ("question_id", "sentence_id", "text_hash")
PLANS = ("default", "without_cosinet", "without_complete_sentence")
POOLED, AT_ONCE, DEPTH = 150, 30, 3
Result = dict[str, float | int | str]
Best = dict[str, tuple[Candidate, ...]]
"""Question id → the sentences that a plan puts first, as many as are pooled; fewer if it leaves fewer."""


def place_of(question_id: str, candidate: Candidate) -> tuple[str, ...]:
    """Names of a sentence in the sheet."""
    return question_id, candidate.candidate_id, text_hash(candidate.text)


def plans(work: Path) -> Iterator[tuple[str, Sequence[Stage]]]:
    """(name, stages), with the scores that are kept in `work`."""
    job = load(chain.SAMPLE)
    encoder: Any = RememberedEncoder(passage_encoder(job), work)
    default = remember(load_stages(CheckedPlan.of(job), lambda: encoder), work)
    for name, plan in (("default", default), *chain.others(default)):
        if name in PLANS:
            yield name, plan


def best_of(plan: Sequence[Stage], lists: Sequence[LongList], depth: int) -> Best:
    best: Best = {}
    for start in range(0, len(lists), AT_ONCE):
        for outcome in run_stages([question.passages for question in lists[start : start + AT_ONCE]], plan):
            best[outcome.kept.question.question_id] = tuple(outcome.kept.candidates[:depth])
    return best


def values(
    best: Best, lists: Sequence[LongList], right: Mapping[tuple[str, ...], bool], depth: int = 1
) -> tuple[Floats, Floats]:
    """1 where one of the first `depth` sentences is labelled as an answer, and 1 where one is that or judged
    right: [questions] each."""
    labelled, judged = [], []
    for question in lists:
        key = question.asked.question_id
        some = best[key][:depth]
        labelled.append(any(one.candidate_id in question.gold for one in some))
        judged.append(labelled[-1] or any(right.get(place_of(key, one), False) for one in some))
    return np.array(labelled, np.float64), np.array(judged, np.float64)


def shares(columns: Mapping[str, Floats]) -> Result:
    """Key → mean of its column in percent, with its bootstrapped interval."""
    result: Result = {}
    for key, column in columns.items():
        share = compare(np.zeros(len(column)), column)
        result |= {key: 100 * share.b, **ends(key, share)}
    return result


def figures(name: str, labelled: Floats, judged: Floats) -> Result:
    """Keys of a plan."""
    wrong = int((labelled == 0).sum())
    share = Share(int((judged - labelled).sum()), wrong)
    low, high = share.interval or (0.0, 0.0)
    result: Result = {f"wrong_{name}": wrong, f"wrong_but_right_{name}": 100 * (share.value or 0.0)}
    result |= {f"wrong_but_right_{name}_low": 100 * low, f"wrong_but_right_{name}_high": 100 * high}
    result |= shares({f"p1_{name}": labelled, f"p1_judged_{name}": judged})
    say(
        f"{name:<26} P@1 {result[f'p1_{name}']:.2f}, judged {result[f'p1_judged_{name}']:.2f}; "
        f"{share.right} of {wrong} wrong ones are right"
    )
    return result


def judged_gain(name: str, judged: Floats, default: Floats) -> Result:
    """What the default plan gains over another one, as judged."""
    return dict(gain(f"p1_judged_gain_over_{name}", compare(judged, default)))


def order(place: tuple[str, ...]) -> tuple[str, bytes]:
    return place[0], hashlib.sha256("\0".join(place).encode()).digest()


def sheet_cells(place: tuple[str, ...], question: str, candidate: Candidate) -> list[str]:
    """A row of a sheet to be judged: place, question, title, and sentence between its neighbours."""
    hit = candidate.hit
    inside = [sentence.text for sentence in hit.passage.sentences]
    n = inside.index(candidate.text)
    around = " ".join(inside[:n][-2:]), inside[n], " ".join(inside[n + 1 :][:2])
    return [" ".join(cell.split()) for cell in (*place, question, hit.passage.title, *around)]


def write_sheet(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Sentences to be judged, by question and then by a hash: without score, rank and label."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow((*PLACE, "question", "title", "before", "sentence", "after"))
        ordered = sorted(rows, key=lambda cells: order(tuple(cells[: len(PLACE)])))
        writer.writerows(ordered)


def measured(
    work: Path, lists: Sequence[LongList], right: Mapping[tuple[str, ...], bool]
) -> tuple[Result, dict[tuple[str, ...], Candidate]]:
    """Figures of all plans, and the pooled sentences that count as wrong and lack a judgement."""
    result: Result = {}
    missing: dict[tuple[str, ...], Candidate] = {}
    of_default: Floats | None = None

    for name, plan in plans(work):
        best = best_of(plan, lists, DEPTH if name == "default" else 1)
        labelled, judged = values(best, lists, right)
        result |= figures(name, labelled, judged)
        if of_default is None:
            of_default = judged
            three = values(best, lists, right, DEPTH)
            result |= shares(dict(zip(("success3_default", "success3_judged_default"), three, strict=True)))
        else:
            result |= judged_gain(name, judged, of_default)

        for question in lists:
            key = question.asked.question_id
            wrong = (one for one in best[key] if one.candidate_id not in question.gold)
            missing |= {place_of(key, one): one for one in wrong if place_of(key, one) not in right}

    for end in ("", "_low", "_high"):
        result[f"wrong_but_right{end}"] = result[f"wrong_but_right_default{end}"]
    return result, missing


def main() -> None:
    paths = {
        "work": "folder that keeps lists and scores; out/long_lists",
        "sheet": "file to write the sentences to that lack a judgement",
    }
    options = arguments("judged_pool", __doc__ or "", paths=paths)
    if options.smoke:
        shrink(vars(chain), SAMPLE=small_plan(fitted=True))
        small_lists()

    torch.set_num_threads(1)
    judgements = read_judgements(SHEET, PLACE)
    right = {row.place: row.label == 1 for row in judgements}

    with work_folder(options, "long_lists") as work:
        asked = [question for question in read_lists(options.data.resolve(), work, "test") if question.gold]
        names = set(drawn((question.asked.question_id for question in asked), POOLED))
        lists = [question for question in asked if question.asked.question_id in names]
        result, missing = measured(work, lists, right)

    result = {"pooled_questions": len(lists), "unjudged": len(missing)} | result
    result |= {"judged": len(judgements), "judged_right": sum(right.values())}
    result["kappa"] = agreement(judgements).value or 0.0
    if options.sheet:
        texts = {question.asked.question_id: question.asked.text for question in lists}
        write_sheet(options.sheet, (sheet_cells(key, texts[key[0]], one) for key, one in missing.items()))
    if missing and options.save:
        raise SystemExit(f"{len(missing)} best sentences lack a judgement; write them with --sheet FILE")
    finish("judged_pool", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
