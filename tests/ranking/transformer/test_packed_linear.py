"""Linear layers in oneDNN's own layout: the numbers of plain ones with less rounding, the same bits in any
batch, and only in copies that serve."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from answermill.ranking.transformer import encoder as encoder_module
from answermill.ranking.transformer.encoder import LayeredEncoder
from answermill.ranking.transformer.huggingface import Rotary, Shape
from answermill.ranking.transformer.layers import packed_linear
from answermill.ranking.transformer.layers.packed_linear import LINEARS, PackedGates, PackedLinear, packs
from answermill.ranking.transformer.layers.row_windows import exact_windows
from answermill.ranking.transformer.layers.spans import SIZES, warn_of_threads
from answermill.ranking.transformer.packing import Packed

BF16 = torch.bfloat16
multiplies_bf16 = pytest.mark.skipif(
    not packs("cpu", BF16), reason="this processor, or this PyTorch, has no products in bf16"
)
SHAPES = {
    "bert": Shape(2, 64, 4, 128, 50),
    "electra": Shape(2, 64, 4, 128, 50, "electra", embedded=16),
    "mpnet": Shape(2, 64, 4, 128, 50, "mpnet", offset=2, types=0, buckets=32),
    "modernbert": Shape(2, 64, 4, 128, 50, "modernbert", types=0, rotary=Rotary(160_000.0, 10_000.0, 8, 3)),
}


def random_encoder(shape: Shape) -> LayeredEncoder:
    torch.manual_seed(0)
    encoder = LayeredEncoder(shape).eval()
    for parameter in encoder.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.2)
    return encoder


def texts(longest: int) -> Packed:
    """Texts of 1, 2, … tokens of random ids."""
    lengths = np.arange(1, longest + 1)
    places = np.concatenate([np.arange(length) for length in lengths])
    ids = torch.from_numpy(np.random.default_rng(0).integers(5, 50, len(places)))
    starts = torch.from_numpy(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    own = torch.ones(len(ids), dtype=torch.bool)
    return Packed(ids, torch.zeros_like(ids), torch.from_numpy(places), own, starts, lengths)


def encoded(encoder: LayeredEncoder, tokens: Packed) -> torch.Tensor:
    with torch.inference_mode():
        return encoder.run(encoder.embed(tokens), tokens, 0, encoder.shape.layers)


@multiplies_bf16
@pytest.mark.parametrize("biased", [True, False])
def test_a_packed_layer_rounds_once_where_a_plain_one_rounds_twice(biased: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 64, bias=biased).to(BF16).requires_grad_(False)
    packed, rows, hidden = PackedLinear(linear), torch.randn(70, 96).to(BF16), torch.randn(70, 64).to(BF16)
    bias = None if linear.bias is None else linear.bias.float()
    exact = F.linear(rows.float(), linear.weight.float(), bias)

    # Sums of 96 products in another order, each rounded at most by half a unit of bf16's last place.
    near = {"rtol": 2**-8, "atol": 1e-5}
    torch.testing.assert_close(packed(rows).float(), exact, **near)
    torch.testing.assert_close(packed.gelu(rows).float(), F.gelu(exact), rtol=2**-8, atol=1e-4)
    torch.testing.assert_close(packed.plus(rows, hidden).float(), exact + hidden.float(), **near)
    torch.testing.assert_close(packed.times(rows, hidden).float(), exact * hidden.float(), **near)


@multiplies_bf16
@pytest.mark.parametrize("biased", [True, False])
def test_packed_gates_are_gelu_of_half_the_outputs_times_the_other_half(biased: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 64, bias=biased).to(BF16).requires_grad_(False)
    rows = torch.randn(70, 96).to(BF16)
    bias = None if linear.bias is None else linear.bias.float()
    values, gates = F.linear(rows.float(), linear.weight.float(), bias).chunk(2, -1)
    # The values are rounded before they are multiplied, and the product after it.
    expected = F.gelu(values).to(BF16).float() * gates
    torch.testing.assert_close(PackedGates(linear)(rows).float(), expected, rtol=2**-6, atol=1e-4)


@multiplies_bf16
@pytest.mark.parametrize("n", [0, 1, 31, 32, 1000])
def test_a_packed_layer_takes_any_number_of_rows(n: int) -> None:
    packed = PackedLinear(nn.Linear(32, 16).to(BF16).requires_grad_(False))
    rows, hidden = torch.randn(n, 32).to(BF16), torch.randn(n, 16).to(BF16)
    for result in (packed(rows), packed.gelu(rows), packed.plus(rows, hidden), packed.times(rows, hidden)):
        assert result.shape == (n, 16) and result.dtype == BF16


@multiplies_bf16
def test_a_packed_layer_goes_on_with_one_thread_where_several_change_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert exact_windows("cpu", BF16, SHAPES["bert"], threads=2, packed=True) == SIZES
    packed = PackedLinear(nn.Linear(64, 32).to(BF16).requires_grad_(False))
    monkeypatch.setattr(packed_linear, "exact_rows", lambda *size: SIZES if size[-1] == 1 else ())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.warns(UserWarning, match="2 threads compute other bits than one"):
            assert packed(torch.randn(5, 64).to(BF16)).shape == (5, 32)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
        warn_of_threads.cache_clear()


@multiplies_bf16
@pytest.mark.parametrize("inputs", [768, 3072])
def test_a_row_of_a_packed_layer_has_the_same_bits_whatever_rows_are_beside_it(inputs: int) -> None:
    """Sizes for which oneDNN cuts sums in another way for few rows, on a processor with AMX."""
    packed = PackedLinear(nn.Linear(inputs, 768).to(BF16).requires_grad_(False))
    rows, hidden = torch.randn(2100, inputs).to(BF16), torch.randn(2100, 768).to(BF16)
    together = packed(rows), packed.gelu(rows), packed.plus(rows, hidden), packed.times(rows, hidden)
    for n in (1, 30, 64, 130, 500, 1000):
        some, beside = rows[-n:], hidden[-n:]
        apart = packed(some), packed.gelu(some), packed.plus(some, beside), packed.times(some, beside)
        assert all(torch.equal(a, b[-n:]) for a, b in zip(apart, together, strict=True)), n


@multiplies_bf16
def test_more_rows_are_computed_where_few_have_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PackedLinear(nn.Linear(64, 32).to(BF16).requires_grad_(False))
    computed, product = list[int](), packed.product

    def spied(then: str, *inputs: Tensor) -> Tensor:
        computed.append(len(inputs[0]))
        return product(then, *inputs)

    monkeypatch.setattr(packed, "product", spied)
    monkeypatch.setattr(packed_linear, "exact_rows", lambda *_: (512, 384))
    assert packed(torch.randn(600, 64).to(BF16)).shape == (600, 32)
    assert packed.plus(torch.randn(100, 64).to(BF16), torch.randn(100, 32).to(BF16)).shape == (100, 32)
    assert computed == [384, 384, 384]


@multiplies_bf16
@pytest.mark.parametrize("family", SHAPES)
def test_a_copy_that_serves_in_bf16_is_packed_and_no_farther_from_fp32(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, tokens = random_encoder(SHAPES[family]), texts(60)
    packed = encoder.for_inference(precision=BF16)
    layers = [getattr(layer, name) for layer in packed.layers for name in LINEARS]
    assert all(isinstance(each, PackedLinear | PackedGates) for each in layers)
    assert isinstance(packed.layers[0].widen, PackedGates) == (family == "modernbert")
    assert (packed.project is None) == (encoder.project is None)
    assert not isinstance(packed.project, nn.Linear)
    assert all(isinstance(getattr(layer, name), nn.Linear) for layer in encoder.layers for name in LINEARS)

    monkeypatch.setattr(encoder_module, "packs", lambda *_: False)
    plain, exact = encoder.for_inference(precision=BF16), encoder.for_inference(precision=torch.float32)
    assert all(isinstance(getattr(layer, name), nn.Linear) for layer in plain.layers for name in LINEARS)
    expected = encoded(exact, tokens)
    distances = [float((encoded(each, tokens).float() - expected).norm()) for each in (packed, plain)]
    assert 0 < distances[0] < 1.1 * distances[1] < 0.1 * float(expected.norm())


@multiplies_bf16
def test_a_copy_of_a_packed_encoder_shares_its_weights_and_gives_its_bits() -> None:
    packed, tokens = random_encoder(SHAPES["bert"]).for_inference(precision=BF16), texts(20)
    twin = copy.deepcopy(packed)
    assert twin.layers[0].output is packed.layers[0].output
    assert torch.equal(encoded(twin, tokens), encoded(packed, tokens))


@multiplies_bf16
@pytest.mark.parametrize("family", SHAPES)
def test_a_text_has_the_same_bits_alone_and_among_others(family: str) -> None:
    encoder, among = random_encoder(SHAPES[family]).for_inference(precision=BF16), texts(70)
    together = encoded(encoder, among)
    for number in (0, 30, 69):
        alone, rows = among.select([number])
        assert torch.equal(encoded(encoder, alone), together[rows])


def test_layers_are_packed_where_a_processor_multiplies_bf16_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "_multiplies_bf16", lambda: True)
    assert packs("cpu", BF16) and packs(torch.device("cpu"), BF16)
    assert not packs("cuda", BF16) and not packs("cpu", torch.float32)
    monkeypatch.setattr(packed_linear, "_multiplies_bf16", lambda: False)
    assert not packs("cpu", BF16)
