"""Pages of the wanted domains stay, others are refused before they are read, and no page is lost."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.specs.ingest import DOCUMENTS, REJECTS
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.ingest import domain_filter, ingest

WORDS = "The quick brown fox jumps over the lazy dog while the river runs slowly to the wide grey sea"
PAGES = {"a.com": 5, "b.org": 3, "c.net": 3, "d.info": 1}


def job(folder, **settings):
    """Two files of pages of four domains, one page without a URL, one without a text."""
    pages = [
        {"url": f"http://www.{name}/{n}", "text": f"{WORDS}, on {name}, day {n}."}
        for name, k in PAGES.items()
        for n in range(k)
    ]
    pages += [{"text": f"{WORDS} nowhere."}, {"url": "http://b.org/empty"}]
    for n, name in enumerate(("x.jsonl.gz", "y.jsonl.gz")):
        with gzip.open(folder / name, "wt", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"id": f"{n}-{i}", **page}) + "\n" for i, page in enumerate(pages) if i % 2 == n
            )

    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in {"input": ["*.jsonl.gz"], "min_words": 5, **settings}.items()
    ]
    (folder / "job.toml").write_text("[ingest]\n" + "\n".join(lines))

    return load(folder / "job.toml")


def outcome(run):
    documents = Counter(d.domain for d in DOCUMENTS.open(run).read())
    return documents, Counter(r.reason for r in REJECTS.open(run).read())


def test_the_most_popular_stay_ties_by_name(tmp_path):
    two = job(tmp_path, domains=2)
    summary = ingest.ingest(two, tmp_path / "run")
    assert outcome(tmp_path / "run") == ({"a.com": 5, "b.org": 3}, {"domain": 5, "missing_text": 1})
    assert "14 pages = 8 documents + 6 rejects (5 domain, 1 missing_text)" in summary
    assert (tmp_path / "run/domains.tsv").read_text() == "# domain\tpages\na.com\t5\nb.org\t3\n"
    assert not (tmp_path / "run/_work").exists()
    assert ingest.ingest(two, tmp_path / "run").endswith("(complete)")


def test_zero_keeps_all_and_more_than_there_are_keeps_all_with_a_domain(tmp_path):
    ingest.ingest(job(tmp_path), tmp_path / "all")
    assert outcome(tmp_path / "all") == ({**PAGES, "": 1}, {"missing_text": 1})
    assert not (tmp_path / "all/domains.tsv").exists()
    ingest.ingest(job(tmp_path, domains=9), tmp_path / "nine")
    assert outcome(tmp_path / "nine") == (PAGES, {"domain": 1, "missing_text": 1})


def test_a_list_takes_the_place_of_a_pass_that_counts(tmp_path, monkeypatch):
    (tmp_path / "ranks.csv").write_text("1,d.info\n2,absent.com\n3,www.c.net\n4,a.com\n")
    counted = []
    monkeypatch.setattr(domain_filter, "count", lambda pages: counted.extend(pages) or Counter())
    ingest.ingest(job(tmp_path, domain_list="ranks.csv", domains=3), tmp_path / "run")
    assert outcome(tmp_path / "run") == ({"d.info": 1, "c.net": 3}, {"domain": 9, "missing_text": 1})
    assert (tmp_path / "run/domains.tsv").read_text() == "# domain\tpages\nc.net\t3\nd.info\t1\n"
    assert not counted
    (tmp_path / "ranks.csv").write_text("1,d.info\n")
    with pytest.raises(JobError, match="input domain_list"):
        ingest.ingest(job(tmp_path, domain_list="ranks.csv", domains=3), tmp_path / "run")


def test_a_counting_that_was_killed_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    whole, two = tmp_path / "whole", job(tmp_path, domains=2)
    ingest.ingest(two, whole)
    count, done = domain_filter.count, []

    def counting(pages, names):
        read = list(pages)
        names.append(read[0].source_file)
        return count(read)

    def killed(pages):
        if done:
            raise KeyboardInterrupt
        return counting(pages, done)

    monkeypatch.setattr(domain_filter, "count", killed)
    with pytest.raises(BaseException):  # noqa: B017  # Beam wraps what a worker raises
        ingest.ingest(two, tmp_path / "run")
    counted = []
    monkeypatch.setattr(domain_filter, "count", lambda pages: counting(pages, counted))
    ingest.ingest(two, tmp_path / "run")
    assert sorted(done + counted) == ["x.jsonl.gz", "y.jsonl.gz"]

    for name in ("documents", "rejects", "passages"):
        parts = [
            [part.sha256 for part in folder_specs()[name].open(run).parts]
            for run in (whole, tmp_path / "run")
        ]
        assert parts[0] == parts[1]

    assert (whole / "domains.tsv").read_bytes() == (tmp_path / "run/domains.tsv").read_bytes()


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (None, INPUT_MISSING, "ingest.domain_list: .*absent.txt: no such file"),
        ("# nothing\n", BAD_DATA, "no domain in it"),
        ("rank;domain\n1;a.com\n", BAD_DATA, "'1;a.com' is no domain; give one a line, or a rank and one"),
        ("||a.com^\n", BAD_DATA, "is no domain; give one a line"),
        ("a.com\nnot a domain\n", BAD_DATA, "line 2: no registered domain in 'not a domain'"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_before_any_work(tmp_path, content, code, says):
    if content is not None:
        (tmp_path / "absent.txt").write_text(content)
    with pytest.raises(JobError, match=says) as e:
        ingest.ingest(job(tmp_path, domain_list="absent.txt"), tmp_path / "run")
    assert e.value.code == code and not (tmp_path / "run").exists()


def test_a_crawl_without_domains_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": "1", "text": WORDS}))
    (tmp_path / "job.toml").write_text('[ingest]\ninput = ["x.jsonl"]\ndomains = 2\n')
    with pytest.raises(
        JobError, match=r"ingest.domains = 2: no page in 1 files has a registered domain"
    ) as e:
        ingest.ingest(load(tmp_path / "job.toml"), tmp_path / "run")
    assert e.value.code == BAD_DATA
