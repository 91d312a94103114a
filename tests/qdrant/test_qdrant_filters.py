"""Filters in Qdrant's JSON: what is wrong with one is said, and none of its conditions is dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.connectors.qdrant._search.filters import filter_of

OPEN = {"key": "metadata.kind", "match": {"value": "open"}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"Must": []}, "'Must' is not known in the filter; did you mean 'must'?"),
        ({"a[": 1}, "'a[' is not known in the filter"),
        ({"int": 1}, "'int' is not known in the filter"),
        (
            {"must": [{"key": "a", "rnage": {"gte": 1}}]},
            "'rnage' is not known in must[0]; did you mean 'range'?",
        ),
        ({"must": [{"ky": "a", "match": {"value": 1}}]}, "'ky' is not known in must[0]; did you mean 'key'?"),
        ({"must": [{"key": "a", "match": {"valu": 3}}]}, "'valu' is not known in must[0].match"),
        ({"must": [{"key": "a"}]}, "must[0] tests nothing; give it one of match, range"),
        ({"must": {"key": "a"}}, "must tests nothing"),
        ({"must": [{"key": "a", "match": {}}]}, "must[0].match tests nothing"),
        ({"must": [{"key": "a", "range": {"gte": None}}]}, "must[0].range tests nothing"),
        ({"must": [{}]}, "must[0] must be a condition"),
        ({"must": [[OPEN]]}, "must[0] must be a condition"),
        ({"must": [{"should": [{"key": "a"}]}]}, "must[0].should[0] tests nothing"),
        (
            {"must": [{"nested": {"key": "a", "filter": {"must": [{"key": "b"}]}}}]},
            "nested.filter.must[0] tests",
        ),
        ({"must": [{"nested": {"key": "a"}}]}, "must[0].nested: filter is missing"),
        ({"must": [{"has_id": ["d0"]}]}, "has_id knows points, not documents"),
        ({"must": [{"has_id": None}]}, "must[0].has_id: input should be a valid list"),
        ({"min_should": {"conditions": []}}, "min_should: min_count is missing"),
        ({"must": [{"key": "a", "match": {"value": 2**70}}]}, "Qdrant does not take the filter"),
        ([], "it must be a JSON object"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(values, said):
    with pytest.raises(DataError) as refused:
        filter_of(values)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_conditions_are_counted_at_every_depth():
    values = {"must": [OPEN, {"should": [OPEN, {"nested": {"key": "a", "filter": {"must": [OPEN]}}}]}]}
    assert filter_of(values, 5) == filter_of(values)
    with pytest.raises(DataError, match="more than 4 conditions"):
        filter_of(values, 4)
    for _ in range(300):
        values = {"must": [values]}
    with pytest.raises(DataError, match="filters in each other"):
        filter_of(values)


_KEYS = (
    *("must", "should", "must_not", "min_should", "key", "match", "range", "value", "any", "gte"),
    *("nested", "filter", "has_id", "is_null", "conditions", "min_count", "Must", "int", "a["),
)
_keys = st.sampled_from(_KEYS)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
)


@given(_json)
def test_any_json_is_a_filter_or_refused_in_one_line(values):
    said = ""
    try:
        filter_of(values)
    except DataError as error:
        said = str(error)
    assert "\n" not in said
