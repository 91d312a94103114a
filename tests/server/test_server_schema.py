"""The server does what its OpenAPI schema says: requests made up from the schema, in process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")

import schemathesis
from fastapi.testclient import TestClient
from helpers.serving import service_of
from helpers.words import WordEncoder
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.server import service_app

PATHS = (
    *("/score", "/v1/score", "/v1/models"),
    *("/info", "/metrics", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/search"),
    *("/v1/documents", "/v1/documents/{id}", "/v1/documents/delete", "/v1/documents/ids"),
    "/v1/jobs/{id}",
)
TOKEN = "a-long-random-one"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("schema")
    with DocumentIndex.open(folder, WordEncoder()) as index:
        index.sync([Document(str(i), f"text number {i}", metadata={"n": i}) for i in range(5)])
        yield service_app(service_of(index, token=TOKEN))


@pytest.fixture(scope="module")
def api(app: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Authorization": f"Bearer {TOKEN}"})


# What no schema says is a 422 too: limits that are options, documents without a text, a percentile that
# cannot be told. So not all that is well-formed is accepted.
@pytest.mark.parametrize(
    ("path", "mode"),
    [(path, mode) for path in PATHS for mode in GenerationMode if mode.is_positive or "r" in path[2:6]],
)
def test_every_answer_is_as_the_schema_says(api, path, mode):
    (operation,) = (
        operation
        for operation in (result.ok() for result in api.get_all_operations())
        if operation.path == path
    )

    @given(operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    def answers(case: Any) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

    answers()


def test_every_operation_names_its_errors(app):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    paths = TestClient(app).get("/openapi.json", headers=headers).json()["paths"]
    assert set(paths) == set(PATHS)
    for path, operations in paths.items():
        for operation in operations.values():
            for status in ("4XX", "5XX"):
                named = operation["responses"][status]["content"]["application/json"]["schema"]["$ref"]
                assert named.endswith("TeiErrorResponse" if path == "/rerank" else "/ErrorResponse")
