"""Everything that writes, against every fault: afterwards there is what there would be without one."""

import base64
import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.faults import Broken, Fault, Faults, Status
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import (
    Collection,
    DataError,
    Document,
    DocumentIndex,
    IndexingError,
    IndexOptions,
    Passages,
    StoreError,
)
from surprise_rerank.connectors.qdrant import Location, RetryPolicy
from surprise_rerank.connectors.qdrant._schema import BM25
from surprise_rerank.connectors.qdrant._writing import indexing
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.connectors.systems._backgrounds import delete_background
from surprise_rerank.connectors.systems._fitted_weights import delete_weights, store_weights
from surprise_rerank.rerank import WeightFit

QUICK = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.002, time_limit=20)
ENCODER = WordEncoder()
OPTIONS = IndexOptions(passages=Passages(tokens=8, overlap=2))
FIT = WeightFit({"bm25": 0.2, "cosine": 1.3}, {"bm25": 0.5, "cosine": 1.0}, True, 40, 40, 0.4, 0.5, 0.02)
QUESTIONS = [f"who saw number{i} and why{i}" for i in range(12)]
MORE = ["why do cats purr", "where is the mat"]


def documents(mark: str = "", count: int = 40) -> list[Document]:
    """Some are split into passages; with a mark half of them are other texts."""
    lengths = [1 + i % 12 if i < 15 else 1 for i in range(count)]
    return [
        Document(str(i), " ".join(f"cats{n} purr{i % 7}{mark * (i % 2)}" for n in range(length)))
        for i, length in enumerate(lengths)
    ]


class Writer(NamedTuple):
    """Something that writes: what is there before, and the call, which can be repeated."""

    before: Callable[[Any], object]
    call: Callable[[Any], object]


def filled(index: DocumentIndex) -> None:
    index.sync(documents(), background=False)


def measured(index: Any) -> None:
    filled(index) if isinstance(index, DocumentIndex) else None
    index.measure_background("cosine", QUESTIONS)
    store_weights(index.corpus, "auto", FIT)


def with_ensemble(index: DocumentIndex) -> None:
    filled(index)
    index.set_ensemble(index.ensemble(), source="the corpus")


def with_more_questions(index: DocumentIndex) -> None:
    with_ensemble(index)
    index.add_questions(MORE)


def nothing(_: object) -> None:
    """A place that is empty, or a collection as it was made."""


INDEX: dict[str, Writer] = {
    "sync": Writer(nothing, filled),
    "sync of changed texts": Writer(filled, lambda index: index.sync(documents("s"), background=False)),
    "prune": Writer(filled, lambda index: index.sync(documents("s", 30), prune=True, background=False)),
    "delete": Writer(filled, lambda index: index.delete([str(i) for i in range(0, 40, 3)])),
    "rebuild": Writer(measured, lambda index: index.rebuild(documents("s", 35), background=False)),
    "purge": Writer(filled, lambda index: index.purge()),
    "set_ensemble": Writer(filled, lambda index: index.set_ensemble(index.ensemble(), source="now")),
    "set_ensemble again": Writer(
        with_more_questions, lambda index: index.set_ensemble(index.ensemble(), shrink_mean=0.5)
    ),
    "refresh_statistics": Writer(with_more_questions, lambda index: index.refresh_statistics()),
    "measure_background": Writer(filled, lambda index: index.measure_background("cosine", QUESTIONS)),
    "weights": Writer(filled, lambda index: store_weights(index.corpus, "auto", FIT)),
    "delete_background": Writer(measured, lambda index: delete_background(index.corpus, "cosine")),
    "delete_weights": Writer(measured, lambda index: delete_weights(index.corpus, "auto")),
}
COLLECTION: dict[str, Writer] = {
    "enrich": Writer(nothing, lambda index: index.enrich()),
    "remove_enrichment": Writer(lambda index: index.enrich(), lambda index: index.remove_enrichment()),
    "set_questions": Writer(nothing, lambda index: index.set_questions(QUESTIONS)),
    "no questions": Writer(
        lambda index: index.set_questions(QUESTIONS), lambda index: index.set_questions([])
    ),
    "collection's background": Writer(nothing, lambda index: index.measure_background("cosine", QUESTIONS)),
    "collection's weights": Writer(nothing, lambda index: store_weights(index.corpus, "auto", FIT)),
}
# A call that adds, and is not to be repeated.
ONCE = {"add_questions": Writer(with_ensemble, lambda index: index.add_questions(MORE))}
WRITERS = INDEX | COLLECTION | ONCE

# test_retries.py has all kinds. Here: what was not done, what was done, and an answer that cannot be read.
PASSING: dict[str, Fault] = {
    "not done": Status(503),
    "done, and not answered": Broken.CUT,
    "done, and half answered": Broken.HALF,
}
LASTING: dict[str, Fault] = {"not done": Status(500), "done, and not answered": Broken.CUT}
CHANGES = (
    *("upsert", "delete", "batch_update_points", "update_vectors", "create_collection", "update_collection"),
    *("update_collection_aliases", "delete_collection", "create_payload_index"),
)
READS = ("retrieve", "scroll", "count", "get_collection", "get_aliases", "query_batch_points")


@contextlib.contextmanager
def opened(qdrant: Any, name: str, place: str) -> Iterator[Any]:
    """An index at a place, or a collection that somebody else made there."""
    url = qdrant.url
    if name not in COLLECTION:
        where = Location(url=url, collection=place, retries=QUICK, timeout=30)
        with DocumentIndex.open(where, ENCODER, options=OPTIONS) as index:
            yield index
        return
    if not qdrant.store.collection_exists(place):
        size = models.VectorParams(size=ENCODER.dimension, distance=models.Distance.COSINE)
        qdrant.store.create_collection(place, vectors_config=size)
        vectors = ENCODER.encode([document.text for document in documents()]).dense
        qdrant.store.upsert(
            place,
            [
                models.PointStruct(id=i, vector=vectors[i].tolist(), payload={"text": document.text})
                for i, document in enumerate(documents())
            ],
            wait=True,
        )
    reached = Location(url=url, retries=QUICK, timeout=30)
    with contextlib.closing(Collection.attach(reached, place, embed=ENCODER, keep="qdrant")) as collection:
        yield collection


class Stored(NamedTuple):
    """What a collection holds: points by id, files by name, and what it remembers of how it was made."""

    points: dict[str, Any]
    files: dict[str, str]
    metadata: Any

    def files_but(self, *names: str) -> dict[str, str]:
        return {name: text for name, text in self.files.items() if not any(own in name for own in names)}

    def changes(self) -> list[int]:
        content = [text for name, text in self.files.items() if "changes" in name]
        return json.loads(base64.b64decode(content[0])) if content else [0, 0]


def contents(qdrant: Faults, place: str) -> dict[str, Stored]:
    """All that is stored, by the end of a collection's name."""
    found = {}
    for name in qdrant.collections():
        if name.removeprefix(place)[:1] not in ("", "@", "."):
            continue
        points, files = {}, defaultdict(str)
        for record in qdrant.store.scroll(name, limit=10_000, with_vectors=True)[0]:
            if "table" in record.payload:
                continue  # of terms, which `require_right_terms` compares; a table has a new name each time
            if "data" in record.payload:
                assert record.payload["parts"] == 1
                files[record.payload["name"]] += record.payload["data"]
            else:
                points[str(record.id)] = (record.payload, record.vector)
        metadata = qdrant.store.get_collection(name).config.metadata
        # A rebuild that was interrupted begins another version.
        own = re.sub(r"@\d+-\w+", "@", name.removeprefix(place))
        assert own not in found
        found[own] = Stored(points, dict(files), metadata)
    return found


def require_same(
    found: dict[str, Stored], expected: dict[str, Stored], fault: object, *, counts: bool = True
) -> None:
    """The same, and no fewer changes are counted: what is counted twice is measured again, no more."""
    assert set(found) == set(expected), fault
    for name, wanted in expected.items():
        own = found[name]
        assert own.points == wanted.points, fault
        assert own.metadata == wanted.metadata, fault
        # Of terms a mark may be there, which says that they are to be counted again, and an ensemble may stay
        # behind that nobody names any more.
        others = ("changes", "ensemble", "terms")
        assert own.files_but(*others) == wanted.files_but(*others), fault
        assert set(wanted.files_but("changes")) <= set(own.files), fault
        if counts:
            assert all(a >= b for a, b in zip(own.changes(), wanted.changes(), strict=True)), fault


_SOUND: dict[tuple[str, type], tuple[dict[str, Stored], list[tuple[str, int]]]] = {}


def sound(qdrant: Any, name: str) -> tuple[dict[str, Stored], list[tuple[str, int]]]:
    """What is stored after a call without faults, and how many requests of each kind it makes; found once."""
    if (name, type(qdrant)) not in _SOUND:
        place = f"{qdrant.prefix}sound"
        with opened(qdrant, name, place) as index:
            WRITERS[name].before(index)
            qdrant.heal()
            WRITERS[name].call(index)
            counts = [(request, qdrant.came(request)) for request in [*CHANGES, *READS]]
        assert name == "purge" or any(count for request, count in counts if request in CHANGES)
        _SOUND[name, type(qdrant)] = contents(qdrant, place), [(own, count) for own, count in counts if count]
    return _SOUND[name, type(qdrant)]


def require_right_terms(index: Any) -> None:
    """What the index weighs words by is what a count of all its points gives, in whatever order they come."""
    if isinstance(index, DocumentIndex):
        kept = index.corpus.term_statistics()
        counted = TermStatistics.counted(index.corpus.storage.engine.scroll((), (BM25,)))
        assert (kept.points, kept.filled) == (counted.points, counted.filled)
        np.testing.assert_array_equal([kept.terms, kept.counts], [counted.terms, counted.counts])
        np.testing.assert_allclose([kept.sums, kept.squares], [counted.sums, counted.squares], rtol=1e-12)


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("name", WRITERS)
def test_a_fault_that_passes_changes_nothing_of_what_is_written(qdrant, name, fault):
    expected, requests = sound(qdrant, name)
    for request, count in requests:
        if request in READS and fault != "not done":
            continue  # nothing is done by it that could be done twice
        place = f"{qdrant.prefix}{request}"
        with opened(qdrant, name, place) as index:
            WRITERS[name].before(index)
            qdrant.heal()
            qdrant.fault(request, PASSING[fault], after=count - 1)
            WRITERS[name].call(index)
            qdrant.heal()
            require_right_terms(index)
        require_same(contents(qdrant, place), expected, request)


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("name", INDEX | COLLECTION)
def test_what_a_lasting_fault_stopped_is_finished_by_the_same_call(qdrant, name, fault):
    expected, requests = sound(qdrant, name)
    for request, count in requests:
        for after in sorted({0, count - 1}) if request in CHANGES else ():
            place = f"{qdrant.prefix}{request}{after}"
            with opened(qdrant, name, place) as index:
                WRITERS[name].before(index)
                qdrant.heal()
                qdrant.fault(request, LASTING[fault], after=after, times=1000)
                with contextlib.suppress(StoreError):
                    WRITERS[name].call(index)
                qdrant.heal()
                # A rebuild may have put its version into use all the same, which is found by opening it.
                again = opened(qdrant, name, place) if name == "rebuild" else contextlib.nullcontext(index)
                with again as index_then:
                    WRITERS[name].call(index_then)
                    require_right_terms(index_then)
            # A new version has no background, whose age its changes would tell.
            counts = name != "rebuild"
            require_same(contents(qdrant, place), expected, (request, after), counts=counts)


@pytest.mark.parametrize("name", ["sync", "enrich"])
def test_what_is_too_large_for_a_server_is_written_in_parts(qdrant, name):
    expected, _ = sound(qdrant, name)
    place = f"{qdrant.prefix}small"
    with opened(qdrant, name, place) as index:
        qdrant.heal()
        qdrant.fault("upsert", Status(413, above=30_000), times=1000)
        WRITERS[name].call(index)
        assert qdrant.came("upsert") > 6
    require_same(contents(qdrant, place), expected, name)


@pytest.mark.parametrize("name", ["sync", "enrich"])
def test_a_document_that_no_request_can_hold_is_named_and_all_others_are_stored(qdrant, name):
    place = f"{qdrant.prefix}giant"
    giant = Document("7", " ".join(f"word{i}" for i in range(4000)))
    texts = [giant if document.id == "7" else document for document in documents()]
    with opened(qdrant, name, place) as index:
        if name == "enrich":
            qdrant.store.set_payload(place, {"text": giant.text}, [7], wait=True)
        qdrant.heal()
        qdrant.fault("upsert", Status(413, above=30_000), times=1000)
        with pytest.raises(
            IndexingError, match=r"1 document \('7'\) is not stored: .*; all others are"
        ) as error:
            index.sync(texts, background=False) if name == "sync" else index.enrich()
        assert error.value.missing == ("7",)
        assert index.pipeline("bm25").search("purr3", 40).ids
        qdrant.heal()
        index.sync(texts, background=False) if name == "sync" else index.enrich()
        assert index.pipeline("bm25").search("word3999", 3).ids == ("7",)


def test_what_was_changed_before_an_error_is_counted(qdrant, monkeypatch):
    """By it a background is known to be old: of changed texts the number of documents says nothing."""
    monkeypatch.setattr(indexing, "_CHUNK", 20)
    changed = documents("s")
    with opened(qdrant, "sync", qdrant.prefix) as index:
        filled(index)
        with pytest.raises(DataError, match="occurs twice"):
            index.sync([*changed[:20], changed[0]], background=False)
        assert index.corpus.changes().documents == 40 + 10
        qdrant.fault("upsert", Status(500), times=1000, after=1)
        with pytest.raises(IndexingError):
            index.sync(changed, background=False)
        qdrant.heal()
        index.sync(changed, background=False)
        assert index.corpus.changes().documents >= 40 + 20
