"""BM25 by Lucene: rows are document numbers, shards add up to one index, and ties are never cut at random."""

import gzip
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from answermill import indexing
from answermill.indexing.shards.lucene.analyzers import ANALYZERS
from answermill.indexing.shards.lucene.bm25 import Bm25Index, Rows, Scores, build, words_of
from answermill.indexing.shards.lucene.jvm import anserini_jar, find_java, start
from answermill.indexing.shards.lucene.statistics import GlobalStatistics, Scoring, ShardSize
from answermill.indexing.shards.rank_fusion import Best, merge

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
Hits: TypeAlias = list[tuple[Rows, Scores]]
WORDS = [
    "glacier",
    "cave",
    "ice",
    "water",
    "river",
    "stone",
    "wind",
    "light",
    "snow",
    "mountain",
    "valley",
    "lake",
    "storm",
    "cloud",
    "summer",
    "winter",
    "motion",
    "circle",
    "orbit",
    "satellite",
    "field",
    "force",
    "charge",
    "gear",
    "wheel",
    "string",
    "curve",
    "track",
    "school",
    "city",
    "music",
    "song",
    "record",
    "film",
    "actor",
    "novel",
    "poet",
    "king",
    "war",
]


@pytest.fixture(scope="module", autouse=True)
def _jvm() -> None:
    start(find_java())


def passages(count: int, seed: int = 0, longest: int = 60) -> list[tuple[str, str]]:
    """Made of few words with Zipf's weights, so that many scores are near each other or tied."""
    draw = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    return [
        (
            draw.choice(WORDS) if draw.random() < 0.5 else "",
            " ".join(draw.choices(WORDS, weights, k=draw.randint(1, longest))),
        )
        for _ in range(count)
    ]


def index(folder: Path, texts: Sequence[tuple[str, str]]) -> Bm25Index:
    assert build(texts, folder) == len(texts)
    return Bm25Index(folder)


def test_row_is_document_number(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", f"word{row}") for row in range(5_000)])
    asked = list(range(0, 5_000, 7))
    hits = bm25.search([f"word{row}" for row in asked], 3, None)
    assert [rows.tolist() for rows, _ in hits] == [[row] for row in asked]


def test_the_title_is_searched_with_the_text(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("Glacier cave", "within the ice"), ("", "circular motion")])
    assert bm25.search(["glacier", "motion"], 5, None)[0][0].tolist() == [0]
    assert bm25.statistics().tokens == 6  # all words but "the"


def test_scores_are_the_formula_of_bm25(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", "ice ice cave"), ("", "cave wind"), ("", "wind")])
    k1, b, average = 0.9, 0.4, 6 / 3
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    wanted = idf * 2 / (2 + k1 * (1 - b + b * 3 / average))
    [(rows, scores)] = bm25.search(["ice"], 3, None)
    assert rows.tolist() == [0]
    assert scores[0] == pytest.approx(wanted, abs=6e-5)
    # Asked twice counts twice.
    assert bm25.search(["ice ice"], 3, None)[0][1][0] == pytest.approx(2 * wanted, abs=6e-5)


def test_the_constants_of_a_search_are_its_own(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", "ice ice cave"), ("", "cave wind"), ("", "wind")])
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    for k1, b in ((0.9, 0.4), (1.6, 0.0), (0.3, 1.0)):
        [(_, scores)] = bm25.search(["ice"], 3, None, Scoring(k1, b))
        assert scores[0] == pytest.approx(idf * 2 / (2 + k1 * (1 - b + b * 3 / 2)), abs=6e-5)


def test_words_with_weights_are_searched_as_the_question_that_has_them(tmp_path: Path) -> None:
    build([("Glacier", "Melting ice."), ("", "A river of ice."), ("", "Wind.")], tmp_path)
    index, texts = Bm25Index(tmp_path), ["melting melting ice", "the wind", "of the", "glaciers' ice"]
    bags = words_of(texts)
    assert bags == [{"melt": 2, "ic": 1}, {"wind": 1}, {}, {"glacier": 1, "ic": 1}]
    assert _same(index.search(bags, 3, None), index.search(texts, 3, None))
    ((rows, scores),), ((_, ice), (_, wind)) = (
        index.search(several, 3, None)
        for several in ([{"ic": 0.25, "wind": 3.0}], [{"ic": 1.0}, {"wind": 1.0}])
    )
    assert rows.tolist()[0] == 2 and scores[0] == pytest.approx(3 * wind[0], abs=1e-3)
    assert scores[1] == pytest.approx(ice[0] / 4, abs=1e-4)
    assert index.document_frequencies([{"ic": 9.0, "none": 1.0}]) == {"ic": 2, "none": 0}


def test_a_weight_of_titles_adds_their_own_score(tmp_path: Path) -> None:
    corpus = [("ice cave", "wind"), ("", "ice cave wind"), ("wind", "ice"), ("", "river")]
    bm25, titles = index(tmp_path / "both", corpus), index(tmp_path / "titles", [(t, "") for t, _ in corpus])
    question, weight = ["cave ice ice"], 1.5
    with_titles = as_dict(bm25.search(question, 9, None, Scoring(title_weight=weight)))
    text, title = as_dict(bm25.search(question, 9, None)), as_dict(titles.search(question, 9, None))
    assert set(title) == {0}
    assert with_titles == pytest.approx(
        {row: text[row] + weight * title.get(row, 0) for row in text}, abs=1e-3
    )
    assert (text[0], with_titles[0] > with_titles[1]) == (text[1], True)


def as_dict(hits: Hits) -> dict[int, float]:
    """Row → score of the only question."""
    [(rows, scores)] = hits
    return dict(zip(rows.tolist(), scores.tolist(), strict=True))


def test_titles_of_no_shard_are_no_error(tmp_path: Path) -> None:
    bm25, scoring = index(tmp_path, [("", "ice cave"), ("", "wind")]), Scoring(title_weight=2)
    weighed = bm25.search(["ice"], 3, bm25.share(["ice"], scoring), scoring)
    assert _same(weighed, bm25.search(["ice"], 3, None)) and len(weighed[0][0]) == 1


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("de", "die schönen Häuser", "Haus"),
        ("fr", "des chevaux rapides", "cheval"),
        ("ja", "日本語の本", "本"),
    ],
)
def test_words_are_those_of_the_language(language: str, text: str, asked: str, tmp_path: Path) -> None:
    build([("", text), ("", "xyz")], tmp_path / language, language)
    build([("", text), ("", "xyz")], tmp_path / "en")
    assert Bm25Index(tmp_path / language, language).search([asked], 2, None)[0][0].tolist() == [0]
    if language != "ja":
        assert Bm25Index(tmp_path / "en").search([asked], 2, None)[0][0].tolist() == []


def test_the_analyser_of_every_language_is_in_the_jar(tmp_path: Path) -> None:
    for language in ANALYZERS:
        build([("", "2026")], tmp_path / language, language)
        assert Bm25Index(tmp_path / language, language).search(["2026"], 1, None)[0][0].tolist() == [0], (
            language
        )


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("sizes", [(1_200,), (1_000, 150, 49, 1), (300, 300, 300, 300)])
def test_shards_give_what_one_index_gives(sizes: tuple[int, ...], weight: float, tmp_path: Path) -> None:
    draw = random.Random(5)
    # Lengths differ from shard to shard, which BM25's average length would notice.
    corpus = [p for n, size in enumerate(sizes) for p in passages(size, seed=n, longest=(5, 90, 20, 200)[n])]
    ids = [f"p{row:04d}" for row in range(len(corpus))]
    questions = [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(40)] + [
        "nothing of this is known zzz",
        "?",
    ]
    whole = index(tmp_path / "whole", corpus)
    starts = np.cumsum([0, *sizes])
    parts = [index(tmp_path / str(n), corpus[starts[n] : starts[n + 1]]) for n in range(len(sizes))]
    scoring = Scoring(1.2, 0.7, weight)
    total = reduce(add, [part.share(questions, scoring) for part in parts], GlobalStatistics())
    assert total == whole.share(questions, scoring)

    depth, uncorrected = 100, 0
    by_part = [part.search(questions, depth, total, scoring) for part in parts]
    alone = [part.search(questions, depth, None, scoring) for part in parts]

    for n, (rows, scores) in enumerate(whole.search(questions, depth, None, scoring)):
        wanted = merge([Best.of(0, rows, [ids[row] for row in rows], scores)], depth)
        merged = merge(
            [_named(hits[n], ids, start) for hits, start in zip(by_part, starts, strict=False)], depth
        )
        assert merged.ids.tolist() == wanted.ids.tolist()
        assert merged.scores.tolist() == wanted.scores.tolist()  # to the bit
        naive = merge(
            [_named(hits[n], ids, start) for hits, start in zip(alone, starts, strict=False)], depth
        )
        uncorrected += int((naive.ids != wanted.ids).sum())

    assert uncorrected > 100 or len(sizes) == 1  # the case is not trivial


def _named(hits: tuple[np.ndarray, np.ndarray], ids: list[str], start: int) -> Best:
    rows, scores = hits
    return Best.of(0, rows, [ids[start + row] for row in rows], scores)


def test_every_hit_that_ties_with_the_last_is_returned(tmp_path: Path) -> None:
    corpus = [("", "ice cave")] * 2 + [("", "ice wind")] * 300 + [("", "ice wind storm lake valley")] * 50
    bm25 = index(tmp_path, corpus)
    [(rows, scores)] = bm25.search(["ice cave"], 3, None)
    assert rows.tolist() == list(range(302))
    assert len(set(scores.tolist())) == 2
    assert bm25.search(["ice cave"], 2, None)[0][0].tolist() == [0, 1]  # nothing ties with the second
    assert len(bm25.search(["ice cave"], 303, None)[0][0]) == 352


def test_no_character_of_a_question_has_a_meaning(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", "who wrote AND OR NOT"), ("", "wind"), ("", "naïve 😀")])
    for question in (
        '"wind',
        "wind AND",
        "wind?*~^2 (",
        "contents: wind",
        "+wind -wind \\",
        "wind\0",
        "wind \ud800",
    ):
        assert 1 in bm25.search([question], 5, None)[0][0].tolist(), question

    assert bm25.search(["", "?!", "the"], 5, None)[0][0].tolist() == []
    assert bm25.search(["😀"], 5, None)[0][0].tolist() == [2]


def test_a_question_of_three_thousand_words_is_no_error(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", f"word{row}") for row in range(3_000)])
    [(rows, _)] = bm25.search([" ".join(f"word{row}" for row in range(3_000))], 5, None)
    assert len(rows) == 3_000  # all tied


def test_an_empty_shard_finds_nothing_and_adds_nothing(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [])
    assert bm25.rows == 0
    assert bm25.share(["ice caves"]) == GlobalStatistics(ShardSize(), {"ic": 0, "cave": 0})
    assert bm25.search(["ice"], 5, None)[0][0].tolist() == []


def test_passages_without_words_are_rows_but_no_documents_of_the_statistics(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", "ice"), ("", "???"), ("", ""), ("", "cave")])
    assert (bm25.rows, bm25.statistics().documents) == (4, 2)
    assert bm25.search(["cave"], 5, None)[0][0].tolist() == [3]


def test_statistics_of_other_questions_are_refused(tmp_path: Path) -> None:
    bm25 = index(tmp_path, [("", "ice cave")])
    with pytest.raises(ValueError, match="'cave'"):
        bm25.search(["cave"], 5, bm25.share(["ice"]))
    with pytest.raises(ValueError, match="depth is 0"):
        bm25.search(["cave"], 0, None)


@pytest.mark.parametrize("weight", [0.0, 1.5])
def test_rows_that_are_gone_are_as_if_they_had_never_been(weight: float, tmp_path: Path) -> None:
    corpus = passages(300, seed=7)
    gone = np.array([0, 3, *range(40, 130, 2), 298])
    for row in (3, 40):  # words, in a text and in a title, that no other passage has
        corpus[row] = ("zebra", "zebra unicorn")
    left = np.delete(np.arange(len(corpus)), gone)
    build(corpus, tmp_path / "all")
    build([corpus[row] for row in gone.tolist()], tmp_path / "gone")
    bm25 = Bm25Index(tmp_path / "all", gone=gone, gone_index=tmp_path / "gone")
    wanted = index(tmp_path / "left", [corpus[row] for row in left.tolist()])

    questions, scoring = [*WORDS, "zebra unicorn", "glacier zebra ice"], Scoring(title_weight=weight)
    share = wanted.share(questions, scoring)
    assert bm25.share(questions, scoring) == share
    others = GlobalStatistics(ShardSize(50, 900, 20, 20), dict.fromkeys(share.frequencies, 2))
    for total in (None, share + others):
        hits, expected = (each.search(questions, 9, total, scoring) for each in (bm25, wanted))
        assert _same(hits, [(left[rows], scores) for rows, scores in expected])
        assert [len(rows) > 0 for rows, _ in hits[-2:]] == [False, True]


def test_a_shard_of_which_all_is_gone_finds_nothing(tmp_path: Path) -> None:
    corpus = [("ice", "cave"), ("", "ice")]
    for name in ("all", "gone"):
        build(corpus, tmp_path / name)
    bm25 = Bm25Index(tmp_path / "all", gone=np.arange(2), gone_index=tmp_path / "gone")
    assert bm25.statistics() == ShardSize()
    for scoring in (Scoring(), Scoring(title_weight=1.0)):
        assert len(bm25.search(["ice cave"], 5, None, scoring)[0][0]) == 0


def test_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        Bm25Index(tmp_path)


def test_a_build_that_fails_leaves_no_index(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "", "ice"
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        build(broken(), tmp_path)
    with pytest.raises(FileNotFoundError):
        Bm25Index(tmp_path)


def test_scores_are_those_of_anserinis_own_searcher(tmp_path: Path) -> None:
    from jnius import autoclass

    bm25 = index(tmp_path, passages(2_000, seed=3))
    # Anserini's searcher reports a stored id, which our index does not have; so it stops at Lucene's own
    # document number.
    similarity = autoclass("org.apache.lucene.search.similarities.BM25Similarity")(0.9, 0.4)
    query = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
    analyzer = autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    directory = autoclass("org.apache.lucene.store.FSDirectory").open(
        autoclass("java.io.File")(str(tmp_path)).toPath()
    )
    reader = autoclass("org.apache.lucene.index.DirectoryReader").open(directory)
    searcher = autoclass("org.apache.lucene.search.IndexSearcher")(
        reader, signature="(Lorg/apache/lucene/index/IndexReader;)V"
    )
    searcher.setSimilarity(similarity)

    for question in (
        "glacier caves in winter",
        "who sang the song of the king of kings?",
        "satellite orbit orbit",
    ):
        theirs = searcher.search(query.buildQuery("contents", analyzer, question), 50).scoreDocs
        rows, scores = bm25.search([question], 50, None)[0]
        assert sorted(round(hit.score, 4) for hit in theirs) == pytest.approx(
            sorted(scores[:50].tolist()), abs=1e-4
        )
        clear = [hit.doc for hit in theirs if hit.score > scores[49] + 1e-4]
        assert set(clear) <= set(rows.tolist())

    reader.close()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the CACM collection in ../shared/data/retrieval")
def test_cacm_reaches_the_published_map(tmp_path: Path) -> None:
    """Anserini publishes MAP 0.3123 (k1 0.9, b 0.4, top 1,000)."""
    import ir_measures

    folder = SHARED / "retrieval" / "cacm"
    with gzip.open(folder / "docs.jsonl.gz", "rt") as file:
        documents = [json.loads(line) for line in file]
    with gzip.open(folder / "queries.jsonl.gz", "rt") as file:
        questions = [json.loads(line) for line in file]
    bm25 = index(tmp_path, [("", document["text"]) for document in documents])
    run = [
        ir_measures.ScoredDoc(question["query_id"], documents[row]["doc_id"], score - rank * 1e-9)
        for question, (rows, scores) in zip(
            questions, bm25.search([question["text"] for question in questions], 1_000, None), strict=True
        )
        for rank, (row, score) in enumerate(zip(rows[:1_000].tolist(), scores.tolist(), strict=False))
    ]

    judged = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    figures = ir_measures.calc_aggregate([ir_measures.AP, ir_measures.P @ 30], judged, run)
    assert figures[ir_measures.AP] == pytest.approx(0.3123, abs=0.002)
    assert figures[ir_measures.P @ 30] == pytest.approx(0.1942, abs=0.002)


def test_two_threads_search_and_build_as_one_does(tmp_path: Path) -> None:
    indexes = [index(tmp_path / str(n), passages(60, seed=n)) for n in range(2)]
    questions = [[" ".join(random.Random(n).choices(WORDS, k=4))] for n in range(20)]
    wanted = [[searched.search(question, 10, None) for question in questions] for searched in indexes]

    def wrong(n: int) -> int:
        """How many of 2,000 searches differ from those of one thread."""
        searches = (indexes[n].search(questions[k % 20], 10, None) for k in range(2_000))
        return sum(not _same(hits, wanted[n][k % 20]) for k, hits in enumerate(searches))

    with ThreadPoolExecutor(3) as pool:
        built = pool.submit(build, passages(2_000, seed=2), tmp_path / "built")
        assert list(pool.map(wrong, range(2))) == [0, 0]
        assert built.result() == 2_000

    build(passages(2_000, seed=2), tmp_path / "alone")
    one, other = (Bm25Index(tmp_path / name).search([WORDS[0]], 50, None) for name in ("built", "alone"))
    assert _same(one, other)


def _same(hits: Hits, wanted: Hits) -> bool:
    return all(
        np.array_equal(a, b)
        for one, other in zip(hits, wanted, strict=True)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.skipif(
    not (shutil.which("javac") and shutil.which("javap")), reason="needs a JDK (javac and javap) on the path"
)
@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [
        "GlobalSearcher",
        "LiveReader",
        "LiveReader$Segment",
        "LiveReader$Wrapper",
        "Questions",
        "Questions$Hit",
    ],
)
def test_a_java_class_of_ours_is_what_its_source_compiles_to(tmp_path: Path, name: str) -> None:
    folder = Path(indexing.__file__).parent / "shards" / "lucene"
    options = ["--release", "17", "-g:none", "-cp", str(anserini_jar()), "-d", str(tmp_path)]
    sources = sorted(str(file) for file in folder.glob("answermill/*.java"))
    subprocess.run(["javac", *options, *sources], check=True, capture_output=True)
    assert instructions(tmp_path, name) == instructions(folder, name)
    assert f"answermill.{name}" in instructions(folder, name)


def instructions(folder: Path, name: str) -> str:
    """Members and byte code of our class; compilers number a class's constants as they like, so without those
    numbers."""
    command = ["javap", "-p", "-c", "-cp", f"{folder}:{anserini_jar()}", f"answermill.{name}"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"#\d+(, +\d+)?", "", listing)
