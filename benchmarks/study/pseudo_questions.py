"""What else than documents an ensemble can be made of: other questions, titles, first sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from surprise_rerank.connectors.datasets.sources import open_source
from surprise_rerank.documents import Document
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, judged_questions

TITLES, SENTENCES = "titles", "first sentences"
# Of the questions with even numbers, and of those with odd ones.
OTHERS = ("others of even", "others of odd")
# Of so many documents; the mean of 384 dimensions is known well by then.
_MOST = 2000
_SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


def pseudo_questions(documents: Sequence[Document]) -> dict[str, list[str]]:
    """Titles and first sentences of the first documents, where they have any.

    >>> pseudo_questions([Document("1", "Dogs bark. Cats do not.", title="Dogs")])
    {'titles': ['Dogs'], 'first sentences': ['Dogs bark.']}

    Args:
        documents: in an order that has nothing to do with what they say.
    """
    titles = [document.title for document in documents if document.title.strip()]
    sentences = [first_sentence(document.text) for document in documents if document.text.strip()]
    found = {TITLES: titles[:_MOST], SENTENCES: sentences[:_MOST]}
    return {kind: texts for kind, texts in found.items() if texts}


def first_sentence(text: str) -> str:
    """Up to the first full stop, question or exclamation mark before a space; all, where there is none."""
    found = _SENTENCE.match(text)
    return (found.group() if found else text).strip()


def other_questions(
    dataset: RetrievalDataset, spec: str, chosen: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Questions that are not the study's own: for those with even numbers, and for those with odd ones.

    Those of the training split, where that is another one than the studied; else each half of the split has
    the other half. Never those of a test split that is not studied.

    Args:
        dataset: with the split's questions.
        spec: as `--dataset` names it.
        chosen: the study's questions, the first of the split.
    """
    if dataset.split != "train" and "train" in open_source(spec).splits():
        training = list(judged_questions(spec, "train")[0].values())
        return training, training
    left = list(dataset.queries.values())[len(chosen) :]
    if len(left) >= len(chosen) / 2:
        return left, left
    asked = list(dataset.queries.values())
    return asked[1::2], asked[::2]
