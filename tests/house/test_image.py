"""What the image is made of, as far as it can be told without building it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from surprise_rerank.connectors.server import ServerOptions

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "Dockerfile").exists(), reason="not a checkout")


def lines_of(word: str) -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{word} ")]


def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_what_is_copied_is_there_and_is_let_into_the_context():
    copied = [path for line in lines_of("COPY") if "--from" not in line for path in line.split()[:-1]]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    assert set(copied) == allowed
    assert all((ROOT / path).exists() for path in copied)
    folders = {folder.partition("/")[0] for folder in project()["tool"]["setuptools"]["package-dir"].values()}
    assert folders - {"."} <= set(copied)
    assert project()["project"]["readme"] in copied


def test_the_extras_are_those_of_the_project_and_torch_one_that_it_takes():
    extras = next(line for line in lines_of("ARG") if line.startswith("EXTRAS=")).partition("=")[2]
    assert set(extras.split(",")) <= set(project()["project"]["optional-dependencies"])
    (version,) = re.findall(r"torch==(\d+)\.(\d+)", (ROOT / "Dockerfile").read_text())
    (least,) = re.findall(r'"torch>=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert tuple(map(int, version)) >= tuple(map(int, least))


def test_it_runs_as_nobody_in_particular_and_is_asked_whether_it_lives():
    assert lines_of("USER") == ["10001"]
    assert "/health" in lines_of("HEALTHCHECK")[0]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["surprise-rerank"]
    assert compose["build"] == "."
    assert compose["read_only"]
    assert set(compose["tmpfs"]) == {"/tmp"}


def test_the_deployment_of_the_page_leaves_time_to_finish_and_asks_the_right_routes():
    page = (ROOT / "docs" / "deployment.md").read_text()
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    pod = yaml.safe_load(shown)["spec"]["template"]["spec"]
    (serve,) = pod["containers"]
    pause = int(serve["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= ServerOptions().timeout + pause
    paths = {name: serve[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/ready", "readiness": "/ready", "liveness": "/health"}
    assert pod["securityContext"]["runAsUser"] == int(lines_of("USER")[0])
    mounts = {mount["mountPath"] for mount in serve["volumeMounts"]}
    assert {"/tmp", "/cache"} <= mounts
    assert {entry["name"] for entry in serve["volumeMounts"]} == {entry["name"] for entry in pod["volumes"]}
