"""Questions about everything, which come with the package: the background that an index gets by itself."""

from __future__ import annotations

import random
from importlib import resources

from surprise_rerank.errors import DataError

# Of the questions of a background that is made without being asked for. Known from 300: 5 % +- 1.3.
USUAL = 300
ORIGIN = "varied questions of the package"
_FILE = "varied_questions.tsv"


def varied_questions(count: int = USUAL, seed: int = 0) -> tuple[str, ...]:
    """So many questions, as many of each topic as of any other; more begin with fewer.

    They are questions, key words, claims and longer requests about 42 topics, written for this package.

    Args:
        count: how many.
        seed: of the draw within a topic.

    Raises:
        DataError: if there are not so many.
    """
    topics: dict[str, list[str]] = {}
    for line in resources.files(__package__).joinpath(_FILE).read_text("utf-8").splitlines():
        topic, tab, question = line.partition("\t")
        if tab:
            topics.setdefault(topic, []).append(question)
    draw = random.Random(seed)
    for own in topics.values():
        draw.shuffle(own)
    names = list(topics)
    draw.shuffle(names)
    rounds = range(max(map(len, topics.values())))
    found = [topics[name][place] for place in rounds for name in names if place < len(topics[name])]
    if not 1 <= count <= len(found):
        raise DataError(
            f"there are {len(found)} varied questions, asked for are {count}; ask for 1 to {len(found)}"
        )
    return tuple(found[:count])
