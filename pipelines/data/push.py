"""Push: a data set or a checkpoint -> a repository of the Hugging Face hub, by its own library.

huggingface_hub uploads the files and commits them, in one commit or several. What it has uploaded, the hub
knows by its SHA-256 and does not take again: the same command goes on where it was stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from answermill.files.atomic_files import sha256
from answermill.files.model_files import check_sums
from answermill.pipelines.errors import (
    BAD_DATA,
    INPUT_MISSING,
    IO,
    OUTPUT_EXISTS,
    SETTINGS,
    UNAVAILABLE,
    USAGE,
    JobError,
    counted,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

RepositoryKind = Literal["dataset", "model"]
State = Literal["new", "changed", "same", "file"]
"""State of a file beside the repository; 'file' if the hub was not asked."""
CARD = "README.md"
MODEL_FILES = ("config.json", "modules.json")
LEFT_OUT = (".*", "*/.*", "_training/*", "tensorboard/*", "*.tmp")
"""Patterns of files that stay here: hidden ones, and the state and logs of a training."""
TOKEN_ADVICE = "set HF_TOKEN, or log in by `hf auth login`"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Push:
    """A folder and where it goes."""

    folder: Path
    repository: str
    """'owner/name' on the hub."""
    kind: RepositoryKind | None = None
    """Kind of the repository; by the folder's files if None."""
    is_public: bool = False
    """True if the repository is made for all to see, where it does not exist yet."""
    replaces: bool = False
    """True if files that are there with other content are replaced."""
    is_dry: bool = False
    """True if the files are listed and nothing is sent."""


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Files of a folder beside those of its remote."""

    states: Mapping[str, State]
    """Path in the folder → what is known of it there."""
    only_there: tuple[str, ...] = ()
    exists: bool = True
    problem: str = ""
    """Why the hub was not asked, in a dry run."""

    def of(self, state: State) -> list[str]:
        """Paths in this state."""
        return [path for path, known in self.states.items() if known == state]


def push(task: Push) -> Iterator[str]:
    """List the files with what changes, and send them; yields lines for people.

    Raises JobError: 2 if the repository's name is none, 66 if there is no such folder, 65 if it is neither a
    data set nor a model, or a model's file is not the one that was written, 78 if there is no token or it may
    not write, 73 if files would be replaced, 69 if the hub cannot be used offline, 74 if it fails.
    """
    kind = _checked(task)
    files = files_of(task.folder)
    api = _api(needs_token=not task.is_dry)
    remote = _asked(api, task, kind, files)

    sizes = {path: (task.folder / path).stat().st_size for path in files}
    width = max(map(len, files))
    for path in files:
        yield f"{remote.states[path]:<8} {path:<{width}}  {sizes[path]:>13,} bytes"
    for path in remote.only_there:
        yield f"{'stays':<8} {path}  (only in the repository)"
    sent = [*remote.of("new"), *remote.of("changed"), *remote.of("file")]
    size = sum(sizes[path] for path in sent)
    visibility = "" if remote.exists else f", a new {'public' if task.is_public else 'private'} repository"
    new, changed, same = (len(remote.of(state)) for state in ("new", "changed", "same"))
    counts = f"{counted(new, 'file')} new, {changed:,} changed, {same:,} the same"
    if remote.problem:
        counts = counted(len(files), "file")
    yield f"{task.repository}, a {kind}{visibility}: {counts}; {size / 1e6:,.1f} MB to send"
    if task.is_dry:
        if remote.problem:
            yield f"not compared with what is there: {remote.problem}"
        yield "nothing was sent: --dry-run"
        return

    _check_replaced(task, remote)
    if not sent:
        yield f"nothing to send: {task.repository} has it all"
        return
    yield f"pushed: {_send(api, task, kind)}"


def files_of(folder: Path) -> list[str]:
    """Paths below a folder that are pushed, with `/`, in order. Raises JobError (66) if there are none."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    files = [path for path in paths if not any(fnmatch(path, pattern) for pattern in LEFT_OUT)]
    if not files:
        raise JobError(
            f"{folder} has no files to push; name the folder of a data set or a model", INPUT_MISSING
        )
    return files


def _checked(task: Push) -> RepositoryKind:
    """Kind of the repository, after checks that need no network."""
    if not _REPOSITORY.fullmatch(task.repository):
        raise JobError(f"{task.repository!r} is no repository; write it as OWNER/NAME", USAGE)
    if not task.folder.is_dir():
        raise JobError(f"no folder {task.folder}; name that of a data set or a model", INPUT_MISSING)
    is_model = any((task.folder / name).is_file() for name in MODEL_FILES)
    if is_model:
        check_sums(task.folder)
    if task.kind is not None:
        return task.kind
    if not is_model and not (task.folder / CARD).is_file():
        raise JobError(
            f"{task.folder} has neither {CARD}, as a data set of `answermill publish` or `sentences`, nor "
            "config.json, as a model; name another folder, or say --kind dataset or --kind model",
            BAD_DATA,
        )
    return "model" if is_model else "dataset"


def _api(*, needs_token: bool) -> HfApi:
    """The hub, with the token of the environment or of its own login. Raises JobError (78) without one."""
    from huggingface_hub import HfApi, get_token

    if needs_token and get_token() is None:
        raise JobError(f"no token for the hub; {TOKEN_ADVICE}, with one that may write", SETTINGS)
    return HfApi(library_name="answermill")


def _asked(api: HfApi, task: Push, kind: RepositoryKind, files: list[str]) -> RemoteFiles:
    """The files beside those of the repository; in a dry run also without a hub that answers."""
    try:
        return _compared(api, task, kind, files)
    except JobError as e:
        if not task.is_dry:
            raise
        return RemoteFiles(dict.fromkeys(files, "file"), problem=str(e))


def _compared(api: HfApi, task: Push, kind: RepositoryKind, files: list[str]) -> RemoteFiles:
    """The files beside those of the remote. Raises JobError (78, 69, 74)."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        tree = api.list_repo_tree(task.repository, recursive=True, repo_type=kind)
        there = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
    except RepositoryNotFoundError:
        return RemoteFiles(dict.fromkeys(files, "new"), exists=False)
    except Exception as e:  # of httpx or requests, by huggingface_hub's version
        raise _explained(e, task) from e

    states: dict[str, State] = {}
    for path in files:
        known = there.pop(path, None)
        same = known is not None and _is_same(task.folder / path, known)
        states[path] = "new" if known is None else "same" if same else "changed"
    there.pop(".gitattributes", None)  # the hub's own
    return RemoteFiles(states, tuple(sorted(there)))


def _is_same(file: Path, there: RepoFile) -> bool:
    """True if the repository has these bytes, by the digest that it has of them."""
    from huggingface_hub.utils.sha import git_hash

    if there.size != file.stat().st_size:
        return False
    return sha256(file) == there.lfs.sha256 if there.lfs else git_hash(file.read_bytes()) == there.blob_id


def _check_replaced(task: Push, remote: RemoteFiles) -> None:
    changed = remote.of("changed")
    if changed and not task.replaces:
        more = f" and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
        raise JobError(
            f"{task.repository} has other content in {', '.join(changed[:_SHOWN])}{more}; --replace replaces "
            "it, or name another repository",
            OUTPUT_EXISTS,
        )


def _send(api: HfApi, task: Push, kind: RepositoryKind) -> str:
    """Make the repository if it is not there, and upload the folder; returns the commit's URL."""
    try:
        api.create_repo(task.repository, repo_type=kind, private=not task.is_public, exist_ok=True)
        commit = api.upload_folder(
            repo_id=task.repository,
            folder_path=task.folder,
            repo_type=kind,
            commit_message=f"Push {task.folder.resolve().name} by AnswerMill",
            ignore_patterns=list(LEFT_OUT),
        )
    except Exception as e:  # of httpx, requests or hf_xet, by huggingface_hub's version
        raise _explained(e, task) from e
    return str(commit.commit_url)


def _explained(error: Exception, task: Push) -> JobError:
    """The error of the hub in one sentence, with what to type."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    causes, cause = [error], error.__cause__
    while isinstance(cause, Exception):
        causes.append(cause)
        cause = cause.__cause__
    words = " ".join(str(error).split())
    if any(isinstance(each, OfflineModeIsEnabled) for each in causes):
        return JobError("HF_HUB_OFFLINE is set, so the hub cannot be asked; unset it", UNAVAILABLE)
    for each in causes:
        if isinstance(each, HfHubHTTPError) and each.response.status_code in (401, 403):
            return JobError(
                f"the hub lets this token not write to {task.repository} ({each.response.status_code}); "
                f"{TOKEN_ADVICE}, with a token that may write there",
                SETTINGS,
            )
    return JobError(
        f"the hub failed: {words}; type the same command again: what was uploaded is not sent again", IO
    )
