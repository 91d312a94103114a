"""Packed tokens that were damaged where they lie: named with their document, and mended by a rebuild."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pybase64
import pytest
from calling import exit_code
from conftest import Opener
from words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.schema import TOKENS, packed_text, point_id, tokens_id
from surprise_rerank.core.tokens.packing import pack_tokens
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.surprise_rerank.main import main

D = 32
DOCUMENTS = [Document(f"d{i}", " ".join(f"word{(i * j) % 29}" for j in range(1, 20 + i))) for i in range(6)]
BROKEN = "d3"


def flipped(packed: bytes, place: float) -> bytes:
    """One bit is another, at that part of the whole."""
    at = min(int(place * len(packed)), len(packed) - 1)
    return packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]


def of_another_model(packed: bytes) -> bytes:
    tokens = WordEncoder(D // 2).encode([DOCUMENTS[0].text]).require_tokens()
    return pack_tokens(tokens.stored("4bit"))[0]


DAMAGES: dict[str, Callable[[bytes], object]] = {
    "empty": lambda packed: "",
    "a header alone": lambda packed: packed_text(packed[:12]),
    "half": lambda packed: packed_text(packed[: len(packed) // 2]),
    "without its last byte": lambda packed: packed_text(packed[:-1]),
    "a byte too many": lambda packed: packed_text(packed + b"\0"),
    "a flipped bit of the version": lambda packed: packed_text(flipped(packed, 3 / len(packed))),
    "a flipped bit of the header": lambda packed: packed_text(flipped(packed, 9 / len(packed))),
    "a flipped bit of the factors": lambda packed: packed_text(flipped(packed, 0.1)),
    "a flipped bit of the middle": lambda packed: packed_text(flipped(packed, 0.5)),
    "a flipped bit of the end": lambda packed: packed_text(flipped(packed, 1.0)),
    "foreign bytes": lambda packed: packed_text(b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
    "another model's tokens": lambda packed: packed_text(of_another_model(packed)),
    "not base64": lambda packed: "%%% no base64 %%%",
    "half of the text": lambda packed: packed_text(packed)[:41],
    "a number": lambda packed: 5,
    "nothing": lambda packed: None,
}


def damage(index: DocumentIndex, name: str, how: str) -> None:
    """Replace what is stored of one document's tokens."""
    point = tokens_id(point_id(name))
    (record,) = index.storage.engine.retrieve([point], (TOKENS,))
    broken = DAMAGES[how](pybase64.b64decode(record.payload[TOKENS]))
    index.storage.engine.set_payloads([(point, {TOKENS: broken})])


@pytest.mark.parametrize("how", list(DAMAGES))
def test_damaged_tokens_are_named_and_a_rebuild_mends_them(open_index: Opener, how: str) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=IndexOptions(token_storage="1bit", bm25=None)) as index:
        index.sync(DOCUMENTS)
        question = DOCUMENTS[3].text
        whole = index.pipeline("dynamax").search(question)
        damage(index, BROKEN, how)
        with pytest.raises(DataError, match=f"tokens of document '{BROKEN}'"):
            index.pipeline("dynamax").search(question)
        with pytest.raises(DataError, match=f"tokens of document '{BROKEN}'"):
            index.fetch([BROKEN], frozenset({"tokens"}))
        assert index.pipeline("cosine").search(question).ids[0] == BROKEN, "what reads no tokens goes on"
        encoder.encoded_texts.clear()
        index.rebuild(DOCUMENTS)
        assert encoder.encoded_texts == [DOCUMENTS[3].content]
        healed = index.pipeline("dynamax").search(question)
        assert healed.ids == whole.ids
        np.testing.assert_allclose(healed.scores, whole.scores, atol=1e-6)


def test_the_command_names_the_document_and_its_rebuild_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "documents.jsonl"
    rows.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in DOCUMENTS))
    model, folder = tmp_path / "words.txt", tmp_path / "index"
    encoder = WordEncoder(D)
    vectors = {f"word{i}": encoder.encode([f"word{i}"]).require_tokens()[0][0] for i in range(29)}
    model.write_text("".join(f"{word} {' '.join(map(str, own))}\n" for word, own in vectors.items()))

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        return exit_code(main, "surprise-rerank", *arguments), *capsys.readouterr()

    made = ("index", rows, "--index", folder, "--model", model, "--no-bm25")
    asked = ("search", DOCUMENTS[3].text, "--index", folder, "--system", "dynamax")
    assert run(*made)[0] == 0
    assert run(*asked)[0] == 0
    with DocumentIndex.open(folder, None) as index:
        damage(index, BROKEN, "a flipped bit of the middle")
    code, _, error = run(*asked)
    assert code == 2
    assert f"tokens of document '{BROKEN}'" in error
    assert "rebuild the index" in error
    assert run(*made, "--rebuild")[0] == 0
    code, shown, _ = run(*asked)
    assert code == 0
    assert BROKEN in shown


def test_the_tokens_of_a_point_are_at_the_same_uuid_as_ever():
    for name in ("a", "ä b", ""):
        point = point_id(name)
        assert tokens_id(point) == str(uuid.uuid5(uuid.UUID(point), TOKENS))
