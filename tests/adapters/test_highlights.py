"""Best sentences, and the words of a question in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.connectors.qdrant._highlights import Excerpt, excerpts

DOGS = "Cats sleep all day. A dog barks when a stranger comes. Dogs are loyal."


def _marked(excerpt: Excerpt) -> list[str]:
    return [excerpt.text[start:end] for start, end in excerpt.marks]


def test_the_sentence_with_most_of_the_words_is_shown_with_stems_marked():
    shown = excerpts("why do dogs bark at strangers?", [DOGS, "Nothing of it. Second."])
    assert shown[0].text == "A dog barks when a stranger comes."
    assert _marked(shown[0]) == ["dog", "barks", "stranger"]
    assert shown[1] == Excerpt("Nothing of it.")


@pytest.mark.parametrize(
    "before",
    ["How to return a parcel\n\n", "# Return a parcel\n", "How do I return a parcel?\n", "Parcel\n------\n"],
)
def test_a_sentence_answers_and_no_heading(before):
    text = f"{before}Print the label, and bring the parcel to any post office.\n\n| return | parcel. |\n"
    expected = "Print the label, and bring the parcel to any post office."
    assert excerpts("how to return a parcel", [text])[0].text == expected
    assert excerpts("how to return a parcel", [before])[0].text == before.strip().splitlines()[0]


def test_rare_words_count_more_than_frequent_ones():
    texts = ["A dog ran. The quokka slept.", "One dog.", "Two dogs.", "Any dog."]
    assert excerpts("dog quokka", texts)[0].text == "The quokka slept."


def test_a_long_sentence_is_cut_around_its_words():
    text = "x " * 400 + "the dog barked " + "y " * 400
    (excerpt,) = excerpts("dogs bark", [text], most=80)
    assert len(excerpt.text) <= 80
    assert (excerpt.text[0], excerpt.text[-1]) == ("…", "…")
    assert _marked(excerpt) == ["dog", "barked"]


def test_scripts_without_spaces_are_matched_by_pairs_of_characters():
    (excerpt,) = excerpts("犬はなぜ吠えるか", ["猫がいる。犬はなぜ吠えるのでしょう。"])
    assert excerpt.text == "犬はなぜ吠えるのでしょう。"
    assert _marked(excerpt) == ["犬はなぜ吠える"]


@given(
    st.lists(
        st.sampled_from(["dog", "Dogs", "cat", "bark", "a", "!", "é", "犬", "\ud800", "\u202e", ". ", "\n"]),
        max_size=60,
    ),
    st.integers(20, 60),
)
def test_excerpts_are_parts_of_their_text_and_marks_are_words_in_order(parts, most):
    text = " ".join(parts)
    (excerpt,) = excerpts("dogs bark 犬犬", [text], most=most)
    assert len(excerpt.text) <= most
    assert excerpt.text.strip("…") in text
    flat = [place for mark in excerpt.marks for place in mark]
    assert flat == sorted(set(flat))
    assert all(0 <= place <= len(excerpt.text) for place in flat)


@pytest.mark.parametrize(
    ("most", "language", "named"),
    [(19, "english", "most must be a whole number of at least 20, got 19"), (80, "elvish", "elvish")],
)
def test_what_cannot_be_is_refused(most, language, named):
    with pytest.raises(DataError, match=named):
        excerpts("dog", ["A dog."], language, most)
