"""Commands to begin and end with: what is installed and what it rests on, the sample, files to start one's
own from, completion in the shell; and the push of what is given to others."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from answermill.pipelines.cli.job_work import DEFAULTS, JobWork, Outlets
from answermill.pipelines.cli.parameters.arguments import PLACE, CommandLine, LocalOut, Overrides, Running
from answermill.pipelines.cli.streams import write_lines
from answermill.pipelines.errors import UNAVAILABLE
from answermill.pipelines.specs.shipped_plans import PlanName

GROUP = Group("Begin and give", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFiles:
    """Files that the recipes `job` and `wqa` name, and the plan of `job`."""

    pages: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            consume_multiple=True,
            help="For `job` and `wqa`: WARC, WET, JSONL or Parquet files: paths, folders, patterns in quotes "
            "or URLs; `{date}` in one is the date of the run.",
        ),
    ] = ()
    questions: Annotated[
        str | None, Parameter(help="For `job` and `wqa`: the questions, as TSV, CSV, JSONL or Parquet.")
    ] = None
    labels: Annotated[
        str | None,
        Parameter(help="For `job`: labels of sentences, if there are some; the run then carries them on."),
    ] = None
    plan: Annotated[
        PlanName, Parameter(help="For `job`: the plan that ships, by name, as of `sample --plan`.")
    ] = "default"


def doctor(
    *, out: Annotated[LocalOut, Parameter(help="Folder of the run to be; it is not created.")] = Path()
) -> int:
    """Report what is installed and what is missing on this machine, and what to type."""
    from answermill.pipelines.look.doctor import examine

    missing = 0
    for finding in examine(out):
        missing += finding.state == "missing"
        write_lines([f"{finding.state:<8} {finding.what:<7} {finding.detail}"])
        if finding.remedy:
            write_lines([f"{'':<16} → {finding.remedy}"])
    return UNAVAILABLE if missing else 0


def materials(
    part: Annotated[
        Path | None,
        PLACE,
        Parameter(
            help="Folder of a run, a checkpoint or other model, or a data set; or the name of a shipped "
            "checkpoint or an encoder. If absent, all that ships."
        ),
    ] = None,
    *,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object in place of the table, with SPDX ids.")
    ] = False,
) -> None:
    """Show which models and data sets a part rests on, and their licences: its bill of materials.

    Each line names what uses the material, and in which way. Warnings follow: what is not for commercial
    use, such as MS MARCO, on which the default encoder was trained, with all that rests on it; and whose
    licence is not known here. Facts about public models and data sets stand in a table of this package, those
    about a checkpoint or a data set in its card; a run says what it was made with. It is no legal advice.
    """
    from answermill.pipelines.look.materials.bill import bill

    contents = bill(part)
    write_lines([json_format.dumps(contents.as_json(), ensure_ascii=False)] if json else contents.lines())


def sample(
    *,
    out: Annotated[
        LocalOut,
        Parameter(help="Folder for the sample and its runs; it is created if it does not exist."),
    ] = Path("sample"),
    plan: Annotated[
        PlanName,
        Parameter(
            help="default: job.toml, into OUT/run; fast: fast.toml, with 25 sentences for the cascade in "
            "place of 60, into OUT/run-fast; full: full.toml, with PEASI's two stages too, into OUT/run-full;"
            " base: base.toml, with a cascade of 12 layers, for a graphics card or for patience, into "
            'OUT/run-base. It needs `pip install "answermill[base]"`; sure and sure-base: '
            "sure.toml and sure_base.toml, the default and the base plan with probabilities and a bar, into "
            "OUT/run-sure and OUT/run-sure-base."
        ),
    ] = "default",
    run: Annotated[
        bool, Parameter(help="Run the job; with --no-run only pages, questions, labels and jobs are written.")
    ] = True,
    settings: Overrides = (),
    outlets: Outlets = DEFAULTS,
    command: Running,
) -> None:
    """Write the sample web and its job files into --out, run a job there, and show three answers."""
    from answermill.pipelines.data.sample import PLANS, copy_to, edited

    job = copy_to(out).with_name(PLANS[plan])
    folder = out / ("run" if plan == "default" else f"run-{plan}")
    if own := edited(out):
        write_lines([f"not the sample's, and kept as they are: {', '.join(map(str, own))}"])
    if not run:
        write_lines([f"written: {out}; `answermill run {job} --out {folder}` runs the job"])
        return

    outlets.arm(command, job)
    work = JobWork(job, folder, settings, outlets, command)
    work.run()
    work.report()
    from answermill.pipelines.look.answers.best_answers import best_answers

    write_lines(best_answers(folder))


def recipe(
    name: Annotated[
        Literal["job", "wqa", "peasi", "adapt"],
        Parameter(
            help="job: a job for your own pages and questions; wqa: a job that builds a labelled set from a "
            "crawl; peasi: a training file for such a set; adapt: a training file that takes a shipped "
            "checkpoint to your own labels."
        ),
    ],
    *,
    out: Annotated[
        LocalOut, Parameter(help="Folder to write NAME.toml into; it is created if it does not exist.")
    ] = Path(),
    body: Annotated[
        Literal["default", "base"],
        Parameter(
            help="Checkpoint that `adapt` begins with: default, of 6 layers; base, of 12, for a graphics "
            'card or for patience, which needs `pip install "answermill[base]"`.'
        ),
    ] = "default",
    own: OwnFiles = OwnFiles(),
) -> None:
    """Write a commented job or training file to start from.

    `answermill recipe job --pages 'crawl/*.warc.gz' --questions questions.tsv` writes job.toml with these
    paths, a plan by name, and comments that say what to type next and what else can be set.
    """
    from answermill.pipelines.data.recipes import copy_to
    from answermill.pipelines.data.recipes.job_recipe import JobChoices

    choices = JobChoices(pages=own.pages, questions=own.questions, labels=own.labels, plan=own.plan)
    write_lines([f"written: {copy_to(name, out, body, choices)}"])


def push(
    folder: Annotated[
        Path, Parameter(help="Folder of a data set, as `publish` or `sentences` wrote it, or of a model.")
    ],
    repository: Annotated[str, Parameter(help="Repository of the hub, OWNER/NAME.")],
    *,
    kind: Annotated[
        Literal["dataset", "model"] | None,
        Parameter(help="Kind of the repository; if absent, model where the folder has a config.json."),
    ] = None,
    public: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Make the repository for all to see; without it a new one is private. One that exists stays "
            "as it is.",
        ),
    ] = False,
    replace: Annotated[
        bool, Parameter(negative=(), help="Replace files that the repository has with other content.")
    ] = False,
    dry_run: Annotated[
        bool, Parameter(negative=(), help="List files, sizes and what would change, and send nothing.")
    ] = False,
) -> None:
    """Push a data set or a checkpoint to a repository of the Hugging Face hub.

    Each file has a line with its size: new, changed, or the same as in the repository. A file that is only
    there stays, and one with other content there is refused (73) without --replace. Hidden files and a
    training's state and logs are not sent. The warnings of `answermill materials` come first.

    The token is HF_TOKEN's, or that of `hf auth login`; it is never printed. A push that was stopped goes on
    by the same command: huggingface_hub sends no content twice that the hub has.
    """
    from answermill.pipelines.data.push import Push
    from answermill.pipelines.data.push import push as push_files
    from answermill.pipelines.look.materials.bill import warnings_of

    write_lines(f"warning: {line}" for line in warnings_of(folder))
    task = Push(folder, repository, kind, is_public=public, replaces=replace, is_dry=dry_run)
    write_lines(push_files(task))


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell to write the script for.")],
    *,
    app: CommandLine,
) -> None:
    """Print a script that makes the Tab key complete commands and options in a shell.

    In bash: `answermill completion bash > ~/.local/share/bash-completion/completions/answermill`. In zsh
    write it to a file `_answermill` in a folder of `fpath`, in fish to
    `~/.config/fish/completions/answermill.fish`.
    """
    write_lines([app.generate_completion(shell=shell)])


def commands() -> list[Callable[..., object]]:
    """All commands of this module."""
    return [doctor, materials, sample, recipe, push, completion]
