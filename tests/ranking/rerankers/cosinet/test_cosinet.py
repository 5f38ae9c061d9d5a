from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from answermill.files.model_files import SUMS
from answermill.indexing.shards.dense import find_model
from answermill.ranking.rerankers.cosinet import heads
from answermill.ranking.rerankers.cosinet.cosinet import Cosinet, CosinetModel, relatedness
from answermill.ranking.rerankers.cosinet.heads import FORMS, Form, NumberedList, collate
from answermill.ranking.rerankers.cosinet.list_checkpoint import load_list_model, save_list_model
from answermill.ranking.rerankers.cosinet.table_lookup import LookUp, Taps
from answermill.ranking.rerankers.registry import load_reranker
from answermill.ranking.word_vectors.embeddings import Embeddings
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.ranked import Candidate, Hit, RankedList

VOCABULARY = 200
UNKNOWN = VOCABULARY + 1
AWKWARD: list[NumberedList] = [
    (
        [3, 7, UNKNOWN, 9],
        [[7, 8, 9, UNKNOWN, 1, 2], [UNKNOWN + 1], [], [5], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9], [4, 6]],
    ),
    ([], [[1, 2, 3], [], [UNKNOWN]]),
    ([UNKNOWN + 5], [[UNKNOWN + 5, UNKNOWN + 6], [12]]),
    ([20, 21], []),
    ([30], [list(range(1, 120))]),
]
"""Unknown words (above the vocabulary), empty texts, one-word texts, texts shorter than the kernel, an empty
list."""


def vectors(d: int = 12, words: int = VOCABULARY) -> np.ndarray:
    table = np.random.default_rng(0).standard_normal((1 + words, d)).astype(np.float32)
    table[0] = 0
    return table


def model_of(form: Form, d: int = 12, filters: int = 16) -> CosinetModel:
    torch.manual_seed(0)
    return CosinetModel(vectors(d), form, filters).eval()


def look_up(model: CosinetModel) -> LookUp:
    return LookUp(model.vectors, model.question, model.candidate, model.head)


def random_lists(sizes: list[int], seed: int = 0) -> list[NumberedList]:
    draw = random.Random(seed)

    def text(longest: int) -> list[int]:
        return [draw.randint(1, VOCABULARY + 20) for _ in range(draw.randint(1, longest))]

    return [(text(9), [text(40) for _ in range(size)]) for size in sizes]


def plain(model: CosinetModel, lists: list[NumberedList]) -> list[np.ndarray]:
    """The model's own forward, one list at a time."""
    with torch.inference_mode():
        return [
            model(collate([(question, candidates, [0] * len(candidates))])).numpy()
            if candidates
            else np.empty(0)
            for question, candidates in lists
        ]


def by_the_paper(model: CosinetModel, question: list[int], candidates: list[list[int]]) -> np.ndarray:
    """§4.1 to the letter, pair by pair, with PyTorch's own convolution."""

    def encode(conv: torch.nn.Conv1d, text: list[int], other: list[int]) -> torch.Tensor:
        words = []
        for row in text or [0]:
            w = table[row] if row <= VOCABULARY else torch.zeros(table.shape[1])
            cosines = [
                1.0
                if row == there and row > 0
                else 0.0
                if max(row, there) > VOCABULARY
                else cosine(w, table[there])
                for there in other or [0]
            ]
            words.append(torch.cat([w, torch.tensor([max(cosines)])]))

        return F.relu(conv(F.pad(torch.stack(words).T, (2, 2))).amax(1))

    def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
        return F.cosine_similarity(a, b, dim=0).item()

    table = model.vectors
    pairs = []

    with torch.inference_mode():
        for candidate in candidates:
            q, c = encode(model.question, question, candidate), encode(model.candidate, candidate, question)
            pairs.append(torch.cat([q * c, q - c]))
        return model.head(torch.stack(pairs), [len(pairs)]).numpy()


@pytest.mark.parametrize(
    ("form", "parameters"),
    [
        ("pointwise", 904_201),
        ("list", 904_201),
        ("rnn", 1_174_501),
        ("birnn", 1_129_501),
        ("lstm", 1_986_301),
        ("bilstm", 1_806_301),
    ],
)
def test_each_form_has_the_parameters_of_table_4(form: Form, parameters: int) -> None:
    model = CosinetModel(vectors(300), form)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == parameters


@pytest.mark.parametrize("form", FORMS)
def test_the_model_the_look_up_and_the_paper_to_the_letter_give_the_same_scores(form: Form) -> None:
    model = model_of(form)
    lists = AWKWARD + random_lists([1, 7, 30])
    looked_up, own = look_up(model).scores(lists), plain(model, lists)
    assert [len(s) for s in looked_up] == [6, 3, 2, 0, 1, 1, 7, 30]
    assert np.ptp(np.concatenate(own)) > 0.05
    for (question, candidates), mine, fast in zip(lists, own, looked_up, strict=True):
        if candidates:
            letter = by_the_paper(model, list(question), [list(c) for c in candidates])
            np.testing.assert_allclose(mine, letter, atol=1e-5)
            np.testing.assert_allclose(fast, letter, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("form", FORMS)
def test_a_gpu_gives_the_scores_of_the_cpu(form: Form) -> None:
    lists = AWKWARD + random_lists([1, 7, 30])
    own = plain(model_of(form), lists)
    looked_up = look_up(model_of(form).to("cuda")).scores(lists)
    for mine, fast in zip(own, looked_up, strict=True):
        np.testing.assert_allclose(fast, mine, atol=1e-5)


def test_relatedness_is_the_cosine_of_the_nearest_word_of_the_other_text() -> None:
    table = torch.tensor(
        [[0, 0], [2, 0], [0, 1], [1, 1], [-1, 0]], dtype=torch.float32
    )  # no word, east, north, north-east, west
    r_q, r_c = relatedness(table, torch.tensor([[1, 2, 0], [1, 1, 5]]), torch.tensor([[3, 0], [4, 5]]))
    half = 0.5**0.5
    torch.testing.assert_close(
        r_q, torch.tensor([[half, half, 0], [0, 0, 1]])
    )  # east is nearer to the unknown word than to west
    torch.testing.assert_close(r_c, torch.tensor([[half, 0], [0, 1]]))


def test_padding_wins_no_relatedness_from_words_that_are_opposites() -> None:
    table = torch.tensor([[0, 0], [1, 0], [-1, 0]], dtype=torch.float32)
    r_q, r_c = relatedness(table, torch.tensor([[1, 0]]), torch.tensor([[2, 0, 0]]))
    assert r_q.tolist() == [[-1, 0]]
    assert r_c.tolist() == [[-1, 0, 0]]


def test_padding_wins_no_maximum() -> None:
    model = model_of("pointwise")
    with torch.no_grad():
        model.vectors.abs_()
        for conv in (model.question, model.candidate):
            conv.weight.abs_().neg_()
            conv.bias.fill_(9)  # every word lowers its place: a place of padding would have the maximum

    short, long = [1, 2, 3, 4, 5, 6], list(range(50, 90))
    (alone,) = plain(model, [([7, 8], [short])])
    assert alone[0] != pytest.approx(plain(model, [([7, 8], [[]])])[0][0])
    with torch.inference_mode():
        batch = collate([([7, 8], [short, long], [0, 0]), (list(range(9, 29)), [long], [0])])
        assert model(batch)[0].item() == pytest.approx(alone[0], abs=1e-5)

    assert look_up(model).scores([([7, 8], [long, short])])[0][1] == pytest.approx(alone[0], abs=1e-5)


def test_the_same_unknown_word_in_both_texts_counts() -> None:
    model = model_of("pointwise")
    same, other = plain(model, [([UNKNOWN, 1], [[2, UNKNOWN], [2, UNKNOWN + 1]])])[0]
    assert abs(same - other) > 1e-3


@pytest.mark.parametrize("d", [25, 50, 300])
def test_a_look_up_score_depends_neither_on_batch_mates_nor_on_blocks(
    monkeypatch: pytest.MonkeyPatch, d: int
) -> None:
    # Real sizes: the kernels of the library are what is tried.
    model = model_of("pointwise", d=d, filters=300)
    lists = random_lists([40, 3, 17])
    expected = look_up(model).scores(lists)
    fast = look_up(model)
    for (question, candidates), together in zip(lists, expected, strict=True):
        alone = np.concatenate([fast.scores([(question, [candidate])])[0] for candidate in candidates])
        np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)
    monkeypatch.setattr(heads, "BLOCK_WORDS", 100)
    turned = [(question, candidates[::-1]) for question, candidates in lists[::-1]]
    for mine, together in zip(look_up(model).scores(turned)[::-1], expected, strict=True):
        np.testing.assert_allclose(mine[::-1], together, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_list_s_scores_do_not_depend_on_the_other_lists_of_the_call(
    form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = look_up(model_of(form, d=300, filters=300))
    lists = random_lists([5, 31, 1, 12])
    expected = [fast.scores([mine])[0] for mine in lists]
    for pairs in (1_000, 20):
        monkeypatch.setattr(heads, "GROUP_PAIRS", pairs)
        for mine, alone in zip(fast.scores(lists), expected, strict=True):
            np.testing.assert_allclose(mine, alone, rtol=0, atol=1e-12)


def test_a_table_that_starts_again_gives_the_same_vectors() -> None:
    conv = model_of("pointwise").question
    draw = np.random.default_rng(1)
    roomy, tight = Taps(conv, vectors()), Taps(conv, vectors(), limit=20)
    for words in (15, 15, 120, 3):
        rows = draw.integers(0, VOCABULARY + 5, words).astype(np.int32)
        related = draw.random(words, np.float32)
        assert torch.equal(
            roomy.encode(rows, related, np.array([words])), tight.encode(rows, related, np.array([words]))
        )


@pytest.mark.parametrize("form", ["pointwise", "birnn"])
def test_a_list_of_20_000_candidates_is_scored(form: Form) -> None:
    model = model_of(form)
    (question, candidates) = random_lists([20_000])[0]
    (scores,) = look_up(model).scores([(question, candidates)])
    assert len(scores) == 20_000
    assert np.isfinite(scores).all()
    # The first candidates of a recurrent list hear nothing of the last ones.
    near = 100 if form == "pointwise" else 1_000
    np.testing.assert_allclose(scores[:50], plain(model, [(question, candidates[:near])])[0][:50], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_training_moves_every_parameter_and_leaves_the_static_table(form: Form) -> None:
    model = model_of(form).train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    batch = collate([(q, cs, [1] + [0] * (len(cs) - 1)) for q, cs in random_lists([6, 4])])
    first = model.loss(batch)

    for _ in range(10):
        optimizer.zero_grad()
        model.loss(batch).backward()
        optimizer.step()

    assert model.loss(batch).item() < first.item()
    assert all(
        not torch.equal(p, before[name]) for name, p in model.named_parameters() if name != "head.linear.bias"
    )
    assert model.vectors.grad is None
    assert not model.vectors.requires_grad
    assert np.array_equal(model.vectors.numpy(), vectors())


def test_the_gradient_of_the_convolution_is_that_of_the_paper_to_the_letter() -> None:
    model = model_of("pointwise")
    (question, candidates) = AWKWARD[0]
    model(collate([(question, candidates, [0] * len(candidates))])).sum().backward()
    own = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert len(own) == 6
    step = 1e-2

    for name, p in model.named_parameters():
        flat, largest = p.data.view(-1), int(own[name].abs().argmax())
        values = []
        for change in (step, -2 * step):
            flat[largest] += change
            values.append(by_the_paper(model, list(question), [list(c) for c in candidates]).sum())
        flat[largest] += step
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(
            own[name].view(-1)[largest].item(), rel=0.05, abs=1e-3
        )


EMBEDDINGS = Embeddings(("capital", "city", "italy", "of", "rome", "the"), vectors(words=6))
SENTENCES = [
    "Rome is the capital.",
    "The Tiber!",
    "",
    "A city of Italy: Rome",
    "Rome is the capital.",
    "Nobody asked.",
]


def ranked(*texts: str) -> RankedList:
    candidates = []
    for n, text in enumerate(texts):
        sentence = Sentence(f"d@{n}", n, n + len(text), text)
        passage = Passage("d#0", "d", "", "", 0, 9, text, (sentence,))
        candidates.append(
            Candidate(Hit("q", "Capital of Italy?", 1, 0.0, None, None, None, None, passage), sentence, n)
        )
    return RankedList(Question("q", "Capital of Italy?"), tuple(candidates))


def saved(folder: Path, form: Form) -> Path:
    torch.manual_seed(3)
    save_list_model(folder, CosinetModel(EMBEDDINGS.vectors, form, filters=16), EMBEDDINGS)
    return folder


def loaded(folder: Path) -> Cosinet:
    return load_reranker("cosinet", folder)


@pytest.mark.parametrize("form", FORMS)
def test_the_original_order_counts_whatever_order_comes_in(form: Form, tmp_path: Path) -> None:
    reranker = loaded(saved(tmp_path, form))
    came = ranked(*SENTENCES)
    (left,) = reranker.rerank([came])

    (turned,) = reranker.rerank([RankedList(came.question, came.candidates[::-1])])
    assert {c.candidate_id: c.score for c in turned.candidates} == {
        c.candidate_id: c.score for c in left.candidates
    }
    moved = tuple(replace(c, position=9 - c.position) for c in came.candidates)
    (other,) = reranker.rerank([RankedList(came.question, moved)])
    same = {c.candidate_id: c.score for c in other.candidates} == {
        c.candidate_id: c.score for c in left.candidates
    }
    assert same == (form in ("pointwise", "list"))


@pytest.mark.parametrize("form", FORMS)
def test_a_saved_model_comes_back_with_the_same_scores(form: Form, tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = CosinetModel(EMBEDDINGS.vectors, form, filters=16)
    save_list_model(tmp_path, model, EMBEDDINGS)
    back, embeddings = load_list_model(tmp_path, CosinetModel)
    assert embeddings.words == EMBEDDINGS.words
    assert Cosinet(back, embeddings).rerank([ranked(*SENTENCES)]) == Cosinet(model, EMBEDDINGS).rerank(
        [ranked(*SENTENCES)]
    )

    assert sorted(path.suffix for path in tmp_path.iterdir()) == [
        ".json",
        ".json",
        ".json",
        ".safetensors",
        ".safetensors",
    ]


def test_a_later_change_of_the_model_does_not_reach_a_look_up() -> None:
    model = model_of("pointwise")
    fast = look_up(model)
    before = fast.scores(AWKWARD)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    for mine, then in zip(fast.scores(AWKWARD), before, strict=True):
        assert np.array_equal(mine, then)


def test_without_a_checkpoint_the_shipped_one_is_taken() -> None:
    shipped = load_reranker("cosinet", model=find_model)
    came = replace(
        ranked("Nobody read it.", "She wrote the book in 1901."),
        question=Question("q", "Who wrote the book?"),
    )
    (left,) = shipped.rerank([came])
    assert left.candidates[0].text == "She wrote the book in 1901."


def test_passages_are_read_whole_in_the_order_they_were_retrieved(tmp_path: Path) -> None:
    texts = [f"{text} {SENTENCES[n - 1]}" for n, text in enumerate(SENTENCES)]
    asked = ranked(*texts)
    passages = [Passage(f"d#{n}", "d", "", "", 0, len(text), text, ()) for n, text in enumerate(texts)]
    hits = [
        replace(asked.candidates[n].hit, rank=n + 1, passage=passage) for n, passage in enumerate(passages)
    ]
    came = replace(asked, candidates=tuple(Candidate(hit, None, n) for n, hit in enumerate(hits)))
    folder = saved(tmp_path, "birnn")
    (left,) = load_reranker("cosinet_passages", folder).rerank([came])

    (as_sentences,) = loaded(folder).rerank([asked])
    assert {c.position: c.score for c in left.candidates} == {
        c.position: c.score for c in as_sentences.candidates
    }


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", 2, "no checkpoint of cosinet: it has format 2, not 1; train it again"),
        ("model", "compare_aggregate", "it holds 'compare_aggregate'; give one of cosinet"),
        ("filters", 8, "does not fit config.json"),
        ("filters", -1, "filters is -1; at least one is needed"),
        ("form", "gru", "unknown form 'gru'"),
    ],
)
def test_a_folder_of_another_format_or_model_is_refused(
    key: str, value: object, says: str, tmp_path: Path
) -> None:
    config = saved(tmp_path, "birnn") / "config.json"
    (tmp_path / SUMS).unlink()
    config.write_text(json.dumps(json.loads(config.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=says):
        load_list_model(tmp_path, CosinetModel)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "words.json", "vectors.safetensors"])
def test_an_incomplete_or_broken_folder_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    file = saved(tmp_path, "list") / name
    (tmp_path / SUMS).unlink()
    file.write_bytes(b"{")
    with pytest.raises(ValueError, match=f"{tmp_path} is no checkpoint of cosinet"):
        load_list_model(tmp_path, CosinetModel)
    file.unlink()
    with pytest.raises(ValueError, match=f"{tmp_path} is no checkpoint of cosinet"):
        load_list_model(tmp_path, CosinetModel)
