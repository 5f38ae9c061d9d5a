"""The cards of the shipped models: their heads, which a hub reads, and the section *Audit*, from
`experiments/results/audit.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from answermill.indexing.shards.dense import DEFAULT
from answermill.pipelines.learn.audit.overlap import KINDS
from answermill.pipelines.learn.audit.probes import PROBES
from answermill.pipelines.learn.train.training_card import HUB_NAMES
from answermill.ranking.entry import SHIPPED

HEADING = "## Audit"
TRAINING = {
    "cascade": ("taught", "the lists that it learnt from"),
    "cascade_base": ("taught", "the lists that it learnt from"),
    "cosinet": ("answers", "SQuAD v1.1 train and QED train, of whose questions it learnt from a part"),
    "hashing": ("answers", "SQuAD v1.1 train and QED train, of whose questions it learnt from a part"),
    "peasi": ("answers", "SQuAD v1.1 train and QED train, of whose questions it learnt from a part"),
}
"""Model → its training in the result, and in words."""
DATA = ["rajpurkar/squad"]
"""Of the data sets that the cards name, those that the hub has under a name of their makers."""
TESTS = {"wikiqa": "WikiQA", "selqa": "SelQA", "squad": "SQuAD-sent"}


def pages(result: Mapping[str, Any], source: str, note: Callable[[str], str]) -> Iterator[tuple[Path, str]]:
    """(card, its text with head and section). `source`: a line on the result; `note`: a source → the comment
    that names it."""
    for model in TRAINING:
        card = SHIPPED / model / "README.md"
        before = card.read_text(encoding="utf-8").partition(f"\n{HEADING}\n")[0].strip("\n")
        if before.startswith("---\n"):
            before = before.partition("\n---\n")[2].strip("\n")
        section = "\n".join(lines(model, result, source))
        text = f"{before}\n\n{HEADING}\n\n{note('docs/model_cards.py')}{section}\n"
        yield card, f"---\n{head(model)}\n---\n\n{text}"


def head(model: str) -> str:
    """The YAML of a model's card."""
    config = json.loads((SHIPPED / model / "config.json").read_text(encoding="utf-8"))
    body = config.get("body", {}).get("model", DEFAULT)
    fields = ModelCardData(
        license="apache-2.0",
        library_name="answermill",
        pipeline_tag="text-ranking",
        language="en",
        tags=["answermill", "answer-sentence-selection", config["model"]],
        base_model=HUB_NAMES[body],
        datasets=DATA,
    )
    return fields.to_yaml()


def lines(model: str, result: Mapping[str, Any], source: str) -> Iterator[str]:
    """Lines of a model's section."""
    training, words = TRAINING[model]
    yield f"*From {source}.*"
    yield ""
    yield (
        f"Percent of the test questions with an answer that share it with {words}: "
        f"{result[f'{training}_questions']:,} questions. By vector, a part of them is compared."
    )
    yield ""
    yield f"| shared | {' | '.join(TESTS.values())} |"
    yield "|---|" + "---|" * len(TESTS)
    for kind, meaning in KINDS.items():
        cells = (f"{result[f'{training}_{test}_{kind}']:.1f}" for test in TESTS)
        yield f"| {meaning} | {' | '.join(cells)} |"

    yield ""
    yield (
        f"P@1 of the model alone on {result[f'{model}_questions']} questions of WikiQA test is "
        f"{result[f'{model}_p1']:.1f} %. What a change of their lists adds, in points, with 95 % intervals:"
    )
    yield ""
    yield "| change | P@1 | interval |"
    yield "|---|---|---|"
    for name in PROBES:
        change, low, high = (result[f"{model}_{name}_{key}"] for key in ("difference", "low", "high"))
        yield f"| {name.replace('_', ' ')} | {change:+.1f} | {low:+.1f} to {high:+.1f} |"
    yield ""
    yield "`docs/evaluation.md` says what each change is."
