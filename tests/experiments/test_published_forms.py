"""Each published form becomes what the studies read: shown on small made files."""

from __future__ import annotations

import doctest
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import published_forms, published_readers, published_squad
from experiments.published_content import Content, as2_table, content_sha256, write
from experiments.published_sets import FILES, SETS


def converted(folder: Path, name: str, files: Mapping[str, bytes]) -> dict[str, Content]:
    """What these published files of a set become."""
    for file, content in files.items():
        (folder / file).write_bytes(content)
    convert = SETS[name].convert
    assert convert is not None
    results = convert({file: folder / file for file in files}, folder)
    return {path: _whole(content) for path, content in results}


def _whole(content: Content) -> Content:
    return content if isinstance(content, bytes | pa.Table) else content.read()


def zipped(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return archive.getvalue()


def tarred(files: Mapping[str, bytes], mode: Any) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def rows(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, pa.Table):
        return content.to_pylist()  # type: ignore[no-any-return]
    assert isinstance(content, bytes)
    return [json.loads(line) for line in content.decode().splitlines()]


def squad_like(*titles: str) -> bytes:
    context = " It rained. “Why?” he said. 5 men came (late). Then rain fell."
    asked = [
        {
            "id": "a",
            "question": "Who came?",
            "answers": [{"text": "5 men", "answer_start": context.index("5 men")}],
        },
        {
            "id": "b",
            "question": "What fell?",
            "answers": [{"text": "rain", "answer_start": context.rindex("rain")}],
        },
        {"id": "c", "question": "Who left?", "answers": [], "is_impossible": True},
    ]
    paragraphs = {title: [{"context": context, "qas": asked[: 2 if title < "M" else 3]}] for title in titles}
    data = [{"title": title, "paragraphs": paragraphs[title]} for title in titles]

    return json.dumps({"version": "x", "data": data}).encode()


def test_wikiqa_s_archive_becomes_tables_without_carriage_returns(tmp_path: Path) -> None:
    head = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\r\n"
    cells = 'Q1\twho "is" it\tD1\tIt\tD1-{}\t{}\t{}\r\n'
    table = head + cells.format(0, "It is\u2028it .", 1) + cells.format(1, "No .", 0)
    files = {f"WikiQACorpus/WikiQA-{split}.tsv": table for split in ("train", "dev", "test")}
    files["WikiQACorpus/WikiQASent.pos.ans.tsv"] = "QuestionID\tQuestion\r\nQ1\twho\r\n"
    result = converted(tmp_path, "wikiqa", {"WikiQACorpus.zip": zipped(files)})
    assert result.keys() == {file.path for file in FILES["wikiqa"]}
    assert result["wikiqa/WikiQASent.pos.ans.tsv.gz"] == b"QuestionID\tQuestion\nQ1\twho\n"
    first, second = rows(result["wikiqa/wikiqa-dev.parquet"])
    assert first["sentence"] == "It is\u2028it ." and (first["label"], second["label"]) == (1, 0)
    assert (second["document_id"], second["sentence_index"]) == ("D1", 1)
    assert first["question"] == 'who "is" it'


def test_squad_s_paragraphs_become_sentences_of_which_one_answers(tmp_path: Path) -> None:
    files = {"dev-v1.1.json": squad_like("A", "N"), "dev-v2.0.json": squad_like("N")}
    result = converted(tmp_path, "squad", files)
    assert result.keys() == {file.path for file in FILES["squad"]}
    assert result["squad/squad-dev-v2.0.json.gz"] == squad_like("N")
    test = rows(result["squad/squad-sent-test.parquet"])

    sentences = ["It rained.", "“Why?” he said.", "5 men came (late).", "Then rain fell."]
    assert [row["sentence"] for row in test if row["question_id"] == "a"] == sentences
    assert [(row["question_id"], row["sentence_index"]) for row in test if row["label"]] == [
        ("a", 2),
        ("b", 3),
    ]
    assert {row["question_id"] for row in test} == {"a", "b", "c"} and test[0]["document_id"] == "N#0"
    assert {row["document_title"] for row in rows(result["squad/squad-sent-dev.parquet"])} == {"A"}


def test_squad_train_has_ids_by_title_and_says_which_answers_are_certain(tmp_path: Path) -> None:
    result = converted(tmp_path, "squad-train", {"train-v1.1.json": squad_like("B", "A")})
    articles = json.loads(result["qa-train/squad-train/squad-train-v1.1.json.gz"])  # type: ignore[arg-type]
    asked = [question for article in articles["data"] for question in article["paragraphs"][0]["qas"]]
    assert [each["id"] for each in asked] == ["A#0#0", "A#0#1", "B#0#0", "B#0#1"]
    assert [each["answer_start_certain"] for each in asked] == [True, True, True, True]

    table = rows(result["qa-train/squad-train/squad-sent-train-v1.1.parquet"])
    assert [row["has_answer"] for row in table[4:8]] == [0, 0, 0, 1] and table[7]["answer"] == "rain"
    context = "A rain. The rain. Grainy."
    spans = published_squad.sentence_spans(context)
    assert published_squad.holding(context, spans, "rain") == {0, 1}
    assert published_squad.holding(context, spans, "rainy") == {2}
    assert published_squad.holding(context, spans, "grain") == set()


def test_squadshifts_become_the_training_set_of_squad_sent(tmp_path: Path) -> None:
    result = converted(tmp_path, "squadshifts", {"new_wiki_v1.0.json": squad_like("A")})
    assert result.keys() == {file.path for file in FILES["squadshifts"]}
    assert len(rows(result["squad/squad-sent-train.parquet"])) == 8


def test_qed_s_tokens_become_sentences(tmp_path: Path) -> None:
    text = "It 's a dam . The dam -- built by two men -- is `` old '' ."
    span = {"start": 22, "end": 39, "string": "built by two men"}
    example = {
        **{"example_id": -7, "title_text": "Dam", "question_text": "who built it", "paragraph_text": text},
        **{"sentence_starts": [0, 14], "original_nq_answers": [[{"start": 3, "end": 5, "string": "'s"}]]},
    }
    single = {
        "explanation_type": "single_sentence",
        "answer": [{"paragraph_reference": span}],
        "selected_sentence": {"start": 14},
    }
    kinds = [single, {"explanation_type": "multi_sentence"}, {"explanation_type": "none"}]
    lines = "".join(json.dumps(example | {"annotation": kind}) + "\n" for kind in kinds).encode()
    result = converted(tmp_path, "qed", {"qed-train.jsonlines": lines, "qed-dev.jsonlines": lines})
    table = rows(result["qa-train/nq-qed/nq-qed-dev.parquet"])
    assert table[0]["sentence"] == "It's a dam."

    assert table[1]["sentence"] == 'The dam – built by two men – is "old".'
    assert [row["label"] for row in table] == [0, 1, 1, 0, 0, 0] and [row["selected"] for row in table] == [
        0,
        1,
        0,
        0,
        0,
        0,
    ]

    assert table[0]["question_id"] == "nq-7" and table[0]["answer"] == "built by two men"


def test_fairytaleqa_keeps_the_questions_that_a_sentence_answers(tmp_path: Path) -> None:
    root = "FairytaleQAData-main/data-by-train-split"
    head = "question_id,local-or-sum,cor_section,attribute1,attribute2,question,ex-or-im1,answer1\n"
    questions = [
        "1,local,1,action,,What did it eat?,explicit,a plum",
        "2,local,1,action,,Why?,implicit,a plum",
    ]
    questions += [
        '3,summary,"1,2",action,,Who slept?,explicit,then he slept',
        "4,local,1,x,,Where?,explicit,under the tall green tree",
    ]

    story = "section,text\n1,Once a fox ran. He sat. The fox ate a plum.\n2,Then he slept.\n"
    files = {f"{root}/questions/test/fox-questions.csv": head + "\n".join(questions) + "\n"}
    files[f"{root}/section-stories/test/fox-story.csv"] = story
    result = converted(tmp_path, "fairytaleqa", {"FairytaleQAData-main.zip": zipped(files)})
    table = rows(result["qa-train/fairytaleqa/fairytaleqa-sent.parquet"])
    assert [(row["question_id"], row["sentence"]) for row in table if row["label"]] == [
        ("ft-fox-1", "The fox ate a plum."),
        ("ft-fox-3", "Then he slept."),
    ]
    assert {row["document_id"] for row in table if row["question_id"] == "ft-fox-3"} == {"fox#1", "fox#2"}
    assert all(row["certain"] and row["split"] == "test" for row in table) and len(table) == 7


def test_pairs_and_questions_become_json_lines(tmp_path: Path) -> None:
    texts = {name: {name: {"7": f"{name} é"}} for name in ("question", "cause", "effect")}
    files = {f"{name}.json": json.dumps(text).encode() for name, text in texts.items()}
    pairs = converted(tmp_path, "wikiwhy", files)
    expected = {"id": "7", "question": "question é", "cause": "cause é", "effect": "effect é"}
    assert rows(pairs["qa-train/wikiwhy/wikiwhy-pairs.jsonl.gz"]) == [expected]
    files = {"NQ-open.dev.jsonl": b'{"question": "who", "answer": ["a", "b"]}\n'}
    asked = converted(tmp_path, "nq-open", files)
    assert rows(asked["questions/nq-open-dev.jsonl.gz"]) == [{"question": "who", "answers": ["a", "b"]}]


def test_the_collections_become_documents_queries_and_judgements(tmp_path: Path) -> None:
    page = "<html>\n<pre>\n\n Title {}\n\na < b\n</pre>\n</html>\n"
    pages = {f"CACM-000{n}.html": page.format(n).encode() for n in (2, 1)}
    topics = b"<DOC>\n<DOCNO> 1 </DOCNO>\nWhat is\nTSS?\n</DOC>\n"
    files = {
        "cacm.tar.gz": tarred(pages, "w:gz"),
        "topics.cacm.txt": topics,
        "qrels.cacm.txt": b"1 Q0 CACM-1410 1\n",
    }
    cacm = converted(tmp_path, "cacm", files)
    assert rows(cacm["retrieval/cacm/docs.jsonl.gz"])[0] == {
        "doc_id": "CACM-0001",
        "text": " Title 1\n\na < b",
    }

    assert rows(cacm["retrieval/cacm/queries.jsonl.gz"]) == [{"query_id": "1", "text": "What is TSS?"}]
    assert cacm["retrieval/cacm/qrels.txt"] == b"1 Q0 CACM-1410 1\n"

    document = (
        b"<doc>\n<docno>1</docno>\n<title>a\nwing .</title>\n<author>b</author>\n<bib>c</bib>\n"
        b"<text>&lt; b</text></doc>\n"
    )
    queries = b"<xml><top>\n<num> 4</num><title>\nwhy .\n</title>\n</top></xml>"
    files = {"cran.all.1400.xml": document * 2, "cran.qry.xml": queries, "cranqrel.trec.txt": b"1 0 184 1\n"}
    cranfield = converted(tmp_path, "cranfield", files)
    expected = {"doc_id": "1", "title": "a wing .", "author": "b", "bib": "c", "text": "< b"}
    assert rows(cranfield["retrieval/cranfield/docs.jsonl.gz"]) == [expected] * 2
    query = {"query_id": "1", "source_num": "4", "text": "why ."}
    assert rows(cranfield["retrieval/cranfield/queries.jsonl.gz"]) == [query]


def test_what_the_package_reads_as_it_is_stays_so(tmp_path: Path) -> None:
    files = {source.name: source.name.encode() for source in SETS["insuranceqa"].sources}
    result = converted(tmp_path, "insuranceqa", files)
    assert result == {f"insuranceqa/{name}": content for name, content in files.items()} and len(result) == 6
    tables = {"data/asnq/train.tsv": b"a\tb\t4\n", "data/asnq/dev.tsv": b"", "data/asnq/README": b""}
    assert converted(tmp_path, "asnq", {"asnq.tar": tarred(tables, "w")}) == {
        "asnq/train.tsv": b"a\tb\t4\n",
        "asnq/dev.tsv": b"",
    }


def test_sets_with_files_have_sources_and_what_they_become() -> None:
    assert FILES.keys() == SETS.keys()
    for name, each in SETS.items():
        assert bool(each.sources or each.built_from) == (each.convert is not None), name
        assert each.note or each.convert is not None, name
    digests = [source.sha256 for each in SETS.values() for source in each.sources if source.sha256]
    assert len(digests) >= 50 and all(len(digest) == 64 and int(digest, 16) >= 0 for digest in digests)


def test_a_digest_is_of_the_content_and_not_of_how_it_is_packed(tmp_path: Path) -> None:
    cells = [("q", "who", "d", "t", 0, "He.", 1)]
    table, more = as2_table(cells), as2_table([*cells, ("q", "who", "d", "t", 1, "No.", 0)])
    write(tmp_path / "a.parquet", table)
    pq.write_table(table, tmp_path / "b.parquet", compression="none", row_group_size=1)
    write(tmp_path / "c.parquet", more)
    digests = [content_sha256(tmp_path / f"{name}.parquet") for name in "abc"]
    assert digests[0] == digests[1] != digests[2]

    write(tmp_path / "a.jsonl.gz", b'{"a": "\xc3\xa9", "b": 1}\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"b": 1, "a": "\\u00e9"}\n', 1))
    assert content_sha256(tmp_path / "a.jsonl.gz") == content_sha256(tmp_path / "b.jsonl.gz")
    first = (tmp_path / "a.jsonl.gz").read_bytes()
    write(tmp_path / "a.jsonl.gz", b'{"a": "\xc3\xa9", "b": 1}\n')
    assert (tmp_path / "a.jsonl.gz").read_bytes() == first


@pytest.mark.parametrize("module", [published_forms, published_readers])
def test_examples_give_what_they_say(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
