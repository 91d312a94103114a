"""An index that is copied with its vectors: nothing is encoded, and it answers as before."""

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, Ensemble, NoIndexError, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, Location, copy_index
from surprise_rerank.connectors.qdrant._copying.content import IndexContent

DOCUMENTS = [
    Document(f"d{i}", f"word{i} shared w{i % 7} " + "and more. " * (i % 5), metadata={"n": i})
    for i in range(120)
]
QUESTIONS = ["word3 shared", "word50 w5", "word77"]


def answers(index: DocumentIndex) -> list[tuple[str, list[float]]]:
    """The best document of each question by each system, and five scores; others have equal ones."""
    pipelines = [index.pipeline(system) for system in ("cosine", "dynamax", "bm25", "fusion")]
    hits = [list(pipeline.search(question, 5)) for pipeline in pipelines for question in QUESTIONS]
    return [(ranked[0].id, [round(hit.score, 2) for hit in ranked]) for ranked in hits]


def test_a_copy_answers_as_the_index_and_is_gone_on_with(open_index, tmp_path):
    encoder = WordEncoder()
    options = IndexOptions(surprise_vector=True)
    with DocumentIndex.open(tmp_path / "first", encoder, options=options) as first:
        first.sync(DOCUMENTS)
        vectors = encoder.encode([f"w{i} shared" for i in range(30)]).dense
        first.set_ensemble(Ensemble.from_vectors(vectors, model=encoder.name))
        expected, statistics = answers(first), first.manifest.statistics
        encoder.encoded_texts.clear()
        with open_index(encoder, options=options) as empty:
            place = empty.corpus.storage.location
        if str(place.folder) == ":memory:":
            place = tmp_path / "copy"
        assert copy_index(first, place) == first.status().points
        assert encoder.encoded_texts == []
        with DocumentIndex.open(place, encoder) as copied:
            assert answers(copied) == expected
            assert copied.manifest.statistics == statistics
            assert copied.status().behind == 0
            assert copied.corpus.changes() == first.corpus.changes()
            assert copied.sync(DOCUMENTS, background=False).unchanged == len(DOCUMENTS)
        with pytest.raises(DataError, match="copy to an empty place"):
            copy_index(first, place)


def test_an_interrupted_copy_is_not_seen_and_is_gone_on_with(tmp_path, monkeypatch):
    encoder, read = WordEncoder(), []
    documents = [Document(f"d{i}", f"word{i} shared w{i % 7}") for i in range(300)]
    with DocumentIndex.open(tmp_path / "first", encoder) as first:
        first.sync(documents, background=False)
        vectors = IndexContent.vectors

        def interrupted(content, addresses):
            if read:
                raise KeyboardInterrupt
            read.append(addresses)
            return vectors(content, addresses)

        monkeypatch.setattr(IndexContent, "vectors", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copy_index(first, tmp_path / "copy")
        monkeypatch.undo()
        with DocumentIndex.open(tmp_path / "copy", None) as copied:
            assert len(copied) == 0
        assert copy_index(first, tmp_path / "copy") == len(documents)
        with DocumentIndex.open(tmp_path / "copy", encoder) as copied:
            assert answers(copied) == answers(first)


@pytest.mark.parametrize("lost", [slice(0, 0), slice(0, 60)])
def test_a_copy_that_fails_leaves_no_index(open_index, tmp_path, monkeypatch, lost):
    """Neither one without points, nor one that lacks some."""
    encoder = WordEncoder()
    with DocumentIndex.open(tmp_path / "first", encoder) as first:
        first.sync(DOCUMENTS, background=False)
        scroll = first.corpus.storage.engine.scroll

        def failing(*arguments, **options):
            for records in scroll(*arguments, **options):
                if not records[lost]:
                    raise StoreError("the disk of the index failed")
                yield records[lost]

        monkeypatch.setattr(first.corpus.storage.engine, "scroll", failing)
        with open_index(encoder) as empty:
            place = empty.corpus.storage.location
            empty.corpus.storage.discard()
        if str(place.folder) == ":memory:":
            place = Location(tmp_path / "copy")
        with pytest.raises(StoreError, match=r"the disk of the index failed|got 116 points and not 120"):
            copy_index(first, place)
        with pytest.raises(NoIndexError):
            DocumentIndex.open(place, None)
        monkeypatch.undo()
        assert copy_index(first, place) == len(DOCUMENTS)
