from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits

from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.ranking.word_vectors.embeddings import Embeddings, derive, encode_words
from answermill.ranking.word_vectors.vector_files import VectorsUnreadable, read
from answermill.ranking.word_vectors.word_pieces import Encode, WordPieces, read_pieces, word_pieces

THREE = {"sea": [1.0, 2.0, 3.0], "sky": [-0.5, 0.25, 1e-3], "sun": [4.0, 5.0, 6.0]}


def as_text(vectors: dict[str, list[float]], header: bool = False, end: str = "\n") -> bytes:
    lines = [" ".join([word, *map(repr, vector)]) + end for word, vector in vectors.items()]
    first = f"{len(vectors)} {len(next(iter(vectors.values())))}\n" if header else ""
    return (first + "".join(lines)).encode()


def as_binary(vectors: dict[str, list[float]], end: bytes = b"\n") -> bytes:
    first = f"{len(vectors)} {len(next(iter(vectors.values())))}\n".encode()
    return first + b"".join(
        w.encode() + b" " + np.array(v, "<f4").tobytes() + end for w, v in vectors.items()
    )


def write(folder: Path, content: bytes, name: str = "vectors") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def same(one: Embeddings, other: Embeddings) -> bool:
    return one.words == other.words and one.vectors.tobytes() == other.vectors.tobytes()


def lookup(embeddings: Embeddings, word: str) -> list[float]:
    return embeddings.vectors[embeddings.rows([word])[0]].tolist()  # type: ignore[no-any-return]


def plus(vectors: dict[str, list[float]], *lines: bytes) -> bytes:
    return as_text(vectors) + b"".join(line + b"\n" for line in lines)


# What the table is


def test_row_zero_is_zeros_and_stands_for_every_unknown_word(tmp_path: Path) -> None:
    embeddings, _ = read(write(tmp_path, as_text(THREE)), ["sea", "sun", "moon"])
    assert embeddings.words == ("sea", "sun")
    assert embeddings.rows(["sun", "moon", "Sea", "sky"]).tolist() == [2, 0, 1, 0]
    assert embeddings.rows([]).dtype == np.int32
    assert embeddings.vectors.tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("words", "vectors", "why"),
    [
        (("sea",), np.zeros((1, 3), np.float32), r"\[2, d\]"),
        (("sea",), np.zeros((2, 3)), "float64"),
        (("sea",), np.ones((2, 3), np.float32), "row 0"),
        (("sea",), np.array([[0], [np.nan]], np.float32), "finite"),
        (("sea", "sea"), np.zeros((3, 3), np.float32), "only 1 different"),
    ],
)
def test_a_table_that_does_not_hold_together_is_refused(
    words: tuple[str, ...], vectors: np.ndarray, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Embeddings(words, vectors)


def test_saved_embeddings_come_back_and_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    embeddings, _ = read(write(tmp_path / "file", as_text(THREE | {"naïve": [0.1, 0.2, 0.3]})), None)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        embeddings.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["vectors.safetensors", "words.json"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    assert same(Embeddings.load(tmp_path / "a"), embeddings)


def test_saved_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    read(write(tmp_path, as_text(THREE)), None)[0].save(tmp_path)
    (tmp_path / "words.json").write_text('{"words": ["sea"], "source": null}')
    with pytest.raises(ValueError, match=r"no embeddings: 1 words need"):
        Embeddings.load(tmp_path)
    (tmp_path / "vectors.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="no embeddings"):
        Embeddings.load(tmp_path)


# Formats

FORMS = {
    "text": as_text(THREE),
    "text with a header": as_text(THREE, header=True),
    "text with spaces and returns at the ends": as_text(THREE, header=True, end=" \r\n"),
    "gzipped text": gzip.compress(as_text(THREE)),
    "two gzip members": gzip.compress(as_text(THREE)[:20]) + gzip.compress(as_text(THREE)[20:]),
    "binary": as_binary(THREE),
    "binary without line ends": as_binary(THREE, end=b""),
    "gzipped binary": gzip.compress(as_binary(THREE)),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_embeddings(content: bytes, tmp_path: Path) -> None:
    embeddings, report = read(write(tmp_path, content), ["sun", "sea", "sky"])
    assert embeddings.words == ("sea", "sky", "sun")
    assert (
        embeddings.vectors[1:].tolist() == np.array([THREE[w] for w in embeddings.words], np.float32).tolist()
    )
    assert (report.entries, report.known, report.dimension, dict(report.skipped)) == (3, 3, 3, {})


WORD = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=6).map(
    str.lower
)
VECTOR = arrays.arrays(np.float32, 5, elements=st.floats(-100, 100, width=32)).filter(np.any)


@settings(max_examples=12)
@given(vectors=st.dictionaries(WORD.filter(lambda w: len(w.split()) == 1), VECTOR, min_size=1, max_size=8))
def test_text_gzip_and_binary_of_the_same_vectors_give_equal_embeddings(
    vectors: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = {word: vector.tolist() for word, vector in vectors.items()}
    folder = tmp_path_factory.mktemp("forms")
    contents = [as_text(plain, header=True), as_binary(plain)]
    first, *others = [
        read(write(folder, content), None, max_skipped=0)[0]
        for c in contents
        for content in (c, gzip.compress(c))
    ]
    assert all(same(first, other) for other in others)


def test_a_binary_file_whose_bytes_are_letters_is_not_taken_for_text(tmp_path: Path) -> None:
    number = float(np.frombuffer(b"9}8@", "<f4")[0])
    embeddings, report = read(write(tmp_path, as_binary({"sea": [number] * 5})), None)
    assert report.form == "word2vec binary"
    assert lookup(embeddings, "sea") == [number] * 5


def test_a_text_file_whose_first_word_is_broken_is_still_taken_for_text(tmp_path: Path) -> None:
    _, report = read(write(tmp_path, b"2 3\nmoon 1 x 3\nsea 1 2 3\n"), None, max_skipped=0.5)
    assert (report.form, report.skipped) == ("text", {"not a number": 1})


def test_a_file_in_another_order_gives_the_same_embeddings(tmp_path: Path) -> None:
    turned = dict(reversed(THREE.items()))
    assert same(*(read(write(tmp_path, as_text(vectors)), None)[0] for vectors in (THREE, turned)))


def test_the_shared_news_vectors_are_read_with_their_holes(shared_data: Path, tmp_path: Path) -> None:
    archive = np.load(shared_data / "embeddings" / "word2vec-googlenews-8000x300.npz")
    path = write(tmp_path, as_binary(dict(zip(archive["words"].tolist(), archive["vectors"], strict=True))))
    counts = {"the": 50, "president": 3, "of": 40, "google": 2, "zzyzx": 1}
    embeddings, report = read(path, counts)
    assert embeddings.dimension == 300
    assert "of" not in embeddings.words  # word2vec's news vectors have no such stop words
    assert {"the", "president"} <= set(embeddings.words)
    assert report.entries == 8000
    assert report.unknown_tokens is not None
    assert report.unknown_tokens >= 41 / 96


# Words


def test_the_lower_case_form_wins_and_else_the_first_other_form_stands_in(tmp_path: Path) -> None:
    path = write(tmp_path, b"Apple 1 1\napple 2 2\nAPPLE 3 3\nParis 4 4\nPARIS 5 5\n")
    embeddings, report = read(path, ["apple", "PARIS"])
    assert embeddings.words == ("apple", "paris")
    assert (lookup(embeddings, "Apple"), lookup(embeddings, "paris")) == ([2, 2], [4, 4])
    assert not report.skipped


def test_of_numberbatch_the_english_keys_are_read_with_or_without_their_prefix(tmp_path: Path) -> None:
    path = write(
        tmp_path, b"5 2\n/c/de/sea 9 9\n/c/en/sea 1 1\n/c/en/ice_cream 2 2\n/c/fr/mer 9 9\n/c/en/ice 3 3\n"
    )
    embeddings, report = read(path, None)
    assert embeddings.words == ("ice", "ice_cream", "sea")
    assert lookup(embeddings, "sea") == [1, 1]
    assert (report.other_languages, report.multiword) == (2, 1)
    plain = write(tmp_path / "plain", b"sea 1 1\nice_cream 2 2\nice 3 3\n")
    assert same(read(plain, None)[0], embeddings)


def test_a_key_of_several_words_answers_to_no_single_word(tmp_path: Path) -> None:
    path = write(tmp_path, b"/c/en/ice_cream 1 1\n/c/en/sea 2 2\n")
    assert read(path, ["ice", "cream", "sea"])[0].words == ("sea",)
    assert read(path, ["ice_cream"])[0].words == ("ice_cream",)


def test_a_number_of_two_digits_or_more_is_looked_up_as_numberbatch_writes_it(tmp_path: Path) -> None:
    path = write(tmp_path, b"#### 1 1\n##th 2 2\n7 3 3\n1984 4 4\n# 5 5\n")
    embeddings, report = read(path, ["1990", "1984", "24th", "7", "8"])
    rows = [lookup(embeddings, word)[0] for word in ("1990", "2001", "1984", "24th", "7", "8")]
    assert rows == [1, 1, 4, 2, 3, 0]
    assert (report.words, report.known) == (5, 4)


def test_only_the_words_in_use_are_kept_and_their_numbers_alone_are_read(tmp_path: Path) -> None:
    embeddings, report = read(write(tmp_path, plus(THREE, b"moon x y z")), ["sea"])
    assert len(embeddings.vectors) == 2
    assert not report.skipped


@pytest.mark.nightly
def test_a_large_file_takes_no_more_memory_than_the_words_in_use(tmp_path: Path) -> None:
    import tracemalloc

    path = write(tmp_path, gzip.compress(b"".join(b"w%d %b\n" % (n, b"0.5 " * 50) for n in range(50_000)), 1))
    tracemalloc.start()
    read(path, ["w7", "w49999"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000 < 50_000 * 50 * 4


# The report


def test_the_report_counts_unknown_words_by_type_and_by_token(tmp_path: Path) -> None:
    _, report = read(write(tmp_path, as_text(THREE)), {"sea": 6, "sky": 2, "moon": 1, "star": 1})
    assert (report.words, report.known, report.unknown_types) == (4, 2, 0.5)
    assert report.unknown_tokens == pytest.approx(0.2)
    line = str(report)
    assert "2 of 4 words found" in line
    assert "unknown 50.0% of the words, 20.0% of its tokens" in line
    assert "\n" not in line


def test_without_counts_the_report_speaks_of_types_alone(tmp_path: Path) -> None:
    _, report = read(write(tmp_path, as_text(THREE)), {"sea", "moon"})
    assert report.unknown_tokens is None
    assert "tokens" not in str(report)


# What is broken

BAD_LINES = {
    "not 3 numbers": b"moon 1 2",
    "not a number": b"moon 1 2 three",
    "not finite": b"moon 1 nan 3",
    "zeros": b"moon 0 -0 0.0",
    "the word came before": b"sea 9 9 9",
    "not UTF-8": b"mo\xffn 1 2 3",
}


@pytest.mark.parametrize(("reason", "line"), BAD_LINES.items(), ids=list(BAD_LINES))
def test_a_broken_line_is_skipped_counted_and_named(reason: str, line: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, plus(THREE, line))
    embeddings, report = read(path, ["sea", "sky", "moon"], max_skipped=0.5)
    assert embeddings.words == ("sea", "sky")
    assert lookup(embeddings, "sea") == [1, 2, 3]
    assert report.skipped == {reason: 1}
    assert report.examples == [f"{path}:4: {reason}"]
    assert f"skipped 1 ({reason}), e.g. {path}:4" in str(report)


@pytest.mark.parametrize(("reason", "line"), BAD_LINES.items(), ids=list(BAD_LINES))
def test_more_broken_lines_than_allowed_refuse_the_file(reason: str, line: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, plus(THREE, line))
    with pytest.raises(VectorsUnreadable, match=rf"max_skipped\); the first: {path}:4: {reason}"):
        read(path, ["sea", "sky", "moon"])


def test_numbers_too_large_for_float32_are_not_finite(tmp_path: Path) -> None:
    _, report = read(write(tmp_path, plus(THREE, b"moon 1 2 1e300")), None, max_skipped=1)
    assert report.skipped == {"not finite": 1}


def test_broken_words_in_use_refuse_a_file_that_is_large_and_else_sound(tmp_path: Path) -> None:
    many = {f"w{n}": [1.0, 2.0, 3.0] for n in range(1000)}
    path = write(tmp_path, plus(many, b"sea nan 1 1", b"sky 1 1 1"))
    with pytest.raises(VectorsUnreadable, match=r"1 of 2 entries of words in use .*:1001: not finite"):
        read(path, ["sea", "sky"])


def test_a_broken_lower_case_form_leaves_the_other_form_standing(tmp_path: Path) -> None:
    embeddings, _ = read(write(tmp_path, b"Sea 1 1\nsea nan 1\n"), ["sea"], max_skipped=1)
    assert lookup(embeddings, "sea") == [1, 1]


def test_broken_records_of_a_binary_file_are_counted_too(tmp_path: Path) -> None:
    path = write(tmp_path, as_binary(THREE | {"moon": [1, float("inf"), 2]}))
    _, report = read(path, None, max_skipped=0.5)
    assert report.examples == [f"{path}:4: not finite"]


CUT = {
    "gzip": (gzip.compress(as_text(THREE, header=True))[:-12], "broken or cut off after entry"),
    "gzip with a wrong checksum": (
        gzip.compress(as_text(THREE))[:-8] + bytes(8),
        "cut off after entry 0: CRC",
    ),
    "text": (as_text(THREE, header=True)[:-20], "promises 3 words, it ends after 2: it is cut off"),
    "binary, within a vector": (as_binary(THREE)[:-5], "cut off after entry 2: 8 bytes where 12"),
    "binary, within a word": (as_binary(THREE)[:-15], "cut off after entry 2: no space ends the word b'su'"),
    "binary, between records": (as_binary(THREE)[:-17], "cut off after entry 2: no space"),
    "gzipped binary": (gzip.compress(as_binary(THREE)[:-5]), "cut off after entry 2: 8 bytes where 12"),
}


@pytest.mark.parametrize(("content", "why"), CUT.values(), ids=CUT)
def test_a_file_that_breaks_off_is_refused_with_the_place(content: bytes, why: str, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    with pytest.raises(VectorsUnreadable, match=why) as e:
        read(path, None)
    assert str(e.value).startswith(str(path))


@pytest.mark.parametrize(
    "content", [b"", b"\n", gzip.compress(b""), b"0 3\n"], ids=["empty", "blank", "gzip", "header"]
)
def test_an_empty_file_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(VectorsUnreadable, match=r"empty|holds no word"):
        read(write(tmp_path, content), None)


def test_a_file_with_no_word_in_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VectorsUnreadable, match="none of the 2 words of the vocabulary is among 3 entries"):
        read(write(tmp_path, as_text(THREE)), ["moon", "star"])


def test_a_header_with_an_absurd_dimension_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(VectorsUnreadable, match=r":1: 999,999,999,999 numbers a word"):
        read(write(tmp_path, b"3 999999999999\nsea 1\n"), None)


def test_an_npz_is_refused_with_the_forms_that_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", words=list(THREE), vectors=list(THREE.values()))
    with pytest.raises(VectorsUnreadable, match=r"v.npz: a ZIP archive.* text or word2vec's binary"):
        read(tmp_path / "v.npz", None)


# Embeddings without a file


def letters(words: Sequence[str]) -> np.ndarray:
    """[a, e, i] counted: zeros for a word that has none of them."""
    return np.array([[word.count(letter) for letter in "aei"] for word in words], np.float32)


def test_derived_embeddings_hold_each_word_once_in_lower_case() -> None:
    embeddings = encode_words(["Sea", "air", "sea"], letters)
    assert embeddings.words == ("air", "sea")
    assert lookup(embeddings, "SEA") == [1, 1, 0]


def test_a_word_that_is_encoded_as_zeros_stays_unknown() -> None:
    embeddings = encode_words(["sky", "sea"], letters)
    assert embeddings.words == ("sea",)
    with pytest.raises(ValueError, match="none of the 1 words"):
        encode_words(["sky"], letters)


def test_an_encoder_that_gives_no_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="all finite: False"):
        encode_words(["sea"], lambda words: np.full((len(words), 3), np.nan, np.float32))
    with pytest.raises(ValueError, match=r"encoded as \[2, 3\]"):
        encode_words(["sea"], lambda words: np.ones((2, 3), np.float32))


@pytest.fixture(scope="module")
def folder() -> Path:
    return find_model(DEFAULT)


VOCABULARY = ("king", "queen", "cabbage", "ocean", "sea", "1990", "zyzzogeton", "running", "run")


def word_encoder(folder: Path) -> Encode:
    return lambda words: word_pieces(words, folder)[1]


@pytest.fixture(scope="module")
def derived(folder: Path) -> Embeddings:
    return encode_words(VOCABULARY, word_encoder(folder))


def cosine(embeddings: Embeddings, one: str, other: str) -> float:
    a, b = embeddings.vectors[embeddings.rows([one, other])]
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_derived_vectors_are_as_wide_as_the_papers_and_tell_related_words(derived: Embeddings) -> None:
    assert derived.words == tuple(sorted(VOCABULARY))
    assert derived.dimension == 300
    for one, other in (("king", "queen"), ("ocean", "sea"), ("running", "run")):
        assert cosine(derived, one, other) > 0.3 > cosine(derived, one, "cabbage")


def test_a_derived_vector_depends_on_the_word_and_not_on_the_vocabulary(
    derived: Embeddings, folder: Path
) -> None:
    alone = encode_words(["sea", "zyzzogeton"], word_encoder(folder))
    assert [lookup(alone, word) for word in alone.words] == [lookup(derived, word) for word in alone.words]


def test_a_word_of_several_pieces_is_their_mean(folder: Path) -> None:
    vectors = word_encoder(folder)(["ship-yard", "ship", "-", "yard"])
    np.testing.assert_allclose(vectors[0], vectors[1:].mean(0), atol=1e-6)


def test_deriving_twice_gives_the_same_bytes(derived: Embeddings, folder: Path) -> None:
    assert same(encode_words(VOCABULARY, word_encoder(folder)), derived)


@pytest.mark.nightly
def test_the_number_of_threads_that_blas_has_changes_no_bit(folder: Path) -> None:
    words = sorted(piece for piece in read_pieces(folder)[0].get_vocab() if piece.isalpha())
    vectors = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            vectors.append(word_encoder(folder)(words))
    assert len(words) > 20_000 and vectors[0].tobytes() == vectors[1].tobytes()


def test_words_that_the_tokenizer_has_no_pieces_for_stay_unknown(folder: Path) -> None:
    assert encode_words(["sea", "♋", "\xad"], word_encoder(folder)).words == ("sea",)


def test_to_drop_directions_is_to_leave_out_the_first_numbers(folder: Path) -> None:
    every, kept = (
        word_pieces(VOCABULARY, folder, dimension, dropped)[1] for dimension, dropped in ((10, 0), (7, 3))
    )
    np.testing.assert_allclose(every[:, 3:], kept, atol=1e-6)
    assert every[:, 0].var() > every[:, 9].var()


def test_more_directions_than_the_model_has_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"382 directions .* pieces of 384 numbers"):
        word_pieces([], folder, dimension=382)


def a_transformer(folder: Path, seed: int = 0) -> Path:
    """A tiny BERT with a vocabulary of letters."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefgh",
        *(f"##{letter}" for letter in "abcdefgh"),
    ]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")

    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(seed)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(pieces), **shape)).save_pretrained(folder)
    return folder


def test_vectors_that_are_not_stored_are_made_again_from_their_transformer(tmp_path: Path) -> None:
    folder = a_transformer(tmp_path / "model")
    embeddings = derive(["bad", "egg", "fab"], folder, "tiny", 4)
    (tmp_path / "saved").mkdir()
    embeddings.save(tmp_path / "saved", "source")
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "pieces.safetensors",
        "words.json",
    ]
    asked = []
    back = Embeddings.load(tmp_path / "saved", lambda name: asked.append(name) or folder)
    assert asked == ["tiny"] and back.words == embeddings.words == ("bad", "egg", "fab")
    assert np.array_equal(back.vectors, embeddings.vectors)


def test_stored_pieces_give_the_vectors_that_the_tokenizer_gives(tmp_path: Path) -> None:
    folder, saved = a_transformer(tmp_path / "model"), tmp_path / "saved"
    embeddings = derive(["bad", "egg", "♋", "fab", "a"], folder, "tiny", 4)
    assert embeddings.words == ("a", "bad", "egg", "fab")
    saved.mkdir()
    embeddings.save(saved, "source")
    with_pieces = Embeddings.load(saved, lambda _: folder)
    (saved / "pieces.safetensors").unlink()
    without = Embeddings.load(saved, lambda _: folder)
    assert same(with_pieces, embeddings) and same(without, embeddings)
    assert lookup(embeddings, "egg") == word_pieces(["egg"], folder, 4)[1][0].tolist()


def test_stored_pieces_need_no_tokenizer(tmp_path: Path) -> None:
    folder = a_transformer(tmp_path / "model")
    embeddings = derive(["bad", "egg"], folder, "tiny", 4)
    embeddings.save(tmp_path, "source")
    (folder / "tokenizer.json").unlink()
    assert same(Embeddings.load(tmp_path, lambda _: folder), embeddings)


def test_stored_pieces_of_other_words_are_refused(tmp_path: Path) -> None:
    folder = a_transformer(tmp_path / "model")
    derive(["bad", "egg"], folder, "tiny", 4).save(tmp_path, "source")
    pieces = (tmp_path / "pieces.safetensors").read_bytes()
    derive(["bad", "egg", "fab"], folder, "tiny", 4).save(tmp_path, "source")
    (tmp_path / "pieces.safetensors").write_bytes(pieces)
    with pytest.raises(ValueError, match="no pieces of the words beside it: pieces of 2 words, not of 3"):
        Embeddings.load(tmp_path, lambda _: folder)
    (tmp_path / "pieces.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="no pieces of the words beside it"):
        Embeddings.load(tmp_path, lambda _: folder)


def test_stored_pieces_that_a_table_does_not_have_are_refused(tmp_path: Path) -> None:
    pieces, _ = word_pieces(["bad"], a_transformer(tmp_path), 4)
    with pytest.raises(ValueError, match="not those of a table of 2 pieces of 8 numbers"):
        pieces.vectors(np.ones((2, 8)))
    pieces.save(tmp_path / "pieces.safetensors")
    stored = load_file(tmp_path / "pieces.safetensors")
    save_file(stored | {"lengths": stored["lengths"] + 1}, tmp_path / "pieces.safetensors")
    with pytest.raises(ValueError, match="its arrays do not belong together"):
        WordPieces.load(tmp_path / "pieces.safetensors")


def test_vectors_are_derived_once_for_a_vocabulary_and_a_transformer(tmp_path: Path) -> None:
    folder = a_transformer(tmp_path / "model")
    derive(["bad", "egg"], folder, "tiny", 4).save(tmp_path, "source")
    first, again = (Embeddings.load(tmp_path, lambda _: folder) for _ in range(2))
    assert first.vectors is again.vectors
    changed = a_transformer(tmp_path / "changed", seed=1)
    assert not np.array_equal(derive(["bad", "egg"], changed, "tiny", 4).vectors, first.vectors)
    assert derive(["bad"], folder, "tiny", 4).words == ("bad",)


def test_vectors_are_derived_where_transformers_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker process would wait for its import for seconds."""
    folder = a_transformer(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert derive(["bad", "egg"], folder, "tiny", 4).words == ("bad", "egg")


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "Electra", "Albert", "DistilBert", "MPNet"])
def test_the_pieces_vectors_are_those_that_transformers_reads(kind: str, tmp_path: Path) -> None:
    import transformers

    a_transformer(tmp_path)
    sizes = {
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
        "embedding_size": 8,
        "hidden_dim": 8,
    }
    config = getattr(transformers, f"{kind}Config")(vocab_size=21, hidden_size=8, pad_token_id=0, **sizes)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)

    _, table, plain = read_pieces(tmp_path)
    theirs = (
        transformers.AutoModel.from_pretrained(tmp_path, trust_remote_code=False)
        .get_input_embeddings()
        .weight
    )
    assert np.array_equal(table, theirs.detach().double().numpy())
    assert plain == list(range(5, 21))


def test_a_model_without_a_table_of_pieces_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    folder = a_transformer(tmp_path)
    save_file({"shared.weight": np.ones((21, 8), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"it has 0 tables \*word_embeddings.weight, not one; give a BERT"):
        read_pieces(folder)
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="no weights that can be read"):
        read_pieces(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"no tokenizer\.json that can be read"):
        read_pieces(folder)


def test_another_transformer_in_its_place_is_refused(tmp_path: Path) -> None:
    derive(["bad", "egg"], a_transformer(tmp_path / "model"), "tiny", 4).save(tmp_path, "source")
    other = a_transformer(tmp_path / "other", seed=1)
    with pytest.raises(ValueError, match="its word vectors come from another tiny"):
        Embeddings.load(tmp_path, lambda _: other)


def test_half_precision_is_read_as_full(tmp_path: Path) -> None:
    embeddings = read(write(tmp_path / "in", as_text(THREE)), None)[0]
    embeddings.save(tmp_path, "fp16")
    back = Embeddings.load(tmp_path)
    assert back.vectors.dtype == np.float32 and np.allclose(back.vectors, embeddings.vectors, atol=1e-3)
    with pytest.raises(ValueError, match="come from a file"):
        embeddings.save(tmp_path, "source")
