"""Bits score as the unpacked matrices do, in whatever company; sizes are those of the paper's Table 6."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from answermill.ranking.rerankers.hashing import bits
from answermill.ranking.rerankers.hashing.bits import Attention, Codes, exact_product, pack, sizes, unpack
from answermill.schemas.arrays import Floats

WIDTH, HIDDEN = 64, 24


def attention(
    scale: float = 1.0, width: int = WIDTH, hidden: int = HIDDEN, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """W1, W2 and m as a new model has them; `scale` makes m as large as a trained one may have it."""
    torch.manual_seed(seed)
    w1, w2, m = (
        torch.nn.Linear(n, n_out, bias=False).weight.data
        for n, n_out in ((width, hidden), (width, hidden), (hidden, 1))
    )
    return w1, w2, scale * m[0]


def answers(*lengths: int, width: int = WIDTH, seed: int = 0) -> tuple[Codes, list[Tensor]]:
    """Random answers, packed and as they were."""
    torch.manual_seed(seed)
    matrices = [bits.unpack(pack(torch.randn(length, width))) for length in lengths]
    return Codes(pack(torch.cat(matrices)), np.array(lengths)), matrices


def asked(width: int = WIDTH, seed: int = 0) -> Tensor:
    return torch.rand(width, generator=torch.Generator().manual_seed(seed)) + 0.5


def reference(w1: Tensor, w2: Tensor, m: Tensor, question: Tensor, matrices: list[Tensor]) -> Floats:
    """The paper's formulas on unpacked float32, an answer at a time."""
    values = []
    for b in matrices:
        alpha = ((b @ w1.T + w2 @ question).tanh() @ m).softmax(0)
        values.append(float(torch.cosine_similarity(alpha @ b, question, dim=0)))
    return np.array(values)


def test_sizes_are_the_papers_memory_column() -> None:
    gib = [round(size / 2**30, 2) for size in sizes(24_981, 200, 768)]
    assert gib == [14.29, 0.45, 0.07, 0.02]
    memory = sizes(1, 200, 768)
    assert memory.floats == 600 * 1024 == 32 * memory.bits


@given(st.integers(0, 9), st.integers(1, 5), st.integers(0, 1000))
def test_unpacked_is_the_sign_of_what_was_packed(tokens: int, bytes_each: int, seed: int) -> None:
    values = torch.randn(tokens, 8 * bytes_each, generator=torch.Generator().manual_seed(seed))
    packed = pack(values)
    assert (packed.shape, packed.dtype) == ((tokens, bytes_each), np.uint8)
    assert torch.equal(unpack(packed), torch.where(values >= 0, 1.0, -1.0))
    assert sizes(1, tokens, 8 * bytes_each).bits == packed.nbytes


def test_nought_is_plus_one_and_the_first_number_is_the_lowest_bit() -> None:
    assert pack(torch.tensor([[0.0, -1, -1, -1, -1, -1, -1, 2]])).tolist() == [[0b1000_0001]]
    with pytest.raises(ValueError, match=r"12 numbers a token; .* multiple of 8"):
        pack(torch.zeros(1, 12))


@pytest.mark.parametrize(
    ("width", "hidden", "scale", "precision"),
    [
        (64, 24, 0.25, 7),
        (64, 24, 1.0, 14),
        (384, 128, 1.0, 7),
        (384, 128, 30.0, 14),
        (768, 40, 1.0, 7),
        (768, 40, 8.0, 14),
    ],
)
def test_a_score_from_bits_is_that_of_the_unpacked_matrices(
    width: int, hidden: int, scale: float, precision: int
) -> None:
    weights = attention(scale, width, hidden)
    codes, matrices = answers(*range(1, 60), 200, 600, width=width)
    scorer = Attention(*weights)
    for seed in range(4):
        question = asked(width, seed)
        expected = reference(*weights, question, matrices)
        assert np.ptp(expected) > 0.05
        assert scorer.bits_of(question) == precision
        assert np.abs(scorer.scores(question, codes) - expected).max() < 1e-4


@pytest.mark.parametrize(("norm", "precision"), [(0.3, 7), (30.0, 14)])
def test_a_steep_tanh_gets_the_bits_that_it_needs(norm: float, precision: int) -> None:
    """It is steep at few b, half a deviation of W1 b from the middle, and these decide."""
    question = asked()
    w1 = norm * F.normalize(attention(hidden=1)[0])
    steep = w1, norm / 2 * question[None] / question.square().sum(), torch.tensor([0.3])
    codes, matrices = answers(*range(1, 60))
    scorer = Attention(*steep)
    assert scorer.bits_of(question) == precision
    assert np.abs(scorer.scores(question, codes) - reference(*steep, question, matrices)).max() < 1e-4


def test_a_score_depends_neither_on_the_block_nor_on_the_other_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes, _ = answers(5, 0, 30, 7, 1, 90, 12, 12, 64)
    starts = np.cumsum(codes.lengths) - codes.lengths
    for scale in (0.25, 30.0):
        scorer, question = Attention(*attention(scale)), asked()
        whole = scorer.scores(question, codes)
        assert len(set(whole.tolist())) == len(whole)
        for tokens in (1, 13, 100):
            monkeypatch.setitem(bits.BLOCK_TOKENS, "cpu", tokens)
            assert (scorer.scores(question, codes) == whole).all()
        for n, (start, length) in enumerate(zip(starts, codes.lengths, strict=True)):
            alone = Codes(codes.bits[start : start + length], codes.lengths[n : n + 1])
            assert scorer.scores(question, alone)[0] == whole[n]


def test_a_processor_that_multiplies_no_bytes_gets_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, _ = answers(5, 30, 7, 90, width=768)
    for scale in (1.0, 30.0):
        scorer = Attention(*attention(scale, 768))
        quick = scorer.scores(asked(768), codes)
        with monkeypatch.context() as patch:
            patch.setattr(bits, "_multiplies_bytes", lambda: False)
            assert (
                exact_product(torch.ones(1, 8, dtype=torch.int8), torch.ones(8, 8, dtype=torch.int8)).dtype
                == torch.float32
            )
            assert (scorer.scores(asked(768), codes) == quick).all()


def test_memory_does_not_grow_with_the_number_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = []

    def watched(a: Tensor, b: Tensor) -> Tensor:
        largest.append(max(a.numel(), b.numel()))
        return exact_product(a, b)

    monkeypatch.setattr(bits, "exact_product", watched)
    scorer = Attention(*attention())
    peaks = []

    for count in (100, 1_000):
        largest.clear()
        scorer.scores(asked(), answers(*[20] * count)[0])
        peaks.append(max(largest))

    assert peaks[0] == peaks[1] == 2 * 51 * 1_020 < 1_000 * 20 * WIDTH


def test_an_answer_without_tokens_and_no_answers_are_no_trouble() -> None:
    scorer = Attention(*attention())
    codes, _ = answers(0, 4, 0)
    values = scorer.scores(asked(), codes)
    assert values[0] == values[2] == 0.0 != values[1]
    assert scorer.scores(
        asked(), Codes(np.zeros((0, WIDTH // 8), np.uint8), np.zeros(0, np.int64))
    ).shape == (0,)


def test_what_does_not_fit_is_refused() -> None:
    w1, w2, m = attention()
    with pytest.raises(ValueError, match="no attention over bits"):
        Attention(w1, w2, m[:-1])
    with pytest.raises(ValueError, match="answers of 32 bits a token for a model of 64"):
        Attention(w1, w2, m).scores(asked(), answers(3, width=32)[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_gpu_scores_as_the_processor_does() -> None:
    codes, _ = answers(*range(1, 200), width=768)
    for scale in (1.0, 30.0):
        weights = attention(scale, 768, 128)
        here, there = Attention(*weights), Attention(*weights, device="cuda")
        assert np.abs(here.scores(asked(768), codes) - there.scores(asked(768).cuda(), codes)).max() < 1e-5
