"""A server that fails while documents are stored: each is there once afterwards, or the error names it."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_rest import (
    CutBody,
    DropCollection,
    Fault,
    NoAnswer,
    QdrantRest,
    Reset,
    Status,
    TruncatedJson,
    fresh_collection,
)
from words import WordEncoder

from surprise_rerank.candidates import Query
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import IndexingError, StoreError

QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02, time_limit=20)
PATIENT = RetryPolicy(attempts=200, first_wait=0.02, longest_wait=0.05, time_limit=20)
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
KEY = "a-very-secret-key"
UPSERT = ("PUT", "/points")

# test_retries.py has all kinds of faults. Here: what was not done, what was done, and what comes late.
PASSING: list[Fault] = [Status(503), CutBody(), NoAnswer()]
# How often a request is sent that meets it.
LASTING: dict[Fault, int] = {Status(503): QUICK.attempts, Status(400): 1, CutBody(): QUICK.attempts}


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantRest]:
    with QdrantRest() as rest:
        yield rest


@pytest.fixture
def rest(server: QdrantRest) -> Iterator[QdrantRest]:
    server.forget()
    yield server
    assert not server.api.crashes


def documents(count: int = 200) -> list[Document]:
    """Batches of 64 and windows of 128 make four upserts of 200."""
    return [
        Document(str(n), f"{NAMES[n % 10]} {NAMES[n // 10 % 10]} word{n}", metadata={"n": n})
        for n in range(count)
    ]


def opened(
    rest: QdrantRest,
    collection: str | None = None,
    *,
    encoder: WordEncoder | None = None,
    retries: RetryPolicy = QUICK,
    api_key: str | None = None,
    options: IndexOptions | None = None,
    fault: Fault | None = None,
) -> DocumentIndex:
    """An index on the server, whose client waits long, as the machine may be busy, unless nothing answers.

    It has no term statistics, which are points of another collection: what is counted are documents' upserts.
    """
    return DocumentIndex.open(
        None,
        encoder or WordEncoder(),
        url=rest.url,
        collection=collection or fresh_collection(),
        api_key=api_key,
        options=options or IndexOptions(bm25=None),
        retries=retries,
        timeout=3 if isinstance(fault, NoAnswer) else 30,
    )


def assert_whole(rest: QdrantRest, index: DocumentIndex, collection: Sequence[Document]) -> None:
    """Every document is stored once: as the index tells, and as the server does."""
    found = index.fetch([d.id for d in collection], frozenset({"documents", "dense", "tokens"}))
    assert found.documents is not None
    assert [(d.id, d.text, d.metadata) for d in found.documents] == [
        (d.id, d.text, d.metadata) for d in collection
    ]
    assert len(index) == len(collection)
    assert stored(rest, collection) == Counter(d.id for d in collection)


def stored(rest: QdrantRest, collection: Sequence[Document]) -> Counter[str]:
    """How often each of these documents is stored, seen from behind the server."""
    ids = {d.id for d in collection}
    found: Counter[str] = Counter()
    for description in rest.store.get_collections().collections:
        records, _ = rest.store.scroll(description.name, limit=10_000)
        found.update(r.payload["id"] for r in records if r.payload and r.payload.get("id") in ids)
    return found


def indexing_error(sync: Callable[[], object], collection: Sequence[Document]) -> IndexingError:
    with pytest.raises(IndexingError) as caught:
        sync()
    error = caught.value
    message = str(error)
    assert "\n" not in message
    assert len(message) < 700
    assert str(len(error.missing)) in message
    assert repr(error.missing[0]) in message
    assert len(set(error.missing)) == len(error.missing)
    assert set(error.missing) <= {d.id for d in collection}
    return error


@pytest.fixture(autouse=True)
def emptied(server: QdrantRest) -> Iterator[None]:
    """Collections are counted over the whole server."""
    yield
    for description in server.store.get_collections().collections:
        server.store.delete_collection(description.name)


@pytest.mark.parametrize("fault", PASSING, ids=str)
def test_a_fault_that_passes_loses_nothing(rest: QdrantRest, fault: Fault) -> None:
    with opened(rest, fault=fault) as index:
        rest.fault(*UPSERT, fault, after=1)
        assert index.sync(documents()).added == 200
        assert rest.count(*UPSERT) == 5
        assert_whole(rest, index, documents())
        assert index.sync(documents()).unchanged == 200


@pytest.mark.parametrize("fault", LASTING, ids=str)
def test_a_fault_that_stays_is_told_with_the_documents_that_are_missing(
    rest: QdrantRest, fault: Fault
) -> None:
    encoder = WordEncoder()
    with opened(rest, encoder=encoder) as index:
        rest.fault(*UPSERT, fault, times=1000, after=1)
        error = indexing_error(lambda: index.sync(documents()), documents())
        there = stored(rest, documents())
        assert len(error.missing) == 200 - 64
        assert {d.id for d in documents()} - set(there) <= set(error.missing)
        # In their order.
        assert sorted(error.missing, key=int) == list(error.missing)
        assert rest.count(*UPSERT) == 1 + LASTING[fault]

        rest.heal()
        encoder.encoded_texts.clear()
        report = index.sync(documents())
        assert report.unchanged == len(there)
        assert report.added == len(encoder.encoded_texts) == 200 - len(there)
        assert_whole(rest, index, documents())


_REQUESTS = [
    UPSERT,
    ("POST", "/points"),
    ("POST", "/points/batch"),
    ("POST", "/points/scroll"),
    ("POST", "/points/count"),
    ("POST", "/points/delete"),
    ("PATCH", ""),
    ("GET", ""),
]
_QUICK_FAULTS = [Status(503), Status(500), Reset(), CutBody(), TruncatedJson()]
_PASSAGES = IndexOptions(passages=Passages(tokens=8, overlap=2))


def of_lengths(lengths: Sequence[int], mark: str) -> list[Document]:
    return [
        Document(str(n), " ".join(f"{NAMES[i % 10]}{mark}" for i in range(n, n + length)))
        for n, length in enumerate(lengths)
    ]


def contents(rest: QdrantRest, name: str) -> dict[str, tuple[Any, Any]]:
    """Every point with all that it holds."""
    records, _ = rest.store.scroll(name, limit=10_000, with_vectors=True)
    return {str(record.id): (record.payload, record.vector) for record in records}


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(
        st.tuples(
            st.sampled_from(_REQUESTS), st.sampled_from(_QUICK_FAULTS), st.integers(1, 4), st.integers(0, 2)
        ),
        min_size=1,
        max_size=5,
    ),
    lengths=st.tuples(*[st.lists(st.sampled_from([1, 5, 12, 30]), min_size=80, max_size=80)] * 2),
    prune=st.booleans(),
)
def test_whatever_fails_the_index_becomes_what_it_would_be_without(
    rest: QdrantRest,
    script: list[tuple[tuple[str, str], Fault, int, int]],
    lengths: tuple[list[int], list[int]],
    prune: bool,
) -> None:
    rest.heal()
    old, new = of_lengths(lengths[0], ""), of_lengths(lengths[1], "s")
    with opened(rest, "sound", options=_PASSAGES) as sound, opened(rest, "hurt", options=_PASSAGES) as hurt:
        sound.sync(old)
        hurt.sync(old)
        sound.sync(new)
        for (method, ending), fault, times, after in script:
            rest.fault(method, ending, fault, times=times, after=after)
        try:
            hurt.sync(new, prune=prune)
            missing: set[str] = set()
        except IndexingError as error:
            missing = set(error.missing)
            assert missing
        except StoreError:  # before the first write, or after the last
            missing = {d.id for d in new}
        rest.heal()
        there = contents(rest, "hurt")
        sound = contents(rest, "sound")
        for name, (payload, vector) in sound.items():
            assert payload["id"] in missing or there[name] == (payload, vector)
        hurt.sync(new, prune=prune)
        assert contents(rest, "hurt") == contents(rest, "sound")
        assert len(hurt) == len(new)
    for description in rest.store.get_collections().collections:
        rest.store.delete_collection(description.name)


class _ActingEncoder(WordEncoder):
    """Does something before it encodes its second window: one window is on its way by then."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act = act
        self._windows = 0

    def encode(
        self, texts: Sequence[str], kind: str = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        self._windows += 1
        if self._windows == 2:
            self._act()
        return super().encode(texts, kind, on_progress)  # type: ignore[arg-type]


def test_a_server_that_starts_again_is_waited_for() -> None:
    with QdrantRest() as rest:

        def restart() -> None:
            rest.stop()
            threading.Timer(0.3, rest.start).start()

        with opened(rest, encoder=_ActingEncoder(restart), retries=PATIENT) as index:
            assert index.sync(documents()).added == 200
            assert_whole(rest, index, documents())


def test_a_collection_deleted_under_way_takes_all_documents_with_it(rest: QdrantRest) -> None:
    name = fresh_collection()
    with opened(rest, name) as index:
        rest.fault(*UPSERT, DropCollection(), after=2)
        error = indexing_error(lambda: index.sync(documents()), documents())
        assert "does not exist any more; index again" in str(error)
        assert set(error.missing) == {d.id for d in documents()}
        assert rest.count(*UPSERT) == 3
    with opened(rest, name) as index:
        assert index.sync(documents()).added == 200
        assert_whole(rest, index, documents())


def query() -> Query:
    encoded = WordEncoder().encode(["alpha beta"], kind="query")
    return Query("alpha beta", encoded.dense[0])


def test_a_rebuild_that_fails_leaves_the_version_in_use(rest: QdrantRest) -> None:
    changed = [Document(d.id, f"{d.text} changed", metadata=d.metadata) for d in documents()]
    with opened(rest) as index:
        index.sync(documents())
        rest.fault(*UPSERT, CutBody(), times=1000, after=2)
        with pytest.raises(IndexingError):
            index.rebuild(changed)
        found = index.fetch([d.id for d in documents()], frozenset({"documents"}))
        assert found.documents is not None
        assert [d.text for d in found.documents] == [d.text for d in documents()]
        rest.heal()
        rest.fault("POST", "/collections/aliases", CutBody())
        rest.fault("DELETE", "", CutBody())
        index.rebuild(changed)
        assert_whole(rest, index, changed)


def test_a_collection_whose_making_was_not_answered_is_made_once(rest: QdrantRest) -> None:
    fault = CutBody()
    rest.fault("PUT", "", fault)
    rest.fault("POST", "/collections/aliases", fault)
    with opened(rest, fault=fault) as index:
        assert len(rest.store.get_collections().collections) == 1
        index.sync(documents(20))
        assert_whole(rest, index, documents(20))


@pytest.fixture
def small() -> Iterator[QdrantRest]:
    """Accepts as much in a request as eight of the large documents take."""
    with QdrantRest(limit=200_000) as rest:
        yield rest


def large(name: str, size: int) -> Document:
    # In the metadata, which is not split into passages.
    return Document(name, f"alpha {name}", metadata={"attachment": "x" * size})


def test_a_document_above_the_limit_is_named_and_all_others_are_stored(small: QdrantRest) -> None:
    many = [large(str(n), 20_000) for n in range(50)]
    many[7], many[31] = large("7", 300_000), large("31", 300_000)
    others = [d for d in many if d.id not in ("7", "31")]
    with opened(small) as index:
        error = indexing_error(lambda: index.sync(many), many)
        assert sorted(error.missing, key=int) == ["7", "31"]
        assert "limit" in str(error)
        assert_whole(small, index, others)
        many[7], many[31] = large("7", 10), large("31", 10)
        report = index.sync(many)
        assert (report.added, report.unchanged) == (2, 48)
        assert_whole(small, index, many)


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.fixture
def guarded() -> Iterator[QdrantRest]:
    with QdrantRest(api_key=KEY) as rest:
        yield rest


def test_the_key_is_in_no_error_no_record_and_no_file(
    guarded: QdrantRest,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.DEBUG), opened(guarded, api_key=KEY) as index:
        index.sync(documents(20))
        for n, fault in enumerate(LASTING):
            changed = [Document(d.id, f"{d.text} changed{n}") for d in documents(20)]
            guarded.fault(*UPSERT, fault, times=1000)
            assert KEY not in shown(indexing_error(partial(index.sync, changed), changed))
            guarded.heal()
        assert KEY not in repr(index)
    assert any(seen.headers.get("api-key") == KEY for seen in guarded.seen)
    assert not any(KEY.encode() in seen.body or KEY in seen.path for seen in guarded.seen)
    assert caplog.records
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
