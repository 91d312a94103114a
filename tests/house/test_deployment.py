"""docker-compose.yml, pyproject.toml and the workflows keep what the documentation says of them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from surprise_rerank.eval.cli.surprise_rerank.serve import serve

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_qdrant_is_pinned_healthy_kept_and_seen_from_this_machine_only(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if not name.startswith("qdrant"):
            continue
        version = service["image"].partition(":v")[2]
        assert len(version.split(".")) == 3, name
        assert "/readyz" in service["healthcheck"]["test"][-1]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["volumes"] == [f"{name}:/qdrant/storage"]
        assert "QDRANT__SERVICE__API_KEY" in service["environment"]


def test_one_server_by_default_and_three_nodes_in_the_cluster(services: dict[str, Any]) -> None:
    default = [name for name, service in services.items() if "profiles" not in service]
    cluster = [name for name, service in services.items() if service.get("profiles") == ["cluster"]]
    assert default == ["qdrant"]
    assert len(cluster) == 3
    for name in cluster:
        assert services[name]["environment"]["QDRANT__CLUSTER__ENABLED"] == "true"
        assert f"http://{name}:6335" in services[name]["command"]
    followers = [services[name]["command"] for name in cluster[1:]]
    assert all(command[1:3] == ["--bootstrap", f"http://{cluster[0]}:6335"] for command in followers)
    ports = [port for service in services.values() for port in service["ports"]]
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_the_server_is_built_from_this_checkout_and_asks_for_a_token(services: dict[str, Any]) -> None:
    service = services["surprise-rerank"]
    assert service["profiles"] == ["serve"]
    assert service["depends_on"] == {"qdrant": {"condition": "service_healthy"}}
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert "SURPRISE_RERANK_TOKEN" in service["environment"]
    assert "/ready" in service["healthcheck"]["test"][-1]
    recipe = service["build"]["dockerfile_inline"].splitlines()
    for line in recipe:
        if line.startswith("COPY"):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
    assert "USER nobody" in recipe
    (installed,) = (line for line in recipe if "pip install" in line)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(installed.partition("[")[2].partition("]")[0].split(",")) <= set(extras)
    (entry,) = (line.removeprefix("ENTRYPOINT ") for line in recipe if line.startswith("ENTRYPOINT"))
    assert json.loads(entry) == ["surprise-rerank", "serve"]
    known = {name for option in serve.params for name in option.opts}
    assert {word for word in service["command"] if word.startswith("--")} <= known


def test_the_extra_all_holds_every_other_but_those_for_developers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [name for line in extras["all"] for name in line.partition("[")[2].rstrip("]").split(",")]
    assert sorted(named) == sorted(set(extras) - {"all", "dev", "docs"})


def test_workflows_may_only_read_run_what_make_has_and_test_every_supported_python() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    tested: set[str] = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            tested |= set(job.get("strategy", {}).get("matrix", {}).get("python", []))
            for step in job["steps"]:
                assert re.fullmatch(r"[\w/-]+@v\d+", step.get("uses", "a/b@v1"))
                assert set(re.findall(r"^make ([a-z-]+)", step.get("run", ""), flags=re.MULTILINE)) <= targets
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert tested >= {c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)}
