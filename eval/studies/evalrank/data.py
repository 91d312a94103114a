"""EvalRank's files: pairs of items that mean nearly the same, backgrounds, and the word-similarity sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.line_files import data_folder, number, read_rows
from surprise_rerank.eval.studies.settings import Background

WORD_SIMILARITY_SETS = (
    *("WS-353-ALL", "WS-353-SIM", "WS-353-REL", "MC-30", "RG-65", "RW-STANFORD", "MEN-TR-3k"),
    *("MTurk-287", "MTurk-771", "YP-130", "SIMLEX-999", "VERB-143", "SimVerb-3500"),
)
# What each choice of a background adds to the words of the pairs.
_VOCABULARIES: dict[Background, tuple[str, ...]] = {
    "pairs": (),
    "basic": ("basic_vocab.txt",),
    "wiki": ("basic_vocab.txt", "wiki_vocab.txt"),
}


@dataclass(frozen=True, slots=True)
class RankingTask:
    """Pairs whose second item is to be found among a background, given the first.

    Attributes:
        pairs: of items that mean nearly the same.
        background: items, once each; those of the pairs are among them.
        judged: of words, the sets in which people say how similar two are.
    """

    pairs: tuple[tuple[str, str], ...]
    background: tuple[str, ...]
    judged: tuple[WordSimilaritySet, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WordSimilaritySet:
    """Pairs of words, and how similar people find them.

    Attributes:
        name: of the data set.
        pairs: n pairs in lower case.
        scores: (n,) the higher, the more similar; each set has a scale of its own.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    scores: Float64Array


def read_word_ranking(data: Path | None, background: Background = "wiki") -> RankingTask:
    """The word pairs, and the words among which the second one is to be found.

    Args:
        data: what `--data` names.
        background: the words of the pairs; with the basic vocabulary after them; with that of Wikipedia, too.
    """
    folder = data_folder(data, "evalrank", "word_evalrank")
    extra = [read_rows(folder / name, _item, "a word") for name in _VOCABULARIES[background]]
    return _task(folder / "pos_pair_5514.txt", *extra)


def read_sentence_ranking(data: Path | None) -> RankingTask:
    """The sentence pairs and their background in the folder that `--data` names."""
    folder = data_folder(data, "evalrank", "sent_evalrank")
    return _task(folder / "pos_pair.txt", read_rows(folder / "background_sent.txt", _item, "a sentence"))


def read_word_similarity(data: Path | None) -> tuple[WordSimilaritySet, ...]:
    """The 13 word-similarity sets in the folder that `--data` names."""
    folder = data_folder(data, "evalrank", "word_similarity")
    return tuple(_similarity_set(name, folder / f"EN-{name}.txt") for name in WORD_SIMILARITY_SETS)


def _similarity_set(name: str, path: Path) -> WordSimilaritySet:
    def row(line: str) -> tuple[tuple[str, str], float]:
        first, second, score = line.split()
        return (first.lower(), second.lower()), number(score)

    rows = list(read_rows(path, row, "two words and their similarity"))
    border.some(f"pairs of {path}", rows, "give them with their similarity", 2)
    pairs, scores = zip(*rows, strict=True)
    return WordSimilaritySet(name, pairs, np.array(scores))


def _task(path: Path, *more: Iterable[str]) -> RankingTask:
    pairs = tuple(read_rows(path, _pair, "two items with a tab between"))
    border.some(f"pairs of {path}", pairs, "write one a line, with a tab between")
    background = dict.fromkeys(item for pair in pairs for item in pair)
    for items in more:
        background.update(dict.fromkeys(items))
    return RankingTask(pairs, tuple(background))


def _pair(line: str) -> tuple[str, str]:
    first, second = (_item(part) for part in line.split("\t"))
    return first, second


def _item(text: str) -> str:
    if not text.strip():
        raise ValueError("an item is empty")
    return text.strip()
