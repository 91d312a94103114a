"""Documents: text that can be carried anywhere, and a hash that tells when it changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.documents import Document, encodable

# Lone surrogates included: hypothesis leaves them out of `text()` unless it is told otherwise.
any_text = st.text(st.characters(categories=None, exclude_categories=()))


@given(any_text)
def test_every_text_becomes_encodable_and_stays_so(text: str):
    once = encodable(text)
    once.encode("utf-8")
    assert encodable(once) == once
    if text.isprintable():
        assert once == text


def test_a_document_repairs_its_id_text_and_title():
    document = Document(id="d\ud800", text="\ud83d\ude00", title="\udfff t")
    assert (document.id, document.text, document.title) == ("d\ufffd", "😀", "\ufffd t")


@pytest.mark.parametrize(
    ("title", "text", "content"),
    [
        ("Wings", "Lift and drag.", "Wings Lift and drag."),
        ("", "Lift and drag.", "Lift and drag."),
        ("Wings", "", "Wings"),
        ("", "", ""),
        ("", "  spaced  ", "spaced"),
    ],
)
def test_content_is_title_and_text_without_outer_blanks(title: str, text: str, content: str):
    assert Document(id="1", text=text, title=title).content == content


def test_words_that_move_from_title_to_text_change_the_hash():
    one = Document(id="1", title="a b", text="c")
    other = Document(id="1", title="a", text="b c")
    assert one.content == other.content
    assert one.content_hash != other.content_hash


@pytest.mark.parametrize("field", ["id", "text", "title"])
@pytest.mark.parametrize("value", [None, 7, b"bytes", ["list"]])
def test_a_field_that_is_no_string_is_a_type_error_that_names_it(field: str, value: object):
    fields = {"id": "1", "text": "t", "title": "h", field: value}
    with pytest.raises(TypeError, match=rf"Document\.{field} must be a string, got {type(value).__name__}"):
        Document(**fields)
