"""Qdrant Edge answers translated requests as qdrant-client's local mode answers the originals."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qdrant_edge
from qdrant_client import QdrantClient, models

from surprise_rerank.connectors.qdrant.engines.edge_requests import (
    to_filter,
    to_params,
    to_query_request,
)
from surprise_rerank.errors import StoreError

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
    "keyword in no point": match("tag", "mauve"),
    "integer": match("n", 7),
    "boolean": match("flag", True),
    "nested key": match("size.height", 4),
    "list in an object": match("size.sides", 2),
    "one list element": match("parts[0].kind", 2),
    "all list elements": match("parts[].kind", 2),
    "any keyword": field("tag", match=models.MatchAny(any=["t1", "blue"])),
    "any integer": field("n", match=models.MatchAny(any=[1, 2, 3])),
    "any of nothing": field("n", match=models.MatchAny(any=[])),
    "except": field("tag", match=models.MatchExcept(**{"except": ["red", "blue"]})),
    "except integers": field("n", match=models.MatchExcept(**{"except": [1, 2]})),
    "text": field("text", match=models.MatchText(text="roof cat")),
    "any text": field("text", match=models.MatchTextAny(text_any="mat 12 zebra")),
    "phrase": field("text", match=models.MatchPhrase(phrase="flat roof")),
    "phrase in another order": field("text", match=models.MatchPhrase(phrase="roof flat")),
    "prefix": field("tag", match=models.MatchPrefix(prefix="t")),
    "substring": field("tag", match=models.MatchSubstring(substring="ee")),
    "range": span("price", gte=2.5, lt=9.0),
    "range, other ends": span("n", gt=-3, lte=12),
    "range of missing numbers": span("nothing", gt=0),
    "dates": during(gte=datetime.datetime(2024, 3, 1, 9, tzinfo=UTC)),
    "dates without a zone": during(gt=datetime.datetime(2024, 3, 1), lt=datetime.datetime(2024, 3, 1, 8, 30)),
    "days": during(lte=datetime.date(2024, 2, 29)),
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
    "few values": field("maybe", values_count=models.ValuesCount(lt=1)),
    "values between": field("size.sides", values_count=models.ValuesCount(gt=1, lte=2)),
    "empty": models.IsEmptyCondition(is_empty=key_of("maybe")),
    "null": models.IsNullCondition(is_null=key_of("maybe")),
    "empty, as a test": field("maybe", is_empty=True),
    "not empty, as a test": field("maybe", is_empty=False),
    "null, as a test": field("maybe", is_null=True),
    "not null, as a test": field("maybe", is_null=False),
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
    "nested, none of them": models.NestedCondition(
        nested=models.Nested(key="parts", filter=models.Filter(must_not=[match("kind", 9)]))
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


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("holds", [True, False])
def test_conditions_hold_for_the_same_points(name: str, holds: bool, both: Both) -> None:
    condition = CONDITIONS[name]
    chosen = models.Filter(must=[condition]) if holds else models.Filter(must_not=[condition])
    same(both(models.QueryRequest(query=QUERY, using="dense", filter=chosen, limit=100)))


def test_the_conditions_tell_points_apart(both: Both) -> None:
    """So that agreement about them means something."""
    trivial = {"keyword in no point", "any of nothing", "phrase in another order", "range of missing numbers",
               "a vector that no point has", "values between", "nested, none of them"}  # fmt: skip
    for name, condition in CONDITIONS.items():
        chosen = models.Filter(must=[condition])
        found = same(both(models.QueryRequest(query=QUERY, using="dense", filter=chosen, limit=100)))
        assert (0 < len(found) < COUNT) == (name not in trivial), name


@pytest.mark.parametrize("name", FILTERS)
def test_filters_choose_the_same_points(name: str, both: Both) -> None:
    same(both(models.QueryRequest(query=QUERY, using="dense", filter=FILTERS[name], limit=100)))


def plus_score(expression: models.Expression) -> models.Expression:
    """The score, which no two points share, decides among equals."""
    return models.SumExpression(sum=[expression, models.MultExpression(mult=[1e-3, "$score"])])


def mult(*factors: models.Expression) -> models.MultExpression:
    return models.MultExpression(mult=list(factors))


def total(*terms: models.Expression) -> models.SumExpression:
    return models.SumExpression(sum=list(terms))


def decay(**params: Any) -> models.DecayParamsExpression:
    return models.DecayParamsExpression(**params)


def divided(left: models.Expression, right: models.Expression, **default: float) -> models.DivExpression:
    return models.DivExpression(div=models.DivParams(left=left, right=right, **default))


FORMULAS: dict[str, models.Expression] = {
    "constant": 2.5,
    "score": "$score",
    "score of the second prefetch": "$score[1]",
    "payload": "price",
    "missing payload has a default": "n",
    "nested payload": "size.height",
    "list element": "parts[1].weight",
    "product": mult("$score", "price", 0.5),
    "sum": total("$score", "price", 7),
    "largest": models.MaxExpression(max=["price", 5.0, "$score"]),
    "smallest": models.MinExpression(min=["price", 5.0]),
    "negative": models.NegExpression(neg="price"),
    "size": models.AbsExpression(abs="n"),
    "quotient": divided("price", total("size.height", 1.0)),
    "quotient with a default": divided("price", "size.height", by_zero_default=-1.0),
    "root": models.SqrtExpression(sqrt="price"),
    "power": models.PowExpression(pow=models.PowParams(base="price", exponent=1.5)),
    "exponential": models.ExpExpression(exp=mult("price", -0.1)),
    "decimal logarithm": models.Log10Expression(log10=total("price", 1.0)),
    "natural logarithm": models.LnExpression(ln=total("price", 1.0)),
    "inverse hyperbolic cosine": models.AcoshExpression(acosh=total("price", 1.0)),
    "linear decay": models.LinDecayExpression(
        lin_decay=decay(x="price", target=8.0, scale=10.0, midpoint=0.3)
    ),
    "exponential decay": models.ExpDecayExpression(exp_decay=decay(x="price", target=8.0, scale=3.0)),
    "normal decay": models.GaussDecayExpression(
        gauss_decay=decay(x="price", target=8.0, midpoint=0.2, scale=4)
    ),
    "decay of nothing but x": models.ExpDecayExpression(exp_decay=decay(x="price")),
    "distance": models.GeoDistance(geo_distance=models.GeoDistanceParams(origin=HERE, to="place")),
    "decay of a distance": models.GaussDecayExpression(
        gauss_decay=decay(
            x=models.GeoDistance(geo_distance=models.GeoDistanceParams(origin=HERE, to="place")),
            scale=50_000.0,
        )
    ),
    "decay of a time": models.LinDecayExpression(
        lin_decay=decay(
            x=models.DatetimeKeyExpression(datetime_key="when"),
            target=models.DatetimeExpression(datetime="2024-03-01T12:00:00Z"),
            scale=5 * 86_400.0,
        )
    ),
    "condition": match("tag", "red"),
    "boolean": mult(2.0, match("flag", True)),
    "filter": models.Filter(must=[span("price", gt=5)], must_not=[match("flag", True)]),
    "condition on ids": models.HasIdCondition(has_id=[point_id(3), point_id(4)]),
    "conditions of all kinds": total(
        models.IsEmptyCondition(is_empty=key_of("maybe")),
        mult(2.0, models.IsNullCondition(is_null=key_of("maybe"))),
        mult(4.0, models.HasVectorCondition(has_vector="sparse")),
        mult(8.0, CONDITIONS["nested"]),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_give_the_same_scores(name: str, both: Both) -> None:
    request = models.QueryRequest(
        prefetch=[
            models.Prefetch(query=QUERY, using="dense", limit=100),
            models.Prefetch(query=TOKENS, using="multi", limit=20),
        ],
        query=models.FormulaQuery(
            formula=plus_score(FORMULAS[name]), defaults={"n": -4.0, "$score": 0.5, "$score[1]": 0.25}
        ),
        limit=100,
    )
    found = same(both(request))
    assert len(found) == COUNT


def prefetch(query: Any, using: str, limit: int | None, **others: Any) -> models.Prefetch:
    return models.Prefetch(query=query, using=using, limit=limit, **others)


def scored(formula: models.Expression) -> models.FormulaQuery:
    return models.FormulaQuery(formula=formula, defaults={"n": 0.0, "$score": 0.0, "$score[1]": 0.0})


def nearest(query: Any) -> models.NearestQuery:
    return models.NearestQuery(nearest=query)


DENSE, MULTI = prefetch(QUERY, "dense", 20), prefetch(nearest(TOKENS), "multi", 15)
SPARSE = prefetch(WORDS, "sparse", 12)
RED = models.Filter(must=[match("tag", "red")])
REQUESTS: dict[str, dict[str, Any]] = {
    "a list of numbers": {"query": QUERY, "using": "dense", "limit": 7},
    "the limit that is not set": {"query": nearest(QUERY), "using": "dense"},
    "dense": {"query": nearest(QUERY), "using": "dense", "limit": 60},
    "sparse": {"query": nearest(WORDS), "using": "sparse", "limit": 60},
    "token vectors": {"query": nearest(TOKENS), "using": "multi", "limit": 60},
    "token vectors, as they are": {"query": TOKENS, "using": "multi", "limit": 60},
    "offset": {"query": QUERY, "using": "dense", "limit": 7, "offset": 5},
    "offset beyond the end": {"query": QUERY, "using": "dense", "limit": 7, "offset": 58},
    "threshold": {"query": QUERY, "using": "dense", "limit": 60, "score_threshold": 0.4},
    "threshold and offset": {"query": QUERY, "using": "dense", "score_threshold": 0.4, "offset": 3},
    "one prefetch, not in a list": {"prefetch": DENSE, "query": TOKENS, "using": "multi"},
    "two prefetches": {"prefetch": [DENSE, SPARSE], "query": TOKENS, "using": "multi", "limit": 40},
    "a prefetch without a limit": {
        "prefetch": prefetch(QUERY, "dense", None), "query": TOKENS, "using": "multi", "limit": 40,
    },
    "nested prefetches": {
        "prefetch": [
            prefetch(TOKENS, "multi", 10, prefetch=[DENSE, prefetch(nearest(WORDS), "sparse", 30)]),
            models.Prefetch(prefetch=DENSE, query=scored(total("$score", "n")), limit=8),
        ],
        "query": scored(total("$score", mult("$score[1]", 3.0))),
        "limit": 12,
    },
    "a filter of a prefetch": {
        "prefetch": prefetch(QUERY, "dense", 8, filter=RED), "query": TOKENS, "using": "multi",
    },
    "a filter reaches the prefetches": {
        "prefetch": prefetch(QUERY, "dense", 8), "query": TOKENS, "using": "multi", "filter": RED,
    },
    "a threshold of a prefetch": {
        "prefetch": prefetch(QUERY, "dense", 60, score_threshold=0.8), "query": TOKENS, "using": "multi",
        "limit": 60,
    },
    "offset after a prefetch": {
        "prefetch": DENSE, "query": scored(total("$score", "n")), "limit": 5, "offset": 3,
    },
    "threshold after a prefetch": {
        "prefetch": DENSE, "query": scored(total("$score", "n")), "limit": 50, "score_threshold": 5.0,
    },
    "fusion by rank": {
        "prefetch": [DENSE, SPARSE, MULTI], "query": models.FusionQuery(fusion=models.Fusion.RRF),
        "limit": 60,
    },
    "fusion by rank with a constant": {
        "prefetch": [DENSE, MULTI], "query": models.RrfQuery(rrf=models.Rrf(k=60)), "limit": 60,
    },
    "fusion by rank without a constant": {
        "prefetch": [DENSE, MULTI], "query": models.RrfQuery(rrf=models.Rrf()), "limit": 60,
    },
    "weighted fusion by rank": {
        "prefetch": [DENSE, MULTI], "query": models.RrfQuery(rrf=models.Rrf(k=5, weights=[1.0, 3.0])),
        "limit": 60,
    },
    "fusion by score": {
        "prefetch": [DENSE, MULTI], "query": models.FusionQuery(fusion=models.Fusion.DBSF), "limit": 60,
    },
    "recommendation": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(
                positive=[QUERY], negative=[TOKENS[1]], strategy=models.RecommendStrategy.BEST_SCORE
            )
        ),
        "using": "dense", "limit": 60,
    },
    "recommendation by sums": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(
                positive=[QUERY, TOKENS[1]], strategy=models.RecommendStrategy.SUM_SCORES
            )
        ),
        "using": "dense", "limit": 60,
    },
    "discovery": {
        "query": models.DiscoverQuery(
            discover=models.DiscoverInput(
                target=QUERY, context=models.ContextPair(positive=QUERY, negative=TOKENS[1])
            )
        ),
        "using": "dense", "limit": 60,
    },
    "relevance feedback": {
        "query": models.RelevanceFeedbackQuery(
            relevance_feedback=models.RelevanceFeedbackInput(
                target=QUERY,
                feedback=[
                    models.FeedbackItem(example=TOKENS[1], score=0.2),
                    models.FeedbackItem(example=QUERY, score=0.9),
                ],
                strategy=models.NaiveFeedbackStrategy(
                    naive=models.NaiveFeedbackStrategyParams(a=1, b=2, c=3)
                ),
            )
        ),
        "using": "dense", "limit": 60,
    },
    "diverse": {
        "query": models.NearestQuery(nearest=QUERY, mmr=models.Mmr(diversity=0.3, candidates_limit=30)),
        "using": "dense", "limit": 10,
    },
    "diverse by default": {"query": models.NearestQuery(nearest=QUERY, mmr=models.Mmr()), "using": "dense"},
    "IDF of a corpus": {
        "query": WORDS, "using": "sparse", "limit": 60,
        "params": models.SearchParams(idf=models.IdfCorpusParams(corpus=RED)),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_have_the_same_answers(name: str, both: Both) -> None:
    assert same(both(models.QueryRequest(**REQUESTS[name])))


def test_without_a_query_every_point_may_come(both: Both) -> None:
    ours, theirs = both(models.QueryRequest(filter=RED, limit=100))
    assert answer(ours).keys() == answer(theirs).keys()
    assert len(both(models.QueryRequest())[0]) == 10


def test_points_come_in_the_order_of_a_payload(both: Both) -> None:
    for start in (None, 5.0):
        order = models.OrderBy(key="price", direction=models.Direction.DESC, start_from=start)
        ours, theirs = both(models.QueryRequest(query=models.OrderByQuery(order_by=order), limit=9))
        assert [str(p.id) for p in ours] == [str(p.id) for p in theirs]
    ours, theirs = both(models.QueryRequest(query=models.OrderByQuery(order_by="price"), limit=9, filter=RED))
    assert [str(p.id) for p in ours] == [str(p.id) for p in theirs]


def test_a_sample_is_of_the_size_asked_for(shard: Any) -> None:
    request = models.QueryRequest(query=models.SampleQuery(sample=models.Sample.RANDOM), limit=12, filter=RED)
    assert len(answer(shard.query(to_query_request(request)))) == 12


def test_a_fields_index_ranks_a_text(tmp_path: Path) -> None:
    config = qdrant_edge.EdgeConfig(
        vectors={"dense": qdrant_edge.EdgeVectorParams(1, qdrant_edge.Distance.Dot)}
    )
    shard = qdrant_edge.EdgeShard.create(str(tmp_path), config)
    texts = ["a cat", "a dog", "a dog and a dog"]
    points = [qdrant_edge.Point(i, {"dense": [1.0]}, {"text": text}) for i, text in enumerate(texts)]
    index = qdrant_edge.UpdateOperation.create_field_index("text", qdrant_edge.TextIndexParams(scoring=True))
    shard.update(index)
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    scoring = models.Bm25Scoring(bm25=models.Bm25Params())
    for text in (
        "dog",
        models.TextQueryInput(query="dog"),
        models.TextQueryInput(query="dog", scoring=scoring),
    ):
        request = models.QueryRequest(query=models.TextQuery(text=text), using="text")
        assert {p.id for p in shard.query(to_query_request(request))} == {1, 2}
    shard.close()


@pytest.mark.parametrize(
    ("with_payload", "fields"),
    [
        (None, None),
        (False, None),
        (["n", "size.height"], {"n", "size"}),
        (models.PayloadSelectorInclude(include=["tag"]), {"tag"}),
        (models.PayloadSelectorExclude(exclude=["text", "parts"]), payload(11).keys() - {"text", "parts"}),
        (True, payload(11).keys()),
    ],
)
def test_only_the_fields_asked_for_come(with_payload: Any, fields: set[str] | None, both: Both) -> None:
    chosen = models.Filter(must=[models.HasIdCondition(has_id=[11])])
    for points in both(models.QueryRequest(filter=chosen, with_payload=with_payload)):
        assert (points[0].payload and points[0].payload.keys()) == fields


@pytest.mark.parametrize("with_vector", [None, False, True, [], ["dense"], ["multi", "sparse"]])
def test_only_the_vectors_asked_for_come(with_vector: Any, both: Both) -> None:
    chosen = models.Filter(must=[models.HasIdCondition(has_id=[11])])
    ours, theirs = both(models.QueryRequest(filter=chosen, with_vector=with_vector))
    expected = theirs[0].vector or {}
    assert (ours[0].vector or {}).keys() == expected.keys()
    for name in expected.keys() - {"sparse"}:
        np.testing.assert_allclose(ours[0].vector[name], expected[name], rtol=1e-6)


def test_search_parameters_arrive() -> None:
    params = to_params(
        models.SearchParams(
            hnsw_ef=77,
            exact=True,
            indexed_only=True,
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.5),
            acorn=models.AcornSearchParams(enable=True, max_selectivity=0.25),
            idf=models.IdfScope.GLOBAL,
        )
    )
    assert params is not None
    assert (params.hnsw_ef, params.exact, params.indexed_only) == (77, True, True)
    quantization, acorn = params.quantization, params.acorn
    assert (quantization.ignore, quantization.rescore, quantization.oversampling) == (False, True, 2.5)
    assert (acorn.enable, acorn.max_selectivity) == (True, 0.25)
    assert params.idf.corpus is None
    defaults = to_params(models.SearchParams())
    assert (defaults.exact, defaults.quantization, defaults.acorn, defaults.idf) == (False, None, None, None)
    assert to_params(None) is None
    assert to_filter(None) is None


def test_a_condition_of_two_tests_holds_where_either_does(shard: Any) -> None:
    """In Rust; local mode looks at the first one only, so the two do not agree here."""
    either = field("n", match=models.MatchValue(value=3), range=models.Range(gte=36))
    request = models.QueryRequest(filter=models.Filter(must=[either]), limit=100)
    found = answer(shard.query(to_query_request(request)))
    assert found.keys() == {str(point_id(i)) for i in (23, 57, 58, 59)}


def test_one_vector_is_one_token(shard: Any) -> None:
    """In Rust; local mode wants a list of one."""
    one, listed = (
        answer(shard.query(to_query_request(models.QueryRequest(query=query, using="multi", limit=60))))
        for query in (QUERY, [QUERY])
    )
    assert one == listed


def recommended(**examples: Any) -> models.RecommendQuery:
    return models.RecommendQuery(recommend=models.RecommendInput(**examples))


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"query": 3}, "point's id"),
        ({"query": str(uuid.UUID(int=3))}, "point's id"),
        ({"query": nearest(uuid.UUID(int=3))}, "point's id"),
        ({"query": models.Document(text="a", model="m")}, "inference of a Document"),
        ({"prefetch": models.Prefetch(query=nearest(models.Document(text="a", model="m")))}, "inference"),
        ({"query": recommended(positive=[QUERY])}, "average vector"),
        ({"query": recommended(positive=[3], strategy=models.RecommendStrategy.BEST_SCORE)}, "point's id"),
        ({"query": QUERY, "lookup_from": models.LookupLocation(collection="c")}, "lookup_from"),
        ({"prefetch": models.Prefetch(lookup_from=models.LookupLocation(collection="c"))}, "lookup_from"),
        ({"query": QUERY, "shard_key": "a"}, "shard keys"),
    ],
)
def test_what_edge_lacks_is_told_in_a_line(request_: dict[str, Any], named: str) -> None:
    with pytest.raises(StoreError, match=named) as told:
        to_query_request(models.QueryRequest(**request_))
    assert "server" in str(told.value)
    assert "\n" not in str(told.value)
