"""The step over committed folders: what comes in is accounted for, and no count of parts or workers, no kill,
changes a row."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

from answermill.indexing.labels.windows import choose, last_that_fits, windows
from answermill.indexing.passages.passages import Splitter
from answermill.indexing.passages.text import fold
from answermill.pipelines.config.job_file import load
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.look.explain.gold_answers import by_labels
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import units_done
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.pipelines.runs.step import work_folders
from answermill.pipelines.specs.propagate import LABEL_REJECTS, PROPAGATE, SENTENCE_LABELS
from answermill.pipelines.specs.registry import folder_specs
from answermill.pipelines.steps.chain import run_steps, steps_of
from answermill.pipelines.steps.propagate import passage_parts, propagate
from answermill.schemas.annotation import ResolvedLabel
from answermill.schemas.corpus import Document, Passage, Rejected
from answermill.schemas.labels import WindowLabel
from tests.documents import document_of
from tests.made_steps import Rows, made_step, report

SPLITTER = Splitter(words=25)
FITS = cache(Splitter(30).fits)
NAMES = [folder.name for folder in PROPAGATE if folder is not LABEL_REJECTS]


def commit(run, step, folders, parts):
    """Write committed folders: per part, the rows of each."""
    this = made_step(run, step, folders)
    Commit(this).begin()
    outcome = Outcome(Rows())
    for unit, rows in enumerate(parts):
        writers = {name: PartWriter(run / name, record, unit) for name, record in folders.items()}
        for name, writer in writers.items():
            with writer:
                writer.write(rows[name])
        outcome.add(report(unit, {name: writer.parts for name, writer in writers.items()}))
    Commit(this).finish(outcome)


def world(folder, parts=3, documents=60, labels=150, words=25, mode="sentences", seed=0):
    """A run with passages/ and documents/, and labels by id, by text, of unknown sentences, of changed ones,
    and repeated."""
    generator = random.Random(seed)
    splitter = Splitter(words=words, mode=mode)
    texts = [f"The answer is {n}." for n in range(9)] + [
        "Yes.",
        "It is not so, say they who know",
        "Dr. No came at 9 a.m. (late).",
    ]
    pages = []

    for n in range(documents):
        text = "".join(
            generator.choice(texts) + generator.choice([" ", "\n", "  ", " \n\n"])
            for _ in range(generator.randrange(2, 40))
        )
        pages.append(document_of(text.strip(), doc_id=f"doc{n:03d}", source_offset=n))

    cut = [(document, splitter.split(document)) for document in pages]
    size = -(-documents // parts)
    chunks = [cut[first : first + size] for first in range(0, documents, size)]
    rows = [
        {"documents": [d for d, _ in chunk], "passages": [p for _, ps in chunk for p in ps]}
        for chunk in chunks
    ]
    commit(folder / "run", "ingest", {"documents": Document, "passages": Passage}, rows)
    sentences = [s for _, ps in cut for p in ps for s in p.sentences]

    lines = {}
    for n, s in enumerate(generator.choices(sentences, k=labels)):
        q, value = f"q{n % 7}", generator.randrange(2)
        keys = [
            (q, s.sentence_id, ""),
            (q, s.sentence_id, s.text.upper()),
            (q, "", s.text),
            (q, f"gone@{n}", ""),
            (q, "", f"{n}?"),
        ]
        key = keys[min(n % 8, 4) if n % 8 < 5 else 0]
        lines.setdefault((key[0], key[1] or fold(key[2])), (key, value))

    rows = [(*key, value) for key, value in lines.values()]
    rows += [("q9", s.sentence_id, "Other words.", 1) for s in sentences[:3]] + rows[:5]
    text = "question_id\tsentence_id\tsentence\tlabel\n" + "".join(
        "\t".join(map(str, row)) + "\n" for row in rows
    )
    (folder / "labels.tsv").write_text(text, encoding="utf-8")
    (folder / "job.toml").write_text('[propagate]\nlabels = "labels.tsv"\n', encoding="utf-8")

    return pages, rows


def run(folder, *settings, out="run"):
    return propagate.run_step(load(folder / "job.toml", settings), folder / out)


def rows_of(folder, name, out="run"):
    return list(folder_specs()[name].open(folder / out).read())


ALL = ("propagate.same_text=true", "propagate.windows=all", "propagate.window_tokens=40")


def test_labels_in_are_used_and_rejects_and_each_reject_says_why(tmp_path):
    _, labels = world(tmp_path)
    run(tmp_path)
    counts = PROPAGATE.counts_of(SENTENCE_LABELS.open(tmp_path / "run").manifest)
    rejects = rows_of(tmp_path, "labels/rejects")
    assert counts.labels == len(labels) == counts.used + len(rejects) and counts.used > 50
    reasons = Counter(reject.reason for reject in rejects)
    assert reasons == {"unknown_sentence": reasons["unknown_sentence"], "text_changed": 3, "duplicate": 5}
    assert reasons["unknown_sentence"] == sum(
        row[1].startswith("gone") or row[2].endswith("?") for row in labels[:-8]
    )

    lines = [reject.source_offset for reject in rejects]
    assert lines == sorted(lines) and rejects[-1].detail == "line 6 says the same"
    assert Rejected("labels.tsv", lines[-6], "q9", "", "text_changed", rejects[-6].detail) == rejects[-6]
    unused = [reject for reject in rejects if reject.reason != "duplicate"]
    value = {line: row[3] for line, row in enumerate(labels, 2)}  # the header is the first line
    assert all(
        reject.detail.startswith("label 0: ") == (value[reject.source_offset] == 0) for reject in unused
    )
    said = {q: by_labels(tmp_path / "run", q).refused for q in {reject.source_record for reject in unused}}
    assert {(q, r.source_offset) for q, refused in said.items() for r in refused} == {
        (reject.source_record, reject.source_offset) for reject in unused if value[reject.source_offset]
    }


@pytest.mark.parametrize("settings", [(), pytest.param(ALL, marks=pytest.mark.nightly)])
def test_parts_and_processes_do_not_change_the_rows(tmp_path, settings, monkeypatch):
    outputs = []
    for parts, workers, at_once in ((1, 1, 8192), (7, 1, 3), (4, 2, 8192)):
        folder = tmp_path / str(parts)
        world(folder, parts)
        monkeypatch.setattr(passage_parts, "AT_ONCE", at_once)
        run(folder, *settings, f"workers.processes={workers}")
        outputs.append({name: rows_of(folder, name) for name in (each.name for each in PROPAGATE)})
    assert outputs[0] == outputs[1] == outputs[2]
    assert all(len(outputs[0][name]) > 5 for name in NAMES if name != "labels/windows" or settings)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    files = []
    for name in ("a", "b"):
        world(tmp_path / name)
        run(tmp_path / name, *ALL)
        files.append(
            {path.name: path.read_bytes() for path in sorted((tmp_path / name).glob("run/labels/*/part-*"))}
        )
    assert files[0] == files[1] and len(files[0]) > 10


KILLED = """
import os, signal
from answermill.__main__ import main
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Reports

write, written = Reports.write, []

def write_two(reports, report):
    first = write(reports, report)
    if reports.folder.name.startswith("propagate-"):  # the pass before it reports elsewhere
        written.append(report)
    if len(written) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return first

Reports.write = write_two
main()
"""


@pytest.mark.nightly
def test_a_step_that_was_killed_goes_on_and_ends_with_the_same_rows(tmp_path):
    for name in ("whole", "killed"):
        world(tmp_path / name, parts=8, documents=160, labels=400)
    run(tmp_path / "whole", *ALL)
    job, out = tmp_path / "killed/job.toml", tmp_path / "killed/run"
    command = [sys.executable, "-c", KILLED, "propagate", str(job), "--out", str(out), "--set", *ALL]
    child = subprocess.run(command, cwd=Path(__file__).parents[4], stderr=subprocess.DEVNULL, check=False)
    assert child.returncode == -signal.SIGKILL
    assert [len(units_done(work)) for work in work_folders(out, "propagate")] == [2]
    run(tmp_path / "killed", *ALL)
    for name in (each.name for each in PROPAGATE):
        assert rows_of(tmp_path / "killed", name) == rows_of(tmp_path / "whole", name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    world(folder)
    run(folder, *ALL)
    return folder


@pytest.mark.parametrize("stage", ["labels", "found", "spread"])
def test_half_a_file_of_given_labels_is_made_anew(tmp_path, whole, stage):
    """The step was killed while it wrote the files that workers look labels up in."""
    world(tmp_path / "killed")
    job = load(tmp_path / "killed/job.toml", ALL)
    step = propagate.step_of(job, tmp_path / "killed/run")
    Commit(step).begin()
    name = {
        "labels": "labels/ids-000-of-004.arrow",
        "found": "_work/found/found-00000.arrow.tmp",
        "spread": "labels/spread-001-of-002.arrow",
    }
    path = step.work / name[stage]
    path.parent.mkdir(parents=True, exist_ok=True)

    path.write_bytes(b"half")
    run(tmp_path / "killed", *ALL)
    for name in (each.name for each in PROPAGATE):
        assert rows_of(tmp_path / "killed", name) == rows_of(whole, name)


@pytest.mark.parametrize("which", ["*.npy", "ids-*", "given.arrow", "spread-*", "*"])
@pytest.mark.parametrize("is_removed", [False, True])
def test_files_of_given_labels_that_were_damaged_since_are_written_anew(
    tmp_path, whole, monkeypatch, which, is_removed
):
    """By a power cut after the step said that they are there."""

    class Stopped(BaseException):
        pass

    def stop(*_):
        raise Stopped

    world(tmp_path / "stopped")
    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(propagate, "LabelPart", stop)
        run(tmp_path / "stopped", *ALL)

    (work,) = work_folders(tmp_path / "stopped/run", "propagate")
    damaged = list((work / "labels").glob(which))
    assert damaged and (work / "spread-labels.json").is_file()
    for path in damaged:
        path.unlink() if is_removed else path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run(tmp_path / "stopped", *ALL)
    for name in (each.name for each in PROPAGATE):
        assert rows_of(tmp_path / "stopped", name) == rows_of(whole, name)


@pytest.mark.parametrize(
    ("group", "mode"),
    [
        ("all", "sentences"),
        ("center", "dpr"),
        ("random", "sentences"),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (("all", "dpr"), ("center", "sentences"), ("random", "dpr"))
        ),
    ],
)
def test_windows_are_those_that_documents_split_anew_would_give(tmp_path, group, mode):
    documents, _ = world(tmp_path, mode=mode)
    run(
        tmp_path,
        f"propagate.windows={group}",
        "propagate.window_tokens=30",
        "propagate.places=4",
        "propagate.seed=3",
    )
    labels, written = rows_of(tmp_path, "labels/sentences"), rows_of(tmp_path, "labels/windows")
    correct = {(label.question_id, label.sentence_id) for label in labels if label.label}

    cut = {d.doc_id: (d.text, SPLITTER.sentences(d.doc_id, d.text)) for d in documents}
    wanted = []
    for label in labels:
        text, sentences = cut[label.doc_id]
        (n,) = (n for n, s in enumerate(sentences) if s.sentence_id == label.sentence_id)
        runs = windows(n, partial(last_that_fits, text, sentences, fits=FITS), 4)

        for first, last in choose(runs, n, group, f"3:{label.question_id}:{label.sentence_id}"):
            ids = tuple(s.sentence_id for s in sentences[first:last])
            start, end = sentences[first].start, sentences[last - 1].end
            positive = any((label.question_id, each) in correct for each in ids)
            name = f"{label.doc_id}:{start}-{end}"
            wanted.append(
                WindowLabel(
                    label.question_id,
                    name,
                    label.doc_id,
                    start,
                    end,
                    int(positive),
                    label.sentence_id,
                    n - first + 1,
                    ids,
                )
            )

    assert written == wanted and len(written) > 100 and {row.label for row in written} == {0, 1}


def test_labels_that_contradict_each_other_stop_the_step_with_both_lines(tmp_path):
    world(tmp_path)
    with (tmp_path / "labels.tsv").open("a") as file:
        file.write("q\t\tIt is.\t1\nq\t\tit  is.\t0\n")
    job, lines = load(tmp_path / "job.toml"), (tmp_path / "labels.tsv").read_text().count("\n")
    for refuse in (lambda: run(tmp_path), lambda: propagate.check(job, tmp_path / "run")):
        with pytest.raises(
            JobError,
            match=rf"labels.tsv:{lines}: labelled 0, but 1 in line {lines - 1}; leave one of them out",
        ) as e:
            refuse()
        assert e.value.code == BAD_DATA


def test_a_job_whose_labels_contradict_each_other_is_refused_before_its_first_step(tmp_path):
    (tmp_path / "pages.jsonl").write_text('{"id": "1", "text": "The answer is a text of a few words."}\n')
    (tmp_path / "labels.tsv").write_text("question_id\tsentence_id\tlabel\nq\t1@0\t1\nq\t1@0\t0\n")
    (tmp_path / "job.toml").write_text(
        '[ingest]\ninput = ["pages.jsonl"]\nmin_words = 1\n[propagate]\nlabels = "labels.tsv"\n'
    )
    job = load(tmp_path / "job.toml")
    with pytest.raises(JobError, match=r"labels.tsv:3: labelled 0, but 1 in line 2"):
        list(run_steps(job, tmp_path / "run", steps_of(job, tmp_path / "run"), ()))
    assert not (tmp_path / "run/documents").exists()


def test_labels_that_are_refused_remove_nothing_of_what_they_would_make_again(tmp_path):
    world(tmp_path)
    run(tmp_path)
    before = rows_of(tmp_path, "labels/sentences")
    (tmp_path / "labels.tsv").write_text("question_id\tsentence_id\tlabel\nq\tx@0\t1\nq\tx@0\t0\n")
    with pytest.raises(JobError, match=r"labels.tsv:3: labelled 0, but 1 in line 2"):
        list(run_steps(load(tmp_path / "job.toml"), tmp_path / "run", ["propagate"], (), redo="propagate"))
    assert rows_of(tmp_path, "labels/sentences") == before != []


def test_labels_are_checked_without_being_sorted_into_files(tmp_path, monkeypatch):
    world(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    propagate.check(load(tmp_path / "job.toml"), tmp_path / "run")
    with pytest.raises(FileNotFoundError):  # a temporary folder would be refused
        tempfile.mkdtemp()


def test_labels_of_another_corpus_are_refused(tmp_path):
    world(tmp_path)
    (tmp_path / "labels.tsv").write_text("question_id\tsentence_id\tlabel\nq\tx@0\t1\n")
    with pytest.raises(JobError, match="of its 1 label none is of a sentence in") as e:
        run(tmp_path)
    assert e.value.code == BAD_DATA


def resolved(question, sentence_id, text, label):
    return ResolvedLabel(
        question, "Who?", sentence_id, sentence_id.partition("@")[0], text, label, 3, 1.0, "top", 1.0
    )


def test_without_a_file_the_collected_labels_are_read(tmp_path):
    documents, _ = world(tmp_path)
    (tmp_path / "job.toml").write_text("[propagate]\n")
    job = load(tmp_path / "job.toml")
    assert steps_of(job, tmp_path / "run") == []

    with pytest.raises(
        JobError, match=r"collected/labels is not there .*; run `answermill collect .* EXPORT` first"
    ) as e:
        run(tmp_path)

    assert e.value.code == INPUT_MISSING
    known = [s for d in documents[:9] for s in SPLITTER.sentences(d.doc_id, d.text)]
    parts = [
        [resolved("q", s.sentence_id, s.text, n % 2) for n, s in enumerate(known)],
        [resolved("q", "doc050@0", "Was.", 1)],
    ]
    commit(
        tmp_path / "run",
        "collect",
        {"collected/labels": ResolvedLabel},
        [{"collected/labels": rows} for rows in parts],
    )

    assert steps_of(job, tmp_path / "run") == ["propagate"]
    (line,) = run_steps(job, tmp_path / "run", ["propagate"], ())
    assert f"{len(known) + 1} labels = {len(known)} used + 1 reject;" in line
    (reject,) = rows_of(tmp_path, "labels/rejects")
    assert (reject.source_file, reject.source_offset, reject.reason) == (
        "collected/labels",
        len(known) + 1,
        "text_changed",
    )

    assert {row.sentence_id for row in rows_of(tmp_path, "labels/sentences")} == {
        s.sentence_id for s in known
    }


def test_another_setting_is_another_job(tmp_path):
    world(tmp_path)
    run(tmp_path)
    assert run(tmp_path).endswith("(complete)")
    with pytest.raises(JobError, match="settings same_text = False there, True here"):
        run(tmp_path, "propagate.same_text=true")
