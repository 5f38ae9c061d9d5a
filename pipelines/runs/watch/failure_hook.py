"""What is done when a command fails: a command of the user's shell, a POST to a web address, or both.

Both get the same JSON object, the command also as variables of its environment. Only what the user typed is
run: an option of the command line, or the section [on_failure] of the job file that it names, and that only
where its code is allowed, since a job file may be somebody else's. What lies in a run folder is never run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from pydantic import Field, model_validator

from answermill.pipelines.errors import INTERRUPTED, SETTINGS, TERMINATED, USAGE, JobError
from answermill.pipelines.runs.watch import log_lines
from answermill.schemas.plug_ins import is_allowed
from answermill.schemas.section import Section

TIMEOUT_S = 30.0
_NO_FAILURE = (0, INTERRUPTED, TERMINATED)
"""Exit codes after which nothing is done: a command that was stopped goes on when it is typed again."""
_SHOWN = 2_000
_LAST_WORDS_S = 1.0  # for the output of a command that was ended
"""Most characters of a command's output that are written."""


class OnFailure(Section):
    """What is done when a command on the job fails; needs --allow-code."""

    command: str | None = Field(
        None,
        description="command for /bin/sh, run when a command on the job fails, as --on-failure, which takes "
        "its place; needs --allow-code",
    )
    url: str | None = Field(
        None, description="http(s) address to which a JSON object is posted then; needs --allow-code"
    )
    timeout_s: float = Field(TIMEOUT_S, gt=0, description="seconds after which either is given up")

    @model_validator(mode="after")
    def _does_something(self) -> OnFailure:
        if self.command is None and self.url is None:
            raise ValueError("give command or url")
        if self.url is not None and not _is_web(self.url):
            raise ValueError("url is no http or https address")
        return self


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """What is known of a failure. Each field is a variable ANSWERMILL_CODE, … of the command's environment,
    and a member of the JSON object."""

    code: int
    """The exit code."""
    message: str
    """The line on stderr that explains it."""
    job: str
    """The job file."""
    run: str
    """The folder of the run."""
    stage: str
    """The stage at which a night ended; '' if the command is none."""

    def variables(self) -> dict[str, str]:
        return {f"ANSWERMILL_{name.upper()}": str(value) for name, value in asdict(self).items()}

    def json(self) -> bytes:
        """The object, with all of it as one sentence in `text`, which chat programs show."""
        stage = f" at {self.stage}" if self.stage else ""
        text = f"AnswerMill ended with {self.code}{stage} in {self.run}: {self.message}"
        return json.dumps({"text": text, **asdict(self)}, ensure_ascii=False).encode()


def typed(option: str, timeout_s: float) -> OnFailure:
    """The value of --on-failure: a web address, or else a command. Raises JobError (2) if it is empty, or the
    time is none."""
    if not option.strip():
        raise JobError("--on-failure: give a command, or an http(s) address", USAGE)
    if not timeout_s > 0:
        raise JobError(f"--on-failure-timeout {timeout_s:g}: give seconds, more than 0", USAGE)
    kind = "url" if _is_web(option) else "command"
    return OnFailure.model_validate({kind: option, "timeout_s": timeout_s})


def refuse_unallowed(hook: OnFailure | None) -> None:
    """Raise JobError (78) if a job file has a hook and its code is not allowed."""
    if hook is not None and not is_allowed():
        raise JobError(
            "on_failure: a job file's command or address is used only with --allow-code; add it (in "
            "Python `am.allow_code()`), leave the "
            "section out, or type --on-failure in its place",
            SETTINGS,
        )


def run_hook(hook: OnFailure | None, facts: FailureFacts) -> None:
    """Do what the hook says, if this is a failure. What goes wrong is a line on stderr; the command's exit
    code stays."""
    if hook is None or facts.code in _NO_FAILURE:
        return
    if hook.command is not None:
        _call(hook.command, hook.timeout_s, facts)
    if hook.url is not None:
        _post(hook.url, hook.timeout_s, facts)


def _call(command: str, timeout_s: float, facts: FailureFacts) -> None:
    environment: Mapping[str, str] = {**os.environ, **facts.variables()}
    # A session, so that what the command has started can be ended with it.
    with subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(facts.json() + b"\n", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            try:
                output, _ = process.communicate(timeout=_LAST_WORDS_S)
            except subprocess.TimeoutExpired as e:  # a daemon that it has started holds its output
                output = e.output or b""
            _warn(f"the command was ended after {timeout_s:g} s", output)
            return
    if process.returncode:
        _warn(f"the command ended with {process.returncode}", output)
    elif output.strip():
        log_lines.write(f"on_failure: {_shown(output)}")


def _post(url: str, timeout_s: float, facts: FailureFacts) -> None:
    from answermill.files.web import user_agent

    headers = {"Content-Type": "application/json", "User-Agent": user_agent()}
    try:
        with urlopen(Request(url, facts.json(), headers), timeout=timeout_s):
            pass
    except (URLError, OSError, ValueError) as e:
        # The rest of an address may be a secret.
        _warn(f"{urlsplit(url).hostname} did not take the message: {getattr(e, 'reason', e)}")


def _warn(message: str, output: bytes = b"") -> None:
    said = f"; it said: {_shown(output)}" if output.strip() else ""
    log_lines.write(
        f"on_failure: {message}{said}", "warning", text=f"answermill: on_failure: {message}{said}"
    )


def _shown(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[-_SHOWN:]


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))
