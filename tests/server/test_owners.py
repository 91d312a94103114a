"""Who may do what: tokens with rights and tenants, over every route."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from fastapi.testclient import TestClient
from helpers.serving import Log, client_of, service_of, wait_until
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, DocumentIndex
from surprise_rerank.connectors.qdrant import ALL, IndexOptions
from surprise_rerank.connectors.server import ServerOptions, Service, service_app
from surprise_rerank.connectors.server._owners import Tokens

TENANTS = ("acme", "bolt")
DOCUMENTS = [
    Document(str(i), f"cats number {i}", metadata={"customer": name}) for name in TENANTS for i in range(3)
]
# Owner -> rights and tenant.
OWNERS: dict[str, tuple[list[str], str]] = {
    "reader": (["search"], ""),
    "acme": (["search"], "acme"),
    "writer": (["write"], ""),
    "bolt": (["search", "write"], "bolt"),
    "watcher": (["admin"], ""),
    "owner": (["search", "write", "admin"], ""),
}
TOKENS = {name: f"{name}-token-".ljust(20, "0") for name in OWNERS}
FILE = "".join(
    f"[{name}]\ntokens = {json.dumps([TOKENS[name], f'{name}-token-of-before'])}\n"
    f"rights = {json.dumps(rights)}\n" + (f'tenant = "{tenant}"\n' if tenant else "")
    for name, (rights, tenant) in OWNERS.items()
)
QUERY: dict[str, Any] = {"query": "cats"}
NOBODY: dict[str, Any] = {"must": [{"key": "metadata.customer", "match": {"value": "nobody"}}]}


def new(tenant: str) -> dict[str, Any]:
    return {"documents": [{"id": "0", "text": "cats number 0", "metadata": {"customer": tenant}}]}


def may(*owners: str, **others: int) -> dict[str, int]:
    """The status that each owner's token gets: 200, or another one; 403 who is not named."""
    return {**dict.fromkeys(owners, 200), **others}


SEARCHERS = ("reader", "owner", "acme")
# What is asked -> its body, who may, and who may where the server has the setting `tenant = "acme"`.
RIGHTS: dict[tuple[str, str, str], tuple[Any, dict[str, int], dict[str, int] | None]] = {
    ("POST", "/v1/search", "of nobody"): (QUERY, may("acme", "bolt", reader=422, owner=422), may(*SEARCHERS)),
    ("POST", "/v1/search", "of acme"): ({**QUERY, "tenant": "acme"}, may(*SEARCHERS), may(*SEARCHERS)),
    ("POST", "/v1/search", "of bolt"): ({**QUERY, "tenant": "bolt"}, may("reader", "owner", "bolt"), may()),
    ("POST", "/v1/search", "of all"): ({**QUERY, "tenant": ALL}, may("owner"), may()),
    ("POST", "/v1/rerank", "of acme"): (
        {**QUERY, "documents": [{"id": "0", "text": "cats"}], "tenant": "acme"},
        may(*SEARCHERS),
        may(*SEARCHERS),
    ),
    ("POST", "/rerank", "of nobody"): ({**QUERY, "texts": ["cats"]}, may(*SEARCHERS, "bolt"), None),
    ("POST", "/v1/documents/ids", "of acme"): ({"tenant": "acme"}, may(*SEARCHERS), may(*SEARCHERS)),
    ("POST", "/v1/documents/ids", "of all"): ({"tenant": ALL}, may("owner"), may()),
    ("PUT", "/v1/documents", "of acme"): (
        new("acme"),
        may("writer", "owner", bolt=422),
        may("writer", "owner"),
    ),
    ("PUT", "/v1/documents", "of bolt"): (
        new("bolt"),
        may("writer", "owner", "bolt"),
        may(writer=422, owner=422),
    ),
    ("DELETE", "/v1/documents/none?tenant=acme", "of acme"): (None, *[may("writer", "owner")] * 2),
    ("DELETE", "/v1/documents/none", "of nobody"): (
        None,
        may("bolt", writer=422, owner=422),
        may("writer", "owner"),
    ),
    ("POST", "/v1/documents/delete", "by filter"): (
        {"filter": NOBODY, "tenant": "bolt"},
        may("writer", "owner", "bolt"),
        may(),
    ),
    ("POST", "/v1/documents/delete", "of all by filter"): (
        {"filter": NOBODY, "tenant": ALL},
        may("owner"),
        may(),
    ),
    ("POST", "/v1/documents/delete", "a whole tenant"): ({"tenant": "nobody"}, may("owner"), may()),
    ("GET", "/v1/jobs/nobody", ""): (None, may(writer=404, owner=404, bolt=404), None),
    ("GET", "/metrics", ""): (None, may("watcher", "owner"), None),
    ("POST", "/score", ""): ({"text_1": "cats", "text_2": "cats"}, may(*SEARCHERS, "bolt"), None),
    **{("GET", path, ""): (None, may(*TOKENS), None) for path in ("/v1/models", "/info", "/openapi.json")},
    ("GET", "/no/such/path", ""): (None, dict.fromkeys(TOKENS, 404), None),
}


def private(path: Path, text: str = FILE) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentIndex]:
    folder, options = tmp_path_factory.mktemp("owners"), IndexOptions(tenant="customer")
    with DocumentIndex.open(folder / "index", WordEncoder(), options=options) as index:
        index.sync(DOCUMENTS, background=False)
        yield index


@pytest.fixture(scope="module")
def service(index: DocumentIndex, tmp_path_factory: pytest.TempPathFactory) -> Service:
    return service_of(index, "auto", tokens=private(tmp_path_factory.mktemp("tokens") / "tokens.toml"))


@pytest.fixture(scope="module")
def client_of_acme(index: DocumentIndex, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    tokens = private(tmp_path_factory.mktemp("tokens") / "tokens.toml")
    return client_of(service_app(service_of(index, "auto", tenant="acme", tokens=tokens)))


@pytest.fixture(scope="module")
def client(service: Service) -> TestClient:
    return client_of(service_app(service))


def asked(client: TestClient, owner: str, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {TOKENS.get(owner, owner)}"}
    return client.request(method, path, json=body, headers=headers)


@pytest.mark.parametrize("owner", TOKENS)
@pytest.mark.parametrize("route", RIGHTS, ids=" ".join)
def test_a_token_may_what_its_rights_say_and_nothing_else(client, owner, route):
    body, allowed, _ = RIGHTS[route]
    answer = asked(client, owner, *route[:2], body)
    assert answer.status_code == allowed.get(owner, 403), answer.text
    assert not any(token in answer.text for token in TOKENS.values())


@pytest.mark.parametrize("owner", TOKENS)
@pytest.mark.parametrize("route", [route for route in RIGHTS if RIGHTS[route][2] is not None], ids=" ".join)
def test_a_tenant_of_the_server_is_every_tokens(client_of_acme, owner, route):
    body, _, allowed = RIGHTS[route]
    answer = asked(client_of_acme, owner, *route[:2], body)
    assert answer.status_code == allowed.get(owner, 403), answer.text
    if route[1] == "/v1/search" and answer.status_code == 200:
        assert {hit["metadata"]["customer"] for hit in answer.json()["results"]} == {"acme"}


def test_every_route_of_the_server_is_in_the_table(service):
    probes = {"/", "/health", "/ready", "/v2/rerank", "/v1/score"}
    routes = {(method, route.path) for route in service_app(service).routes for method in route.methods or ()}
    expected = {
        (method, path.partition("?")[0].replace("none", "{id:path}").replace("nobody", "{id}"))
        for method, path, _ in RIGHTS
    }
    unknown = {route for route in routes - expected if route[0] != "HEAD" and route[1] not in probes}
    assert {path for _, path in unknown} <= {"/page/style.css", "/page/script.js", "/page/icon.svg"}


def test_a_tenants_token_sees_and_changes_the_tenants_documents_alone(client):
    hits = asked(client, "acme", "POST", "/v1/search", QUERY).json()["results"]
    assert {(hit["id"], hit["metadata"]["customer"]) for hit in hits} == {(str(i), "acme") for i in range(3)}
    every = asked(client, "owner", "POST", "/v1/search", {**QUERY, "tenant": ALL}).json()["results"]
    assert {hit["id"] for hit in every} == {f"{name}/{i}" for name in TENANTS for i in range(3)}
    assert asked(client, "acme", "GET", "/info").json()["documents"] == 3
    assert asked(client, "owner", "GET", "/info").json()["documents"] == 6
    assert asked(client, "owner", "GET", "/info").json()["examples"] == []
    unnamed = {"documents": [{"id": "9", "text": "cats number 9"}]}
    stored = asked(client, "bolt", "PUT", "/v1/documents", unnamed).json()
    assert (stored["added"], stored["documents"]) == (1, 4)
    listed = asked(client, "owner", "POST", "/v1/documents/ids", {"tenant": "bolt", "limit": 3}).json()["ids"]
    more = asked(client, "bolt", "POST", "/v1/documents/ids", {"offset": 3}).json()["ids"]
    assert sorted(listed + more) == ["0", "1", "2", "9"]
    removed = asked(client, "bolt", "POST", "/v1/documents/delete", {"ids": ["9", "none"]}).json()
    assert (removed["deleted"], removed["documents"]) == (1, 3)


def test_a_job_is_shown_to_who_asked_for_it(client):
    documents = {"documents": [{"id": "8", "text": "cats number 8"}], "wait": False}
    begun = asked(client, "bolt", "PUT", "/v1/documents", documents)
    assert begun.status_code == 202
    wait_until(lambda: asked(client, "bolt", "GET", begun.headers["Location"]).json()["state"] == "done")
    assert asked(client, "writer", "GET", begun.headers["Location"]).status_code == 404
    assert asked(client, "bolt", "DELETE", "/v1/documents/8").json()["deleted"] == 1


def test_stored_vectors_of_another_tenants_document_are_not_taken(client):
    texts = [{"id": "0", "text": "something else"}]
    answers: Mapping[str, Any] = {
        tenant: asked(
            client, "owner", "POST", "/v1/rerank", {**QUERY, "documents": texts, "tenant": tenant}
        ).json()
        for tenant in ("acme", "nobody")
    }
    assert answers["acme"]["usage"]["total_tokens"] < answers["nobody"]["usage"]["total_tokens"]
    unnamed = asked(client, "owner", "POST", "/v1/rerank", {**QUERY, "documents": texts}).json()
    assert unnamed["results"] == answers["nobody"]["results"]


def test_agents_see_the_tenants_documents_alone(service):
    mcp = pytest.importorskip("surprise_rerank.connectors.mcp", reason="the extra 'mcp' is not installed")
    headers = {"Accept": "application/json, text/event-stream"}

    def called(client: TestClient, token: str, name: str, **arguments: Any) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body = {**call, "params": {"name": name, "arguments": arguments}}
        answer = client.post("/mcp", json=body, headers={**headers, "Authorization": f"Bearer {token}"})
        return answer.json()["result"] if answer.status_code == 200 else answer.status_code

    with client_of(service_app(service, mcp.mcp_routes(service))) as client:
        hits = called(client, TOKENS["acme"], "search", question="cats")["structuredContent"]["results"]
        assert len(hits) == 3
        refused = called(client, TOKENS["acme"], "search", question="cats", tenant="bolt")
        assert refused["isError"]
        assert "of another tenant" in refused["content"][0]["text"]
        assert called(client, TOKENS["acme"], "status")["structuredContent"]["documents"] == 3
        unnamed = called(client, TOKENS["owner"], "search", question="cats")
        assert "has tenants, and none is named" in unnamed["content"][0]["text"]
        assert called(client, TOKENS["writer"], "status") == 403


def test_an_agent_over_the_standard_streams_names_a_tenant(service):
    mcp = pytest.importorskip("surprise_rerank.connectors.mcp", reason="the extra 'mcp' is not installed")
    client_class = pytest.importorskip("mcp").Client

    async def ask(**arguments: Any) -> Any:
        async with client_class(mcp.mcp_server(service)) as client:
            return await client.call_tool("search", {"question": "cats", **arguments})

    assert len(asyncio.run(ask(tenant="bolt")).structured_content["results"]) == 3
    assert asyncio.run(ask()).is_error


def test_two_tokens_are_valid_while_one_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("surprise_rerank.connectors.server._owners._PATIENCE", 0.0)
    log, file = Log(), tmp_path / "tokens.toml"
    tokens = Tokens(ServerOptions(tokens=private(file), token="old-one new-one"), log.logger())

    def name(token: str) -> str | None:
        owner = tokens.owner(f"Bearer {token}")
        return None if owner is None else owner.name

    assert [name(token) for token in ("old-one", "new-one", "old", "old-one new-one")] == ["", "", None, None]
    assert [name(token) for token in (TOKENS["acme"], "acme-token-of-before")] == ["acme", "acme"]
    private(file, FILE.replace(', "acme-token-of-before"', ""))
    assert [name(token) for token in (TOKENS["acme"], "acme-token-of-before")] == ["acme", None]
    private(file, "[acme")
    assert name(TOKENS["acme"]) == "acme"
    file.unlink()
    assert name(TOKENS["acme"]) == "acme"
    said = [(line["level"], line.get("kept"), line.get("read")) for line in log.lines]
    assert said == [("info", None, 13), ("error", 13, None), ("error", 13, None)]


WRONG = {
    "no tokens": ("", "has no tokens"),
    "an unknown right": (FILE.replace('"admin"', '"root"'), "rights"),
    "an unknown field": (FILE.replace("tenant", "tennant"), "did you mean 'tenant'"),
    "a short token": (FILE.replace(TOKENS["reader"], "secret"), "16 letters"),
    "a token of two": (FILE.replace(TOKENS["bolt"], TOKENS["reader"]), "somebody else's"),
    "no rights": (FILE.replace('["write"]', "[]"), "rights"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_file_that_cannot_be_is_refused_without_a_token_of_it(tmp_path, which):
    text, said = WRONG[which]
    options = ServerOptions(tokens=private(tmp_path / "tokens.toml", text))
    with pytest.raises(DataError, match=said) as refused:
        Service(searches=False, options=options, logger=Log().logger())
    assert not any(token in str(refused.value) for token in (*TOKENS.values(), "secret"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_file_that_others_may_read_is_refused(tmp_path):
    file = tmp_path / "tokens.toml"
    options = ServerOptions(tokens=private(file))
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(DataError, match="others may read it; run 'chmod 600"):
            Tokens(options, Log().logger())
