from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from answermill.indexing.shards.dense import find_model
from answermill.pipelines.steps.models import precision_of
from answermill.ranking.transformer import devices, layers
from answermill.ranking.transformer import encoder as module
from answermill.ranking.transformer.devices import TokenBudget, each_on_a_core, fast
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Rotary, Shape, translated
from answermill.ranking.transformer.layers import attention, row_windows
from answermill.ranking.transformer.layers.attention import (
    attend_by_class,
    attend_filled_up,
    attention_over_all_lengths,
    dropped,
)
from answermill.ranking.transformer.layers.pooling import pool
from answermill.ranking.transformer.layers.row_windows import added, exact_windows
from answermill.ranking.transformer.layers.spans import OVERHEAD, spans, warn_of_threads
from answermill.ranking.transformer.packing import Packed, Tokeniser

TEXTS = [
    "Who wrote the opera about a barber in Seville?",
    "Rossini wrote it in less than three weeks.",
    "The first night, at Rome's Teatro Argentina in February 1816, was a failure; the second a triumph.",
    "",
    "Beaumarchais' comedy had been set before, by Paisiello, whose admirers came to hiss.",
    "a b",
    "Straße, naïve café – 東京 🎻 ﬁn",
]
PAIRS = [(question, candidate) for question in TEXTS for candidate in TEXTS]
PRECISIONS = sorted({torch.float32, torch.bfloat16, fast("cpu")}, key=str)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def minilm() -> Path:
    return find_model("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> dict[str, Path]:
    """Tiny random models with tokenizers of their own, as save_pretrained writes them."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("models")
    words = tokenizers.BertWordPieceTokenizer()
    words.train_from_iterator(
        TEXTS, vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    )
    pieces = tokenizers.ByteLevelBPETokenizer()
    pieces.train_from_iterator(
        TEXTS, vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )

    pieces.save_model(str(root))
    merges = [
        line
        for line in (root / "merges.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    shape: dict[str, Any] = {
        "num_hidden_layers": 3,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    pairs: dict[str, tuple[Any, Any]] = {
        "bert": (
            transformers.BertTokenizerFast(vocab=words.get_vocab()),
            transformers.BertModel(transformers.BertConfig(vocab_size=120, **shape), add_pooling_layer=False),
        ),
        "electra": (
            transformers.ElectraTokenizerFast(vocab=words.get_vocab()),
            transformers.ElectraModel(transformers.ElectraConfig(vocab_size=120, embedding_size=16, **shape)),
        ),
        "roberta": (
            transformers.RobertaTokenizerFast(
                vocab=pieces.get_vocab(), merges=[tuple(line.split(" ")) for line in merges]
            ),
            transformers.RobertaModel(
                transformers.RobertaConfig(
                    vocab_size=300,
                    max_position_embeddings=514,
                    type_vocab_size=1,
                    layer_norm_eps=1e-5,
                    **shape,
                ),
                add_pooling_layer=False,
            ),
        ),
        "mpnet": (
            transformers.RobertaTokenizerFast(
                vocab=pieces.get_vocab(), merges=[tuple(line.split(" ")) for line in merges]
            ),
            transformers.MPNetModel(
                transformers.MPNetConfig(vocab_size=300, max_position_embeddings=514, **shape),
                add_pooling_layer=False,
            ),
        ),
        "modernbert": (
            transformers.BertTokenizerFast(vocab=words.get_vocab()),
            transformers.ModernBertModel(
                transformers.ModernBertConfig(
                    vocab_size=120,
                    max_position_embeddings=512,
                    pad_token_id=0,
                    local_attention=16,
                    global_attn_every_n_layers=2,
                    **shape,
                )
            ),
        ),
        "distilbert": (
            transformers.DistilBertTokenizerFast(vocab=words.get_vocab()),
            transformers.DistilBertModel(
                transformers.DistilBertConfig(vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=64)
            ),
        ),
    }

    for name, (tokenizer, model) in pairs.items():
        # Weights far from their start: all biases and normalisations count.
        model.load_state_dict(
            {key: value + 0.1 * torch.randn_like(value) for key, value in model.state_dict().items()}
        )
        tokenizer.save_pretrained(root / name)
        model.save_pretrained(root / name)

    return {name: root / name for name in pairs} | {"minilm": minilm}


TINY = ["bert", "roberta", "electra", "distilbert", "mpnet", "modernbert"]
FAMILIES = [*TINY, "minilm"]
NEAR = ["mpnet", "modernbert"]
"""Families whose attention depends on the distance of two tokens."""


def theirs(folder: Path) -> tuple[Any, Any]:
    """Hugging Face's tokenizer and model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return tokenizer, transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()


def padded(folder: Path) -> tuple[Tensor, Any]:
    """Hugging Face's encodings of PAIRS, end to end [n, d], and the model that made them."""
    tokenizer, model = theirs(folder)
    batch = tokenizer([q for q, _ in PAIRS], [c for _, c in PAIRS], padding=True, return_tensors="pt")
    hidden = model(**batch).last_hidden_state
    return hidden[batch["attention_mask"].bool()], model


def run(encoder: LayeredEncoder, tokens: Packed) -> Tensor:
    return encoder.normalised(encoder.run(encoder.embed(tokens), tokens, 0, len(encoder.layers)))


# Pairs


@pytest.mark.parametrize("limit", [512, 40, 17, 8])
@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "minilm"])
def test_the_ids_of_a_pair_are_those_of_the_models_own_tokenizer_truncated_or_not(
    folders: dict[str, Path], family: str, limit: int
) -> None:
    tokenizer, _ = theirs(folders[family])
    long = " ".join(TEXTS) if limit < 100 else " ".join(TEXTS * 9)
    tuples = [
        *PAIRS,
        (long, "no"),
        ("no", long),
        (long, long),
        (long + " no", long),
        (long, long + " no"),
        ("", long),
    ]
    encodings = Tokeniser(folders[family], limit).pairs(tuples)
    tokens = encodings.pack()

    columns = [list(column) for column in zip(*tuples, strict=True)]
    own = tokenizer(*columns, truncation=True, max_length=limit, return_token_type_ids=True)
    whole = tokenizer(*columns, verbose=False)["input_ids"]

    for number, (ids, types) in enumerate(zip(own["input_ids"], own["token_type_ids"], strict=True)):
        rows = slice(int(tokens.starts[number]), int(tokens.starts[number + 1]))
        assert tokens.ids[rows].tolist() == ids
        assert tokens.types[rows].tolist() == types
        assert tokens.positions[rows].tolist() == list(range(len(ids)))
        assert encodings.cut[number] == len(whole[number]) - len(ids)

    assert encodings.cut.max() > 50


def test_a_text_may_be_empty_or_have_ten_thousand_tokens(minilm: Path) -> None:
    long = "so " * 10_000
    encodings = Tokeniser(minilm, 512).pairs([("", ""), ("", long), (long, "x"), (long, long)])
    assert encodings.lengths.tolist() == [3, 512, 512, 512]
    assert encodings.cut.tolist() == [0, 10_000 - 509, 10_000 - 508, 20_000 - 509]
    encoder = LayeredEncoder.load(minilm, 1).for_inference()
    with torch.inference_mode():
        assert run(encoder, encodings.pack()).isfinite().all()


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="this system does not list mapped files")
def test_weights_that_are_served_as_they_are_stored_stay_in_the_mapped_file(minilm: Path) -> None:
    encoder = LayeredEncoder.load(minilm, layers=1)
    exact, halved = (encoder.for_inference(precision=dtype) for dtype in (torch.float32, torch.bfloat16))

    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [
        tuple(int(edge, 16) for edge in place.split("-"))
        for place, *_, file in mapped
        if file == str((minilm / "model.safetensors").resolve())
    ]
    places = [each.words.weight.data_ptr() for each in (exact, halved)]
    assert [any(first <= place < end for first, end in spans) for place in places] == [True, False]
    assert encoder.words.weight.requires_grad and not exact.words.weight.requires_grad
    assert encoder.words.weight.dtype == torch.float32


def test_a_question_keeps_its_half_and_a_short_candidate_is_not_cut_for_it(minilm: Path) -> None:
    tokeniser = Tokeniser(minilm, 23)  # 20 and three special tokens
    question, candidate = "who " * 15, "so " * 40
    kept = tokeniser.pairs(
        [(question, candidate), (question, "so so"), (question, "so " * 7), ("who", candidate)]
    )
    tokens = kept.pack()
    assert [
        int((tokens.types[s : s + n] == 1).sum()) - 1
        for s, n in zip(tokens.starts, kept.lengths, strict=False)
    ] == [
        10,
        2,
        7,
        19,
    ]

    assert kept.cut.tolist() == [35, 0, 2, 21]


def test_a_tuple_of_many_texts_loses_the_last_ones_first(minilm: Path) -> None:
    tuples = [("who", "one one", "two two"), ("who",), ("who", "one")]
    ids = {word: Tokeniser(minilm).pairs([(word,)]).table[-1] for word in ("who", "one", "two")}
    who, one, two = (int(ids[word]) for word in ("who", "one", "two"))
    whole = Tokeniser(minilm).pairs(tuples).pack()
    assert whole.ids.tolist() == [
        101,
        who,
        102,
        one,
        one,
        102,
        two,
        two,
        102,
        101,
        who,
        102,
        101,
        who,
        102,
        one,
        102,
    ]

    assert whole.types.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    cut = Tokeniser(minilm, 7).pairs(tuples)
    assert cut.pack([0]).ids.tolist() == [101, who, 102, one, one, 102, 102]
    assert cut.cut.tolist() == [2, 0, 0]


def test_tuples_that_cannot_be_encoded_are_refused(minilm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tuple 1 has no text"):
        Tokeniser(minilm).pairs([("a",), ()])
    with pytest.raises(ValueError, match="3 texts do not fit into 5 tokens"):
        Tokeniser(minilm, 5).pairs([("a", "b"), ("a", "b", "c")])
    with pytest.raises(ValueError, match=r"no tokenizer\.json; write it with transformers"):
        Tokeniser(tmp_path)
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a")).save(
        str(tmp_path / "tokenizer.json")
    )

    with pytest.raises(ValueError, match="no special tokens around a pair"):
        Tokeniser(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1')
    with pytest.raises(ValueError, match=f"{tmp_path}/tokenizer.json: no tokenizer"):
        Tokeniser(tmp_path)


def test_batches_hold_every_pair_once_longest_first_within_the_tokens(minilm: Path) -> None:
    encodings = Tokeniser(minilm).pairs(PAIRS)
    batches = list(encodings.batches(60))
    order = np.concatenate(batches)
    assert sorted(order.tolist()) == list(range(len(PAIRS)))
    assert (np.diff(encodings.lengths[order]) <= 0).all()
    assert len(batches) > 5
    assert all(encodings.lengths[batch].sum() <= 60 for batch in batches)
    assert [len(batch) for batch in encodings.batches(1)] == [1] * len(PAIRS)
    assert list(Tokeniser(minilm).pairs([]).batches(60)) == []


def test_selecting_texts_leaves_what_packing_them_alone_gives(minilm: Path) -> None:
    encodings = Tokeniser(minilm).pairs(PAIRS)
    chosen = [40, 3, 4, 17]
    tokens, rows = encodings.pack().select(chosen)
    alone = encodings.pack(chosen)
    for name in ("ids", "types", "positions", "starts"):
        assert torch.equal(getattr(tokens, name), getattr(alone, name)), name
    assert tokens.lengths.tolist() == alone.lengths.tolist()
    assert torch.equal(encodings.pack().ids[rows], alone.ids)
    nothing, no_rows = tokens.select([])
    assert len(nothing.ids) == len(no_rows) == 0
    assert nothing.groups == []


# The encoder


@pytest.mark.parametrize("family", [*TINY, pytest.param("minilm", marks=pytest.mark.nightly)])
def test_packed_equals_padded_in_the_backbones_own_forward(folders: dict[str, Path], family: str) -> None:
    with torch.no_grad():
        expected, _ = padded(folders[family])
        encoder = LayeredEncoder.load(folders[family]).eval()
        tokens = Tokeniser(folders[family]).pairs(PAIRS).pack()
        hidden = run(encoder, tokens)
    assert len(set(tokens.lengths.tolist())) > 5
    assert hidden.std() > 0.1
    torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", TINY)
def test_gradients_equal_those_of_the_backbones_own_forward(folders: dict[str, Path], family: str) -> None:
    expected, model = padded(folders[family])
    encoder = LayeredEncoder.load(folders[family]).eval()
    hidden = run(encoder, Tokeniser(folders[family]).pairs(PAIRS).pack())
    weight = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    (expected * weight).sum().backward()
    (hidden * weight).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    theirs = translated(gradients, encoder.shape)  # the names of gradients are those of weights
    theirs.pop("relative", None)  # MPNet's bias stays as it was published
    ours = dict(encoder.named_parameters())
    assert ours.keys() == theirs.keys()

    for name, parameter in ours.items():
        assert parameter.grad is not None
        largest = theirs[name].abs().max().item()
        assert largest > 0.1, name
        assert (parameter.grad - theirs[name]).abs().max() <= 1e-5 * largest, name


def test_in_pieces_gives_what_at_once_gives_to_the_bit(minilm: Path) -> None:
    tokens = Tokeniser(minilm).pairs(PAIRS[::3]).pack()
    for precision in PRECISIONS:
        encoder = LayeredEncoder.load(minilm, layers=3).for_inference(precision=precision)
        with torch.inference_mode():
            hidden, whole = encoder.run(encoder.embed(tokens), tokens, 0, 1), run(encoder, tokens)
            assert torch.equal(encoder.run(hidden, tokens, 1, 1), hidden)
            assert torch.equal(encoder.run(hidden, tokens, 1, 3), whole)
            copied = encoder.run_through(encoder.copy_layers(1, 3), hidden, tokens)
            assert torch.equal(copied, whole)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_first_tokens_alone_have_the_bits_that_they_have_among_all(
    minilm: Path, precision: torch.dtype
) -> None:
    tokens = Tokeniser(minilm).pairs(PAIRS).pack()
    encoder = LayeredEncoder.load(minilm, layers=2).for_inference(precision=precision)
    encoder._budget = TokenBudget(len(tokens.ids) // 3, None)  # some texts at a time
    first = tokens.starts[:-1].long()
    with torch.inference_mode():
        hidden = encoder.embed(tokens)
        firsts = encoder.run_through(encoder.layers, hidden, tokens, first_only=True)
        assert torch.equal(firsts, encoder.run_through(encoder.layers, hidden, tokens)[first])
        assert torch.equal(hidden, encoder.embed(tokens))


def test_first_tokens_alone_give_the_gradients_that_they_give_among_all(folders: dict[str, Path]) -> None:
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack()
    encoder = LayeredEncoder.load(folders["bert"]).eval()
    gradients = []
    for first_only in (True, False):
        encoder.zero_grad()
        hidden = encoder.run_through(encoder.layers, encoder.embed(tokens), tokens, first_only)
        (hidden if first_only else hidden[tokens.starts[:-1].long()]).square().sum().backward()
        gradients.append(
            {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
        )
    for name, gradient in gradients[1].items():
        assert (gradients[0][name] - gradient).abs().max() <= 1e-5 * gradient.abs().max(), name


def test_the_first_layers_alone_are_the_first_layers(minilm: Path) -> None:
    tokens = Tokeniser(minilm).pairs(PAIRS[:5]).pack()
    whole, cut = LayeredEncoder.load(minilm).eval(), LayeredEncoder.load(minilm, layers=2).eval()
    with torch.inference_mode():
        assert torch.equal(run(cut, tokens), whole.run(whole.embed(tokens), tokens, 0, 2))
    assert cut.shape == replace(whole.shape, layers=2)


def test_reading_weights_draws_none(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw them where there is no memory for them, torch would import its compiler: more than a second a
    process."""
    expected = LayeredEncoder.load(folders["bert"])
    drawn: list[Tensor] = []
    monkeypatch.setattr(nn.init, "normal_", lambda weight, *_, **__: drawn.append(weight))
    again = LayeredEncoder.load(folders["bert"])
    assert drawn == []
    assert all(
        torch.equal(weight, again.state_dict()[name]) for name, weight in expected.state_dict().items()
    )
    LayeredEncoder(expected.shape)
    assert len(drawn) > 3


@pytest.mark.parametrize("family", TINY)
def test_what_is_saved_is_the_backbone_again(folders: dict[str, Path], tmp_path: Path, family: str) -> None:
    encoder = LayeredEncoder.load(folders[family])
    encoder.save(tmp_path / "whole")
    back = LayeredEncoder.load(tmp_path / "whole")
    assert back.shape == encoder.shape
    assert all(torch.equal(back.state_dict()[name], weight) for name, weight in encoder.state_dict().items())
    model, report = transformers.AutoModel.from_pretrained(
        tmp_path / "whole", local_files_only=True, output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))

    _, before = theirs(folders[family])
    ids = torch.arange(5, 45)[None]
    assert torch.equal(model.eval()(ids).last_hidden_state, before(ids).last_hidden_state)
    encoder.save(tmp_path / "cut", 2)
    after_two = before(ids, output_hidden_states=True).hidden_states[2]
    expected = before.final_norm(after_two) if family == "modernbert" else after_two
    cut = transformers.AutoModel.from_pretrained(tmp_path / "cut").eval()
    assert torch.equal(cut(ids).last_hidden_state, expected)


def test_copied_layers_share_nothing_with_the_encoder(folders: dict[str, Path]) -> None:
    encoder = LayeredEncoder.load(folders["bert"])
    copies = encoder.copy_layers(1, 3)
    assert len(copies) == 2
    before = encoder.layers[1].output.weight.clone()
    with torch.no_grad():
        copies[0].output.weight.zero_()
    assert torch.equal(encoder.layers[1].output.weight, before)
    assert not encoder.for_inference(precision=torch.float32).training and encoder.training


@pytest.mark.parametrize("family", ["bert", *NEAR, pytest.param("minilm", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_text_has_the_same_bits_alone_among_others_and_in_another_order(
    folders: dict[str, Path], family: str, precision: torch.dtype
) -> None:
    encoder = LayeredEncoder.load(folders[family], layers=2).for_inference(precision=precision)
    many = [(question, f"{candidate} {n}") for n in range(4) for question, candidate in PAIRS]
    encodings = Tokeniser(folders[family]).pairs(many)
    assert encodings.lengths.sum() > 2 * 2048
    order = np.random.default_rng(0).permutation(len(many))

    with torch.inference_mode():
        among, shuffled = encodings.pack(), encodings.pack(order)
        encoded, encoded_shuffled = run(encoder, among), run(encoder, shuffled)
        back, rows = shuffled.select(np.argsort(order))
        assert torch.equal(back.ids, among.ids)
        assert torch.equal(encoded_shuffled[rows], encoded)
        assert torch.equal(pool(encoded_shuffled, shuffled)[np.argsort(order)], pool(encoded, among))
        for number in range(0, len(many), 9):
            alone = encodings.pack([number])
            _, rows = among.select([number])
            assert torch.equal(run(encoder, alone), encoded[rows])
            assert torch.equal(pool(run(encoder, alone), alone)[0], pool(encoded, among)[number])


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_dropping_texts_half_way_changes_no_bit_of_the_others(minilm: Path, precision: torch.dtype) -> None:
    encoder = LayeredEncoder.load(minilm, layers=2).for_inference(precision=precision)
    tokens = Tokeniser(minilm).pairs(PAIRS).pack()
    kept = [n for n in range(len(PAIRS)) if n % 3]
    with torch.inference_mode():
        whole = run(encoder, tokens)
        half = encoder.run(encoder.embed(tokens), tokens, 0, 1)
        fewer, rows = tokens.select(kept)
        assert torch.equal(encoder.run(half[rows], fewer, 1, 2), whole[rows])


def test_bf16_tells_the_same_story_as_fp32(minilm: Path) -> None:
    tokens = Tokeniser(minilm).pairs(PAIRS[::3]).pack()
    with torch.inference_mode():
        exact, short = (
            pool(run(LayeredEncoder.load(minilm).for_inference(precision=precision), tokens), tokens)
            for precision in (torch.float32, torch.bfloat16)
        )
    assert nn.functional.cosine_similarity(exact, short).min() > 0.999


@pytest.mark.parametrize("sizes", [(8,), (16, 8, 4), (64, 32)])
def test_windows_change_nothing_but_the_noise_of_rounding(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    tokens = Tokeniser(folders["electra"]).pairs(PAIRS).pack()
    encoder = LayeredEncoder.load(folders["electra"]).eval()
    at_once = run(encoder, tokens).detach()
    monkeypatch.setattr(row_windows, "exact_windows", lambda *_: sizes)
    assert len(tokens.ids) % sizes[-1]
    with torch.inference_mode():
        torch.testing.assert_close(run(encoder, tokens), at_once, rtol=0, atol=1e-5)


def test_smaller_windows_are_taken_only_where_their_bits_are_the_same() -> None:
    assert exact_windows("cpu", torch.float32, Shape(1, 32, 4, 64, 9, embedded=16), threads=1)[0] == 2048
    assert list(spans(100, (32, 16, 8))) == [(0, 32), (32, 32), (64, 32), (96, 8)]
    assert list(spans(100, (64,))) == [(0, 64), (64, 64)]


@pytest.mark.parametrize("sizes", [(512, 384, 256, 64, 32), (512, 384, 192), (128,)])
def test_windows_are_those_that_take_the_least_time(sizes: tuple[int, ...]) -> None:
    @functools.cache
    def least(rows: int) -> int:
        """By trying all: rows of the windows, and as many as a window costs."""
        return min(size + OVERHEAD + least(rows - size) for size in sizes) if rows > 0 else 0

    for rows in range(1, 1_300, 7):
        windows = list(spans(rows, sizes))
        assert [start for start, _ in windows] == [0, *np.cumsum([size for _, size in windows])[:-1]]
        assert sum(size for _, size in windows) >= rows
        assert sum(size + OVERHEAD for _, size in windows) == least(rows)

    assert list(spans(10_000, (2_048, 32)))[:3] == [(0, 2_048), (2_048, 2_048), (4_096, 2_048)]
    assert list(spans(0, sizes)) == []


def test_a_sum_overwrites_its_first_part_in_inference_alone() -> None:
    sums, hidden = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.25])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert added(sums.bfloat16(), hidden).dtype == torch.float32
    assert added(sums, hidden).tolist() == [1.5, 2.25] and sums.tolist() == [1.0, 2.0]
    with torch.no_grad():
        assert added(sums, hidden) is sums
    assert sums.tolist() == [1.5, 2.25] and hidden.tolist() == [0.5, 0.25]


def test_inference_gives_the_bits_of_a_forward_with_gradients(folders: dict[str, Path]) -> None:
    """Where one window holds all rows, the two differ in the memory that they write alone."""
    for family in ("bert", "modernbert"):
        encoder = LayeredEncoder.load(folders[family]).eval()
        layer = encoder.layers[-1]
        attended, hidden = torch.randn(2, 32, encoder.shape.width).unbind()
        with torch.no_grad():
            served = layer.after_attention(attended, hidden)
        assert torch.equal(served, layer.after_attention(attended, hidden))


def test_few_windows_are_one_wherever_one_holds_all_rows() -> None:
    sizes = (64, 48, 32, 16)
    assert list(spans(33, sizes, few=True)) == [(0, 48)]
    assert list(spans(64, sizes, few=True)) == [(0, 64)]
    assert list(spans(150, sizes, few=True)) == [(0, 64), (64, 64), (128, 32)]
    assert list(spans(0, sizes, few=True)) == []


@pytest.mark.parametrize("first_only", [False, True])
def test_rows_that_fill_a_batch_up_change_no_bit_of_the_others(
    minilm: Path, monkeypatch: pytest.MonkeyPatch, first_only: bool
) -> None:
    """As they do on a card, where nobody knows what is in them."""
    encoder, tokens = (
        LayeredEncoder.load(minilm, layers=2).for_inference(),
        Tokeniser(minilm).pairs(PAIRS).pack(),
    )
    filled = list[int]()

    def fill(hidden: Tensor, shape: Shape) -> Tensor:
        filled.append(len(hidden))
        return nn.functional.pad(hidden, (0, 0, 0, 7), value=float("nan"))

    with torch.inference_mode():
        hidden = encoder.embed(tokens)
        expected = encoder.run_through(encoder.layers, hidden, tokens, first_only)
        monkeypatch.setattr(module, "filled_up", fill)
        assert torch.equal(encoder.run_through(encoder.layers, hidden, tokens, first_only), expected)

    assert filled and not expected.isnan().any()


@pytest.fixture
def restored_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    row_windows._equal_windows.cache_clear()
    warn_of_threads.cache_clear()


def assert_threads_change_no_bit(encoder: LayeredEncoder, tokens: Packed) -> None:
    encodings = []
    with torch.inference_mode():
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            encodings.append(run(encoder, tokens))
    assert all(torch.equal(encodings[0], other) for other in encodings[1:])


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_number_of_threads_changes_no_bit(
    minilm: Path, precision: torch.dtype, restored_threads: None
) -> None:
    texts = [(question, " ".join([answer] * n)) for n in (1, 5) for question, answer in PAIRS[::2]]
    tokens = Tokeniser(minilm).pairs(texts).pack()
    encoder = LayeredEncoder.load(minilm, layers=2).for_inference(precision=precision)
    assert_threads_change_no_bit(encoder, tokens)


def test_the_number_of_threads_changes_no_bit_of_short_texts_and_narrow_heads(
    folders: dict[str, Path], restored_threads: None
) -> None:
    """On processors without AVX-512, MKL's bits depend on where PyTorch's buffer of a thread begins."""
    torch.manual_seed(0)
    encoder = LayeredEncoder(Shape(2, 16, 2, 32, 30, positions=64)).for_inference()
    tokens = (
        Tokeniser(folders["bert"])
        .pairs([("a", " ".join("b" * n)) for n in range(1, 45) for _ in range(3)])
        .pack()
    )
    assert_threads_change_no_bit(encoder, tokens)


def test_the_number_of_threads_changes_no_bit_on_intel_s_processors_without_avx_512() -> None:
    """In another process, where MKL and PyTorch take a processor for one of them."""
    program = """
import os, torch
from answermill.ranking.transformer.layers.row_windows import steady_products
os.environ |= steady_products({"cpu_name": "Intel Core", "avx2": True})
torch.manual_seed(0)
query, key, value = torch.randn(3, 3, 12, 100, 32)
attended = []
for threads in (1, 2, 3):
    torch.set_num_threads(threads)
    attended.append(torch.nn.functional.scaled_dot_product_attention(query, key, value))
assert all(torch.equal(attended[0], other) for other in attended[1:])
"""
    as_avx2 = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", program], env=os.environ | as_avx2, check=True)


@pytest.mark.parametrize("precision", [*PRECISIONS, torch.int8], ids=str)
def test_cores_take_parts_of_the_texts_and_change_no_bit(
    minilm: Path, precision: torch.dtype, restored_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokeniser(minilm).pairs(PAIRS * 3).pack()
    encoder = LayeredEncoder.load(minilm, layers=2).for_inference(precision=precision)
    parts = list[int]()

    def spied(function: Callable[[Any], Tensor], items: Sequence[Any]) -> list[Tensor]:
        parts.append(len(items))
        return each_on_a_core(function, items)

    monkeypatch.setattr(module, "each_on_a_core", spied)
    monkeypatch.setattr(module, "CORE_TOKENS", len(tokens.ids) // 3)
    encodings = list[tuple[Tensor, Tensor]]()
    with torch.inference_mode():
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            hidden = encoder.embed(tokens)
            whole = encoder.run_through(encoder.layers, hidden, tokens)
            firsts = encoder.run_through(encoder.layers, hidden, tokens, first_only=True)
            encodings.append((whole, firsts))
            assert torch.get_num_threads() == threads

    assert parts == [2, 2, 3, 3]  # with five threads there are tokens for three
    for whole, firsts in encodings[1:]:
        assert torch.equal(whole, encodings[0][0]) and torch.equal(firsts, encodings[0][1])


def test_texts_fall_into_parts_of_as_many_tokens(minilm: Path) -> None:
    tokens = Tokeniser(minilm).pairs([("a", " ".join("b" * n)) for n in (10, 2, 2, 2, 2, 2)]).pack()
    assert tokens.lengths.tolist() == [14, 6, 6, 6, 6, 6]
    assert tokens.parted(0) == tokens.parted(1) == [(0, 6)]
    assert tokens.parted(2) == [(0, 3), (3, 6)]
    assert tokens.parted(4) == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert tokens.parted(99) == [(n, n + 1) for n in range(6)]


def test_where_threads_change_bits_the_process_goes_on_with_one(
    monkeypatch: pytest.MonkeyPatch, restored_threads: None
) -> None:
    linear = nn.functional.linear
    monkeypatch.setattr(row_windows.F, "linear", lambda *x: linear(*x) + (torch.get_num_threads() > 1))
    for expectation in (
        pytest.warns(UserWarning, match="2 threads compute other bits than one"),
        nullcontext(),
    ):
        torch.set_num_threads(2)  # as each unit of a step does
        with expectation:
            assert (
                exact_windows("cpu", torch.float32, Shape(1, 32, 4, 64, 9, embedded=16), threads=2)[0] == 2048
            )
        assert torch.get_num_threads() == 1


def test_the_mean_is_over_all_tokens_of_a_text(folders: dict[str, Path]) -> None:
    tokens = Tokeniser(folders["bert"]).pairs([("", "a"), ("", ""), ("a b", "b")]).pack()
    hidden = torch.randn(len(tokens.ids), 4)
    texts = [hidden[a:b] for a, b in zip(tokens.starts, tokens.starts[1:], strict=False)]
    torch.testing.assert_close(pool(hidden, tokens), torch.stack([text.mean(0) for text in texts]))


def learn(
    encoder: LayeredEncoder, head: nn.Linear, tokens: Packed, rate: float, precision: torch.dtype
) -> list[float]:
    """The losses of 40 steps, on every second text as a right one."""
    labels = torch.arange(len(tokens.lengths), device=tokens.ids.device).remainder(2).float()
    optimiser = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=rate)
    losses = []
    for _ in range(40):
        with torch.autocast(labels.device.type, precision, enabled=precision != torch.float32):
            scores = head(pool(run(encoder, tokens), tokens)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_it_learns_under_autocast_with_dropout(folders: dict[str, Path]) -> None:
    torch.manual_seed(0)
    encoder, head = LayeredEncoder.load(folders["bert"]), nn.Linear(32, 1)
    tokens = Tokeniser(folders["bert"]).pairs([(TEXTS[0], c) for c in TEXTS]).pack()
    losses = learn(encoder, head, tokens, 3e-3, torch.bfloat16)
    assert len({round(value, 6) for value in losses}) > 10  # dropout
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_attention_over_texts_that_are_filled_up_is_that_over_texts_of_each_length(
    folders: dict[str, Path],
) -> None:
    """What a graphics card learns by is what a processor learns by."""
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack(np.random.default_rng(0).permutation(len(PAIRS)))
    torch.manual_seed(0)
    drawn = torch.randn(len(tokens.ids), 3 * 32)
    outputs, gradients = [], []

    for way in (layers.attend, attend_filled_up):
        projected = drawn.clone().requires_grad_()
        over = way(projected, tokens, 4, 0.0)
        torch.autograd.backward(over.square().sum())
        assert projected.grad is not None
        outputs.append(over.detach())
        gradients.append(projected.grad)

    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-5)
    assert outputs[0].std() > 0.1 and len(tokens.groups) > 20


def test_attention_over_texts_that_are_filled_up_drops_its_share_of_the_weights(
    folders: dict[str, Path],
) -> None:
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack()
    projected = torch.ones(len(tokens.ids), 3 * 32)  # each token sees the mean of ones
    torch.manual_seed(0)
    over = attend_filled_up(projected, tokens, 4, 0.5)
    assert over.std() > 0.1 and over.mean().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("first_only", [False, True])
def test_layers_that_are_computed_again_learn_the_same_and_keep_less(
    folders: dict[str, Path], first_only: bool
) -> None:
    encoder = LayeredEncoder.load(folders["bert"]).train()
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack()
    kept, gradients = [], []

    for encoder.recomputes in (False, True):
        size = 0

        def keep(tensor: Tensor) -> Tensor:
            nonlocal size
            size += tensor.numel()
            return tensor

        encoder.zero_grad()
        torch.manual_seed(0)  # of the dropout
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = encoder.run_through(encoder.layers, encoder.embed(tokens), tokens, first_only)
        kept.append(size)
        torch.autograd.backward(hidden.square().sum())
        gradients.append(
            {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
        )

    assert encoder.shape.dropout > 0 and kept[1] < kept[0] / 5
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradient, gradients[1][name]) for name, gradient in gradients[0].items())


@pytest.mark.parametrize("size", [1, 2, 3, 4_001, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_and_scales_the_rest_and_their_gradients(
    size: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    x = torch.ones(size, dtype=dtype, requires_grad=True)
    kept = dropped(x, 0.1)
    torch.autograd.backward(kept.float().sum())
    assert x.grad is not None and torch.equal(x.grad, kept.detach())
    assert set(kept.tolist()) <= {0.0, torch.tensor(1 / 0.9, dtype=dtype).item()}
    if size > 4_000:
        assert (kept == 0).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert torch.equal(dropped(x, 0.0), x)


def test_texts_by_length_are_the_rows_of_the_texts(minilm: Path) -> None:
    tokens = (
        Tokeniser(minilm, 32)
        .pairs([("a", "b"), ("a", "b c"), ("a", "d"), ("e f", "g h i")])
        .pack(np.arange(4))
    )
    rows = torch.arange(len(tokens.ids))
    parts = tokens.by_length(rows)
    assert [tuple(part.shape) for part in parts] == [(1, 5), (1, 6), (1, 5), (1, 8)]
    assert torch.equal(torch.cat([part.flatten() for part in parts]), rows)


def test_no_text_at_all_has_no_encodings(folders: dict[str, Path]) -> None:
    encoder = LayeredEncoder.load(folders["electra"]).for_inference()
    tokens = Tokeniser(folders["electra"]).pairs([]).pack()
    with torch.inference_mode():
        assert run(encoder, tokens).shape == (0, 32)
        assert pool(run(encoder, tokens), tokens).shape == (0, 32)


def test_a_shape_survives_json_and_makes_a_random_encoder() -> None:
    shape = Shape(layers=2, width=64, heads=4, inner=128, vocabulary=50, family="roberta", offset=2, types=1)
    again = Shape(**json.loads(json.dumps(asdict(shape))))
    assert again == shape
    encoder = LayeredEncoder(again)
    assert encoder.positions.weight.shape == (514, 64)
    assert encoder.words.weight.detach().std() == pytest.approx(0.02, rel=0.1)
    with torch.device("meta"):
        roberta = LayeredEncoder(Shape(12, 768, 12, 3072, 50_265, "roberta", offset=2, types=1))
    assert sum(p.numel() for p in roberta.parameters()) == 124_055_040


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"model_type": "deberta-v2"},
            "model of type 'deberta-v2'; give one of bert, roberta, xlm-roberta, camembert, electra, "
            "distilbert, mpnet, modernbert",
        ),
        ({"auto_map": {"AutoModel": "theirs.Model"}}, "auto_map"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; only 'gelu'"),
        ({"num_hidden_layers": 4}, "lacks 'encoder.layer.3"),
        ({"intermediate_size": 65}, "size mismatch"),
        ({"num_attention_heads": 5}, "width 32 is no multiple of 5 heads"),
        ({"num_attention_heads": 0}, "heads is 0; a whole number of at least 1 is needed"),
        ({"num_attention_heads": -2}, "heads is -2; a whole number of at least 1 is needed"),
        ({"num_attention_heads": 2.5}, "has 2.5 for a whole number"),
        ({"layer_norm_eps": -1}, "epsilon is -1.0; it must be from 0 to below 1"),
        ({"hidden_dropout_prob": 2}, "dropout is 2.0; it must be from 0 to below 1"),
    ],
)
def test_a_folder_of_another_kind_is_refused(
    folders: dict[str, Path], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    config = json.loads((folders["bert"] / "config.json").read_text()) | changed
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(load_file(folders["bert"] / "model.safetensors"), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=message) as refused:
        LayeredEncoder.load(tmp_path)
    assert str(tmp_path) in str(refused.value)


def test_a_config_that_is_no_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"its config\.json is no JSON object"):
        LayeredEncoder.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attention_bias": True}, "attention_bias is True; only False is computed here"),
        ({"norm_eps": 1e-6}, "norm_eps is 1e-06; only 1e-05"),
        (
            {"layer_types": ["full_attention", "full_attention", "sliding_attention"]},
            r"layers \[0, 1\] attend",
        ),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "scales its positions"),
    ],
)
def test_a_modernbert_of_another_kind_is_refused(
    folders: dict[str, Path], changed: dict[str, Any], message: str
) -> None:
    config = json.loads((folders["modernbert"] / "config.json").read_text()) | changed
    with pytest.raises(ValueError, match=message):
        Shape.of(config)


def test_settings_of_modernbert_are_read_in_their_older_form_too(folders: dict[str, Path]) -> None:
    """Before transformers 5 config.json had no `layer_types` and `rope_parameters`."""
    config = json.loads((folders["modernbert"] / "config.json").read_text())
    shape = Shape.of(config)
    assert shape.rotary == Rotary(160_000.0, 10_000.0, window=8, every=2)
    older = {key: value for key, value in config.items() if key not in ("layer_types", "rope_parameters")}
    older |= {"global_rope_theta": 1e4, "local_rope_theta": 5e3, "global_attn_every_n_layers": 3}
    assert Shape.of(older).rotary == Rotary(1e4, 5e3, window=8, every=3)
    assert Shape(**json.loads(json.dumps(asdict(shape)))) == shape


def test_pickled_weights_missing_layers_and_broken_files_are_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="it has 3 layers; the first 4 cannot be had"):
        LayeredEncoder.load(folders["bert"], 4)
    (tmp_path / "config.json").write_text((folders["bert"] / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ValueError, match=r"no model.safetensors .* write it with save_pretrained\(folder\)"):
        LayeredEncoder.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="is no encoder"):
        LayeredEncoder.load(tmp_path)
    with pytest.raises(ValueError, match=r"config\.json"):
        LayeredEncoder.load(tmp_path / "nowhere")


def test_weights_of_a_model_with_a_head_and_of_older_names_are_found(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    weights = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value.half()
        for name, value in load_file(folders["bert"] / "model.safetensors").items()
    }
    save_file(weights | {"classifier.weight": torch.zeros(1, 32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folders["bert"] / "config.json").read_text())
    renamed, plain = LayeredEncoder.load(tmp_path), LayeredEncoder.load(folders["bert"])
    for name, weight in renamed.named_parameters():
        torch.testing.assert_close(weight, plain.get_parameter(name), rtol=1e-3, atol=1e-3)


def test_a_text_longer_than_the_model_and_layers_beyond_it_are_refused(folders: dict[str, Path]) -> None:
    encoder = LayeredEncoder.load(folders["roberta"])
    tokens = Tokeniser(folders["roberta"], 600).pairs([("x " * 600,)]).pack()
    with pytest.raises(ValueError, match="a text of 600 tokens for a model of 512; cut it before"):
        encoder.embed(tokens)
    with pytest.raises(ValueError, match="layers 2 to 4 of an encoder that has 3"):
        encoder.run(torch.zeros(0, 32), tokens, 2, 4)
    with pytest.raises(ValueError, match="layers 2 to 1 of an encoder that has 3"):
        encoder.copy_layers(2, 1)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((9, 0), torch.bfloat16),
        ((8, 0), torch.bfloat16),
        ((7, 5), torch.float16),
        ((7, 0), torch.float16),
        ((6, 1), torch.float32),
    ],
)
def test_a_graphics_card_computes_in_what_it_multiplies_natively(
    capability: tuple[int, int], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert fast("cuda") == fast(torch.device("cuda", 1)) == expected
    assert precision_of("auto", "cuda") == ("bf16" if expected == torch.bfloat16 else "fp32")
    assert precision_of("bf16", "cuda") == "bf16"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"amx_bf16": True}, "bf16"), ({"avx512_bf16": True}, "bf16"), ({"avx512_f": True}, "fp32")],
)
def test_a_processor_computes_in_what_it_multiplies_natively(
    capabilities: dict[str, bool], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert precision_of("auto", "cpu") == expected
    assert precision_of("fp32", "cpu") == "fp32"


def test_attention_over_all_lengths_is_asked_for_by_what_this_pytorch_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one split, or not at all: in several, a text's bits would depend on others."""

    def found(module: object) -> Any:
        monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
        return attention_over_all_lengths.__wrapped__()

    newer = SimpleNamespace(varlen_attn=lambda query, *, num_splits=None: (query, num_splits))
    older = SimpleNamespace(varlen_attn=lambda query, *, scale=None: query)
    assert found(newer)("query") == ("query", 1)
    assert found(older) is None and found(None) is None


def test_fp16_is_near_fp32_and_independent_of_other_texts(folders: dict[str, Path]) -> None:
    encoder, tokeniser = LayeredEncoder.load(folders["bert"]), Tokeniser(folders["bert"])
    halved, exact = (encoder.for_inference(precision=dtype) for dtype in (torch.float16, torch.float32))
    tokens, part = tokeniser.pairs(PAIRS[:20]).pack(), tokeniser.pairs(PAIRS[5:8]).pack()
    with torch.inference_mode():
        together, alone = pool(run(halved, tokens), tokens), pool(run(halved, part), part)
        expected = pool(run(exact, tokens), tokens)
    assert torch.equal(together[5:8], alone)
    assert 0 < (together.float() - expected).abs().max() < 2e-2


@pytest.mark.parametrize("family", NEAR)
def test_attention_by_distance_is_the_same_filled_up_to_16_tokens_as_by_length(
    folders: dict[str, Path], family: str
) -> None:
    """As a card computes it: a text's bits do not depend on the texts beside it, and learning gets the same
    gradients."""
    encoder = LayeredEncoder.load(folders[family])
    encodings = Tokeniser(folders[family]).pairs(PAIRS)
    tokens = encodings.pack(np.argsort(-encodings.lengths, kind="stable"))
    drawn = torch.randn(len(tokens.ids), 3 * 32, generator=torch.Generator().manual_seed(0))
    distances = layers.Places.of(tokens, encoder.shape, encoder.relative, drawn).distances
    outputs, gradients = [], []

    for way in (attend_filled_up, layers.attend):
        projected = drawn.clone().requires_grad_()
        over = way(projected, tokens, 4, 0.0, distances)
        torch.autograd.backward(over.square().sum())
        assert projected.grad is not None
        outputs.append(over.detach())
        gradients.append(projected.grad)

    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-5)
    without = layers.attend(drawn, tokens, 4)
    assert (without - outputs[1]).abs().max() > 0.1

    with torch.inference_mode():
        filled = attend_by_class(nn.functional.pad(drawn, (0, 0, 0, 5)), tokens, 4, distances)
        torch.testing.assert_close(filled[:-5], outputs[1], rtol=0, atol=1e-5)
        for text in range(0, len(tokens.lengths), 7):
            rows, alone = tokens.between(text, text + 1)
            assert torch.equal(attend_by_class(drawn[rows], alone, 4, distances), filled[rows])


def drawn_batch(lengths: Sequence[int], columns: int, seed: int = 0) -> tuple[Packed, Tensor]:
    """Texts of these lengths, and numbers for their tokens [n, columns]."""
    ids = torch.arange(sum(lengths))
    edges = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    tokens = Packed(
        ids, ids * 0, torch.cat([torch.arange(n) for n in lengths]), ids < 0, edges, np.array(lengths)
    )
    return tokens, torch.randn(len(ids), columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("family", ["bert", *NEAR])
@pytest.mark.parametrize("at_once", [False, True], ids=["AVX2", "AVX-512"])
def test_attention_that_reads_on_has_the_bits_of_a_text_alone_and_learns_as_spelt_out(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, family: str, at_once: bool
) -> None:
    """Texts of all lengths from 1 to 70, of which many are followed by fewer tokens than they read on."""
    monkeypatch.setattr(attention, "_takes_16_at_once", lambda: at_once)
    encoder = LayeredEncoder.load(folders[family])
    tokens, drawn = drawn_batch([*range(70, 0, -1), 2, 2, 2, 33, 33, 33], 3 * 32)
    distances = layers.Places.of(tokens, encoder.shape, encoder.relative, drawn).distances
    spelt_out = layers.attend(drawn.clone().requires_grad_(), tokens, 4, 0.0, distances).detach()

    with torch.inference_mode():
        together = layers.attend(drawn, tokens, 4, 0.0, distances)
        torch.testing.assert_close(together, spelt_out, rtol=0, atol=1e-5)
        for text in range(len(tokens.lengths)):
            rows, alone = tokens.between(text, text + 1)
            assert torch.equal(layers.attend(drawn[rows], alone, 4, 0.0, distances), together[rows])


@pytest.mark.skipif(
    not attention._has_quick_products(torch.bfloat16),
    reason="needs a processor that multiplies bf16, but not in tiles",
)
@pytest.mark.parametrize("family", ["bert", *NEAR])
@pytest.mark.parametrize("width", [32, 384])
def test_attention_by_products_has_the_bits_of_a_text_alone_and_is_near_to_the_fused_kernel_s(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, family: str, width: int
) -> None:
    """In bf16, of texts of all lengths from 1 to 70: short ones are too small for oneDNN."""
    encoder = LayeredEncoder.load(folders[family])
    tokens, exact = drawn_batch([*range(70, 0, -1), *[33] * 40, *[2] * 40, 300, 301, 301, 1_025], 3 * width)
    drawn = exact.bfloat16()
    distances = layers.Places.of(tokens, encoder.shape, encoder.relative, drawn).distances
    monkeypatch.setattr(attention, "_has_quick_products", lambda precision: False)
    with torch.inference_mode():
        fused = layers.attend(drawn, tokens, 4, 0.0, distances)
        exact = layers.attend(exact, tokens, 4, 0.0, distances)

    products = Mock(wraps=attention._products)
    monkeypatch.setattr(attention, "_products", products)
    monkeypatch.setattr(attention, "_has_quick_products", lambda precision: True)
    with torch.inference_mode():
        together = layers.attend(drawn, tokens, 4, 0.0, distances)
        assert products.call_args_list
        torch.testing.assert_close(together, fused, rtol=0, atol=0.03)
        errors = [(way.float() - exact).norm() / exact.norm() for way in (together, fused)]
        assert errors[0] < 2.5 * errors[1] < 0.02
        for text in range(len(tokens.lengths)):
            rows, alone = tokens.between(text, text + 1)
            assert torch.equal(layers.attend(drawn[rows], alone, 4, 0.0, distances), together[rows])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("family", ["minilm", *NEAR])
def test_on_cuda_encodings_are_near_those_of_the_processor_and_the_bits_of_other_batches(
    folders: dict[str, Path], family: str
) -> None:
    encoder = LayeredEncoder.load(folders[family])
    encodings = Tokeniser(folders[family]).pairs(PAIRS)
    order = np.random.default_rng(0).permutation(len(PAIRS))
    on_cuda, exact = encoder.for_inference("cuda"), encoder.for_inference(precision=torch.float32)
    with torch.inference_mode():
        tokens, shuffled = encodings.pack().to("cuda"), encodings.pack(order).to("cuda")
        encoded, again = pool(run(on_cuda, tokens), tokens), pool(run(on_cuda, shuffled), shuffled)
        expected = pool(run(exact, encodings.pack()), encodings.pack())
    assert encoded.is_cuda
    assert torch.equal(again[np.argsort(order)], encoded)
    assert nn.functional.cosine_similarity(encoded.cpu(), expected).min() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["minilm", *NEAR])
def test_on_cuda_it_learns_in_every_precision(
    folders: dict[str, Path], family: str, precision: torch.dtype
) -> None:
    torch.manual_seed(0)
    encoder = LayeredEncoder.load(folders[family]).to("cuda").train()
    head = nn.Linear(encoder.shape.width, 1, device="cuda")
    tokens = Tokeniser(folders[family]).pairs([(q, c) for q in TEXTS[:2] for c in TEXTS]).pack().to("cuda")
    losses = learn(encoder, head, tokens, 1e-4 if family == "minilm" else 3e-3, precision)
    # Dropout throws single steps of so small a model back.
    assert np.median(losses[-10:]) < losses[0] / 2, losses


def test_where_memory_runs_out_fewer_texts_go_on_together_with_the_same_encodings(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = LayeredEncoder.load(folders["bert"]).for_inference(precision=torch.float32)
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack()
    with torch.inference_mode():
        hidden = encoder.embed(tokens)
        whole = encoder.run(hidden, tokens, 0, 3)

    ran, attend = [], layers.attend

    def small_memory(projected: Tensor, some: Packed, *rest: Any) -> Tensor:
        ran.append(len(some.ids))
        if len(some.ids) > 300:
            raise torch.OutOfMemoryError("no")
        return attend(projected, some, *rest)

    monkeypatch.setattr(layers, "attend", small_memory)
    with torch.inference_mode(), pytest.warns(UserWarning, match="going on with half as many"):
        assert torch.equal(encoder.run(hidden, tokens, 0, 3), whole)
    assert ran[0] == len(tokens.ids) > 300 >= max(ran[-30:])
    monkeypatch.setattr(layers, "attend", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("no")))
    with torch.inference_mode(), pytest.warns(UserWarning), pytest.raises(torch.OutOfMemoryError):
        encoder.run(hidden, tokens, 0, 3)


def test_a_trial_on_a_card_changes_how_many_tokens_are_computed_at_once_and_no_bit(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = LayeredEncoder.load(folders["bert"]).for_inference(precision=torch.float32)
    tokens = Tokeniser(folders["bert"]).pairs(PAIRS).pack()
    monkeypatch.setattr(devices, "TRIAL_TOKENS", 400)
    with torch.inference_mode():
        hidden = encoder.embed(tokens)
        whole = encoder.run(hidden, tokens, 0, 3)

    ran, attend = list[int](), layers.attend

    def look(projected: Tensor, some: Packed, *rest: Any) -> Tensor:
        ran.append(len(some.ids))
        return attend(projected, some, *rest)

    monkeypatch.setattr(layers, "attend", look)
    encoder._budget = TokenBudget(4_096, FakeMemory(each=1_000, free=2_400_000))
    with torch.inference_mode():
        assert torch.equal(encoder.run(hidden, tokens, 0, 3), whole)
    assert encoder._budget.tokens == 1_200_000 // (400_000 // ran[0]) and len(tokens.ids) > 1_600
    assert 200 <= ran[0] <= 400 < 800 < ran[3] <= 1_200  # ran[1] and [2] are its other layers


class FakeMemory:
    """Of a card on which each token of a trial, of which there are 400 at most, takes `each` bytes."""

    def __init__(self, each: int, free: int) -> None:
        self._each, self._free = each, free

    def begin(self) -> None: ...

    def taken(self) -> int:
        return self._each * 400

    def free(self) -> int:
        return self._free
