"""Documents that come to a running server: stored, found, replaced and removed."""

import json
import re
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result
from helpers.serving import client_of, served, service_of, wait_until
from helpers.words import WordEncoder

pytest.importorskip("fastapi")
from fastapi import FastAPI
from fastapi.testclient import TestClient

from surprise_rerank import DataError, Document, DocumentIndex, StoreError
from surprise_rerank.connectors.qdrant import ALL, IndexOptions
from surprise_rerank.connectors.qdrant._engines.edge_shard import optimize_elsewhere
from surprise_rerank.connectors.qdrant._storage.folder import optimize_grown
from surprise_rerank.connectors.server import service_app
from surprise_rerank.connectors.server._work import DelayedWork
from surprise_rerank.eval.cli.surprise_rerank.main import command

TOKEN = "a-token-of-this-test"
WITH = {"Authorization": f"Bearer {TOKEN}"}
OTHERS = [
    f"what of {a} and {b}"
    for a in ("tax", "moon", "verb", "goal", "star")
    for b in ("fee", "sea", "law", "map")
]
BREAD = {"id": "bread", "text": "bread needs flour"}
STORED = [Document("d0", "dogs bark at night"), Document("c/1 ?", "cats purr on mats")]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as opened:
        opened.sync(STORED, background=False)
        yield opened


def app_of(index: DocumentIndex, **options: object) -> object:
    return service_app(service_of(index, "auto", **options))


@pytest.fixture
def client(index: DocumentIndex) -> TestClient:
    return client_of(app_of(index, token=TOKEN), headers=WITH)


def found(client: TestClient, question: str, **more: object) -> list[str]:
    answer = client.post("/v1/search", json={"query": question, **more}).json()
    return [hit["id"] for hit in answer["results"]]


def test_a_document_is_found_when_it_was_stored_and_gone_when_it_was_removed(client):
    new = {"id": "s", "title": "Money", "text": "stocks fell on monday", "metadata": {"year": 2026}}
    answer = client.put(
        "/v1/documents", json={"documents": [new, {"id": "d0", "text": "dogs bark at night"}]}
    )
    assert answer.status_code == 200
    counts = {"added": 1, "updated": 0, "unchanged": 1, "deleted": 0, "documents": 3}
    assert answer.json() == {"id": answer.headers["X-Request-Id"], **counts}
    assert found(client, "which stocks fell")[0] == "s"
    changed = client.put("/v1/documents", json={"documents": [{**new, "text": "bread needs flour"}]})
    assert changed.json()["updated"] == 1
    assert found(client, "flour for bread")[0] == "s"
    year = {"must": [{"key": "metadata.year", "match": {"value": 2026}}]}
    only = client.post("/v1/search", json={"query": "anything", "filter": year}).json()["results"]
    assert [(hit["id"], hit["title"]) for hit in only] == [("s", "Money")]
    assert client.delete("/v1/documents/s").json()["deleted"] == 1
    assert client.delete("/v1/documents/s").json()["deleted"] == 0
    assert client.delete("/v1/documents/c%2F1%20%3F").json()["documents"] == 1
    assert "s" not in found(client, "flour for bread")


def test_many_documents_are_stored_after_the_answer_and_others_do_not_wait_for_all(index):
    service = service_of(index, "auto", token=TOKEN, background_after=0)
    many = [{"id": f"many{i}", "text": f"parrots number {i} talk"} for i in range(300)]
    with client_of(service_app(service), headers=WITH) as client:
        with index.changing.get():  # nothing can be stored yet
            begun = client.put("/v1/documents", json={"documents": many, "wait": False})
            assert (begun.status_code, begun.json()["total"], begun.json()["added"]) == (202, 300, 0)
            later = threading.Thread(
                target=client.put, args=("/v1/documents",), kwargs={"json": {"documents": [BREAD]}}
            )
            later.start()
            assert client.post("/v1/search", json={"query": "dogs bark"}).status_code == 200
            time.sleep(0.2)  # both are on their way to the writer
        later.join()
        assert client.get(begun.headers["Location"]).json()["added"] < 300, "it came in between"
        wait_until(lambda: client.get(begun.headers["Location"]).json()["state"] == "done")
        assert client.get(begun.headers["Location"]).json()["added"] == 300
        assert len(index) == 303
        assert found(client, "parrots number 299 talk")[0] == "many299"
        again = client.put("/v1/documents", json={"documents": [*many, many[0]], "wait": False})
        assert (again.status_code, "occurs twice" in again.text) == (422, True)


def test_a_change_waits_for_a_part_of_one_job_however_many_there_are(index):
    service = service_of(index, "auto", token=TOKEN, background_after=0)
    answers = []
    with client_of(service_app(service), headers=WITH) as client:

        def put(documents: list[dict[str, str]], **more: bool) -> Any:
            answers.append(client.put("/v1/documents", json={"documents": documents, **more}))

        with index.changing.get():  # nothing can be stored yet
            for job in range(10):
                put([{"id": f"{job}-{i}", "text": f"parrot {i} talks"} for i in range(100)], wait=False)
            one = threading.Thread(target=put, args=([BREAD],))
            one.start()
            time.sleep(0.2)  # it is on its way to the writer
        one.join()
        jobs = [answer.headers["Location"] for answer in answers[:10]]
        assert answers[10].json()["documents"] <= len(STORED) + 1 + 3 * 32, "not behind all jobs"
        wait_until(lambda: client.get(jobs[-1]).json()["state"] == "done")
        assert {client.get(job).json()["state"] for job in jobs} == {"done"}
        assert len(index) == len(STORED) + 1 + 1000


def test_a_job_that_fails_says_why_and_too_many_are_refused(index, monkeypatch):
    service = service_of(index, "auto", token=TOKEN)
    with client_of(service_app(service), headers=WITH) as client:

        def put() -> Any:
            return client.put("/v1/documents", json={"documents": [BREAD], "wait": False})

        with index.changing.get():
            answers = [put() for _ in range(17)]
        assert [answer.status_code for answer in answers] == [202] * 16 + [429]
        last = answers[15].headers["Location"]
        wait_until(lambda: client.get(last).json()["state"] == "done")
        assert client.get(last).json()["unchanged"] == 1
        monkeypatch.setattr(index, "sync", Mock(side_effect=StoreError("the disk is full")))
        failed = put().headers["Location"]
        wait_until(lambda: client.get(failed).json()["state"] == "failed")
        assert "cannot be changed at the moment" in client.get(failed).json()["error"]


def test_a_wrong_method_is_told_which_one_is_right(client):
    for path in ("/v1/documents/delete", "/v1/documents/ids"):
        assert client.options(path).headers["Allow"] == "POST"
    client.put("/v1/documents", json={"documents": [{"id": "ids", "text": "a document of this name"}]})
    assert client.delete("/v1/documents/ids").json()["deleted"] == 1


def test_documents_of_two_customers_may_have_one_id(tmp_path):
    options = IndexOptions(tenant="customer")
    with DocumentIndex.open(tmp_path / "tenants", WordEncoder(), options=options) as index:
        index.sync(STORED, background=False)
        client = client_of(app_of(index, token=TOKEN), headers=WITH)
        for name in ("acme", "bolt/x"):
            document = {"id": "s", "text": f"stocks of {name}", "metadata": {"customer": name}}
            assert client.put("/v1/documents", json={"documents": [document]}).json()["added"] == 1
        assert {"acme/s", "bolt~1x/s"} <= set(found(client, "stocks", tenant=ALL))
        refused = client.delete("/v1/documents/s")
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("the index has tenants, and none is named")
        assert str(tmp_path) not in refused.text
        assert client.delete("/v1/documents/s", params={"tenant": "bolt/x"}).json()["deleted"] == 1
        assert client.delete("/v1/documents/s", params={"tenant": "bolt/x"}).json()["deleted"] == 0
        assert "acme/s" in found(client, "stocks", tenant=ALL)


def test_only_who_has_the_token_may_change_documents(index):
    for token, status, said in ((TOKEN, 401, "Bearer"), (None, 403, "SURPRISE_RERANK_TOKEN")):
        asking = client_of(app_of(index, token=token))
        stored = asking.put("/v1/documents", json={"documents": [{"id": "a", "text": "a"}]})
        removed = asking.delete("/v1/documents/d0")
        assert stored.status_code == removed.status_code == status
        assert said in stored.json()["message"]
    assert len(index) == 2


def test_the_command_sends_documents_to_a_server_that_has_the_index(index, tmp_path, monkeypatch):
    pets = tmp_path / "pets.jsonl"
    rows = [{"id": f"p{i}", "text": f"parrots talk {i}", "color": "green"} for i in range(100)]
    pets.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command, ["index", str(pets), "--server", *arguments])

    with served(app_of(index, token=TOKEN)) as url:
        refused = run(url, "--json")
        assert isinstance(refused.exception, DataError)
        assert "token" in str(refused.exception)
        monkeypatch.setenv("SURPRISE_RERANK_TOKEN", TOKEN)
        for added, unchanged in ((100, 0), (0, 100)):
            values = json.loads(run(url, "--json").stdout)
            assert (values["added"], values["unchanged"], values["documents"]) == (added, unchanged, 102)
        assert index.fetch(["p7"], frozenset({"documents"})).documents[0].metadata == {"color": "green"}
        wrong = run(url, "--rebuild", "--set", "passages=off")
        assert wrong.exit_code == 2
        assert "the server has the index" in wrong.output
    gone = run(url)
    assert isinstance(gone.exception, StoreError)
    assert "no answer of `surprise-rerank serve` at" in str(gone.exception)
    of_others = FastAPI()
    of_others.get("/health")(lambda: "well")
    of_others.put("/v1/documents")(lambda: ["stored"])
    with served(of_others) as url:
        other = run(url)
    assert isinstance(other.exception, StoreError)
    assert "is another server than" in str(other.exception)


def test_the_lines_of_the_documentation_work(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    (shown,) = re.findall(r"## Documents\n.*?```console\n(.*?)```", page, re.DOTALL)
    lines = [line[2:] for line in shown.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
    assert len(lines) == 7
    assert lines[2].startswith("surprise-rerank serve --index my-index")
    body = json.loads(shlex.split(lines[4])[shlex.split(lines[4]).index("-d") + 1])
    with DocumentIndex.open(tmp_path / "my-index", WordEncoder()) as index:
        index.sync([Document(**json.loads(shlex.split(lines[0])[1]))], background=False)
        client = client_of(app_of(index, token=TOKEN), headers=WITH)
        assert client.put("/v1/documents", json=body).json()["added"] == 1
        (question,) = re.findall(r'"query": "(.*)"', lines[5])
        assert found(client, question)[0] == body["documents"][0]["id"]
        assert client.delete(f"/v1/documents/{lines[6].rpartition('/')[2]}").json()["deleted"] == 1


def test_a_server_leaves_the_approximate_index_to_another_process(tmp_path):
    """Edge keeps Python's lock while it builds it: nobody would be answered."""
    folder = tmp_path / "index"
    shard, mark = folder / "1" / "edge", folder / "1" / "edge.grown"
    with DocumentIndex.open(folder, WordEncoder()) as index:
        index.sync(STORED, background=False)
        assert not mark.exists()
        index.corpus.storage.engine.leave_to_others()
        client = client_of(app_of(index, token=TOKEN), headers=WITH)
        assert client.put("/v1/documents", json={"documents": [{"id": "s", "text": "stocks"}]}).is_success
        assert mark.exists()
        optimize_elsewhere(shard)  # it is in use, and stays as it is
        assert mark.exists()
        assert found(client, "stocks")[0] == "s"
    optimize_grown(folder)
    assert not mark.exists()
    mark.touch()
    with DocumentIndex.open(folder, WordEncoder()) as index:
        assert len(index) == 3
        assert index.pipeline("auto").search("stocks").ids[0] == "s"
        index.sync(STORED, background=False)  # nothing is new
        assert not mark.exists()


def test_backgrounds_are_measured_after_a_change_and_not_within(index):
    index.measure_background("auto", OTHERS)
    app = app_of(index, token=TOKEN, background_after=0.3)
    client = client_of(app, headers=WITH)
    assert index.backgrounds()["auto"].documents == 2
    new = [{"id": f"n{i}", "text": f"stocks of company {i}"} for i in range(50)]
    for start in (0, 25):
        assert client.put("/v1/documents", json={"documents": new[start : start + 25]}).is_success
        assert index.backgrounds()["auto"].documents == 2
    verdict = client.post("/v1/search", json={"query": "which stocks"}).json()["verdict"]
    assert verdict["status"] == "unknown"
    wait_until(lambda: index.backgrounds()["auto"].documents == 52)
    assert client.get("/info").json()["background"] == len(OTHERS)


def test_work_that_is_asked_for_on_and_on_is_done_all_the_same():
    done: list[float] = []
    later = DelayedWork(lambda: done.append(time.monotonic()), 0.05)
    begun = time.monotonic()
    while time.monotonic() - begun < 1.2:
        later.ask()
        time.sleep(0.01)
    assert 1 <= len(done) <= 3
    later.ask()
    later.close()
    before = len(done)
    later.ask()
    time.sleep(0.2)
    assert len(done) == before
