"""What is exported gives the scores that we give, in sentence-transformers' own cross-encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers.processors import RobertaProcessing

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.context import Pooling, Reading
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load, save
from answermill.ranking.rerankers.pretrained.pair_scorers import PackedScorer, load_scorer
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Rotary, Shape
from answermill.ranking.transformer.packing import Tokeniser
from answermill.ranking.transformer.published.published_classifier import PublishedClassifier
from answermill.ranking.transformer.transformer_checkpoint import BodySource, StoredForm

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

EXITS = (1, 2, 4)
SHAPE = Shape(layers=4, width=16, heads=2, inner=32, vocabulary=30_522, positions=64)
FAMILIES = {
    "bert": SHAPE,
    "electra": replace(SHAPE, family="electra", embedded=8),
    "roberta": replace(SHAPE, family="roberta", vocabulary=400, offset=2, types=1, epsilon=1e-5),
    "distilbert": replace(SHAPE, family="distilbert", types=0),
    "mpnet": replace(SHAPE, family="mpnet", vocabulary=400, offset=2, types=0, buckets=32),
    "modernbert": replace(
        SHAPE, family="modernbert", types=0, epsilon=1e-5, rotary=Rotary(160_000.0, 10_000.0, 8, 2)
    ),
}
FORMS = [
    (family, pooling)
    if (family, pooling) in {("bert", "first"), ("roberta", "mean"), ("modernbert", "mean")}
    else pytest.param(family, pooling, marks=pytest.mark.nightly)
    for family in FAMILIES
    for pooling in ("first", "mean")
]
"""Every family with either pooling."""
BYTE_PAIRS = ("roberta", "mpnet")
"""Families with a tokenizer of RoBERTa's kind."""
TEXTS = [
    "Rossini wrote it in less than three weeks.",
    "",
    "The first night, at Rome's Teatro Argentina in February 1816, was a failure; the second a triumph.",
    "Straße, naïve café – 東京 🎻 ﬁn",
    "[SEP] or </s>, [CLS] or <s>, [PAD] or <pad>, [MASK] or <mask>",
    "a\tb\n\nc   d",
]
QUESTION = "Who wrote the opera about a barber in Seville?"
PAIRS = [(QUESTION, text) for text in TEXTS] + [("", TEXTS[0]), (TEXTS[2], QUESTION)]
TOO_LONG = [
    (QUESTION, "word " * 10_000),
    ("why " * 500, TEXTS[2]),
    ("why " * 500, "word " * 500),
    (TEXTS[2] * 2, TEXTS[2] * 2),
]


@pytest.fixture(scope="module")
def byte_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small tokenizer of RoBERTa's kind."""
    folder = tmp_path_factory.mktemp("byte_pairs")
    byte_tokenizer = tokenizers.ByteLevelBPETokenizer()
    byte_tokenizer.train_from_iterator(
        [*TEXTS, QUESTION], vocab_size=400, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    byte_tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    byte_tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def model(shape: Shape = SHAPE, exits: tuple[int, ...] = EXITS) -> CascadeModel:
    """Random; every bias and normalisation counts."""
    torch.manual_seed(0)
    cascade_model = CascadeModel(LayeredEncoder(replace(shape, layers=exits[-1])), exits)
    cascade_model.load_state_dict(
        {name: 3 * (w + 0.05 * torch.randn_like(w)) for name, w in cascade_model.state_dict().items()}
    )
    return cascade_model.eval()


def ours(
    folder: Path, name: str, exit: int, pairs: Sequence[tuple[str, str]], source: Callable[[str], Path] = Path
) -> np.ndarray:
    """fp32 scores of the checkpoint at an exit, from 1."""
    cascade_model, tokeniser = load(folder, name, source)
    with torch.no_grad():
        return cascade_model(tokeniser.pairs(pairs).pack(), exit - 1).numpy()


def export(*arguments: Any, **options: Any) -> Any:
    """`cross_encoder.export`, whose import takes seconds, so that it is not at the top."""
    from answermill.ranking.rerankers.cascade import cross_encoder

    return cross_encoder.export(*arguments, **options)


def loaded_there(folder: Path) -> CrossEncoder:
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", local_files_only=True)


def theirs(folder: Path, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    return loaded_there(folder).predict(pairs, show_progress_bar=False)


@pytest.mark.parametrize(("exit", "layers"), [(None, 4), (2, 2)])
def test_predict_gives_the_scores_of_the_exit(tmp_path: Path, exit: int | None, layers: int) -> None:
    save(tmp_path / "checkpoint", "cascade", model(), Tokeniser(find_model(DEFAULT), 64))
    assert export(tmp_path / "checkpoint", tmp_path / "out", exit) == (layers, 64, "{sentence}")
    scores = theirs(tmp_path / "out", PAIRS + TOO_LONG)
    assert scores == pytest.approx(
        ours(tmp_path / "checkpoint", "cascade", exit or 3, PAIRS + TOO_LONG), abs=1e-4
    )
    assert np.ptp(scores) > 0.1
    assert json.loads((tmp_path / "out/config.json").read_text())["num_hidden_layers"] == layers


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_goes_out_with_its_tokens_cut_or_not(
    tmp_path: Path, family: str, byte_pairs: Path
) -> None:
    source = byte_pairs if family in BYTE_PAIRS else find_model(DEFAULT)
    save(tmp_path / "checkpoint", "pointwise", model(FAMILIES[family], (2,)), Tokeniser(source, 48))
    export(tmp_path / "checkpoint", tmp_path / "out")
    pairs = PAIRS + TOO_LONG
    assert theirs(tmp_path / "out", pairs) == pytest.approx(
        ours(tmp_path / "checkpoint", "pointwise", 1, pairs), abs=1e-4
    )
    loaded = loaded_there(tmp_path / "out")
    batch = loaded.preprocess(pairs)
    assert loaded.max_seq_length == 48 and int(batch["attention_mask"].sum(1).max()) == 48

    here = Tokeniser(source, 48).pairs(pairs)
    packed = here.pack()
    there = batch["attention_mask"].bool()
    assert torch.equal(batch["input_ids"][there], packed.ids)
    assert {True, False} == {*(here.cut > 0).tolist()}
    assert ("token_type_ids" in batch) == (FAMILIES[family].types > 1)


@pytest.mark.parametrize(("family", "pooling"), FORMS)
def test_titles_and_neighbours_go_out_as_one_text_with_separators(
    tmp_path: Path, pooling: Pooling, family: str, byte_pairs: Path
) -> None:
    pointwise = model(FAMILIES[family], (2,))
    pointwise.reading = Reading(("sentence", "title", "previous", "next"), pooling)
    source = byte_pairs if family in BYTE_PAIRS else find_model(DEFAULT)
    save(tmp_path / "checkpoint", "pointwise", pointwise, Tokeniser(source, 62))
    exported = export(tmp_path / "checkpoint", tmp_path / "out")
    separator = "</s></s>" if family in BYTE_PAIRS else "[SEP]"
    assert exported.candidate == separator.join(["{sentence}", "{title}", "{previous}", "{next}"])
    parts = [("It is.", "Rome", "He wrote.", ""), ("So.", "", "", "A night"), ("", "Rome", "", "")]
    pairs = [
        ("Who?", exported.candidate.format(**dict(zip(pointwise.reading.context, each, strict=True))))
        for each in parts
    ]

    loaded, tokeniser = load(tmp_path / "checkpoint", "pointwise")
    tokens = tokeniser.pairs([("Who?", *each) for each in parts], pointwise.reading.turns)
    with torch.no_grad():
        expected = loaded(tokens.pack(), 0).numpy()
    assert not tokens.cut.any() and np.ptp(expected) > 0.01
    assert theirs(tmp_path / "out", pairs) == pytest.approx(expected, abs=1e-4)


def test_a_mean_of_the_candidates_own_tokens_is_refused(tmp_path: Path) -> None:
    cascade_model = model()
    cascade_model.reading = Reading(pooling="candidate")
    save(tmp_path / "checkpoint", "cascade", cascade_model, Tokeniser(find_model(DEFAULT), 64))
    with pytest.raises(ValueError, match=r"pooling = 'candidate'.* train it with 'first' or 'mean'"):
        export(tmp_path / "checkpoint", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_words_of_its_own_goes_out_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = find_model(DEFAULT)
    pointwise = CascadeModel(LayeredEncoder.load(folder, 1), (1,))
    stored = StoredForm("fp16", BodySource.read(DEFAULT, folder))
    save(tmp_path / "checkpoint", "pointwise", pointwise, Tokeniser(folder), stored)
    export(tmp_path / "checkpoint", tmp_path / "out", source=find_model)
    expected = ours(tmp_path / "checkpoint", "pointwise", 1, PAIRS, find_model)
    assert theirs(tmp_path / "out", PAIRS) == pytest.approx(expected, abs=1e-4)


def test_the_folder_is_the_same_each_time_and_holds_no_code(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint", "cascade", model(), Tokeniser(find_model(DEFAULT), 64))
    written = []
    for name in ("a", "b"):
        export(tmp_path / "checkpoint", tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        assert {path.suffix for path in files} == {".json", ".safetensors", ".md"}
        written.append({str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files})
    assert written[0] == written[1]
    modules = json.loads(written[0]["modules.json"])
    assert all(each["type"].startswith("sentence_transformers.") for each in modules)
    assert b"auto_map" not in written[0]["config.json"]


@pytest.mark.parametrize(("family", "pooling"), FORMS)
def test_what_is_exported_is_a_published_cross_encoder_with_the_same_scores(
    family: str, pooling: Pooling, tmp_path: Path, byte_pairs: Path
) -> None:
    pointwise = model(FAMILIES[family], (2,))
    pointwise.reading = Reading(pooling=pooling)
    source = byte_pairs if family in BYTE_PAIRS else find_model(DEFAULT)
    save(tmp_path / "checkpoint", "pointwise", pointwise, Tokeniser(source, 62))
    export(tmp_path / "checkpoint", tmp_path / "out")

    classifier = PublishedClassifier.read(tmp_path / "out")
    scorer = load_scorer(classifier, classifier.longest(None), "cpu", "fp32")
    expected = ours(tmp_path / "checkpoint", "pointwise", 1, PAIRS)
    assert scorer.score(PAIRS).logits == pytest.approx(expected, abs=1e-4)
    assert isinstance(scorer, PackedScorer) and classifier.output == "logit" and classifier.limit == 62


def test_an_exported_folder_has_a_card_with_the_licence(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint", "cascade", model(), Tokeniser(find_model(DEFAULT), 64))
    export(tmp_path / "checkpoint", tmp_path / "bare")
    assert "- Licence: not stated" in (tmp_path / "bare" / "README.md").read_text()

    licence = "- Trained on SQuAD. Licence of the data: CC BY-SA 4.0."
    (tmp_path / "checkpoint" / "README.md").write_text(f"# a cascade\n\n{licence}\n- 5 steps.\n")
    exported = export(tmp_path / "checkpoint", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    assert f"\n{licence}\n" in card.partition("## Training: a cascade")[0] and "- 5 steps." in card
    assert f"{exported.layers} layers, at most 64 tokens" in card

    head = "---\nlicense: cc-by-sa-4.0\nbase_model: us/body\nlibrary_name: answermill\n---\n\n"
    (tmp_path / "checkpoint" / "README.md").write_text(f"{head}# a cascade\n\n{licence}\n")
    export(tmp_path / "checkpoint", tmp_path / "headed")
    card = (tmp_path / "headed" / "README.md").read_text()
    exported_head = card.partition("\n---\n")[0].splitlines()
    assert "license: cc-by-sa-4.0" in exported_head and "base_model: us/body" in exported_head
    assert "\n## Training: a cascade\n" in card and "library_name: answermill" not in card

    # Its author may change it.
    (tmp_path / "out" / "README.md").write_text("mine")
    assert find_model(str(tmp_path / "out")) == tmp_path / "out"


def test_folders_that_are_no_checkpoint_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", find_model(DEFAULT)):
        with pytest.raises(ValueError, match="is no checkpoint of cascade or pointwise"):
            export(folder, tmp_path / "out")
    (tmp_path / "config.json").write_text('{"format": 1, "model": "cosinet"}')
    with pytest.raises(ValueError, match="it holds 'cosinet'; give one of cascade or pointwise"):
        export(tmp_path, tmp_path / "out")
    (tmp_path / "config.json").write_text('{"format": 1, "model": "cascade"}')
    with pytest.raises(ValueError, match="is no checkpoint of cascade"):
        export(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exits_that_are_not_there_and_folders_with_files_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint", "cascade", model(), Tokeniser(find_model(DEFAULT), 64))
    for exit in (0, 4):
        with pytest.raises(ValueError, match=f"exit {exit}: .* has 3, after layers 1, 2, 4; give 1 to 3"):
            export(tmp_path / "checkpoint", tmp_path / "out", exit)
    with pytest.raises(FileExistsError, match="has files"):
        export(tmp_path / "checkpoint", tmp_path / "checkpoint")
