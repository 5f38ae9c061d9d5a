from __future__ import annotations

import pytest

from answermill.pipelines.config.job_file import keys, load
from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, JobError

GOOD = """
[ingest]
input = ["web.warc.gz"]
[[rerank.stages]]
reranker = "overlap"
keep = 50
"""


def job(tmp_path, text=GOOD, *overrides):
    path = tmp_path / "job.toml"
    path.write_text(text)
    return load(path, overrides)


def refused(tmp_path, text, *overrides):
    with pytest.raises(JobError) as e:
        job(tmp_path, text, *overrides)
    assert e.value.code == SETTINGS
    return str(e.value)


def test_what_is_not_said_has_its_default(tmp_path):
    loaded = job(tmp_path, GOOD, "retrieve.questions=q.tsv")
    assert loaded.ingest.language == "en"
    assert (loaded.retrieve.k1, loaded.retrieve.b) == (0.9, 0.4)


def test_a_language_without_an_analyser_is_refused_with_those_that_have_one(tmp_path):
    says = refused(tmp_path, GOOD, "index.language=xx")
    assert "index.language: no analyser for this language; there are ar, bg, bn" in says and "'xx'" in says


def test_constants_of_bm25_among_those_of_the_index_are_refused_with_their_place(tmp_path):
    assert "write it as retrieve.k1" in refused(tmp_path, GOOD, "index.k1=1.2")


def test_paths_are_relative_to_the_job_file(tmp_path):
    assert job(tmp_path).path("web.warc.gz") == tmp_path / "web.warc.gz"
    assert job(tmp_path).path("/elsewhere/web.warc.gz").as_posix() == "/elsewhere/web.warc.gz"


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path):
    says = refused(tmp_path, GOOD + '[retrieve]\nquestion = "q.tsv"')
    assert "unknown key retrieve.question; did you mean 'questions'?" in says
    assert "unknown key ingests; did you mean 'ingest'?" in refused(
        tmp_path, GOOD.replace("[ingest]", "[ingests]")
    )
    assert "unknown key rerank.stages.0.kep; did you mean 'keep'?" in refused(
        tmp_path, GOOD.replace("keep", "kep")
    )


def test_a_byte_order_mark_is_passed_over(tmp_path):
    assert job(tmp_path, "\ufeff" + GOOD) == job(tmp_path, GOOD)


@pytest.mark.parametrize("text", ["a = " + "[" * 50_000, "a = " + "9" * 5_000])
def test_toml_that_python_cannot_hold_is_refused(text, tmp_path):
    assert "not valid TOML" in refused(tmp_path, text)
    assert "index.shards: Input should be a valid integer" in refused(
        tmp_path, GOOD, f"index.shards={text[4:]}"
    )


def test_every_mistake_is_told_at_once(tmp_path):
    says = refused(
        tmp_path, GOOD, "ingest.min_words=many", "index.encoder_tokens=2", "workers.processes=-1"
    ).splitlines()
    assert len(says) == 3
    assert "index.encoder_tokens: Input should be greater than or equal to 8, not 2" in says[1]


def test_a_wrong_type_is_refused_and_not_converted(tmp_path):
    assert "ingest.min_words: Input should be a valid integer, not '30'" in refused(
        tmp_path, GOOD, 'ingest.min_words="30"'
    )


@pytest.mark.parametrize(
    "override", ["index.encoder=", "retrieve.questions=", 'ingest.input=["pages.warc", ""]']
)
def test_an_empty_text_names_no_file(tmp_path, override):
    key = override.partition("=")[0]
    assert f"{key}: '' names nothing; leave it out" in refused(tmp_path, GOOD, override)
    assert job(tmp_path, GOOD, "ingest.block_list=").ingest.block_list == ""


def test_a_wrong_value_is_said_once(tmp_path):
    assert refused(tmp_path, GOOD, "ingest.extractor=paragraph").count("'paragraph'") == 1
    assert refused(tmp_path, GOOD, "index.shards=none").endswith("not 'none'")


def test_what_a_section_needs_is_missed(tmp_path):
    assert "ingest.input is missing" in refused(tmp_path, "[ingest]")


def test_a_job_without_a_step_is_refused(tmp_path):
    assert "the job has no step" in refused(tmp_path, "")


def test_settings_are_laid_over_the_file(tmp_path):
    loaded = job(
        tmp_path,
        GOOD,
        "index.shards=4",
        "rerank.stages.0.keep=7",
        "ingest.language=",
        "ingest.input=['a', 'b']",
    )
    assert loaded.index.shards == 4
    assert loaded.rerank.stages[0].keep == 7
    assert loaded.ingest.input == ["a", "b"]
    assert loaded.ingest.language == ""


def test_languages_are_one_code_a_list_or_all(tmp_path):
    for override, codes in (("=de", ["de"]), ("=['en', 'hi']", ["en", "hi"]), ("=", []), ("=[]", [])):
        assert job(tmp_path, GOOD, f"ingest.language{override}").ingest.languages == codes
    assert "'english', which is no ISO 639 code; give" in refused(tmp_path, GOOD, "ingest.language=english")
    assert "'ger', and no page is found to be in that" in refused(
        tmp_path, GOOD, 'ingest.language=["en","ger"]'
    )


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("index.shards", "write key=value"),
        ("rerank.stages.3.keep=1", "no item '3'; the job has 1, counted from 0"),
        ("ingest.language.code=en", "is a value, not a section"),
    ],
)
def test_an_override_that_fits_nowhere_is_refused(tmp_path, override, says):
    assert says in refused(tmp_path, GOOD.replace("[ingest]", '[ingest]\nlanguage = "en"'), override)


def test_a_missing_file_and_one_that_is_no_toml(tmp_path):
    with pytest.raises(
        JobError, match=r"absent\.toml: no such file; `answermill recipe job` writes a job"
    ) as e:
        load(tmp_path / "absent.toml")
    assert e.value.code == INPUT_MISSING
    assert "not valid TOML: Expected ']'" in refused(tmp_path, "[ingest")


def test_every_key_says_what_it_means():
    listed = list(keys())
    assert len(listed) > 30
    assert all(meaning for _, _, _, meaning in listed)
    assert (
        "rerank.stages[].keep",
        "int or None",
        "None",
        "candidates kept per question; all if absent",
    ) in listed


def test_types_of_keys_are_written_without_what_only_pydantic_understands() -> None:
    kinds = {key: kind for key, kind, _, _ in keys()}
    assert kinds["retrieve.question_words"] == "list[int]"
    assert kinds["retrieve.sources"] == "list['bm25' or 'dense']"
    assert kinds["retrieve.question_scores_above"] == "float or None"
    assert kinds["workers.device"] == "'auto' or 'cpu' or 'cuda'"
    assert kinds["ingest.require_title"] == "bool"
    assert not [kind for kind in kinds.values() if "FieldInfo" in kind or "Annotated" in kind]
