"""What a language model is given to read: the best of a budget, each text once, with its citation."""

import numpy as np
import pytest

from surprise_rerank import Candidates, DataError, Document, Passage, Place, Ranking, packed_context

ANIMALS = ("dogs", "cats", "owls", "frogs", "wolves", "mice")


def sentence(animal: str) -> str:
    return f"All {animal} of {animal}town sleep by day and keep {animal} awake at night. "


BOOK = Document(
    "book",
    "".join(map(sentence, ANIMALS)),
    metadata={"path": "a/book.pdf"},
    places=[(len("".join(map(sentence, ANIMALS[:i]))), Place(page=i + 1)) for i in range(len(ANIMALS))],
)


def ranking(*lines: tuple[Document, int, int]) -> Ranking:
    """Passages in this order, each of some sentences of the book, or of a document."""
    ends = [len("".join(map(sentence, ANIMALS[:i]))) for i in range(len(ANIMALS) + 1)]
    passages = []
    for number, (document, first, last) in enumerate(lines):
        stretch = (ends[first], ends[last]) if document is BOOK else (0, len(document.content))
        passages.append(Passage(number, *stretch))
    documents = tuple(document for document, _, _ in lines)
    pool = Candidates(
        tuple(document.id for document in documents),
        documents=documents,
        passages=tuple(passages),
        unit="passage",
    )
    return Ranking.order(pool, -np.arange(len(lines)))


def test_passages_of_a_document_are_in_its_order_and_those_that_touch_are_one():
    packed = packed_context(ranking((BOOK, 4, 5), (BOOK, 1, 2), (BOOK, 0, 1)))
    assert [passage.citation for passage in packed.passages] == ["book.pdf, pp. 1-2", "book.pdf, p. 5"]
    assert packed.passages[0].text == (sentence("dogs") + sentence("cats")).strip()
    assert str(packed).startswith("[1] book.pdf, pp. 1-2\nAll dogs")
    assert "\n\n[2] book.pdf, p. 5\nAll wolves" in str(packed)
    assert packed.left_out == 0


def test_the_best_document_is_first_and_the_second_best_last():
    others = [(Document(name, sentence(name)), 0, 0) for name in ("first", "second", "third", "fourth")]
    assert [passage.id for passage in packed_context(ranking(*others)).passages] == [
        "first",
        "third",
        "fourth",
        "second",
    ]


def test_a_near_duplicate_is_read_once():
    copy = Document("copy", sentence("dogs").replace("All dogs", "Most dogs") + "Again.")
    packed = packed_context(ranking((BOOK, 0, 2), (copy, 0, 0), (Document("new", sentence("bees")), 0, 0)))
    assert [passage.id for passage in packed.passages] == ["book", "new"]
    assert packed.left_out == 1


@pytest.mark.parametrize("tokens", [5, 20, 40, 60, 100])
def test_no_more_tokens_come_than_are_asked_for(tokens):
    def count(text: str) -> int:
        return len(text.split())

    lines = ranking((BOOK, 0, 2), (BOOK, 3, 5), (Document("new", sentence("bees")), 0, 0))
    packed = packed_context(lines, tokens, count)
    assert count(str(packed)) == packed.tokens <= tokens
    assert bool(packed.passages) == (tokens > 5)


def test_of_a_table_that_has_no_room_come_its_first_rows():
    rows = [f"bolt {number}\tshelf {number}\n" for number in range(200)]
    packed = packed_context(ranking((Document("stock", "".join(rows)), 0, 0)), 30)
    assert packed.passages[0].text == "".join(rows[:7]).strip()


def test_a_ranking_without_texts_is_refused():
    with pytest.raises(DataError, match="the document of each line must be there, got None; take a ranking"):
        packed_context(Ranking(("a",), np.ones(1)))
