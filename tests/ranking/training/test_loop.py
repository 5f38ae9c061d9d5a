"""The training loop, with the smallest task there is: a weight per word, learnt from labelled lists."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from answermill.files.model_files import STATE
from answermill.ranking.reranker import ScoreNotFinite, order_by
from answermill.ranking.training.loop import Dev, Output, Recipe, TrainingProgress, slanted_triangular, train
from answermill.ranking.training.state import finished
from answermill.schemas.labels import LabelledCandidate

QUESTIONS = [
    [
        LabelledCandidate(f"q{q}", "?", f"q{q}-{n}", "", "", n, text, int(text == "good"))
        for n, text in enumerate(texts)
    ]
    for q, texts in enumerate(
        [("bad", "poor", "good"), ("poor", "good"), ("bad", "good", "poor", "bad"), ("good", "bad")]
    )
]
WORDS = {"bad": 0, "poor": 1, "good": 2}


class WordWeights:
    """Score = weight of the word, with some dropout to see that resuming repeats it."""

    def __init__(self, poison_at: int | None = None, steep: float = 1.0) -> None:
        self.model = nn.Sequential(nn.Embedding(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.rates = [(1.0, list(self.model[0].parameters())), (2.0, list(self.model[2].parameters()))]
        self.steps = len(QUESTIONS)
        self.name = "words"
        self._poison_at, self._done, self._steep = poison_at, 0, steep

    def batches(self, epoch: int) -> Iterator[list[LabelledCandidate]]:
        for n in np.random.default_rng(epoch).permutation(len(QUESTIONS)):
            yield QUESTIONS[n]

    def loss(self, batch: list[LabelledCandidate]) -> Tensor:
        self._done += 1
        labels = torch.tensor([float(c.label) for c in batch])
        scores = self._scores([c.text for c in batch])
        loss = self._steep * nn.functional.binary_cross_entropy_with_logits(scores, labels)
        return loss * torch.nan if self._done == self._poison_at else loss

    def _scores(self, texts: list[str]) -> Tensor:
        return self.model(torch.tensor([WORDS[text] for text in texts])).squeeze(1)

    def reranker(self):
        return self

    @torch.inference_mode()
    def rerank(self, lists):
        return [order_by(r, self._scores([c.text for c in r.candidates]).numpy(), "words") for r in lists]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        save_file(self.model.state_dict(), folder / "model.safetensors")


def task(**arguments) -> WordWeights:
    torch.manual_seed(7)
    return WordWeights(**arguments)


RECIPE = Recipe(epochs=6, learning_rate=0.05, schedule="constant", metric="MRR")


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def test_it_learns_and_leaves_the_best_checkpoint_with_its_history(tmp_path):
    history = train(task(), Dev(QUESTIONS), RECIPE, Output(tmp_path, "f"))
    assert [e.step for e in history.evaluations] == [4, 8, 12, 16, 20, 24]
    assert history.best is not None and history.best.dev == 1
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "training.json"}
    history_read = finished(tmp_path)
    assert history_read is not None and history_read.best == history.best


@pytest.mark.parametrize(
    ("more", "steep"), [({}, 1.0), ({"accumulate": 3, "epochs": 12}, 1.0), ({"precision": "fp16"}, 1e4)]
)
def test_one_that_is_stopped_anywhere_ends_with_the_same_weights(tmp_path, more, steep):
    recipe = replace(RECIPE, evaluate_every=3, **more)
    train(task(steep=steep), Dev(QUESTIONS), recipe, Output(tmp_path / "whole", "f"))
    for stop in (1, 5, 9, 23):

        def until(state: TrainingProgress, stop: int = stop) -> None:
            if state.step == stop and state.dev is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(task(steep=steep), Dev(QUESTIONS), recipe, Output(tmp_path / str(stop), "f"), until)
        torch.manual_seed(99)  # what came between changes nothing
        history = train(task(steep=steep), Dev(QUESTIONS), recipe, Output(tmp_path / str(stop), "f"))
        whole = finished(tmp_path / "whole")
        assert whole is not None and history.evaluations == whole.evaluations
        for name, value in weights(tmp_path / "whole").items():
            assert torch.equal(value, weights(tmp_path / str(stop))[name])


def test_a_step_of_several_batches_takes_the_mean_of_their_gradients(tmp_path):
    by_hand, trained = task(), task()
    for each in (by_hand, trained):
        each.model[1].p = 0.0
    groups = [{"params": group, "lr": 0.05 * multiple} for multiple, group in by_hand.rates]
    optimizer = torch.optim.AdamW(groups, weight_decay=0, fused=True)

    for epoch in range(6):
        batches = list(by_hand.batches(epoch))
        for step in (batches[:3], batches[3:]):  # the last one of an epoch has what is left
            optimizer.zero_grad()
            torch.stack([by_hand.loss(batch) for batch in step]).mean().backward()
            optimizer.step()

    history = train(trained, Dev(QUESTIONS), replace(RECIPE, accumulate=3), Output(tmp_path, "f"))
    assert history.step == 6 * 2 and [e.epoch for e in history.evaluations] == [1, 2, 3, 4, 5, 6]
    for name, weight in by_hand.model.state_dict().items():
        torch.testing.assert_close(trained.model.state_dict()[name], weight, rtol=0, atol=1e-6)


def test_fp16_leaves_the_weights_where_a_gradient_is_infinite_and_multiplies_by_less(tmp_path):
    recipe = replace(RECIPE, epochs=1, precision="fp16", evaluate_every=1)
    states = []

    def look(state: TrainingProgress) -> None:
        if state.dev is not None:
            states.append(load_file(tmp_path / STATE / f"{state.step}.safetensors"))

    train(task(steep=1e4), Dev(QUESTIONS), recipe, Output(tmp_path, "f"), look)
    factors = [state["scaler.scale"].item() for state in states]
    assert factors[0] == 65536 / 2 > factors[-1]
    new = task().model.state_dict()
    assert all(torch.equal(states[0][f"model.{name}"], weight) for name, weight in new.items())


def test_it_stops_when_the_dev_score_no_longer_rises(tmp_path):
    history = train(task(), Dev(QUESTIONS), replace(RECIPE, epochs=50, patience=2), Output(tmp_path, "f"))
    assert history.waited() == 2 and history.step < 50 * 4
    assert history.best is history.evaluations[-3]


def test_the_first_of_equal_dev_scores_is_the_best(tmp_path):
    history = train(task(), Dev(QUESTIONS), replace(RECIPE, learning_rate=1e-12), Output(tmp_path, "f"))
    assert len({e.dev for e in history.evaluations}) == 1 and history.best is history.evaluations[0]


def test_a_state_of_another_training_is_refused(tmp_path):
    def stop(state: TrainingProgress) -> None:
        if state.dev is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(task(), Dev(QUESTIONS), RECIPE, Output(tmp_path, "f"), stop)
    assert (tmp_path / STATE / "history.json").is_file()
    with pytest.raises(ValueError, match="holds a training with other settings or data"):
        train(task(), Dev(QUESTIONS), RECIPE, Output(tmp_path, "g"))


@pytest.mark.parametrize(
    ("label", "metric", "says"),
    [(0, "MRR", "'answerable' keeps no dev question, of 4"), (1, "mrr", "unknown metric")],
)
def test_a_dev_score_that_cannot_be_is_refused_before_the_first_step(tmp_path, label, metric, says):
    questions = [[replace(row, label=row.label * label) for row in rows] for rows in QUESTIONS]
    steps: list[TrainingProgress] = []
    with pytest.raises(ValueError, match=says):
        train(task(), Dev(questions), replace(RECIPE, metric=metric), Output(tmp_path, "f"), steps.append)
    assert not steps


def test_a_loss_that_is_no_number_is_an_error_with_its_step(tmp_path):
    with pytest.raises(ValueError, match="step 2: the loss is nan; try a lower learning_rate"):
        train(task(poison_at=3), Dev(QUESTIONS), RECIPE, Output(tmp_path, "f"))


@pytest.mark.parametrize("grown", [torch.nan, torch.inf, 1e30])
def test_weights_that_have_grown_beyond_use_are_an_error_with_a_remedy(tmp_path, grown):
    class Diverged(WordWeights):
        def reranker(self):
            self.model[2].bias.data[:] = grown
            raise ValueError("array is too big")

    with pytest.raises(ValueError, match=r"evaluation after step 4: a weight has become .*lower learning_ra"):
        train(Diverged(), Dev(QUESTIONS), RECIPE, Output(tmp_path, "f"))


def test_a_dev_score_that_is_no_number_is_an_error_with_its_step_and_candidate(tmp_path):
    class Broken(WordWeights):
        def reranker(self):
            broken = copy.deepcopy(self)
            broken.model[2].bias.data[:] = torch.nan
            return broken

    with pytest.raises(
        ScoreNotFinite, match=r"dev evaluation after step 4, checkpoint .*: words: score nan for candidate"
    ):
        train(Broken(), Dev(QUESTIONS), RECIPE, Output(tmp_path, "f"))


def test_the_dev_score_is_the_metric_of_the_reranked_lists():
    class Worst(WordWeights):
        def rerank(self, lists):
            return [order_by(r, [-float(c.text == "good") for c in r.candidates], "worst") for r in lists]

    assert Dev(QUESTIONS).score(Worst(), "MRR", "answerable") == pytest.approx(
        (1 / 3 + 1 / 2 + 1 / 4 + 1 / 2) / 4
    )


def test_schedules():
    peak = [slanted_triangular(n, 100, 1.0) for n in range(100)]
    assert peak[0] == pytest.approx(1 / 32) and max(peak) == peak[10] == 1 and peak[99] < 0.05
    linear = Recipe(schedule="linear", learning_rate=2.0)
    assert [linear.rate(n, 100) for n in (0, 9, 10, 55)] == pytest.approx([0.2, 2.0, 2.0, 1.0])
    assert Recipe(schedule="constant", learning_rate=2.0).rate(77, 100) == 2


def test_the_history_is_plain_json(tmp_path):
    train(task(), Dev(QUESTIONS), replace(RECIPE, epochs=1), Output(tmp_path, "f"))
    values = json.loads((tmp_path / "training.json").read_text())
    assert values["fingerprint"] == "f" and values["evaluations"][0]["step"] == 4
