"""What is in deploy/ belongs together, and to the versions of the package; the engines' pages say what was
run."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml

from answermill.__main__ import main
from answermill.files.atomic_files import write_text
from answermill.pipelines import errors
from answermill.pipelines.cli.command_line import command_line
from answermill.pipelines.engine.beam_engine import new_pipeline
from answermill.pipelines.nights.night_folder import Nights
from answermill.pipelines.runs.watch.metrics import METRICS
from answermill.pipelines.specs.ingest import DOCUMENTS
from deploy import without_docker
from testing.engines import Flink
from testing.object_store import ObjectStore

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS = {
    path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for path in DEPLOY.glob("kubernetes/*.yaml")
}
BOARD = (DEPLOY / "monitoring/grafana.json").read_text(encoding="utf-8")
OBJECTS = [manifest for manifests in MANIFESTS.values() for manifest in manifests]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
POOL = ["python", "-m", "apache_beam.runners.worker.worker_pool_main", "--service_port=50000"]
FLINK, JOB_SERVER = "1.19", "2.62.0"
"""With which the tests of engines run."""
ENGINE_PAGES = ("dataflow", "flink", "kubernetes", "spark")


def instructions(word: str) -> list[str]:
    """What follows the word, for each instruction of the Dockerfile that begins with it."""
    return [rest for each, rest in without_docker.instructions() if each == word]


def templates() -> Iterator[dict[str, Any]]:
    """The manifests that have pods; of a CronJob its job."""
    specs = (manifest.get("spec", {}) for manifest in OBJECTS)
    jobs = (
        {**manifest, **spec.get("jobTemplate", {})} for manifest, spec in zip(OBJECTS, specs, strict=True)
    )
    return (job for job in jobs if "template" in job.get("spec", {}))


def containers() -> Iterator[dict[str, Any]]:
    return (
        container
        for manifest in templates()
        for container in manifest["spec"]["template"]["spec"]["containers"]
    )


def images() -> list[str]:
    """All that Compose and Kubernetes start."""
    return [service["image"] for service in COMPOSE["services"].values()] + [
        each["image"] for each in containers()
    ]


# The image.


def test_the_image_has_the_versions_that_were_tested_together() -> None:
    sources = [line.split() for line in instructions("FROM")]
    beam_image, python = sources[0][0], sources[-1][0]
    minor = re.fullmatch(r"python:(3\.\d+)-slim", python)
    assert minor is not None and f"Programming Language :: Python :: {minor[1]}" in PROJECT["classifiers"]
    assert beam_image == f"apache/beam_python{minor[1]}_sdk:{PINNED['apache-beam']}"
    (install,) = [line for line in instructions("RUN") if "pip install" in line]
    assert (
        "--constraint /constraints.txt" in install and "COPY constraints.txt /constraints.txt" in DOCKERFILE
    )

    wheel = re.search(
        r'"answermill\[([\w,]+)\] @ file:///wheels/answermill-([\d.]+)-py3-none-any\.whl"', install
    )
    assert wheel is not None and wheel[2] == PROJECT["version"]
    assert set(wheel[1].split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_image_downloads_nothing_when_it_starts_and_is_not_root() -> None:
    assert instructions("ENTRYPOINT") == ['["/opt/apache/beam/boot"]']
    assert {"RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1", "HF_HUB_OFFLINE=1"} <= set(
        instructions("ENV")[-1].split()
    )
    assert instructions("USER") == ["worker"] and "--uid 10001 worker" in DOCKERFILE
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert (
        last_stage.index("\nRUN useradd")
        < last_stage.index("\nUSER worker")
        < last_stage.index("\nENTRYPOINT")
    )


def test_what_the_image_is_built_of_is_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    needed = {
        *packages["packages"],
        *PROJECT["license-files"],
        PROJECT["readme"],
        "constraints.txt",
        "pyproject.toml",
    }
    assert ignored[0] == "*" and {f"!{name}" for name in needed} <= set(ignored)
    assert all((ROOT / name.removeprefix("!")).exists() for name in ignored if name.startswith("!"))


# Compose and Kubernetes.


def test_all_containers_have_the_same_versions() -> None:
    ours = f"answermill:{PROJECT['version']}"
    server = f"apache/beam_flink{FLINK}_job_server:{JOB_SERVER}"
    assert set(images()) == {ours, f"flink:{FLINK}", server, "minio/minio"}
    assert f"-t {ours} ." in DOCKERFILE
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ENGINE_PAGES)
    assert set(re.findall(r"answermill:([\d.]*\d)", pages)) == {PROJECT["version"]}
    assert set(re.findall(r"job-server-([\d.]*\d)", pages)) == {JOB_SERVER}


def test_compose_has_a_pool_at_the_taskmanager_and_a_slot_for_each_unit_at_once() -> None:
    services = COMPOSE["services"]
    assert services["workers"]["entrypoint"] == POOL
    assert services["workers"]["network_mode"] == "service:taskmanager"
    options = services["command"]["environment"]["FLINK"].split()
    slots = yaml.safe_load(services["taskmanager"]["environment"]["FLINK_PROPERTIES"])[
        "taskmanager.numberOfTaskSlots"
    ]
    assert {
        "--environment_config=127.0.0.1:50000",
        "--job_endpoint=jobserver:8099",
        f"--parallelism={slots}",
    } <= set(options)

    assert "--job-port=8099" in services["jobserver"]["command"]
    keys = services["minio"]["environment"]
    for name in ("workers", "command"):
        environment = services[name]["environment"]
        assert environment["AWS_ACCESS_KEY_ID"] == keys["MINIO_ROOT_USER"]
        assert environment["AWS_SECRET_ACCESS_KEY"] == keys["MINIO_ROOT_PASSWORD"]
        assert environment["AWS_ENDPOINT_URL"] == "http://minio:9000"


def test_selectors_find_their_pods_and_services_their_ports() -> None:
    pods = {manifest["metadata"]["name"]: manifest["spec"]["template"] for manifest in templates()}
    for manifest in OBJECTS:
        spec, name = manifest.get("spec", {}), manifest["metadata"]["name"]
        if manifest["kind"] == "Deployment":
            assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        if manifest["kind"] == "Service":
            assert spec["selector"] == pods[name]["metadata"]["labels"]
            listening = {
                port["containerPort"] for each in pods[name]["spec"]["containers"] for port in each["ports"]
            }
            assert {port["port"] for port in spec["ports"]} <= listening


def test_what_pods_refer_to_is_there() -> None:
    named = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in OBJECTS}
    for container in containers():
        for source in container.get("envFrom", ()):
            kind = {"secretRef": "Secret", "configMapRef": "ConfigMap"}
            assert all((kind[key], reference["name"]) in named for key, reference in source.items())
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    for manifest in templates():
        pod = manifest["spec"]["template"]["spec"]
        mounted = {mount["name"] for each in pod["containers"] for mount in each.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


def test_our_containers_are_not_root_and_the_pool_is_a_sidecar_of_each_slot() -> None:
    ours = [container for container in containers() if container["image"].startswith("answermill:")]
    assert len(ours) == 3
    for container in ours:
        security = container["securityContext"]
        assert security["runAsNonRoot"] and f"--uid {security['runAsUser']} worker" in DOCKERFILE

    (taskmanager,) = [each for each in OBJECTS if each["metadata"]["name"] == "taskmanager"]
    assert [each["name"] for each in taskmanager["spec"]["template"]["spec"]["containers"]] == [
        "taskmanager",
        "workers",
    ]
    (workers,) = [container for container in ours if container["name"] == "workers"]
    assert workers["command"] == POOL
    (flink,) = [each for each in OBJECTS if each["kind"] == "ConfigMap"]
    slots = yaml.safe_load(flink["data"]["FLINK_PROPERTIES"])["taskmanager.numberOfTaskSlots"]

    (command,) = [container for container in ours if "args" in container]
    assert f"--parallelism={slots * taskmanager['spec']['replicas']}" in command["args"]


@pytest.mark.parametrize(("name", "more"), [("job.yaml", set[str]()), ("night.yaml", {"WORSE"})])
def test_a_job_s_command_is_understood_and_its_hopeless_exit_codes_are_ours(
    name: str, more: set[str]
) -> None:
    (manifest,) = MANIFESTS[name]
    job = manifest["spec"].get("jobTemplate", manifest)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words = [word.replace("s3://", "/") for word in container["command"][1:] if word != "--"]
    command_line().parse_args(words, exit_on_error=False, print_error=False)
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    hopeless = more | {"USAGE", "BAD_DATA", "INPUT_MISSING", "UNAVAILABLE", "OUTPUT_EXISTS", "SETTINGS"}
    assert set(rule["onExitCodes"]["values"]) == {getattr(errors, name) for name in hopeless}


def test_the_cron_job_s_command_does_a_night_in_a_store(
    s3: ObjectStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What its pod does; there is no Kubernetes here."""
    folder = s3.folder(tmp_path.name)
    write_text(folder / "pages.jsonl", '{"id": "a", "text": "The quick brown fox jumps over the dogs."}\n')
    write_text(
        folder / "job.toml",
        '[ingest]\ninput = ["pages.jsonl"]\nmin_words = 5\nlanguage = ""\n[workers]\nprocesses = 1\n',
    )
    (manifest,) = MANIFESTS["night.yaml"]
    (container,) = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    words = [word.replace("s3://BUCKET", str(folder)) for word in container["command"][1:]]
    with pytest.raises(SystemExit) as e:
        main(words)
    assert e.value.code == 0, capsys.readouterr().err
    good = Nights(folder / "runs").good()
    assert good is not None and DOCUMENTS.open(folder / "runs" / good).rows == 1


# Monitoring.


def expressions() -> Iterator[str]:
    """Every expression of the alerts and of the dashboard."""
    rules = yaml.safe_load((DEPLOY / "monitoring/answermill.rules.yaml").read_text(encoding="utf-8"))
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])
    yield from (target["expr"] for panel in json.loads(BOARD)["panels"] for target in panel["targets"])


def test_alerts_and_dashboard_know_our_metrics_and_labels_alone() -> None:
    known = {f"answermill_{name}": {*labels, "job", "exported_job"} for name, (labels, _) in METRICS.items()}
    text = " ".join(expressions())
    assert set(re.findall(r"answermill_\w+", text)) == known.keys(), "all of them are shown, or watched"
    for name, selectors in re.findall(r"(answermill_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)=~?\"", selectors)) <= known[name], name


def test_every_alert_has_a_test_and_the_panels_do_not_overlap() -> None:
    rules = yaml.safe_load((DEPLOY / "monitoring/answermill.rules.yaml").read_text(encoding="utf-8"))
    tests = yaml.safe_load((DEPLOY / "monitoring/answermill.rules.test.yaml").read_text(encoding="utf-8"))
    firing = {
        case["alertname"] for each in tests["tests"] for case in each["alert_rule_test"] if case["exp_alerts"]
    }
    assert firing == {rule["alert"] for group in rules["groups"] for rule in group["rules"]}

    places = [panel["gridPos"] for panel in json.loads(BOARD)["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


# The pages.


@pytest.mark.parametrize("name", ENGINE_PAGES)
def test_every_command_of_an_engine_s_page_says_whether_a_test_ran_it(name: str) -> None:
    """What is indented follows a sentence that says so."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    paragraphs = text.split("\n\n")
    introduced = [before for before, block in pairwise(paragraphs) if block.startswith("    ")]
    assert introduced
    for paragraph in introduced:
        assert re.search(r"\bRun by `tests/|\b[Nn]ot run\b", paragraph), paragraph
    for file in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize(
    ("page", "form", "slots"), [("flink", "pool", 8), ("flink", "process", 8), ("flink", "loopback", 4)]
)
def test_the_options_of_a_page_are_those_of_the_tests(
    page: str, form: str, slots: int, tmp_path: Path
) -> None:
    wanted = {
        re.sub(r"(/[\w./-]+/(boot|java))\b", r"/PATH/\2", option)
        for option in Flink(slots, tmp_path).options(form)
    }
    wanted = {
        re.sub(r"=/[\w./-]+\.jar$", "=JAR", option) for option in wanted if "java_launcher" not in option
    }
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    written = [line.strip() for line in text.splitlines() if line.startswith("    answermill run")]
    options = [{option.replace("HOST", "127.0.0.1") for option in shlex.split(line)} for line in written]
    optional = {"--job_server_timeout=600"}
    assert any(wanted - optional <= each for each in options), (sorted(wanted), written)


def test_resource_hints_arrive_in_the_pipeline() -> None:
    hints = [
        "--resource_hint=min_ram=16GB",
        "--resource_hint=accelerator=type:nvidia-l4;count:1;install-nvidia-driver",
    ]
    root = new_pipeline(["--runner=PortableRunner", "--job_endpoint=localhost:1", *hints])
    _ = root | beam.Create([1])
    environments = root.to_runner_api().components.environments.values()
    (arrived,) = [
        dict(environment.resource_hints) for environment in environments if environment.resource_hints
    ]
    assert arrived["beam:resources:min_ram_bytes:v1"] == b"16000000000"
    assert arrived["beam:resources:accelerator:v1"].startswith(b"type:nvidia-l4;count:1")


def test_the_forms_of_json_in_options_are_json() -> None:
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ENGINE_PAGES)
    forms = re.findall(r"--environment_config='(\{.*?\})'", pages)
    assert len(forms) >= 2 and all(json.loads(form)["command"] == "/PATH/boot" for form in forms)
