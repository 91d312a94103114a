"""One question, one answer: every interface gives the documents, order and numbers that Python gives."""

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.bench import Bench, corpus
from helpers.files import write_rows
from helpers.hosts import HOSTS, Host
from helpers.serving import client_of, service_of

from surprise_rerank import DataError, DocumentIndex, Ranking, load_encoder
from surprise_rerank.connectors.qdrant._schema import ALL
from surprise_rerank.connectors.qdrant._search.filters import filter_of
from surprise_rerank.connectors.server import service_app
from surprise_rerank.core._extras import is_installed
from surprise_rerank.thresholds.varied_questions import varied_questions

QUESTION, SYSTEM, TENANT = "why do dogs bark at night", "auto", "ann"
YOUNG = {"must": [{"key": "metadata.year", "range": {"gte": 1953}}]}
# What may be said of a search; `top_k` is an option here, too.
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "top_k": {"top_k": 3},
    "depth": {"depth": 7},
    "offset": {"offset": 4, "top_k": 3},
    "filter": {"filter": YOUNG},
    "min_percentile": {"min_percentile": 0.3, "top_k": 30},
    "refused": {"min_percentile": 0.3, "keep_refused": True, "offset": 1},
    "diversity": {"diversity": 0.7, "top_k": 5},
    "collapse": {"collapse": 0.9},
    "tenant": {"tenant": TENANT},
    "diverse and strict": {"diversity": 0.7, "min_percentile": 0.6, "top_k": 5},
    "passages": {"unit": "passage"},
    "one of each": {"unit": "passage", "max_per_document": 1},
    "with neighbours": {"unit": "passage", "context": 1, "top_k": 3},
    "strict passages": {"unit": "passage", "min_percentile": 0.6, "filter": YOUNG, "top_k": 5},
    "different passages": {"unit": "passage", "diversity": 0.7, "depth": 30, "offset": 1, "top_k": 5},
    "all": {"diversity": 0.5, "collapse": 0.95, "min_percentile": 0.3, "filter": YOUNG, "depth": 20},
}
# The index has tenants: those of all are searched, where none is named.
OPTIONS = {name: {"tenant": ALL, **options} for name, options in OPTIONS.items()}


class Line(NamedTuple):
    """What every interface tells of a document."""

    id: str
    score: float
    percentile: float | None
    text: str | None = None


class Place(NamedTuple):
    """An index that is open, and the commands over its folder."""

    bench: Bench
    answers: dict[str, Ranking]
    others: dict[str, dict[str, list[Line]]]


def lines_of(ranking: Ranking) -> list[Line]:
    return [Line(hit.id, hit.score, hit.percentile, hit.text) for hit in ranking]


def by_python(index: DocumentIndex, options: dict[str, Any]) -> Ranking:
    settings = dict(options)
    if "filter" in settings:
        settings["filter"] = filter_of(settings["filter"])
    return index.pipeline(SYSTEM).search(QUESTION, settings.pop("top_k", 10), **settings)


def by_rest(index: DocumentIndex, options: dict[str, Any]) -> list[Line]:
    client = client_of(service_app(service_of(index, SYSTEM)))
    answer = client.post("/v1/search", json={"query": QUESTION, **options}).json()
    return [Line(hit["id"], hit["score"], hit["percentile"], hit["text"]) for hit in answer["results"]]


def by_mcp(index: DocumentIndex, options: dict[str, Any]) -> list[Line]:
    mcp = pytest.importorskip("surprise_rerank.connectors.mcp")
    client_class = pytest.importorskip("mcp").Client

    async def ask() -> Any:
        async with client_class(mcp.mcp_server(service_of(index, SYSTEM))) as client:
            return await client.call_tool("search", {"question": QUESTION, "top_k": 10, **options})

    answer = asyncio.run(ask()).structured_content
    return [Line(hit["id"], hit["score"], hit["percentile"]) for hit in answer["results"]]


def by_host(host: Host) -> Callable[[DocumentIndex, dict[str, Any]], list[Line]]:
    def ask(index: DocumentIndex, options: dict[str, Any]) -> list[Line]:
        settings = dict(options)
        if "filter" in settings:
            settings["filter"] = filter_of(settings["filter"])
        most = {host.retriever_most: settings.pop("top_k", 10)}
        unit = settings.pop("unit", "document")  # a retriever gives passages by default
        retriever = host.retriever(index.pipeline(SYSTEM, **settings), unit=unit, **most)
        documents = host.retrieve(retriever, QUESTION)
        return [
            Line(document.id, document.score, document.meta.get("percentile"), document.text)
            for document in documents
        ]

    return ask


INSIDE: dict[str, Callable[[DocumentIndex, dict[str, Any]], list[Line]]] = {"REST": by_rest, "MCP": by_mcp}
INSIDE |= {
    type(host).__name__: by_host(host)
    for host in (parameter.values[0] for parameter in HOSTS)
    if is_installed(host.package.partition(".")[0]) and hasattr(host.adapter, "SurpriseRetriever")
}
# A tool of an agent has fewer options.
UNKNOWN_TO = {"MCP": {"keep_refused", "depth", "offset", "diversity", "collapse", "context"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    bench = Bench(tmp_path_factory.mktemp("doors"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SURPRISE_RERANK_CACHE", str(bench.folder / "cache"))
        rows = [{**row, "owner": (TENANT, "bob")[i % 2]} for i, row in enumerate(corpus())]
        write_rows(bench.documents, rows)
        passages = ["--set", "passages.tokens=12", "--set", "passages.overlap=3"]
        bench.fill("--tenant", "owner", "--set", "background=no", *passages)
        with DocumentIndex.open(bench.index, load_encoder(str(bench.model))) as index:
            for unit in ("document", "passage"):
                index.by_unit(unit).measure_background(SYSTEM, varied_questions(40))
            answers = {name: by_python(index, options) for name, options in OPTIONS.items()}
            others = {
                door: {
                    name: ask(index, options)
                    for name, options in OPTIONS.items()
                    if not UNKNOWN_TO.get(door, set()) & set(options)
                }
                for door, ask in INSIDE.items()
            }
        yield Place(bench, answers, others)


def require_same(lines: list[Line], expected: Ranking, ids: Sequence[str] | None = None) -> None:
    assert [line.id for line in lines] == list(expected.ids if ids is None else ids)
    assert [line.score for line in lines] == pytest.approx(expected.scores.tolist(), rel=1e-6)
    percentiles = [line.percentile for line in lines]
    assert percentiles == pytest.approx([hit.percentile for hit in expected], abs=1e-4)
    for line, hit in zip(lines, expected, strict=True):
        assert line.text in (None, hit.text)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_changes_what_is_shown(place, name):
    assert len(place.answers[name]) > 0
    if name != "nothing":
        assert lines_of(place.answers[name]) != lines_of(place.answers["nothing"])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("door", INSIDE)
def test_doors_in_this_process_show_the_same(place, door, name):
    if name not in place.others[door]:
        pytest.skip("it has no such option")
    lines, expected = place.others[door][name], place.answers[name]
    if door in ("REST", "MCP"):
        require_same(lines, expected, expected.line_ids if door == "MCP" else None)
        return
    # A host has one number: the percentile, or what it sorts by.
    assert [line.id for line in lines] == expected.line_ids
    assert [line.percentile for line in lines] == pytest.approx([hit.percentile for hit in expected])
    assert [line.text for line in lines] == [hit.text for hit in expected]


@pytest.mark.parametrize("name", OPTIONS)
def test_the_command_shows_the_same(place, name):
    options = dict(OPTIONS[name])
    arguments = ["--system", SYSTEM, "--top", str(options.pop("top_k", 10))]
    if "offset" in options:
        arguments += ["--set", f"offset={options.pop('offset')}"]
    for setting in {"max_per_document", "context", "keep_refused"} & set(options):
        arguments += ["--set", f"{setting}={options.pop(setting)}"]
    if options.pop("unit", "document") == "passage":
        arguments.append("--passages")
    for option, value in options.items():
        text = json.dumps(value) if option == "filter" else str(value)
        arguments += [f"--{ {'depth': 'pool'}.get(option, option).replace('_', '-') }", text]
    answer = place.bench.json("search", QUESTION, "--index", place.bench.index, *arguments)
    require_same(
        [Line(hit["id"], hit["score"], hit["percentile"], hit["text"]) for hit in answer["hits"]],
        place.answers[name],
    )


@pytest.mark.parametrize("question", ["", " \n"])
def test_a_question_that_is_empty_is_refused_by_all(place, question):
    with DocumentIndex.open(place.bench.index, load_encoder(str(place.bench.model))) as index:
        pipeline = index.pipeline(SYSTEM, tenant=ALL)
        hosts = [kind.values[0] for kind in HOSTS if type(kind.values[0]).__name__ in INSIDE]
        for ask in (
            pipeline.search,
            lambda text: pipeline.search_many([QUESTION, text]),
            lambda text: pipeline.search_groups(text, "metadata.year"),
            lambda text: index.text_reranker(SYSTEM).rank(text, ["dogs"]),
            *(functools.partial(host.retrieve, host.retriever(pipeline)) for host in hosts),
        ):
            with pytest.raises(DataError, match="the question is empty; ask in words"):
                ask(question)
    _, _, error = place.bench.run("search", question, "--index", place.bench.index)
    assert "the question is empty; ask in words" in error


def test_groups_are_those_of_python_and_of_the_command(place):
    with DocumentIndex.open(place.bench.index, load_encoder(str(place.bench.model))) as index:
        groups = index.pipeline(SYSTEM, tenant=ALL).search_groups(
            QUESTION, "metadata.year", top_k=3, group_size=2
        )
    arguments = ["--system", SYSTEM, "--top", "3", "--tenant", ALL]
    arguments += ["--set", "group_by=metadata.year", "--set", "group_size=2"]
    answer = place.bench.json("search", QUESTION, "--index", place.bench.index, *arguments)
    expected = [(value, list(hits.ids)) for value, hits in groups.items()]
    assert [(group["value"], [hit["id"] for hit in group["hits"]]) for group in answer["groups"]] == expected


def test_passages_of_a_document_are_lines_that_share_no_text(place):
    ranking = place.answers["passages"]
    assert len(set(ranking.ids)) < len(ranking) == len(set(ranking.line_ids))
    assert len(set(place.answers["one of each"].ids)) == len(place.answers["one of each"])
    stretches: dict[str, list[tuple[int, int]]] = {}
    for hit in ranking:
        stretches.setdefault(hit.id, []).append((hit.passage.start, hit.passage.end))
    for stretch in stretches.values():
        ends = sorted(stretch)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def test_groups_of_passages_are_those_of_documents(place):
    with DocumentIndex.open(place.bench.index, load_encoder(str(place.bench.model))) as index:
        settings = {"unit": "passage", "top_k": 3, "group_size": 2}
        groups = index.pipeline(SYSTEM, tenant=ALL).search_groups(QUESTION, "document", **settings)
    arguments = ["--system", SYSTEM, "--top", "3", "--tenant", ALL, "--passages"]
    arguments += ["--set", "group_by=document", "--set", "group_size=2"]
    answer = place.bench.json("search", QUESTION, "--index", place.bench.index, *arguments)
    assert len(groups) == 3
    for (value, hits), group in zip(groups.items(), answer["groups"], strict=True):
        assert group["value"] == value
        assert [hit["text"] for hit in group["hits"]] == [hit.text for hit in hits]
        assert set(hits.ids) == {value}


def test_a_re_ranker_of_stored_texts_is_a_pipeline_over_them(place):
    with DocumentIndex.open(place.bench.index, load_encoder(str(place.bench.model))) as index:
        pipeline, reranker = (make("dynamax", tenant=ALL) for make in (index.pipeline, index.text_reranker))
        documents = pipeline.answer(QUESTION, None).shown
        texts, ids = [hit.text for hit in documents], list(documents.ids)
        for options in ({}, {"diversity": 0.7}, {"collapse": 0.9}, {"offset": 2}):
            expected = pipeline.search(QUESTION, 5, **options)
            ranking = reranker.rank(QUESTION, texts, ids=ids, top_k=5, **options)
            assert [hit.id for hit in ranking] == list(expected.ids)
            np_scores = [hit.score for hit in expected]
            assert [hit.score for hit in ranking] == pytest.approx(np_scores, abs=2e-2)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"depth": 7}, {"depth": 7, "top_k": 3}], ids=str)
def test_a_task_of_mteb_gets_what_python_shows(place, tmp_path, options):
    """The adapter makes an index of its own; a result has ids and scores, and at most its pool."""
    datasets = pytest.importorskip("datasets")
    adapter = pytest.importorskip("surprise_rerank.connectors.mteb")
    from mteb import TaskMetadata

    task = TaskMetadata.model_construct(name="Doors", type="Retrieval")
    rows = [{name: row[name] for name in ("id", "title", "text")} for row in corpus()]
    encoder = load_encoder(str(place.bench.model))
    settings = dict(options)
    most = settings.pop("top_k", 1000)
    with contextlib.closing(adapter.SurpriseSearch(encoder, SYSTEM, folder=tmp_path, **settings)) as model:
        model.index(datasets.Dataset.from_list(rows), task_metadata=task, hf_split="test", hf_subset="all")
        ask = functools.partial(
            model.search, datasets.Dataset.from_list([{"id": "q", "text": QUESTION}]), task_metadata=task
        )
        scores = ask(top_k=most)["q"]
        given_ids = list(scores)[::-1]
        ranked = ask(top_k=most, top_ranked={"q": given_ids})["q"]
    with DocumentIndex.open(tmp_path / "Doors-all-test", encoder) as index:
        shown = index.pipeline(SYSTEM).search(QUESTION, min(most, settings.get("depth", 100)), **settings)
        texts = [index.corpus.documents(given_ids)[name].text for name in given_ids]
        given_texts = index.text_reranker(SYSTEM).rank(QUESTION, texts, ids=given_ids, top_k=most)
    assert list(scores) == [hit.id for hit in shown]
    assert scores == pytest.approx({hit.id: hit.score for hit in shown}, rel=1e-6)
    # Which of equal texts come first in a list decides what feedback reads.
    assert ranked == pytest.approx({hit.id: hit.score for hit in given_texts}, abs=0.2)
    assert len(scores) == min(30, most, settings.get("depth", 100))


def test_every_interface_takes_the_options_of_one_class():
    from surprise_rerank import SearchOptions
    from surprise_rerank._answers import OPTION_NAMES, SearchSettings
    from surprise_rerank.connectors.attached._settings import PipelineSettings
    from surprise_rerank.connectors.server._schemas import SearchRequest
    from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchCommand, SetSettings

    assert set(SearchSettings.__annotations__) == set(OPTION_NAMES)
    assert set(OPTION_NAMES) <= set(SearchRequest.model_fields)
    in_commands = {"filter": "condition", "depth": "pool", "unit": "passages"}
    fields = {*SearchCommand.__dataclass_fields__, *SetSettings.__dataclass_fields__}
    assert {in_commands.get(name, name) for name in OPTION_NAMES} <= fields
    in_files = {"depth", "min_percentile", "diversity", "collapse", "tenant", "unit", "max_per_document"}
    assert in_files <= set(PipelineSettings.__dataclass_fields__)
    assert SearchOptions().changed(depth=None) == SearchOptions()


@pytest.fixture(autouse=True)
def cached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(Path(place.bench.folder) / "cache"))
