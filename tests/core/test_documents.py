"""Documents: text that can be carried anywhere, and a hash that tells when it changed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.documents import Document, encodable

PROPERTY = settings(max_examples=100, deadline=None)

# Lone surrogates included: hypothesis leaves them out of `text()` unless it is told otherwise.
any_text = st.text(st.characters(categories=None, exclude_categories=()))
valid_text = st.text(st.characters(codec="utf-8"))


@given(valid_text)
@PROPERTY
def test_valid_text_comes_back_unchanged(text: str):
    assert encodable(text) == text


@given(any_text)
@PROPERTY
def test_every_text_becomes_encodable_and_stays_so(text: str):
    once = encodable(text)
    once.encode("utf-8")
    assert encodable(once) == once


@pytest.mark.parametrize("point", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("a", ""), ("", "b"), ("é", "日"), ("😀", "😀")])
def test_a_lone_surrogate_becomes_one_replacement_character(before: str, point: int, after: str):
    assert encodable(before + chr(point) + after) == f"{before}\ufffd{after}"


def test_a_surrogate_pair_becomes_the_character_that_it_means():
    assert encodable("a\ud83d\ude00b") == "a😀b"


def test_surrogates_in_the_wrong_order_are_two_lone_ones():
    assert encodable("\ude00\ud83d") == "\ufffd\ufffd"


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


@given(valid_text, valid_text)
@PROPERTY
def test_the_hash_depends_on_nothing_but_title_and_text(title: str, text: str):
    one = Document(id="1", text=text, title=title, metadata={"year": 1958})
    other = Document(id="2", text=text, title=title)
    assert one.content_hash == other.content_hash
    assert len(one.content_hash) == 64


@given(valid_text, valid_text, valid_text)
@PROPERTY
def test_another_title_or_text_has_another_hash(title: str, text: str, change: str):
    document = Document(id="1", text=text, title=title)
    if change != text:
        assert dataclasses.replace(document, text=change).content_hash != document.content_hash
    if change != title:
        assert dataclasses.replace(document, title=change).content_hash != document.content_hash


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


def test_a_document_cannot_be_changed():
    document = Document(id="1", text="t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.text = "other"


def test_metadata_is_kept_as_given():
    metadata = {"year": 1958, "authors": ["a", "b"], "nested": {"x": None}}
    assert Document(id="1", text="", metadata=metadata).metadata == metadata
    assert Document(id="1", text="").metadata == {}
