"""What `doctor` says of a graphics card, whatever build of torch is there."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from answermill.pipelines.look import doctor
from answermill.pipelines.look.doctor import Requirement, _extras, examine
from answermill.pipelines.revision import UNINSTALLED


def gpu(monkeypatch: pytest.MonkeyPatch, torch: str | None) -> Requirement:
    """What is said where there is a driver, and this version of torch, or none."""
    version = importlib.metadata.version

    def installed(name: str) -> str:
        if name != "torch":
            return version(name)
        if torch is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return torch

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(importlib.metadata, "version", installed)
    return next(each for each in examine(Path()) if each.what == "GPU")


def test_a_driver_without_torch_is_a_line_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    without = gpu(monkeypatch, None)
    assert without.state == "missing" and "torch is not installed" in without.detail
    assert without.remedy == "pip install 'torch>=2.10,<3'"


def test_a_build_for_processors_is_replaced_by_a_command_that_can_be_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = gpu(monkeypatch, "2.10.0+cpu")
    assert build.state == "missing" and "torch 2.10.0+cpu is the CPU build" in build.detail
    assert (
        build.remedy == "pip install --force-reinstall --index-url https://pypi.org/simple 'torch>=2.10,<3'"
    )
    assert gpu(monkeypatch, "2.10.0").state == "ok"


def test_the_extras_that_lack_a_package_are_listed_with_what_to_type() -> None:
    there, absent = _extras(
        [
            "numpy>=2",
            'numpy>=2; python_version < "4" and extra == "arrays"',
            'torch>=2; extra == "models"',
            'none-such>=1; extra == "models"',
            "no-other>=1; extra == 'b'",
            "no-other>=1; extra == 'test'",
        ]
    )
    assert there == Requirement("extras", "ok", "arrays")
    assert absent.state == "none"
    assert absent.detail.endswith(
        "b, models; a command that needs one says so: pip install 'answermill[b,models]'"
    )


def test_a_checkout_that_was_never_installed_has_no_list_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "code_version", lambda: UNINSTALLED)
    monkeypatch.setattr(importlib.metadata, "requires", absent)
    assert "extras" not in {each.what for each in examine(Path())}


@pytest.mark.skipif(
    not Path("/proc/self").is_dir(), reason="needs a folder that nobody may write, as of Linux"
)
def test_a_folder_that_cannot_be_written_is_missing() -> None:
    (disk,) = [each for each in examine(Path("/proc/run")) if each.what == "disk"]
    assert disk.state == "missing" and disk.detail.startswith("/proc cannot be written: ")
