"""The size of the product, of a repository that can be counted by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.lines import count, unpack

FILES = {
    "schemas/record.py": '"""A record."""\n\nWIDTH = 3  # of it\n"""Its width."""\n\n\n# Nothing.\n',
    "pipelines/__init__.py": "",
    "pipelines/errors.py": "class Wrong(ValueError):\n    pass\n",
    "pipelines/cli/command.py": "import answermill.pipelines.steps\nfrom answermill.pipelines import "
    "errors\n",
    "pipelines/steps/chain.py": "def run():\n    from answermill.pipelines.runs.lock import held\n",
    "pipelines/runs/lock.py": "from answermill.pipelines.steps import chain\n\nTEXT = '''\none\n'''\n",
}


def test_lines_rooms_and_floors_of_a_revision(tmp_path: Path) -> None:
    repository, unpacked = tmp_path / "repository", tmp_path / "unpacked"
    for name, text in FILES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)

    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "Add files")):
        subprocess.run(["git", "-C", repository, *words], check=True)
    (repository / "schemas" / "record.py").write_text("")

    assert len(unpack("HEAD", unpacked, repository)) == 12
    figures = count(unpacked)
    assert (figures["files_schemas"], figures["lines_schemas"], figures["code_schemas"]) == (1, 7, 1)
    assert (figures["files_ranking"], figures["files"], figures["lines"], figures["code"]) == (0, 6, 18, 11)
    assert (figures["pipelines_entries"], figures["pipelines_rooms"]) == (4, 3)
    assert (figures["pipelines_floors"], figures["pipelines_in_cycles"]) == (2, 2)
    assert count(repository)["lines"] == 11
