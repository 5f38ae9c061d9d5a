"""What the Dockerfile beside this file does, without Docker: its pip commands in a new environment, then
commands in it.

    python deploy/without_docker.py FOLDER                          # create the environment in FOLDER
    python deploy/without_docker.py FOLDER answermill doctor        # run a command in it

As in a container the command has an empty home and no variables but the image's; beyond that, it has no
network: only the loopback of a namespace, for which one must be root. It runs as the same user, and with this
machine's Python and files.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of the Dockerfile's instructions, in their order."""
    text = re.sub(r"\\\n\s*", "", (HERE / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def create(folder: Path) -> None:
    """Create the environment. pip asks the package index of this machine's configuration, not the image's."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for word, rest in instructions():
        program, _, arguments = rest.removeprefix("PIP_EXTRA_INDEX_URL=$TORCH_INDEX ").partition(" ")
        if (word, program) == ("RUN", "pip"):
            places = {
                "/source": HERE.parent,
                "/constraints.txt": HERE.parent / "constraints.txt",
                "/wheels": folder / "wheels",
            }
            for place, here in places.items():
                arguments = re.sub(rf"(?<= |/){place}(?=[ /]|$)", lambda _, here=here: str(here), arguments)
            subprocess.run([folder / "bin" / "python", "-m", "pip", *shlex.split(arguments)], check=True)


def run(folder: Path, command: list[str]) -> None:
    """Become the command."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    variables = dict(
        pair.split("=", 1) for word, rest in instructions() if word == "ENV" for pair in shlex.split(rest)
    )
    environment = {
        "PATH": f"{folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        **variables,
    }

    os.chdir(home)
    os.execvpe(
        "unshare",
        ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command],
        environment,
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        create(Path(sys.argv[1]).resolve())
    else:
        run(Path(sys.argv[1]).resolve(), sys.argv[2:])
