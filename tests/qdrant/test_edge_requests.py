"""Qdrant Edge answers translated requests as qdrant-client's local mode answers the originals."""

import datetime
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import qdrant_edge
from qdrant_client import QdrantClient, models

from surprise_rerank import StoreError
from surprise_rerank.connectors.qdrant._engines.edge import to_query_request

COUNT, DIMENSION = 60, 4
COLLECTION = "points"
Answer = dict[str, float]
Both = Callable[[models.QueryRequest], tuple[list[Any], list[Any]]]


def point_id(i: int) -> int | str:
    return i if i % 2 else str(uuid.UUID(int=i))


def payload(i: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "n": i - 20,
        "price": i / 4,
        "size": {"height": i % 13, "sides": [i % 3, i % 5]},
        "tag": ["red", "green", "blue"][i % 3] if i % 4 else ["red", f"t{i % 5}"],
        "text": f"The cat number {i} sat on the {'mat' if i % 2 else 'flat roof'}",
        "when": ["2024-02-29", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00.25+02:00"][i % 3],
        "place": {"lon": 10.0 + i / 10, "lat": 50.0 - i / 20},
        "parts": [{"kind": i % 4, "weight": i}, {"kind": 9, "weight": i % 7}],
        "flag": i % 5 == 0,
    }
    if i % 7 == 0:
        del fields["n"]
    if i % 6 < 5:
        fields["maybe"] = [None, [], "", [None], "value"][i % 6]
    return fields


def vectors() -> tuple[np.ndarray, list[np.ndarray], list[tuple[list[int], list[float]]]]:
    rng = np.random.default_rng(5)
    dense = rng.normal(size=(COUNT, DIMENSION))
    multi = [rng.normal(size=(1 + i % 3, DIMENSION)) for i in range(COUNT)]
    sparse = [(sorted({i % 5, 7 + i % 11, 20 + i}), rng.uniform(0.5, 2.0, 3).tolist()) for i in range(COUNT)]
    return dense, multi, sparse


@pytest.fixture(scope="module")
def local() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    dot = models.Distance.DOT
    maxsim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        COLLECTION,
        vectors_config={
            "dense": models.VectorParams(size=DIMENSION, distance=dot),
            "multi": models.VectorParams(size=DIMENSION, distance=dot, multivector_config=maxsim),
        },
        sparse_vectors_config={"sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    points = []
    for i, (dense, multi, (indices, values)) in enumerate(zip(*vectors(), strict=True)):
        named: dict[str, Any] = {"dense": dense.tolist(), "multi": multi.tolist()}
        if i % 10:
            named["sparse"] = models.SparseVector(indices=indices, values=values)
        points.append(models.PointStruct(id=point_id(i), vector=named, payload=payload(i)))
    client.upsert(COLLECTION, points)
    yield client
    client.close()


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    maxsim = qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim)
    dot = qdrant_edge.Distance.Dot
    config = qdrant_edge.EdgeConfig(
        vectors={
            "dense": qdrant_edge.EdgeVectorParams(DIMENSION, dot),
            "multi": qdrant_edge.EdgeVectorParams(DIMENSION, dot, multivector_config=maxsim),
        },
        sparse_vectors={"sparse": qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)},
    )
    shard = qdrant_edge.EdgeShard.create(str(tmp_path_factory.mktemp("shard")), config)
    points = []
    for i, (dense, multi, (indices, values)) in enumerate(zip(*vectors(), strict=True)):
        named: dict[str, Any] = {"dense": dense.tolist(), "multi": multi.tolist()}
        if i % 10:
            named["sparse"] = qdrant_edge.SparseVector(indices, values)
        points.append(qdrant_edge.Point(point_id(i), named, payload(i)))
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    number = qdrant_edge.PayloadSchemaType.Float
    shard.update(qdrant_edge.UpdateOperation.create_field_index("price", number))
    yield shard
    shard.close()


@pytest.fixture
def both(local: QdrantClient, shard: Any) -> Both:
    def ask(request: models.QueryRequest) -> tuple[list[Any], list[Any]]:
        expected = local.query_batch_points(COLLECTION, [request])[0].points
        return shard.query(to_query_request(request)), expected

    return ask


def answer(points: list[Any]) -> Answer:
    return {str(p.id): p.score for p in points}


def same(answers: tuple[list[Any], list[Any]]) -> Answer:
    ours, theirs = answers
    assert answer(ours) == pytest.approx(answer(theirs), rel=1e-5, abs=1e-5)
    assert [p.score for p in ours] == pytest.approx([p.score for p in theirs], rel=1e-5, abs=1e-5)
    return answer(theirs)


QUERY = [0.3, -1.0, 0.5, 0.8]
TOKENS = [[0.3, -1.0, 0.5, 0.8], [1.0, 0.0, -0.5, 0.1]]
WORDS = models.SparseVector(indices=[1, 3, 8, 12, 30], values=[1.0, 1.0, 0.5, 2.0, 1.0])


def field(key: str, **test: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, **test)


def match(key: str, value: Any) -> models.FieldCondition:
    return field(key, match=models.MatchValue(value=value))


def span(key: str, **bounds: Any) -> models.FieldCondition:
    return field(key, range=models.Range(**bounds))


def during(**bounds: Any) -> models.FieldCondition:
    return field("when", range=models.DatetimeRange(**bounds))


def key_of(key: str) -> models.PayloadField:
    return models.PayloadField(key=key)


def ring(*corners: tuple[float, float]) -> models.GeoLineString:
    return models.GeoLineString(points=[models.GeoPoint(lon=lon, lat=lat) for lon, lat in corners])


HERE = models.GeoPoint(lon=12.0, lat=49.0)
UTC = datetime.UTC
CONDITIONS: dict[str, Any] = {
    "keyword": match("tag", "red"),
    "integer": match("n", 7),
    "boolean": match("flag", True),
    "nested key": match("size.height", 4),
    "list in an object": match("size.sides", 2),
    "one list element": match("parts[0].kind", 2),
    "any keyword": field("tag", match=models.MatchAny(any=["t1", "blue"])),
    "any of nothing": field("n", match=models.MatchAny(any=[])),
    "except": field("tag", match=models.MatchExcept(**{"except": ["red", "blue"]})),
    "text": field("text", match=models.MatchText(text="roof cat")),
    "any text": field("text", match=models.MatchTextAny(text_any="mat 12 zebra")),
    "phrase": field("text", match=models.MatchPhrase(phrase="flat roof")),
    "prefix": field("tag", match=models.MatchPrefix(prefix="t")),
    "substring": field("tag", match=models.MatchSubstring(substring="ee")),
    "range": span("price", gte=2.5, lt=9.0),
    "range, other ends": span("n", gt=-3, lte=12),
    "dates": during(gte=datetime.datetime(2024, 3, 1, 9, tzinfo=UTC)),
    "dates without a zone": during(gt=datetime.datetime(2024, 3, 1), lt=datetime.datetime(2024, 3, 1, 8, 30)),
    "dates in another zone": during(
        gte=datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    ),
    "dates to the microsecond": during(lte=datetime.datetime(2024, 3, 1, 8, 0, 0, 250_000, tzinfo=UTC)),
    "box": field(
        "place",
        geo_bounding_box=models.GeoBoundingBox(
            top_left=models.GeoPoint(lon=11, lat=49.5), bottom_right=models.GeoPoint(lon=14, lat=48.2)
        ),
    ),
    "circle": field("place", geo_radius=models.GeoRadius(center=HERE, radius=100_000)),
    "polygon": field(
        "place", geo_polygon=models.GeoPolygon(exterior=ring((11, 50), (14, 48), (11, 48), (11, 50)))
    ),
    "polygon with a hole": field(
        "place",
        geo_polygon=models.GeoPolygon(
            exterior=ring((9, 51), (17, 51), (17, 46), (9, 46), (9, 51)),
            interiors=[ring((11, 49.6), (13, 49.6), (13, 48.4), (11, 48.4), (11, 49.6))],
        ),
    ),
    "values": field("tag", values_count=models.ValuesCount(gte=2)),
    "empty": models.IsEmptyCondition(is_empty=key_of("maybe")),
    "null": models.IsNullCondition(is_null=key_of("maybe")),
    "empty, as a test": field("maybe", is_empty=True),
    "not empty, as a test": field("maybe", is_empty=False),
    "ids": models.HasIdCondition(has_id=[point_id(3), point_id(4), 10_000]),
    "ids as UUIDs": models.HasIdCondition(has_id=[uuid.UUID(int=6), uuid.UUID(int=8)]),
    "a vector": models.HasVectorCondition(has_vector="sparse"),
    "a vector that no point has": models.HasVectorCondition(has_vector="none"),
    "slice": models.SliceCondition(slice=models.Slice(total=3, index=1)),
    "nested": models.NestedCondition(
        nested=models.Nested(
            key="parts", filter=models.Filter(must=[match("kind", 2), span("weight", gte=20)])
        )
    ),
    "filter": models.Filter(must=[match("flag", True)], must_not=[match("tag", "red")]),
}
FILTERS: dict[str, models.Filter] = {
    "nothing": models.Filter(),
    "lists of nothing": models.Filter(must=[], must_not=[]),
    "all": models.Filter(must=[match("tag", "red"), span("price", gt=3)]),
    "single conditions": models.Filter(must=match("tag", "red"), must_not=match("flag", True)),
    "a single alternative": models.Filter(should=match("tag", "green")),
    "some": models.Filter(should=[match("tag", "red"), match("n", 7)]),
    "none": models.Filter(must_not=[match("tag", "red"), span("price", gt=6)]),
    "all kinds": models.Filter(
        must=[span("price", lt=12)],
        should=[match("tag", "blue"), match("tag", "t1")],
        must_not=[match("flag", True)],
    ),
    "at least two": models.Filter(
        min_should=models.MinShould(
            conditions=[match("tag", "red"), match("flag", True), span("n", gte=0)], min_count=2
        )
    ),
    "filters in filters": models.Filter(
        should=[
            models.Filter(must=[match("tag", "blue"), models.Filter(must_not=[span("n", gt=0)])]),
            models.Filter(min_should=models.MinShould(conditions=[match("flag", True)], min_count=1)),
        ]
    ),
}


# Those that all points meet, or none does. Agreement about the others means something.
TRIVIAL = {"any of nothing",
           "a vector that no point has"}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_hold_for_the_same_points(name, both):
    asked = {"query": nearest(QUERY), "using": "dense", "limit": 100}
    found = same(both(models.QueryRequest(**asked, filter=models.Filter(must=[CONDITIONS[name]]))))
    others = same(both(models.QueryRequest(**asked, filter=models.Filter(must_not=[CONDITIONS[name]]))))
    assert len(found) + len(others) == COUNT
    assert (0 < len(found) < COUNT) == (name not in TRIVIAL)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_choose_the_same_points(name, both):
    same(both(models.QueryRequest(query=nearest(QUERY), using="dense", filter=FILTERS[name], limit=100)))


def nearest(query: Any) -> models.NearestQuery:
    return models.NearestQuery(nearest=query)


def prefetch(query: Any, using: str, limit: int | None, **others: Any) -> models.Prefetch:
    return models.Prefetch(query=nearest(query), using=using, limit=limit, **others)


# (score - price) / height; a point without them keeps its score.
FORMULA = models.FormulaQuery(
    formula=models.DivExpression(
        div=models.DivParams(
            left=models.SumExpression(sum=["$score", models.NegExpression(neg="price")]),
            right="size.height",
            by_zero_default=0.0,
        )
    ),
    defaults={"price": 0.0, "size.height": 1.0},
)

DENSE = prefetch(QUERY, "dense", 20)
RED = models.Filter(must=[match("tag", "red")])
MAXSIM = {"query": nearest(TOKENS), "using": "multi"}
REQUESTS: dict[str, dict[str, Any]] = {
    "a list of numbers": {"query": QUERY, "using": "dense", "limit": 7},
    "the limit that is not set": {"query": nearest(QUERY), "using": "dense"},
    "dense": {"query": nearest(QUERY), "using": "dense", "limit": 60},
    "sparse": {"query": nearest(WORDS), "using": "sparse", "limit": 60},
    "token vectors": {**MAXSIM, "limit": 60},
    "offset": {"query": nearest(QUERY), "using": "dense", "limit": 7, "offset": 5},
    "offset beyond the end": {"query": nearest(QUERY), "using": "dense", "limit": 7, "offset": 58},
    "threshold": {"query": nearest(QUERY), "using": "dense", "limit": 60, "score_threshold": 0.4},
    "threshold and offset": {**MAXSIM, "score_threshold": 0.4, "offset": 3},
    "a prefetch": {"prefetch": DENSE, **MAXSIM},
    "a prefetch without a limit": {"prefetch": prefetch(QUERY, "dense", None), **MAXSIM, "limit": 40},
    "a filter of a prefetch": {"prefetch": prefetch(QUERY, "dense", 8, filter=RED), **MAXSIM},
    "a filter reaches the prefetches": {"prefetch": prefetch(QUERY, "dense", 8), **MAXSIM, "filter": RED},
    "a threshold of a prefetch": {
        "prefetch": prefetch(QUERY, "dense", 60, score_threshold=0.8), **MAXSIM, "limit": 60,
    },
    "a formula": {"prefetch": DENSE, "query": FORMULA, "limit": 5},
    "a formula of two prefetches, one in the other": {
        "prefetch": prefetch(TOKENS, "multi", 15, prefetch=DENSE),
        "query": FORMULA, "limit": 5, "offset": 3,
    },
    "diverse": {
        "query": models.NearestQuery(nearest=QUERY, mmr=models.Mmr(diversity=0.3, candidates_limit=30)),
        "using": "dense", "limit": 10,
    },
    "diverse by default": {"query": models.NearestQuery(nearest=QUERY, mmr=models.Mmr()), "using": "dense"},
    "IDF of a corpus": {
        "query": nearest(WORDS), "using": "sparse", "limit": 60,
        "params": models.SearchParams(idf=models.IdfCorpusParams(corpus=RED)),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_have_the_same_answers(name, both):
    assert same(both(models.QueryRequest(**REQUESTS[name])))


def test_without_a_query_every_point_may_come(both):
    ours, theirs = both(models.QueryRequest(filter=RED, limit=100))
    assert answer(ours).keys() == answer(theirs).keys()
    assert len(both(models.QueryRequest())[0]) == 10


@pytest.mark.parametrize(
    ("with_payload", "fields"),
    [
        (None, None),
        (False, None),
        (["n", "size.height"], {"n", "size"}),
        (True, payload(11).keys()),
    ],
)
def test_only_the_fields_asked_for_come(with_payload, fields, both):
    chosen = models.Filter(must=[models.HasIdCondition(has_id=[11])])
    for points in both(models.QueryRequest(filter=chosen, with_payload=with_payload)):
        assert (points[0].payload and points[0].payload.keys()) == fields


def test_a_condition_of_two_tests_holds_where_either_does(shard):
    """In Rust; local mode looks at the first one only, so the two do not agree here."""
    either = field("n", match=models.MatchValue(value=3), range=models.Range(gte=36))
    request = models.QueryRequest(filter=models.Filter(must=[either]), limit=100)
    found = answer(shard.query(to_query_request(request)))
    assert found.keys() == {str(point_id(i)) for i in (23, 57, 58, 59)}


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"query": 3}, "query of the class int"),
        ({"query": models.FusionQuery(fusion=models.Fusion.RRF)}, "query of the class FusionQuery"),
        ({"query": nearest(3)}, "query of the class NearestQuery"),
        ({"prefetch": [DENSE, DENSE], "query": QUERY}, "several prefetches"),
        ({"query": models.FormulaQuery(formula=models.ExpExpression(exp="$score"))}, "formula with a Exp"),
    ],
)
def test_what_the_index_does_not_ask_is_refused_in_a_line(request_, named):
    with pytest.raises(StoreError, match=named) as told:
        to_query_request(models.QueryRequest(**request_))
    assert "\n" not in str(told.value)
