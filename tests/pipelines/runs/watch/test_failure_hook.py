"""What is done when a command fails: what the user typed, in time, and never what a run folder holds."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from answermill.pipelines.errors import INPUT_MISSING, SETTINGS, USAGE
from answermill.pipelines.runs.watch.failure_hook import FailureFacts, OnFailure, run_hook
from answermill.schemas import plug_ins
from testing.command import call

FACTS = FailureFacts(66, "no such file", "job.toml", "runs/2026-01-01", "run")
JOB = '[ingest]\ninput = ["missing.warc.gz"]\n'


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job that fails, as its input is missing."""
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


@pytest.fixture
def disallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plug_ins, "_folders", [])


class Receiver(BaseHTTPRequestHandler):
    """A server's answer to what is posted, and what was posted."""

    bodies: list[bytes]
    status = 200

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is written."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    kind = type("OneReceiver", (Receiver,), {"bodies": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", kind
    server.shutdown()
    server.server_close()


def test_a_command_learns_all_of_the_failure_by_its_environment_and_by_stdin(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f'cat > {out}; echo $ANSWERMILL_CODE $ANSWERMILL_STAGE "$ANSWERMILL_MESSAGE" >> {out}'
    run_hook(OnFailure(command=command), FACTS)
    text, line = out.read_text().splitlines()
    assert line == "66 run no such file"
    assert json.loads(text) == {
        "text": "AnswerMill ended with 66 at run in runs/2026-01-01: no such file",
        **{
            "code": 66,
            "message": "no such file",
            "job": "job.toml",
            "run": "runs/2026-01-01",
            "stage": "run",
        },
    }


def test_a_night_that_fails_calls_the_typed_command_with_its_exit_code(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    hook = f'printf "%s|" "$ANSWERMILL_CODE" "$ANSWERMILL_RUN" "$ANSWERMILL_STAGE" "$ANSWERMILL_JOB" > {out}'
    words = ("--night", "2026-01-01", "--on-failure", hook)
    assert call("night", job, "--runs", tmp_path / "runs", *words) == INPUT_MISSING
    code, run, stage, file, _ = out.read_text().split("|")
    assert (code, stage, file) == ("66", "run", str(job)) and run == str(tmp_path / "runs/2026-01-01")
    assert "missing.warc.gz" in capsys.readouterr().err

    # What stops before the job is read, too; and nothing is done by a command that does not fail.
    out.unlink()
    assert call("run", tmp_path / "none.toml", "--out", tmp_path / "r", "--on-failure", hook) == INPUT_MISSING
    assert out.read_text().startswith("66|")
    out.unlink()
    (tmp_path / "missing.warc.gz").touch()
    assert call("run", job, "--out", tmp_path / "r", "--on-failure", hook, "--dry-run") == 0
    assert not out.exists()


def test_an_address_gets_the_object_and_its_secret_stays_out_of_the_log(
    receiver: tuple[str, type[Receiver]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, kind = receiver
    run_hook(OnFailure(url=url), FACTS)
    assert [json.loads(body)["code"] for body in kind.bodies] == [66] and capsys.readouterr().err == ""
    kind.status = 500
    run_hook(OnFailure(url=url), FACTS)
    err = capsys.readouterr().err
    assert (
        err.startswith("answermill: on_failure: 127.0.0.1 did not take the message: ") and "token" not in err
    )


def test_a_command_that_takes_too_long_is_ended_with_what_it_has_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_hook(OnFailure(command="echo begun; sleep 100 & sleep 100", timeout_s=0.3), FACTS)
    assert "the command was ended after 0.3 s; it said: begun" in capsys.readouterr().err
    run_hook(OnFailure(command="echo no mail >&2; exit 3"), FACTS)
    assert "the command ended with 3; it said: no mail" in capsys.readouterr().err


def test_a_daemon_that_a_command_starts_holds_nobody_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"echo begun; setsid sleep 600 & echo $! > {tmp_path / 'pid'}; sleep 600"
    run_hook(OnFailure(command=command, timeout_s=0.5), FACTS)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # fails if it has ended
    assert "the command was ended after 0.5 s; it said: begun" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 130, 143])
def test_a_stop_is_no_failure(code: int, tmp_path: Path) -> None:
    run_hook(OnFailure(command=f"touch {tmp_path / 'out'}"), FailureFacts(code, "", "", "", ""))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("disallowed")
def test_a_job_s_hook_needs_that_code_is_allowed_and_the_typed_one_does_not(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, mine = tmp_path / "theirs", tmp_path / "mine"
    job.write_text(JOB + f'since = "latest"\n[on_failure]\ncommand = "touch {out}"\n')
    assert call("run", job, "--out", tmp_path / "run") == SETTINGS
    assert "only with --allow-code" in capsys.readouterr().err and not (tmp_path / "run").exists()

    assert call("run", job, "--out", tmp_path / "run", "--on-failure", f"touch {mine}") not in (0, SETTINGS)
    assert mine.exists() and not out.exists()
    assert call("run", job, "--out", tmp_path / "run", "--allow-code") not in (0, SETTINGS)
    assert out.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--on-failure", " "), "give a command"),
        (("--on-failure", "true", "--on-failure-timeout", 0), "--on-failure-timeout 0"),
    ],
)
def test_a_wrong_option_is_refused_before_any_work(
    words: tuple[object, ...], says: str, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", job, "--out", tmp_path / "run", *words) == USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("section", "says"),
    [('url = "ftp://a"', "no http or https"), ("timeout_s = 3.0", "give command or url")],
)
def test_a_wrong_section_is_refused(
    section: str, says: str, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(JOB + f"[on_failure]\n{section}\n")
    assert call("run", job, "--out", tmp_path / "run") == SETTINGS
    assert says in capsys.readouterr().err
