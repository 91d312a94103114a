"""`open_collection`: an index of ours or another's collection, with the model that fits it."""

from pathlib import Path

import pytest
from helpers.words import WordEncoder

from surprise_rerank import (
    DataError,
    Document,
    DocumentIndex,
    IndexMismatchError,
    ModelError,
    NoIndexError,
    StoreError,
    open_collection,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of two documents, by a model that no name tells where to find."""
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([Document("dogs", "dogs bark"), Document("cats", "cats purr")], background=False)
    return tmp_path / "index"


def test_an_index_is_opened_with_the_model_that_is_given_and_checked(folder):
    with open_collection(folder, WordEncoder()) as index:
        assert index.pipeline("cosine").search("dogs bark", top_k=1).ids == ("dogs",)
    with pytest.raises(IndexMismatchError):
        open_collection(folder, WordEncoder(name="other", fingerprint="retrained"))
    with open_collection(folder, WordEncoder()) as again:  # what was refused let the folder go
        assert len(again) == 2


def test_what_asks_no_questions_needs_no_model(folder):
    with open_collection(folder, encodes=False) as index:
        assert len(index) == 2
        with pytest.raises(StoreError, match="without an encoder"):
            _ = index.encoder
    with pytest.raises(ModelError, match="give --model with its new place"):
        open_collection(folder)


def test_what_contradicts_itself_or_is_not_there_is_refused(folder, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text("text = 'body'")
    with pytest.raises(IndexMismatchError, match="knows its parts"):
        open_collection(folder, WordEncoder(), config=keys)
    with pytest.raises(DataError, match="model"):
        open_collection(folder, WordEncoder(), model="words")
    with pytest.raises(NoIndexError):
        open_collection(tmp_path / "nowhere", WordEncoder())
    assert not (tmp_path / "nowhere").exists()
