"""`answermill verify`: no byte of a run changes unnoticed, and no row that does not fit, whatever its
checksum says."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies

from answermill.files.atomic_files import sha256
from answermill.files.sealed_json import write_sealed
from answermill.files.store import put, remove_tree
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, USAGE, JobError
from answermill.pipelines.look.verify import id_sets, sums
from answermill.pipelines.look.verify.files import RunFiles
from answermill.pipelines.look.verify.id_sets import IdSet, files_for
from answermill.pipelines.look.verify.repair import mend
from answermill.pipelines.look.verify.verify import Verification
from answermill.pipelines.runs.lock import claimed
from answermill.pipelines.runs.manifests.manifest import MANIFEST
from answermill.pipelines.runs.watch.clock import CLOCK
from answermill.pipelines.specs.annotate import TASKS
from testing.command import call
from testing.object_store import ObjectStore


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "run"))


def wrong(run: Path) -> list[str]:
    """What is wrong with the files and manifests."""
    files = RunFiles.of(run)
    findings = list(files.check(lambda size: None))
    unreadable = {finding.path.rpartition("/")[0] for finding in files.unreadable}
    return [str(finding) for finding in (*findings, *sums.check(files.manifests, unreadable))]


def files(run: Path) -> dict[str, bytes]:
    """All files but the times of the steps, which differ between equal runs."""
    paths = (path for path in run.rglob("*") if path.is_file() and path.name != CLOCK)
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in paths}


def test_a_sound_run_is_verified_with_all_its_rows(small_run: Path, capsys) -> None:
    before = files(small_run)
    assert call("verify", small_run) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"verified   {len(before)} files, ") and line.endswith(
        "rows: all as they were written"
    )
    assert files(small_run) == before


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "harm", [flipped, lambda content: content[:-1], lambda content: None], ids=["flip", "cut", "removed"]
)
def test_harm_to_any_file_is_noticed_and_named(run: Path, harm: Callable[[bytes], bytes | None]) -> None:
    for name, content in files(run).items():
        changed = harm(content)
        (run / name).unlink() if changed is None else (run / name).write_bytes(changed)
        named = name if changed is not None else name.removesuffix(f"/{MANIFEST}")
        assert any(finding.startswith(f"{named} ") for finding in wrong(run)), name
        (run / name).write_bytes(content)
    assert wrong(run) == []


def test_harm_to_a_report_is_noticed(run: Path) -> None:
    from answermill.pipelines.look.report.run_report import write_report

    write_report(run)
    assert wrong(run) == []
    for name in ("report.html", "report.json"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content.replace(b"1", b"3", 1))  # JSON still
        assert wrong(run) == [f"{name} was changed since it was written (SHA-256)"]
        (run / name).write_bytes(content)

    (run / "report.json").write_bytes(content[: len(content) // 2])
    (finding,) = wrong(run)
    assert finding.startswith("report.json Invalid JSON: ")
    (run / "report.json").unlink()
    assert wrong(run) == ["report.json is missing"]


@pytest.mark.parametrize("place", ["scored/part-9.parquet", "shards/notes", "labels/windows/.x.tmp"])
def test_a_file_that_no_manifest_names_is_noticed(run: Path, place: str) -> None:
    (run / place).write_text("?")
    (run / "notes.txt").write_text("of whose work the run's folder is")
    assert wrong(run) == [f"{place} is named by no manifest"]


def test_a_file_in_a_shard_is_one_of_its_own(run: Path) -> None:
    shard = next((run / "shards").glob("00000*"))
    (shard / "bm25" / "more").touch()
    assert wrong(run) == [f"{shard.relative_to(run)}/bm25/more is named by no manifest"]


def change_rows(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the rows of a folder's first part, and its manifest with it, as if they had been written so."""
    manifest = json.loads((folder / MANIFEST).read_text())
    part = manifest["parts"][0]
    table = pq.read_table(folder / part["file"])
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / part["file"])
    part |= {
        "bytes": (folder / part["file"]).stat().st_size,
        "sha256": sha256(folder / part["file"]),
        "rows": len(rows),
    }
    seal(folder, manifest | {"rows": sum(each["rows"] for each in manifest["parts"])})


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    del manifest["sha256"]
    write_sealed(folder / MANIFEST, manifest)


def set_in(row: int, **values: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[row].update(values)


def other_passage(rows: list[dict[str, Any]]) -> None:
    rows[0]["passage"]["passage_id"] = "nobody's#0"


def same_passage(rows: list[dict[str, Any]]) -> None:
    rows[1]["passage"] = rows[0]["passage"]


def other_sentence(rows: list[dict[str, Any]]) -> None:
    rows[3]["sentences"][0]["start"] += 1


ROWS = {
    "a rank that is not there": ("retrieved", set_in(1, rank=9_999), "has other ranks than 1 to"),
    "a hit that leads nowhere": (
        "retrieved",
        other_passage,
        'has passage.passage_id "nobody\'s#0", which is not in passages/',
    ),
    "a passage found twice": ("retrieved", same_passage, "has a candidate twice for question"),
    "a candidate twice": (
        "scored",
        lambda rows: rows[1].update(rows[0]),
        "has a candidate twice for question",
    ),
    "a fate without its rank": (
        "scored",
        set_in(0, rank=None, fate="kept"),
        "has a fate that is not that of its rank",
    ),
    "fates that were not counted": (
        "scored",
        set_in(-1, fate="grouped", dropped_by=None, rank=None),
        "other fates than were",
    ),
    "a passage's text": ("passages", set_in(2, text="Another."), "whose text is not its document's there"),
    "a sentence's place": ("passages", other_sentence, "has sentence "),
    "a passage of no document": (
        "passages",
        set_in(0, doc_id="nobody"),
        "has doc_id 'nobody', which is not in documents/",
    ),
    "two documents of one id": (
        "documents",
        lambda rows: rows[1].update(doc_id=rows[0]["doc_id"]),
        "two rows of doc_id",
    ),
    "shards of other passages": ("passages", set_in(9, title="Another"), "has other passages in 00000-of-"),
    "a question that nobody asked": (
        "answers",
        set_in(0, question_id="q?"),
        "question_id 'q?', which is not in questions/",
    ),
    "made of another": (
        "passages",
        set_in(9, title="Another"),
        "was made of another passages than is there now",
    ),
    "rows that were not counted": ("rejects", lambda rows: rows.pop(), "rows, 10 rejects were counted"),
}


@pytest.mark.parametrize(("folder", "change", "says"), ROWS.values(), ids=ROWS)
def test_rows_that_do_not_fit_are_noticed_though_their_checksums_are_right(
    run: Path, folder: str, change: Callable[[list[dict[str, Any]]], object], says: str
) -> None:
    change_rows(run / folder, change)
    assert any(says in str(finding) for finding in Verification(run).findings())


def test_counts_that_do_not_add_up_are_noticed(run: Path) -> None:
    manifest = json.loads((run / "scored" / MANIFEST).read_text())
    manifest["counts"]["kept"] += 1
    seal(run / "scored", manifest)
    assert any(finding.startswith("scored counts ") and " kept + " in finding for finding in wrong(run))


def test_repair_says_what_it_would_do_and_does_it_when_it_may(run: Path, small_run: Path, capsys) -> None:
    part = next((run / "labels/passages").glob("part-*"))
    part.write_bytes(flipped(part.read_bytes()))
    (run / "inputs.json").write_text("{}")
    (run / "scored/part-9.parquet").write_text("?")
    before = files(run)
    assert call("verify", run, "--repair") == BAD_DATA
    output = capsys.readouterr()
    name = f"labels/passages/{part.name}"
    assert f"wrong      {name} was changed since it was written (SHA-256)\n" in output.out

    assert f"repair     {name} is removed and made again\n" in output.out
    assert "repair     scored/part-9.parquet is removed: no manifest names it\n" in output.out
    assert f"steps      ingest, propagate\nthen       `answermill run JOB.toml --out {run}`\n" in output.out
    assert files(run) == before, "nothing is written without --yes"
    assert call("verify", run, "--repair", "--yes", "--job", small_run.parent / "job.toml") == 0
    assert call("verify", run) == 0
    assert (files(run).keys(), files(run)[name]) == (files(small_run).keys(), files(small_run)[name])


def test_a_file_that_is_none_of_a_shard_s_goes_alone_and_the_run_is_verified_again(
    run: Path, small_run: Path, capsys
) -> None:
    shard = next((run / "shards").glob("00000*"))
    (shard / "bm25" / "more").touch()
    assert call("verify", run, "--repair", "--yes") == 0
    assert files(run) == files(small_run)
    removed, verified = capsys.readouterr().out.splitlines()[-2:]
    assert removed == f"removed    {(shard / 'bm25' / 'more').relative_to(run)}"
    assert verified.startswith("verified   ") and verified.endswith(": all as they were written")


def test_what_a_repair_without_a_job_leaves_is_said_after_it(judged: Path, capsys) -> None:
    (judged / "packs/mine").write_text("?")
    (judged / "scored/part-9.parquet").write_text("?")
    assert call("verify", judged, "--repair", "--yes") == BAD_DATA
    output = capsys.readouterr()
    lines = output.out.splitlines()
    after = lines[lines.index("removed    scored/part-9.parquet") + 1 :]
    assert after == ["wrong      packs/mine is named by no manifest"]
    assert "packs/mine is left as it is" in output.err


def test_a_step_that_follows_from_one_that_is_done_again_is_not_done_twice(run: Path, capsys) -> None:
    for folder, count in (("documents", "pages"), ("scored", "kept")):
        manifest = json.loads((run / folder / MANIFEST).read_text())
        manifest["counts"][count] += 1
        seal(run / folder, manifest)
    assert call("verify", run, "--repair") == BAD_DATA
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("then ")]
    assert commands == [f"then       `answermill run JOB.toml --out {run} --redo ingest`"]


@pytest.fixture(scope="module")
def collected(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose tasks were judged, and the votes collected; for reading only."""
    folder = tmp_path_factory.mktemp("collected")
    run = Path(shutil.copytree(small_run.parent, folder / "small")) / "run"
    assert call("annotate", run.parent / "job.toml", "--out", run) == 0
    export = run.parent / "judged.csv"
    rows = list(TASKS.open(run).read())[:3]
    lines = [f"{row.task_id},{row.text_hash},correct,anna\n" for row in rows]
    export.write_text("task_id,text_hash,label,annotator\n" + "".join(lines), encoding="utf-8")
    assert call("collect", run, export) == 0
    return run.parent


@pytest.fixture
def judged(collected: Path, tmp_path: Path) -> Path:
    """That run, to be damaged."""
    return Path(shutil.copytree(collected, tmp_path / "small")) / "run"


@pytest.mark.parametrize(
    "name", ["collected/annotations/part-*", "collected/annotations/_manifest.json", "collected/agreement*"]
)
def test_votes_that_were_damaged_are_named_and_never_removed(judged: Path, capsys, name: str) -> None:
    (file,) = judged.glob(name)
    content = file.read_bytes()
    # With a flipped bit it may still be JSON.
    file.write_bytes(content[:-9] if "agreement" in name else flipped(content))
    (judged / "collected/annotations/part-of-mine.parquet").write_text("?")
    before = files(judged)
    capsys.readouterr()
    assert call("verify", judged, "--repair", "--yes") == BAD_DATA
    output = capsys.readouterr()
    assert files(judged) == before

    assert (
        f"repair     {file.relative_to(judged)} is left as it is: people may have worked on it\n"
        in output.out
    )
    assert f"`answermill collect {judged} EXPORT` makes it so" in output.err
    assert call("collect", judged, judged.parent / "judged.csv") == (
        OUTPUT_EXISTS if "agreement" in name else 0
    )


def test_damaged_tasks_of_a_further_batch_come_with_the_command_that_writes_them(
    judged: Path, capsys
) -> None:
    more = (
        "annotate",
        judged.parent / "job.toml",
        "--out",
        judged,
        "--set",
        "annotate.batch=2",
        "annotate.top=9",
    )
    assert call(*more) == 0
    before = files(judged)
    (file,) = judged.glob("batches/2/tasks/part-*")
    file.write_bytes(flipped(file.read_bytes()))
    capsys.readouterr()
    assert call("verify", judged, "--repair") == BAD_DATA
    *_, last = capsys.readouterr().out.splitlines()
    assert last == (
        f"then       delete {file.parent}, then "
        f"`answermill annotate JOB.toml --out {judged} --set annotate.batch=2`, "
        "with the other settings of that batch,"
    )
    shutil.rmtree(file.parent)
    assert call(*more) == 0
    assert files(judged) == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("packs/packs.json", "packs/packs.json is missing"),
        ("tasks/_manifest.json", "tasks is not there or not complete, and packs were made of it"),
    ],
)
def test_what_packs_were_made_of_and_are_listed_in_is_missed(
    judged: Path, capsys, name: str, says: str
) -> None:
    (judged / name).unlink()
    assert call("verify", judged) == BAD_DATA
    wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wrong ")]
    assert wrong[0] == f"wrong      {says}"


def test_a_repair_that_leaves_something_wrong_ends_with_65_and_says_what(judged: Path, capsys) -> None:
    (judged / "packs/mine").write_text("?")
    part = next((judged / "scored").glob("part-*"))
    part.write_bytes(flipped(part.read_bytes()))
    assert call("verify", judged, "--repair", "--yes") == BAD_DATA
    assert f"`answermill run JOB.toml --out {judged}` makes it so" in capsys.readouterr().err
    assert call("verify", judged, "--repair", "--yes", "--job", judged.parent / "job.toml") == BAD_DATA
    output = capsys.readouterr()
    assert "packs/mine is left as it is: people may have worked on it; mend or move it by hand" in output.err
    assert output.out.splitlines()[-1] == "wrong      packs/mine is named by no manifest"
    (judged / "packs/mine").unlink()
    assert call("verify", judged) == 0


def test_a_command_says_where_to_read_what_makes_a_run_right(run: Path) -> None:
    stray = run / "scored/part-9.parquet"
    stray.write_text("?")
    with pytest.raises(
        JobError, match=r"1 thing wrong; `answermill verify .* --repair` says what makes it right"
    ):
        list(mend(run, "look"))
    with pytest.raises(JobError, match="1 thing wrong; the lines above say what makes it right"):
        list(mend(run, "plan"))
    with pytest.raises(JobError, match="1 thing wrong that came meanwhile; "):
        list(mend(run, "remove", lambda step: stray.write_text("?")))


def test_what_is_removed_is_what_is_wrong_when_nobody_else_writes(run: Path, capsys) -> None:
    (run / "scored/part-9.parquet").write_text("?")
    with claimed(run):
        assert call("verify", run, "--repair", "--yes") == OUTPUT_EXISTS
    assert capsys.readouterr().out == "", "nothing is looked at before the run is this command's"
    assert (run / "scored/part-9.parquet").is_file()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nowhere",), INPUT_MISSING, "no folder nowhere"),
        ((".",), INPUT_MISSING, "no complete step of a run in .; there is no manifest"),
        ((".", "--yes"), USAGE, "--yes belongs to --repair"),
    ],
)
def test_what_is_no_run_is_refused(
    tmp_path: Path, monkeypatch, capsys, words: tuple[str, ...], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("verify", *words) == code
    assert says in capsys.readouterr().err


@pytest.fixture
def stored(small_run: Path, s3: ObjectStore, tmp_path: Path) -> Iterator[Path]:
    run = s3.folder("verified")
    for name in files(small_run):
        shutil.copy(small_run / name, tmp_path / "copy")
        put(tmp_path / "copy", run / name)
    yield run
    remove_tree(run)


def test_a_run_in_a_store_is_read_there(stored: Path, small_run: Path, tmp_path: Path) -> None:
    verification = Verification(stored)
    assert list(verification.findings()) == [] and verification.files == len(files(small_run))
    name = next(name for name in files(small_run) if name.endswith("dense.faiss"))
    (tmp_path / "copy").write_bytes(flipped((small_run / name).read_bytes()))
    put(tmp_path / "copy", stored / name)
    assert [str(finding) for finding in Verification(stored).findings()] == [
        f"{name} was changed since it was written (SHA-256)"
    ]


def test_ids_that_come_one_by_one_take_as_long_as_they_are_many(tmp_path: Path) -> None:
    ids, arrays = IdSet(tmp_path / "ids", 1), [pa.array([f"q{n}"]) for n in range(30_000)]
    began = time.process_time()
    for each in arrays:
        ids.add(each)
    assert time.process_time() - began < 3, "0.3 s; where each looks at all that wait, 8"


@given(
    strategies.lists(strategies.text("ab", max_size=4)), strategies.lists(strategies.text("ab", max_size=4))
)
def test_sets_in_files_are_those_in_memory(first: list[str], second: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_sets, "IN_FILE", 4)
        patch.setattr(id_sets, "IN_MEMORY", 3)
        count = files_for(max(len(first), len(second)))
        sets = [IdSet(Path(folder) / name, count) for name in ("first", "second")]
        for ids, values in zip(sets, (first, second), strict=True):
            for value in values:
                ids.add(pa.array([value]))
        assert len(set(sets[0].repeated())) == len({each for each in first if first.count(each) > 1})
        assert len(list(sets[0].absent_from(sets[1]))) == len(set(first) - set(second))
