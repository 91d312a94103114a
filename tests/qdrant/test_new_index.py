"""A first run that fails takes away what it has made, and nothing of another run's."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, Location
from surprise_rerank.eval.cli.surprise_rerank.index import _opened

DOCUMENTS = [Document("a", "dogs bark"), Document("b", "cats sleep")]


def fill(place: Path) -> None:
    with DocumentIndex.open(place, WordEncoder()) as index:
        index.sync(DOCUMENTS)


def holds(place: Path) -> int:
    with DocumentIndex.open(place, None) as index:
        return len(index)


def fill_and_fail(place: Path) -> None:
    fill(place)
    raise DataError("wrong")


def opened_new(location: Location) -> AbstractContextManager[DocumentIndex]:
    return _opened(location, WordEncoder(), None, is_new=True)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_first_run_that_fails_leaves_what_was_there(tmp_path, is_there):
    place = tmp_path / "new" / "index"
    if is_there:
        place.mkdir(parents=True)
    with pytest.raises(DataError, match="wrong"), opened_new(Location(place)):
        raise DataError("wrong")
    assert list((place if is_there else tmp_path).iterdir()) == []


def test_an_index_that_another_run_has_made_beside_it_stays(tmp_path):
    first, second = tmp_path / "new" / "a", tmp_path / "new" / "b"
    with pytest.raises(DataError, match="wrong"), opened_new(Location(first)):
        fill_and_fail(second)
    assert not first.exists()
    assert holds(second) == 2


def test_a_server_keeps_the_collection_of_another_run(qdrant):
    own, theirs = (Location(url=qdrant.url, collection=f"{qdrant.prefix}{name}") for name in "ab")
    with pytest.raises(DataError, match="wrong"), opened_new(own):
        raise DataError("wrong")
    with pytest.raises(StoreError, match="no index"):
        DocumentIndex.open(own, None)
    with DocumentIndex.open(theirs, WordEncoder()) as winner:
        with pytest.raises(DataError, match="wrong"), opened_new(theirs):
            raise DataError("wrong")
        winner.sync(DOCUMENTS)
        assert len(winner) == 2
