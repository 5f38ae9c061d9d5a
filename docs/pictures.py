"""The pictures of the documentation, as SVG: the way of the data, and plots of saved figures.

Each function takes the saved results (benchmark → key → value) and returns the text of an SVG, the same text
each time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

Saved = Callable[[str], Mapping[str, Any]]
BLUE, ORANGE, GREEN, RED, GREY = "#2a6fb0", "#d9822b", "#3a8f5c", "#b5443c", "#6b7280"

INK = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
# On a transparent ground it is read on a light and on a dark page.
mpl.rcParams.update(dict.fromkeys(INK, GREY))

MONOSPACE = 'font-family="monospace"'
STEPS = (  # step, what it does, the folders that it writes
    ("crawl", "WARC, WET, JSONL,\nTSV, Parquet", ""),
    ("ingest", "pages → documents\n→ passages", "documents/ passages/ rejects/"),
    ("index", "BM25 (Lucene) and\ndense (FAISS) shards", "shards/"),
    ("retrieve", "questions → passages,\nfused over shards", "questions/ retrieved/"),
    ("rerank", "stages: Cosinet, cascade,\nPEASI, …", "scored/ answers.jsonl"),
    ("annotate", "tasks and packs\nfor annotators", "tasks/ packs/"),
    ("propagate", "labels → passages,\ndocuments, windows", "labels/"),
)


def pipeline() -> str:
    """The way of the data: a box per step, with the folders that it writes below; two rows."""
    width, height, gap, row_height, per_row = 190, 78, 40, 150, 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {per_row * (width + gap)} {2 * row_height}" '
        'font-family="sans-serif" role="img" aria-label="The steps of a run and the folders that they '
        'write">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{GREY}"/></marker></defs>',
    ]
    for n, (name, what, folders) in enumerate(STEPS):
        x, y = 20 + n % per_row * (width + gap), 12 + n // per_row * row_height
        centre = x + width / 2
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{BLUE if n else GREY}"/>'
        )
        parts.append(_text(centre, y + 25, name, 'fill="white" font-size="17" font-weight="bold"'))
        for line, text in enumerate(what.split("\n")):
            parts.append(_text(centre, y + 46 + 17 * line, text, 'fill="white" font-size="13"'))

        for line, folder in enumerate(folders.split()):
            parts.append(
                _text(
                    centre, y + height + 17 + 15 * line, folder, f'fill="{GREY}" font-size="13" {MONOSPACE}'
                )
            )

        if n % per_row:
            parts.append(_arrow(f"M{x - gap},{y + height / 2} H{x - 2}"))
        elif n:
            before, turn = x + 3 * (width + gap) + width, y - 16
            parts.append(
                _arrow(f"M{before},{y - row_height + height / 2} h14 V{turn} H{x - 12} V{y + height / 2} h10")
            )

    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" {style}>{escape(text)}</text>'


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="2" marker-end="url(#tip)"/>'


def cost_accuracy(saved: Saved) -> str:
    """MAP on WikiQA's test set against cost: the cascade, its exits, monolithic models and the sequential
    ranker."""
    quality, by_lengths = saved("cascade_quality"), saved("schedule_costs")
    families = {
        "monolithic, 2 to 6 layers": (("mt2", "mt4", "monolithic"), GREY, "s"),
        "sequential ranker, α .5 to .3": (("sequential_a5", "sequential_a4", "sequential_a3"), ORANGE, "^"),
        "cascade, α .5 to 0": (("cascade_a5", "cascade_a4", "cascade_a3", "cascade_a0"), BLUE, "o"),
        "cascade cut at an exit": (
            ("cascade_exit2", "cascade_exit3", "cascade_exit4", "cascade_exit5"),
            GREEN,
            "v",
        ),
    }

    def cost(row: str) -> float:
        ranker, _, alpha = row.partition("_")
        if ranker == "sequential":
            return by_lengths[f"wikiqa_cost_sr_three_{alpha}"]
        return quality[f"wikiqa_cost_{row}"]

    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for label, (rows, colour, marker) in families.items():
        costs = list(map(cost, rows))
        axes.plot(
            costs, [quality[f"wikiqa_map_{row}"] for row in rows], marker=marker, color=colour, label=label
        )

    axes.set_xlabel("cost: layers × candidates, 1 = the monolithic model")
    axes.set_ylabel("MAP, WikiQA test, %")
    return _svg(figure, axes)


def schedule_spread(saved: Saved) -> str:
    """P@1 of all schedules of drops against their cost, on HotpotQA's lists: range and mean of each band, and
    the model without drops."""
    spread = saved("schedule_spread")
    cascades = {"paper": (BLUE, "trained as the paper has it"), "shipped": (GREEN, "the one that ships")}
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for name, (colour, label) in cascades.items():
        bands = [band for band in range(0, 100, 5) if f"hotpotqa_mean_{band}_{name}" in spread]
        middles = [(band + 2.5) / 100 for band in bands]
        low, mean, high = (
            [spread[f"hotpotqa_{key}_{band}_{name}"] for band in bands] for key in ("low", "mean", "high")
        )
        axes.fill_between(middles, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(middles, mean, marker="o", color=colour, label=label)
        axes.plot(1, spread[f"hotpotqa_p1_none_{name}"], marker="s", color=colour)

    axes.axvline(0.7, color=GREY, linestyle=":")
    axes.set_xlabel("cost: layers × candidates, 1 = no drops")
    axes.set_ylabel("P@1, HotpotQA, %")
    return _svg(figure, axes)


def first_stage(saved: Saved) -> str:
    """Share of gold sentences that a first stage keeps, against how much it keeps, over retrieved
    passages."""
    recall, keeps = saved("first_stage"), (5, 10, 20, 50)
    names = {"cosinet": BLUE, "overlap": GREY, "bm25": ORANGE, "fused": GREEN, "similarity": RED}
    labels = {
        "cosinet": "Cosinet, shipped",
        "overlap": "word overlap",
        "bm25": "BM25",
        "fused": "Cosinet and BM25 fused",
    }
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for name, colour in names.items():
        values = [100 * recall[f"recall_at_{keep}pct_{name}"] for keep in keeps]
        axes.plot(keeps, values, marker="o", color=colour, label=labels.get(name, "dense similarity"))

    axes.set_xticks(keeps)
    axes.set_xlabel(f"candidates kept, % of {recall['candidates']:.0f} a question")
    axes.set_ylabel("gold sentences kept, %")
    return _svg(figure, axes)


def chain(saved: Saved) -> str:
    """P@1 with its interval: the default plan, the plan without a stage, and other plans, which are of fewer
    questions."""
    figures = saved("chain_base") | saved("chain")
    rows = {
        "default plan": ("default", BLUE),
        "without last": ("without_last", GREEN),
        "without similarity": ("without_similarity", GREEN),
        "without cascade": ("without_cascade", GREEN),
        "without first": ("without_first", GREEN),
        "without complete_sentence": ("without_complete_sentence", GREEN),
        "without cosinet": ("without_cosinet", GREEN),
        "default plan, fewer questions": ("default_on_costly", BLUE),
        "base plan, twelve layers": ("base", ORANGE),
        "full plan": ("full", ORANGE),
        "without blends": ("no_blend", ORANGE),
        "cosine of all sentences": ("similarity_all", GREY),
        "cross-encoder of all sentences": ("cross_encoder_all", GREY),
    }

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for place, (row, colour) in enumerate(reversed(rows.values())):
        value, low, high = (figures[f"p1_{row}{end}"] for end in ("", "_low", "_high"))
        axes.errorbar(value, place, xerr=[[value - low], [high - value]], marker="o", color=colour, capsize=3)

    axes.set_yticks(range(len(rows)), list(rows)[::-1])
    axes.set_xlabel("P@1 on L-test, %, with its 95 % interval")
    return _svg(figure, axes, legend=False)


def speed(saved: Saved) -> str:
    """Pairs per second of one thread, side by side in one run."""
    cascade = saved("cascade_speed")
    bars = {
        "CrossEncoder.predict, fp32": cascade["predict_pairs_per_s"],
        "CrossEncoder.predict, bf16, best batch": cascade["predict_best_pairs_per_s"],
        "monolithic, packed": cascade["monolithic_pairs_per_s"],
        "cascade, α .3, packed": cascade["cascade_pairs_per_s"],
    }
    return _bars(bars, "pairs per second, one thread")


def risk_coverage(saved: Saved) -> str:
    """Area under risk against coverage of each way to extract an answer: lower is better."""
    peasi = saved("peasi_quality")
    names = {"as2": "AS2", "shipped": "PEASI that ships"}
    bars = {f"{label}, {data}": peasi[f"{name}_{key}_aurc"] for data, key in (("SQuAD", "squad"), ("WikiQA", "wikiqa"))
            for name, label in names.items()}  # fmt: skip
    return _bars(bars, "area under risk against coverage, all questions (lower is better)")


def reliability(saved: Saved) -> str:
    """Share of right first answers against their probability, in bins of equally many."""
    figures = saved("sure")
    figure, axes = plt.subplots(figsize=(4.6, 4.2))
    axes.plot([0, 100], [0, 100], "--", color=GREY, label="a probability is a frequency")
    for label, prefix, colour in (("L-dev, held out in folds", "dev_", GREEN), ("L-test", "", BLUE)):
        bins = [n for n in range(100) if f"{prefix}probability_{n}" in figures]
        probability, right = (
            [figures[f"{prefix}{key}_{n}"] for n in bins] for key in ("probability", "right")
        )
        axes.plot(probability, right, marker="o", color=colour, label=label)

    axes.set_xlabel("mean probability, %")
    axes.set_ylabel("right, %")
    return _svg(figure, axes)


def _bars(bars: Mapping[str, float], meaning: str) -> str:
    names: Sequence[str] = list(bars)[::-1]
    figure, axes = plt.subplots(figsize=(6.4, 0.7 + 0.4 * len(names)))
    drawn = axes.barh(names, [bars[name] for name in names], color=BLUE, height=0.6)
    axes.bar_label(drawn, fmt=lambda value: f"{value:.3g}", padding=3)
    axes.margins(x=0.12)
    axes.set_xlabel(meaning)
    return _svg(figure, axes, legend=False)


def _svg(figure: Any, axes: Any, legend: bool = True) -> str:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    file = io.StringIO()

    with mpl.rc_context({"svg.hashsalt": "answermill", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(
            file,
            format="svg",
            bbox_inches="tight",
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )

    plt.close(figure)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
