"""What a token of Qdrant must reach, for reading and for writing; on a real server that takes tokens."""

import base64
import hashlib
import hmac
import json
import os
import uuid
from collections.abc import Iterator

import pytest
from helpers.words import WordEncoder
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse

from surprise_rerank import Document, Ensemble, NoIndexError, Pipeline, StoreError
from surprise_rerank.connectors.qdrant import (
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    Location,
    SparseRetriever,
)
from surprise_rerank.encoders.base import encode_queries

pytestmark = pytest.mark.server

DOCUMENTS = [Document(str(i), f"text number {i} of cats and dogs") for i in range(20)]
QUESTIONS = ["what do cats eat", "where do dogs sleep", "which number is this", "who has written the text"]


def token(key: str, access: object) -> str:
    """A JSON web token, signed with the server's key by HMAC-SHA256."""

    def part(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    header = json.dumps({"alg": "HS256", "typ": "JWT"}).encode()
    signed = f"{part(header)}.{part(json.dumps({'access': access}).encode())}"
    return f"{signed}.{part(hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest())}"


OTHERS = [f"what is the number {i} good for" for i in range(12)]


class Desk:
    """An index on a server, reached by tokens."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key, self.name = url, key, f"test-{uuid.uuid4()}"

    def own(self, mode: str, *endings: str) -> str:
        """A token for some of the names of the index."""
        return token(self.key, [{"collection": f"{self.name}{own}", "access": mode} for own in endings])

    def place(self, key: str | None = None) -> Location:
        return Location(url=self.url, collection=self.name, api_key=key or self.key)

    def opened(self, key: str | None = None, encoder: WordEncoder | None = None) -> DocumentIndex:
        return DocumentIndex.open(self.place(key), encoder)

    def made(self) -> None:
        """Documents, an ensemble, a background, and statistics of the words."""
        chosen = IndexOptions(passages=None)
        with DocumentIndex.open(self.place(), WordEncoder(), options=chosen) as index:
            index.sync(DOCUMENTS)
            index.set_ensemble(Ensemble.from_vectors(WordEncoder().encode(QUESTIONS).dense, model="words"))
            index.measure_background("cosine", OTHERS)


@pytest.fixture
def desk() -> Iterator[Desk]:
    url, key = os.environ.get("QDRANT_URL"), os.environ.get("QDRANT_API_KEY")
    if not url or not key:
        pytest.skip("no Qdrant server with tokens: set QDRANT_URL, and QDRANT_API_KEY to its key")
    client = QdrantClient(url, headers={"api-key": token(key, "r")}, check_compatibility=False)
    try:
        client.get_collections()
    except UnexpectedResponse:
        pytest.skip("the Qdrant server takes no tokens: set QDRANT__SERVICE__JWT_RBAC=true")
    finally:
        client.close()
    made = Desk(url, key)
    made.made()
    yield made
    client = QdrantClient(url, headers={"api-key": key}, check_compatibility=False)
    for found in client.get_collections().collections:
        if found.name.startswith(made.name):
            client.delete_collection(found.name)
    client.close()


ALL = ("", "@1", "@1.files")


def search(index: DocumentIndex) -> None:
    """By cosine, by words with their statistics, by the formula, with verdicts from the background."""
    (query,) = encode_queries(WordEncoder(), QUESTIONS[:1])
    for retriever in (DenseRetriever(index.corpus), SparseRetriever(index.corpus)):
        assert len(retriever.retrieve(query, 5)) == 5
    for system in ("cosine", "auto", "surprise"):
        pipeline = index.pipeline(system)
        assert isinstance(pipeline, Pipeline)
        assert len(list(pipeline.search(QUESTIONS[0], top_k=3))) == 3


@pytest.mark.parametrize("everything", [False, True])
def test_to_search_a_token_reads_three_names_or_everything(desk, everything):
    own = token(desk.key, "r") if everything else desk.own("r", *ALL)
    with desk.opened(own, WordEncoder()) as index:
        search(index)
        assert index.status().documents == 20
        spread = index.placement()
        assert spread.shards
        with pytest.raises(StoreError, match=r"refuses access.*a key or a token that may"):
            index.sync([*DOCUMENTS, Document("new", "more text")], background=False)


@pytest.mark.parametrize("mode", ["prw", "rw"])
def test_to_add_documents_a_token_writes_to_three_names(desk, mode):
    own = desk.own(mode, *ALL)
    with desk.opened(own, WordEncoder()) as index:
        search(index)
        report = index.sync([*DOCUMENTS[:19], Document("new", "more text")], prune=True)
        assert (report.added, report.removed) == (1, 1)
        index.measure_background("auto", OTHERS)
        ensemble = Ensemble.from_vectors(WordEncoder().encode(QUESTIONS[:3]).dense, model="words")
        with pytest.raises(StoreError, match=r"refuses access.*a key or a token"):
            index.set_ensemble(ensemble)
    with desk.opened() as index:
        assert len(index) == 20


def test_a_token_for_everything_may_all(desk):
    with desk.opened(token(desk.key, "m"), WordEncoder()) as index:
        index.rebuild(DOCUMENTS, background=False)
        index.set_ensemble(Ensemble.from_vectors(WordEncoder().encode(QUESTIONS).dense, model="words"))


def test_a_token_that_reaches_too_little_is_told_what_it_must_reach(desk):
    every = [f"'{desk.name}{own}'" for own in ALL]
    for endings in ((), ("",), ("@1",), ("@1", "@1.files")):
        with pytest.raises(StoreError, match="must reach") as caught:
            desk.opened(desk.own("r", *endings))
        assert "not made by surprise-rerank" not in str(caught.value)
        assert not isinstance(caught.value, NoIndexError)
        assert all(name in str(caught.value) for name in every)
    with desk.opened(desk.own("r", "", "@1"), WordEncoder()) as index:
        (query,) = encode_queries(WordEncoder(), QUESTIONS[:1])
        assert len(DenseRetriever(index.corpus).retrieve(query, 5)) == 5
        with pytest.raises(StoreError, match=r"@1\.files.*that may"):
            index.pipeline("surprise")


def test_after_a_rebuild_a_token_for_the_version_before_is_told_so(desk):
    with desk.opened(desk.own("r", *ALL), WordEncoder()) as reader:
        search(reader)
        with desk.opened(None, WordEncoder()) as index:
            index.rebuild([*DOCUMENTS, Document("new", "more text")], background=False)
        with pytest.raises(StoreError, match=f"may read '{desk.name}', but not the collection"):
            search(reader)


def test_a_key_that_the_server_does_not_know_is_told_so(desk):
    with pytest.raises(StoreError, match=r"refuses access \(401.*to a key"):
        desk.opened("another-key")
