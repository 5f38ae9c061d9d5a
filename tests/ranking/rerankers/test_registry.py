"""The registry: each entry says of its reranker what is true, and nothing is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from answermill.files.model_files import STATE
from answermill.ranking.checkpoint import kind_of
from answermill.ranking.entry import SHIPPED, Entry, FileMissing, StageSettings
from answermill.ranking.rerankers.registry import PACKAGES, RERANKERS, entries, find, load_reranker


@pytest.mark.parametrize("name", sorted(RERANKERS))
def test_an_entry_names_a_class_of_that_name_and_settings_whose_keys_say_what_they_mean(name: str) -> None:
    entry = find(name)
    assert entry.name == entry.reranker.name == name
    assert issubclass(entry.settings, StageSettings)
    assert all(field.description for field in entry.settings.model_fields.values())
    if entry.coder is not None:
        assert callable(entry.coder.load) and callable(entry.coder.decisive)


def test_every_shipped_checkpoint_is_some_reranker_s() -> None:
    shipped = {kind_of(folder) for folder in SHIPPED.iterdir() if folder.is_dir()}
    assert shipped and shipped <= {entry.checkpoint for entry in RERANKERS.values()}
    assert find("cosinet_passages").folder() == find("cosinet").folder() == SHIPPED / "cosinet"
    assert find("peasi.pr").folder() == find("peasi.easi").folder() == SHIPPED / "peasi"


def test_a_checkpoint_is_the_given_one_or_the_shipped_one_and_else_refused(tmp_path) -> None:
    assert find("cascade").folder(tmp_path) == tmp_path
    assert find("cascade").folder("cascade_base") == SHIPPED / "cascade_base"
    with pytest.raises(
        FileMissing, match=r"cascade_bas is no checkpoint of cascade: .* comes with cascade, cascade_base, "
    ):
        find("cascade").folder("cascade_bas")
    (tmp_path / STATE).mkdir()
    with pytest.raises(ValueError, match="its training has not ended; end it first"):
        find("cascade").folder(tmp_path)
    with pytest.raises(
        ValueError, match="multihead needs a checkpoint: the folder that `answermill train` wrote"
    ):
        find("multihead").folder()
    with pytest.raises(ValueError, match="overlap takes no checkpoint, but 'mine' is given; leave it out"):
        find("overlap").folder("mine")
    assert find("overlap").folder() is None


def test_the_checkpoint_of_others_is_a_name_that_is_looked_up() -> None:
    from pathlib import Path

    assert find("cross_encoder").folder("some/reranker", lambda name: Path("cache", name)) == Path(
        "cache/some/reranker"
    )
    with pytest.raises(
        ValueError, match="cross_encoder needs `checkpoint`: the folder, or the hub name, of a CrossEncoder"
    ):
        find("cross_encoder").folder()


def test_the_registry_imports_no_model_before_one_is_used() -> None:
    code = (
        "import sys; from answermill.ranking.rerankers.registry import RERANKERS; "
        "print(len(RERANKERS), [name for name in ('torch', 'spacy', 'transformers') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"{len(RERANKERS)} []"


def test_two_rerankers_of_one_name_are_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"rerankers\.baselines declares 'complete_sentence', which another package has declared",
    ):
        entries((*PACKAGES, "answermill.ranking.rerankers.baselines"))


def test_a_reranker_by_itself_takes_its_stage_s_settings_and_no_others() -> None:
    with pytest.raises(ValueError, match="threshold"):
        load_reranker("overlap", threshold=0.5)
    with pytest.raises(ValueError, match="needs a sentence encoder, and none is given"):
        load_reranker("similarity")


def test_an_entry_refuses_settings_of_another_reranker() -> None:
    from pathlib import Path

    from answermill.ranking.reranker import Resources
    from answermill.ranking.rerankers.peasi import ExtractorStage

    resources = Resources(
        settings=find("cascade").stage(),
        checkpoint=None,
        encoder=lambda: pytest.fail("no encoder is needed"),
        model=Path,
    )
    with pytest.raises(TypeError, match="ExtractorStage expected, but the stage's settings are ExitStage"):
        resources.stage(ExtractorStage)
    with pytest.raises(ValueError, match="cascade needs a checkpoint"):
        resources.folder()

    assert Entry("x", "nowhere:X").settings is StageSettings
