"""A server that fails while documents are stored: each is there once afterwards, or the error names it."""

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers.faults import Broken, Fault, Faults, Proxy, Status, cleaned, server_url
from helpers.words import Acting, WordEncoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surprise_rerank import Document, IndexingError, IndexOptions, Passages, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, Location, RetryPolicy

QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02, time_limit=20)
PATIENT = RetryPolicy(attempts=200, first_wait=0.02, longest_wait=0.05, time_limit=20)
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
KEY = "a-very-secret-key"

# test_retries.py has all kinds of faults. Here: what was not done, what was done, and what comes late.
PASSING: list[Fault] = [Status(503), Broken.CUT, Broken.SILENT]
# How often a request is sent that meets it.
LASTING: dict[Fault, int] = {Status(503): QUICK.attempts, Status(400): 1, Broken.CUT: QUICK.attempts}


def documents(count: int = 200) -> list[Document]:
    """Batches of 64 and windows of 128 make four upserts of 200."""
    return [
        Document(str(n), f"{NAMES[n % 10]} {NAMES[n // 10 % 10]} word{n}", metadata={"n": n})
        for n in range(count)
    ]


SETTINGS = {"options", "token_encoder", "collection_settings"}


def opened(qdrant: Any, name: str = "", **more: Any) -> DocumentIndex:
    """An index there, whose client waits long, as the machine may be busy.

    It has no term statistics, which are points of another collection: what is counted are documents' upserts.
    """
    encoder = more.pop("encoder", None) or WordEncoder()
    settings = {"options": IndexOptions(bm25=None)} | {key: more.pop(key) for key in SETTINGS & more.keys()}
    place = {"url": qdrant.url, "collection": f"{qdrant.prefix}{name}", "timeout": 30, "retries": QUICK}
    return DocumentIndex.open(Location(**place | more), encoder, **settings)


def assert_whole(qdrant: Faults, index: DocumentIndex, collection: Sequence[Document]) -> None:
    """Every document is stored once: as the index tells, and as the server does."""
    found = index.fetch([d.id for d in collection], frozenset({"documents", "dense", "tokens"}))
    assert found.documents is not None
    assert [(d.id, d.text, d.metadata) for d in found.documents] == [
        (d.id, d.text, d.metadata) for d in collection
    ]
    assert len(index) == len(collection)
    assert stored(qdrant) == Counter(d.id for d in collection)


def stored(qdrant: Faults) -> Counter[str]:
    """How often each document is stored, seen from behind."""
    found: Counter[str] = Counter()
    for name in qdrant.collections():
        records, _ = qdrant.store.scroll(name, limit=10_000)
        found.update(r.payload["id"] for r in records if r.payload and "text" in r.payload)
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


@pytest.mark.parametrize("fault", PASSING, ids=str)
def test_a_fault_that_passes_loses_nothing(qdrant, fault):
    with opened(qdrant, timeout=3 if fault is Broken.SILENT else 30) as index:
        qdrant.heal()
        qdrant.fault("upsert", fault, after=1)
        assert index.sync(documents()).added == 200
        assert qdrant.came("upsert") == 4 + 1 + 1  # batches, the one again, and the number of changes
        assert_whole(qdrant, index, documents())
        assert index.sync(documents()).unchanged == 200


@pytest.mark.parametrize("fault", LASTING, ids=str)
def test_a_fault_that_stays_is_told_with_the_documents_that_are_missing(qdrant, fault):
    encoder = WordEncoder()
    with opened(qdrant, encoder=encoder) as index:
        qdrant.heal()
        qdrant.fault("upsert", fault, times=1000, after=1)
        error = indexing_error(lambda: index.sync(documents()), documents())
        there = stored(qdrant)
        assert len(error.missing) == 200 - 64
        assert {d.id for d in documents()} - set(there) <= set(error.missing)
        # In their order.
        assert sorted(error.missing, key=int) == list(error.missing)
        assert qdrant.came("upsert") == 1 + LASTING[fault]

        qdrant.heal()
        encoder.encoded_texts.clear()
        report = index.sync(documents())
        assert report.unchanged == len(there)
        assert report.added == len(encoder.encoded_texts) == 200 - len(there)
        assert_whole(qdrant, index, documents())


_REQUESTS = [
    *("upsert", "retrieve", "batch_update_points", "scroll", "count", "delete"),
    *("update_collection", "get_collection", "get_aliases"),
]
_QUICK_FAULTS = [Status(503), Status(500), Broken.RESET, Broken.CUT, Broken.HALF]
_PASSAGES = IndexOptions(passages=Passages(tokens=8, overlap=2))


def of_lengths(lengths: Sequence[int], mark: str) -> list[Document]:
    return [
        Document(str(n), " ".join(f"{NAMES[i % 10]}{mark}" for i in range(n, n + length)))
        for n, length in enumerate(lengths)
    ]


def contents(qdrant: Faults, name: str) -> dict[str, tuple[Any, Any]]:
    """Every point with all that it holds."""
    records, _ = qdrant.store.scroll(f"{qdrant.prefix}{name}", limit=10_000, with_vectors=True)
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
def test_whatever_fails_the_index_becomes_what_it_would_be_without(qdrant, script, lengths, prune):
    qdrant.heal()
    old, new = of_lengths(lengths[0], ""), of_lengths(lengths[1], "s")
    with (
        opened(qdrant, "sound", options=_PASSAGES) as sound,
        opened(qdrant, "hurt", options=_PASSAGES) as hurt,
    ):
        sound.sync(old)
        hurt.sync(old)
        sound.sync(new)
        for request, fault, times, after in script:
            qdrant.fault(request, fault, times=times, after=after)
        try:
            hurt.sync(new, prune=prune)
            missing: set[str] = set()
        except IndexingError as error:
            missing = set(error.missing)
            assert missing
        except StoreError:  # before the first write, or after the last
            missing = {d.id for d in new}
        qdrant.heal()
        there = contents(qdrant, "hurt")
        for name, (payload, vector) in contents(qdrant, "sound").items():
            assert payload["id"] in missing or there[name] == (payload, vector)
        hurt.sync(new, prune=prune)
        assert contents(qdrant, "hurt") == contents(qdrant, "sound")
        assert len(hurt) == len(new)
    for name in qdrant.collections():
        qdrant.store.delete_collection(name)


def restarting(away: Any) -> Acting:
    """Restarts it before the second window is encoded: one is on its way by then."""

    def restart() -> None:
        away.stop()
        threading.Timer(0.3, away.start).start()

    return Acting(restart, 1)


def test_a_server_that_starts_again_is_waited_for(qdrant):
    with opened(qdrant, encoder=restarting(qdrant), retries=PATIENT) as index:
        assert index.sync(documents()).added == 200
        assert_whole(qdrant, index, documents())


@pytest.mark.server
def test_a_connection_of_grpc_that_is_lost_is_waited_for():
    url = server_url()
    behind = f"http://{urlsplit(url).hostname}:{Location(url=url).grpc_port_of(url)}"
    with Proxy(behind) as proxy, cleaned(url, proxy.prefix) as proxy.store:
        by_grpc = {"url": url, "prefer_grpc": True, "grpc_port": urlsplit(proxy.url).port}
        with opened(proxy, encoder=restarting(proxy), retries=PATIENT, **by_grpc) as index:
            assert index.sync(documents()).added == 200
            assert_whole(proxy, index, documents())


def test_a_collection_deleted_under_way_takes_all_documents_with_it(qdrant):
    def delete() -> None:
        qdrant.store.delete_collection(f"{qdrant.prefix}@1")

    with opened(qdrant, encoder=Acting(delete, 1)) as index:
        error = indexing_error(lambda: index.sync(documents()), documents())
        assert "does not exist any more; index again" in str(error)
        assert set(error.missing) == {d.id for d in documents()}
    with opened(qdrant) as index:
        assert index.sync(documents()).added == 200
        assert_whole(qdrant, index, documents())


def test_a_rebuild_that_fails_leaves_the_version_in_use(qdrant):
    changed = [Document(d.id, f"{d.text} changed", metadata=d.metadata) for d in documents()]
    with opened(qdrant) as index:
        index.sync(documents())
        qdrant.fault("upsert", Broken.CUT, times=1000, after=2)
        with pytest.raises(IndexingError):
            index.rebuild(changed)
        found = index.fetch([d.id for d in documents()], frozenset({"documents"}))
        assert found.documents is not None
        assert [d.text for d in found.documents] == [d.text for d in documents()]
        qdrant.heal()
        qdrant.fault("update_collection_aliases", Broken.CUT)
        qdrant.fault("delete_collection", Broken.CUT)
        index.rebuild(changed)
        assert_whole(qdrant, index, changed)


def test_a_collection_whose_making_was_not_answered_is_made_once(qdrant):
    qdrant.fault("create_collection", Broken.CUT)
    qdrant.fault("update_collection_aliases", Broken.CUT)
    with opened(qdrant) as index:
        assert len(qdrant.collections()) == 1
        index.sync(documents(20))
        assert_whole(qdrant, index, documents(20))


@pytest.mark.parametrize(("request_", "ending"), [("get_aliases", ""), ("get_collection", "@1")])
def test_who_may_not_see_all_of_an_index_is_told_what_a_token_must_reach(qdrant, request_, ending):
    opened(qdrant).close()
    qdrant.fault(request_, Status(403, "Access to it is required"), collection=ending, times=9)
    names = ", ".join(f"'{qdrant.prefix}{own}'" for own in ("", "@1")) + f" and '{qdrant.prefix}@1.files'"
    with pytest.raises(StoreError, match=f"refuses access .* must reach {names}, each with"):
        opened(qdrant)


def large(name: str, size: int) -> Document:
    # In the metadata, which is not split into passages.
    return Document(name, f"alpha {name}", metadata={"attachment": "x" * size})


def test_a_document_above_the_limit_is_named_and_all_others_are_stored(qdrant):
    """A request takes eight of the large documents."""
    many = [large(str(n), 20_000) for n in range(50)]
    many[7], many[31] = large("7", 300_000), large("31", 300_000)
    others = [d for d in many if d.id not in ("7", "31")]
    with opened(qdrant) as index:
        # A 413 comes from a proxy before it.
        reason = "Payload error: JSON payload is larger than allowed (limit: 200000 bytes)."
        qdrant.fault("upsert", Status(400, reason, above=200_000), times=1000)
        error = indexing_error(lambda: index.sync(many), many)
        assert sorted(error.missing, key=int) == ["7", "31"]
        assert "limit" in str(error)
        assert_whole(qdrant, index, others)
        many[7], many[31] = large("7", 10), large("31", 10)
        report = index.sync(many)
        assert (report.added, report.unchanged) == (2, 48)
        assert_whole(qdrant, index, many)


def filled(guarded: Proxy) -> None:
    with opened(guarded, api_key=KEY) as index:
        assert KEY not in repr(index)
        index.sync(documents(20))


@pytest.fixture(params=["alone", pytest.param("server", marks=pytest.mark.server)])
def guarded(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """What sees the key; alone, it refuses when an index is opened."""
    if request.param == "alone":
        with Proxy(answers={"get_collections": {"collections": []}}) as alone:
            yield alone
    else:
        yield request.getfixturevalue("in_front")


def test_the_key_is_in_no_error_no_record_and_no_file(guarded, caplog, capfd, tmp_path, monkeypatch):
    for variable in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for fault in LASTING:
        guarded.fault("upsert" if guarded.behind.hostname else "get_aliases", fault, times=1000)
        with caplog.at_level(logging.DEBUG), pytest.raises(StoreError) as caught:
            filled(guarded)
        assert KEY not in "".join(traceback.format_exception(caught.value))
        guarded.heal()
    assert guarded.seen[-1].headers["api-key"] == KEY
    assert not any(KEY.encode() in seen.body or KEY in seen.path for seen in guarded.seen)
    assert caplog.records
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
