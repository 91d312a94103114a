"""An index of a model behind an endpoint: made, filled, searched, tuned and served by commands."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.endpoint import KEY, Endpoint

from surprise_rerank import SurpriseRerankError
from surprise_rerank.eval.cli.surprise_rerank.main import command

VARIABLE = "TOY_KEY"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    started = Endpoint()
    yield started
    assert {headers.get("Authorization") for _, headers, _ in started.requests} <= {f"Bearer {KEY}"}
    started.server.shutdown()
    started.server.server_close()


@pytest.fixture
def config(endpoint: Endpoint, tmp_path: Path) -> str:
    file = tmp_path / "endpoint.toml"
    file.write_text(f'[embedding]\nmodel = "toy"\nurl = "{endpoint.url}"\nkey_variable = "{VARIABLE}"\n')
    return str(file)


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, arguments)
    if isinstance(done.exception, SurpriseRerankError):  # with which `main` exits with code 2
        assert code == 2, done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in arguments else done.output


@pytest.fixture
def index(config: str, tmp_path: Path) -> str:
    names = ("cats", "dogs", "owls")
    texts = [{"id": name, "text": f"{name} are kept in the {name} house"} for name in names]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    index_path = str(tmp_path / "index")
    settings = ("--set", "tokens=no", "--set", "background=no")
    run("index", str(tmp_path / "texts.jsonl"), "--index", index_path, "--config", config, *settings)
    return index_path


def test_it_is_searched_and_filled_by_the_same_file(index, config, endpoint):
    answer = json.loads(run("search", "where are owls", "--index", index, "--config", config, "--json"))
    assert answer["hits"][0]["id"] == "owls"
    assert endpoint.requests[-1][2] == {"model": "toy", "input": ["where are owls"]}
    more = Path(index).with_name("more.jsonl")
    more.write_text(json.dumps({"id": "bees", "text": "bees are kept in hives"}))
    done = json.loads(run("index", str(more), "--index", index, "--config", config, "--json"))
    assert (done["added"], done["documents"], done["model"]) == (1, 4, "toy")
    assert "toy" in run("status", "--index", index, "--config", config)
    questions = Path(index).with_name("questions.txt")
    questions.write_text("\n".join(f"who keeps {word} there" for word in "abcdefghijklmnopqrstuvw"))
    tuned = run("tune", "background", "--questions", str(questions), "--index", index, "--config", config)
    assert "23" in tuned


def test_it_is_served_and_ranks_in_a_configuration(index, config):
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from helpers.serving import Log, client_of, wait_until

    from surprise_rerank.connectors.server import Service, service_app
    from surprise_rerank.connectors.server._options import read_config

    with Path(config).open("a") as file:
        file.write("[server]\nsystem = 'cosine'\n")
    settings, options = read_config(config, index, "a-token")
    service = Service(searches=True, options=options, logger=Log().logger())
    headers = {"Authorization": "Bearer a-token"}
    with service.loading(settings, lambda: None), client_of(service_app(service), headers=headers) as client:
        wait_until(lambda: service.opened is not None)
        added = {"documents": [{"id": "bees", "text": "bees are kept in hives"}]}
        assert client.put("/v1/documents", json=added).json()["added"] == 1
        answer = client.post("/v1/search", json={"query": "bees hives", "top_k": 1}).json()
        assert [hit["id"] for hit in answer["results"]] == ["bees"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "owls"), "if it is behind an endpoint, give --config"),
        (("index", "demo"), "if it is behind an endpoint, give --config"),
        (("index", "demo", "--config", "{config}", "--model", "glove-6b-50d"), "--config names the model"),
        (("search", "owls", "--config", "{other}"), "was made by model 'toy'"),
        (("search", "owls", "--config", "{parts}"), "leave --config"),
    ],
)
def test_what_does_not_fit_is_refused(index, config, tmp_path, arguments, said, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "other.toml").write_text(Path(config).read_text().replace('"toy"', '"another"'))
    (tmp_path / "parts.toml").write_text('text = "body"\n')
    places = {name: str(tmp_path / f"{name}.toml") for name in ("other", "parts")}
    assert said in " ".join(
        run(
            *(argument.format(config=config, **places) for argument in arguments), "--index", index, code=2
        ).split()
    )
