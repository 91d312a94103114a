"""A copy of an index in one file brings the vectors: every engine and version makes an index of it."""

import base64
import hashlib
import json
import stat

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import (
    DataError,
    Document,
    Ensemble,
    IndexMismatchError,
    NoIndexError,
    Passages,
    Place,
    StoreError,
)
from surprise_rerank._errors import UnreadableIndexError
from surprise_rerank.connectors.qdrant import ALL, DocumentIndex, IndexOptions, copy_index
from surprise_rerank.connectors.qdrant._copying.content import IndexContent

SHORT = [
    Document(
        f"d{i}",
        f"word{i} shared w{i % 7} " + "and more. " * (i % 5),
        f"Title {i}",
        {"n": i, "of": "ab"[i % 2]},
    )
    for i in range(30)
]
TEXT = " ".join(f"Sentence {i} of the book speaks of thing{i}." for i in range(100))
LONG = Document(
    "book",
    TEXT,
    "A book",
    {"of": "a"},
    source="shelf/",
    places=[(0, Place(page=1)), (900, Place(page=2, heading="B"))],
)
QUESTIONS = ["word3 shared", "sentence of thing77", "nothing of this"]
KINDS = {
    "everything": IndexOptions(passages=None, surprise_vector=True),
    "passages": IndexOptions(),
    "tenants": IndexOptions(tenant="of", payload_indexes={"metadata.n": "integer"}),
    "without tokens": IndexOptions(tokens=False),
    "without words": IndexOptions(bm25=None, pooling=1),
    "passages of three": IndexOptions(passages=Passages(tokens=12, overlap=2, best=3), quantization="int8"),
}


def encoder() -> WordEncoder:
    return WordEncoder(dimension=128, window=48)


def answers(index: DocumentIndex) -> dict[tuple[str, str], dict[str, float]]:
    """System and question -> the scores of all documents, by their ids."""
    options = index.manifest.options
    systems = [
        "cosine",
        *(["dynamax"] if options.tokens else []),
        *(["bm25"] if options.bm25 else []),
        "auto",
    ]
    systems = systems if options.tokens or options.bm25 else systems[:-1]
    how = {"tenant": ALL} if options.tenant else {}
    return {
        (system, question): {hit.id: hit.score for hit in index.pipeline(system, **how).search(question, 100)}
        for system in systems
        for question in QUESTIONS
    }


def require_equal(answered, expected, error):
    """The same documents with equal scores; of `auto`, whose feedback turns on roundings, the best one."""
    for (system, question), scores in expected.items():
        others = answered[system, question]
        if system == "auto":
            assert next(iter(others), None) == next(iter(scores), None), question
        else:
            assert others == pytest.approx(scores, abs=error, rel=error), (system, question)


def filled(index: DocumentIndex) -> DocumentIndex:
    index.sync([*SHORT, LONG], background=False)
    return index


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_made_of_a_file_answers_as_the_one_that_it_is_a_copy_of(open_index, tmp_path, kind):
    model = encoder()
    with filled(open_index(model, options=KINDS[kind])) as first:
        if kind == "everything":
            members = model.encode([f"w{i} shared" for i in range(30)]).dense
            first.set_ensemble(Ensemble.from_vectors(members, model=model.name), shrink_deviation=0.5)
        expected, points, error = answers(first), first.status().points, 1e-6
        documents = first.corpus.documents(
            sorted(first.ids(tenant=ALL if first.manifest.options.tenant else None))
        )
        assert copy_index(first, tmp_path / "copy.vectors") == points
        for opens_with in (None, model):
            with pytest.raises(NoIndexError, match=r"is a copy .* in a file; .* \(in Python copy_index\)"):
                DocumentIndex.open(tmp_path / "copy.vectors", opens_with)
        ensemble, statistics = first.manifest.statistics, first.corpus.statistics()
    if first.corpus.engine != "edge":  # whose numbers of four bits are those of the texts, encoded here
        error = 2e-3
        with filled(DocumentIndex.open(tmp_path / "encoded", model, options=KINDS[kind])) as encoded:
            expected = answers(encoded)
    model.encoded_texts.clear()
    assert copy_index(tmp_path / "copy.vectors", tmp_path / "copy") == points
    assert model.encoded_texts == []
    with DocumentIndex.open(tmp_path / "copy", model, options=KINDS[kind]) as copied:
        assert copied.corpus.documents(list(documents)) == documents
        for name, document in copied.corpus.documents(list(documents)).items():
            assert (document.source, document.places) == (documents[name].source, documents[name].places)
        require_equal(answers(copied), expected, error)
        assert copied.manifest.statistics == ensemble
        if statistics is not None:
            assert copied.corpus.statistics().ensemble.identity == statistics.ensemble.identity
            assert copied.status().behind == 0
        report = copied.sync([*SHORT, LONG], background=False)
        assert report.unchanged == len(SHORT) + 1


def test_vectors_of_four_bits_are_the_same_after_any_number_of_copies(tmp_path):
    model, places = (
        encoder(),
        [tmp_path / "first", tmp_path / "a.vectors", tmp_path / "b", tmp_path / "c.vectors"],
    )
    with filled(DocumentIndex.open(places[0], model)) as first:
        expected = answers(first)
    for source, target in zip(places, [*places[1:], tmp_path / "last"], strict=True):
        copy_index(source, target)
    with DocumentIndex.open(tmp_path / "last", model) as last:
        require_equal(answers(last), expected, 1e-6)


def test_a_file_is_for_its_owner_and_is_read_without_this_package(tmp_path):
    with filled(DocumentIndex.open(tmp_path / "first", encoder())) as first:
        copy_index(first, tmp_path / "copy.vectors")
        pool = first.fetch(["d3"], frozenset({"dense", "tokens"}))
    assert stat.S_IMODE((tmp_path / "copy.vectors").stat().st_mode) == 0o600
    lines = [json.loads(line) for line in (tmp_path / "copy.vectors").read_bytes().splitlines()]
    assert (lines[0]["copy"], lines[0]["manifest"]["model"]) == (1, "words")
    (row,) = (i for i, line in enumerate(lines) if line.get("id") == "d3")
    assert lines[row]["text"] == SHORT[3].text
    dense = np.frombuffer(base64.b64decode(lines[row + 1]["dense"]), "<f4")
    np.testing.assert_array_equal(dense, pool.dense[0])
    tokens = np.frombuffer(base64.b64decode(lines[row + 1]["tokens"]), "<f2").reshape(-1, 128)
    np.testing.assert_allclose(tokens, pool.tokens.directions, atol=1e-3)


def test_the_vectors_of_few_passages_are_in_memory_at_a_time(tmp_path, monkeypatch):
    text = " ".join(f"Sentence {i} of a long book." for i in range(2500))
    read = []
    vectors = IndexContent.vectors

    def counted(content, addresses):
        read.append(len(addresses))
        return vectors(content, addresses)

    with DocumentIndex.open(tmp_path / "first", encoder()) as first:
        first.sync([Document("long", text), *SHORT], background=False)
        monkeypatch.setattr(IndexContent, "vectors", counted)
        points = copy_index(first, tmp_path / "copy.vectors")
        assert copy_index(first, tmp_path / "copy") == points
    assert (points, max(read)) == (first_points(text), 128)


def first_points(text: str) -> int:
    (passages,) = Passages().split([Document("long", text)], encoder())
    return len(passages) + len(SHORT)


def copied(tmp_path) -> bytes:
    with filled(DocumentIndex.open(tmp_path / "first", encoder())) as first:
        copy_index(first, tmp_path / "copy.vectors")
    return (tmp_path / "copy.vectors").read_bytes()


def sealed(lines: list[bytes]) -> bytes:
    """Lines with an end that tells their digest, as somebody may write it who alters a file."""
    content = b"".join(line + b"\n" for line in lines)
    end = {"documents": 31, "points": 31, "sha256": hashlib.sha256(content).hexdigest()}
    return content + json.dumps(end).encode() + b"\n"


def of_another_form(lines: list[bytes]) -> bytes:
    return sealed([lines[0].replace(b'"copy": 1', b'"copy": 2'), *lines[1:-1]])


DAMAGES = {
    "truncated in the middle": (
        lambda lines: b"\n".join(lines)[: len(b"\n".join(lines)) // 2],
        "not as it was",
    ),
    "truncated before the end": (lambda lines: b"\n".join(lines[:-1]), "not as it was written"),
    "one letter": (
        lambda lines: b"\n".join(lines).replace(b"thing77", b"thing78", 1),
        "not as it was written",
    ),
    "of another form": (of_another_form, "form 2, this version reads form 1; read it by"),
    "something else": (lambda lines: b"%PDF-1.7\n" + lines[1], "no copy of an index, expected a file that"),
    "empty": (lambda lines: b"", "no copy of an index"),
    "a path": (
        lambda lines: sealed(
            [lines[0], json.dumps({"file": "../x.json", "content": ""}).encode(), *lines[1:-1]]
        ),
        "'../x.json' is no name of a file",
    ),
    "no model": (lambda lines: sealed([b'{"copy": 1, "manifest": {}}', *lines[1:-1]]), "tells of no index"),
    "short vectors": (
        lambda lines: sealed([line.replace(b'{"dense": "', b'{"dense": "AAAA') for line in lines[:-1]]),
        "vectors are not as they are written",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_damaged_file_is_refused_and_what_was_there_stays(tmp_path, damage, replaces):
    change, message = DAMAGES[damage]
    (tmp_path / "copy.vectors").write_bytes(change(copied(tmp_path).splitlines()))
    with DocumentIndex.open(tmp_path / "mine", encoder()) as mine:
        mine.sync(SHORT[:3], background=False)
    place = tmp_path / ("mine" if replaces else "new")
    with pytest.raises(DataError, match=message):
        copy_index(tmp_path / "copy.vectors", place, replace=replaces)
    if not replaces:
        assert not place.exists()
    with DocumentIndex.open(tmp_path / "mine", encoder()) as mine:
        assert sorted(mine.ids()) == ["d0", "d1", "d2"]


def test_a_copy_takes_the_place_of_an_index_of_another_schema_and_of_one_that_is_older(tmp_path):
    copied(tmp_path)
    model = encoder()
    with DocumentIndex.open(tmp_path / "mine", model) as mine:
        mine.sync(SHORT[:3], background=False)
    with pytest.raises(DataError, match=r"points of .* must be 0, got 3; copy to an empty place, or replace"):
        copy_index(tmp_path / "copy.vectors", tmp_path / "mine")
    assert copy_index(tmp_path / "copy.vectors", tmp_path / "mine", replace=True)
    manifest = next((tmp_path / "mine").glob("*/manifest.json"))
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema": 1}))
    with pytest.raises(UnreadableIndexError, match=r"has schema version 1.*copy it to a file"):
        DocumentIndex.open(tmp_path / "mine", model)
    with pytest.raises(IndexMismatchError, match="schema version 1"):
        copy_index(tmp_path / "mine", tmp_path / "other.vectors")
    points = copy_index(tmp_path / "copy.vectors", tmp_path / "mine", replace=True)
    with DocumentIndex.open(tmp_path / "mine", model) as mine:
        assert (len(mine), mine.status().points) == (31, points)


def test_backgrounds_and_weights_come_along(tmp_path):
    with filled(DocumentIndex.open(tmp_path / "first", encoder())) as first:
        first.measure_background("cosine", [f"unrelated{i} question{i}" for i in range(60)])
        expected = [hit.percentile for hit in first.pipeline("cosine").search(QUESTIONS[0], 5)]
        copy_index(first, tmp_path / "copy.vectors")
    copy_index(tmp_path / "copy.vectors", tmp_path / "copy")
    with DocumentIndex.open(tmp_path / "copy", encoder()) as index:
        hits = index.pipeline("cosine").search(QUESTIONS[0], 5)
        assert [hit.percentile for hit in hits] == pytest.approx(expected)


def test_an_index_that_is_half_written_is_not_copied(tmp_path):
    with filled(DocumentIndex.open(tmp_path / "first", encoder())) as first:
        content = IndexContent(first.corpus.storage)
        lost = next(d for d in content.documents() if d.id == "book").addresses[5]
        first.corpus.storage.engine.delete([lost])
        with pytest.raises(StoreError, match="'book' is not whole, expected every passage"):
            copy_index(first, tmp_path / "copy.vectors")
    assert not (tmp_path / "copy.vectors").exists()
