"""Cost of installing: the wheel is built, and installed in a new environment with its dependencies.

The versions are those of constraints.txt, from the package index that pip is set up with. Packages are
downloaded into a folder and then installed from there, so that each has its own seconds; pip's cache is not
used. `cpu_seconds` of the whole are lengthened less where others use the machine. `mb_download`: the
archives. `mb`: the environment on the disk, compiled files included. `mb_NAME`: its ten largest packages.
`checkpoints_mb`: the models that ship within the wheel.
`torch` says which build was taken: the one with CUDA brings packages of several GB. With --extras the wheel's
extras of these names are installed too, such as plots,s3, and the name of the saved file has theirs.

With --smoke only the wheel is installed, without its dependencies and without a network.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from testing.harness import arguments, finish, say, seconds

TAKES = "ten minutes on a busy machine, 4 GB in TMPDIR, a package index; [--extras NAMES]"

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-cache-dir")
CONSTRAINTS = ("-c", ROOT / "constraints.txt")
LARGEST = 10


def call(*command: str | Path) -> None:
    """Run a command; only its errors are shown. Raises CalledProcessError if it fails."""
    say(f"$ {' '.join(map(str, command))}")
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def build(folder: Path) -> Path:
    """The wheel, built in the folder."""
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def cpu_seconds() -> float:
    """Seconds that processors have spent on the commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def mb_of(files: Sequence[Path]) -> float:
    """Megabytes of files; links count as 0."""
    return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink()) / 1e6


def mb_of_package(package: Distribution) -> float:
    """Megabytes of the files that a package has installed."""
    return mb_of([Path(str(package.locate_file(file))) for file in package.files or ()])


def measure(folder: Path, extras: str, only_wheel: bool) -> dict[str, float | int | str]:
    """The flat result. `only_wheel`: the wheel's dependencies are neither downloaded nor installed."""
    built, created, downloaded, installed = list[float](), list[float](), list[float](), list[float]()
    computed = cpu_seconds()
    with seconds(built):
        wheel = build(folder / "built")
    what = f"{wheel}[{extras}]" if extras else str(wheel)
    environment, archives = folder / "environment", folder / "archives"
    archives.mkdir()

    with seconds(created):
        call(sys.executable, "-m", "venv", "--without-pip", environment)
    if not only_wheel:
        with seconds(downloaded):
            call(*PIP, "download", "--dest", archives, *CONSTRAINTS, what)

    with seconds(installed):
        python = environment / "bin" / "python"
        needs = ("--no-deps",) if only_wheel else ("--find-links", archives)
        call(*PIP, "--python", python, "install", "--no-index", *needs, what)

    place = sysconfig.get_path("purelib", vars={"base": str(environment)})
    packages = {package.name: package for package in distributions(path=[place])}
    return {
        "extras": extras,
        "seconds_build": built[0],
        "seconds_environment": created[0],
        "seconds_download": sum(downloaded),
        "seconds_install": installed[0],
        "cpu_seconds": cpu_seconds() - computed,
        "seconds": built[0] + created[0] + sum(downloaded) + installed[0],
        "mb_download": mb_of(list(archives.iterdir())),
        "mb": mb_of(list(environment.rglob("*"))),
        "checkpoints_mb": mb_of(list((Path(place) / "answermill/ranking/checkpoints").rglob("*"))),
        "packages": len(packages),
        "torch": packages["torch"].version if "torch" in packages else "",
        **largest({name: mb_of_package(package) for name, package in packages.items()}),
    }


def largest(sizes: Mapping[str, float]) -> dict[str, float]:
    """Key → megabytes of the largest packages, the largest first."""
    names = sorted(sizes, key=lambda name: (-sizes[name], name))[:LARGEST]
    return {f"mb_{name.lower().replace('-', '_').replace('.', '_')}": sizes[name] for name in names}


def main() -> None:
    options = arguments(
        "install",
        "seconds and megabytes of an installation",
        needs_data=False,
        texts={"extras": "names of extras, with commas"},
    )
    extras = options.extras or ""
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder).resolve(), extras, only_wheel=options.smoke)
    finish("_".join(["install", *extras.replace("-", "_").split(",")]).rstrip("_"), result, options.save)


if __name__ == "__main__":
    main()
