"""Scores of elsewhere order the list; what the table lacks, or holds wrongly, is counted or refused."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answermill.ranking.lists import ranked_list
from answermill.ranking.rerankers.pretrained.stored_scores import ScoresWrong, StoredScores
from answermill.ranking.rerankers.registry import load_reranker
from answermill.schemas.labels import LabelledCandidate

LIST = ranked_list(
    [LabelledCandidate("q", "Who?", f"c{n}", f"d{n}", "", n, f"Text {n} ", 0) for n in range(4)]
)


def load(folder: Path, rows: dict[str, list[Any]], **settings: str) -> StoredScores:
    file = folder / "scores.parquet"
    pq.write_table(pa.table(rows), file)
    loaded = load_reranker("scores", table=str(file), **settings)
    assert isinstance(loaded, StoredScores)
    return loaded


def order(loaded: StoredScores) -> list[tuple[str, float]]:
    (ranked,) = loaded.rerank([LIST])
    return [(c.candidate_id, c.score) for c in ranked.candidates]


IDS = {
    "question_id": ["q", "q", "q", "other"],
    "candidate_id": ["c2", "c0", "c1", "c3"],
    "score": [3.0, -1.0, 0.5, 9.0],
}


def test_candidates_are_ordered_by_the_table_and_the_missing_ones_come_last_and_are_counted(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path, IDS)
    assert order(loaded) == [("c2", 3.0), ("c1", 0.5), ("c0", -1.0), ("c3", -1.0)]
    assert loaded.costs() == {"candidates": 4, "without_score": 1} and not loaded.costs()


def test_texts_stand_for_ids_and_another_column_for_the_score(tmp_path: Path) -> None:
    rows = {"question_id": ["q"] * 4, "text": ["Text 3", "Text 1", " Text 2", "Text 0"], "llm": [4, 3, 2, 1]}
    assert order(load(tmp_path, rows, column="llm")) == [("c3", 4.0), ("c1", 3.0), ("c2", 2.0), ("c0", 1.0)]


def test_a_missing_score_is_refused_where_the_stage_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ScoresWrong, match=r"no score for 1 of 4 candidates of question q, e\.g\. c3; score them"
    ) as e:
        order(load(tmp_path, IDS, missing="refuse"))
    assert e.value.exit_code == 65
    assert len(order(load(tmp_path, IDS | {"question_id": ["q"] * 4}, missing="refuse"))) == 4


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"score": [3.0, None, 0.5, 9.0]},
            "row 1: question_id 'q', candidate_id 'c0', score None; a row needs",
        ),
        (
            {"score": [3.0, -1.0, float("nan"), 9.0]},
            "row 2: .* score nan; a row needs two texts and a number",
        ),
        (
            {"question_id": ["q", "q", "q", "q"], "candidate_id": ["c2", "c0", "c1", "c2"]},
            "row 3: 'c2' of question q has another",
        ),
    ],
)
def test_a_row_without_a_score_or_with_a_second_one_is_refused(
    changes: dict[str, list[Any]], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ScoresWrong, match=f"{re.escape(str(tmp_path))}.*{says}"):
        load(tmp_path, IDS | changes)


def test_a_table_without_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no column 'llm'; it has question_id, candidate_id, score; name it with"
    ):
        load(tmp_path, IDS, column="llm")
    with pytest.raises(ValueError, match="no column candidate_id or text"):
        load(tmp_path, {"question_id": ["q"], "score": [1.0]})
    (tmp_path / "none").write_text("no table")
    with pytest.raises(ValueError, match="not readable as Parquet"):
        load_reranker("scores", table=str(tmp_path / "none"))


def test_a_damaged_page_is_refused_and_not_read_as_other_scores(tmp_path: Path) -> None:
    file = tmp_path / "scores.parquet"
    pq.write_table(pa.table(IDS), file, compression="none", use_dictionary=False, write_page_checksum=True)
    content, three = file.read_bytes(), struct.pack("<d", 3.0)
    assert three in content
    file.write_bytes(content.replace(three, struct.pack("<d", 4.0), 1))
    with pytest.raises(ScoresWrong, match=r"scores\.parquet: damaged in row 0 or after it: .*CRC"):
        load_reranker("scores", table=str(file))
