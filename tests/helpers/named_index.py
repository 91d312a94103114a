"""A small index that adapters open by its names: its model is a file of word vectors, which loads at once."""

from pathlib import Path

import numpy as np

from helpers.files import write_vectors
from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.systems._backgrounds import store_background

TOPICS = {
    "dogs": "dog barks loud bites postman leash puppy",
    "tea": "tea leaves hot water cup kettle steep",
    "bread": "bread dough yeast oven crust bake flour",
    "boats": "boat sail harbour wind mast rope anchor",
}
ON_TOPIC = "loud dog barks"
OFF_TOPIC = "tax form deadline"
DOCUMENTS = [
    Document(name, words, title=name, metadata={"length": len(words.split()), "topic": name})
    for name, words in TOPICS.items()
]
OTHERS = "tax form deadline court lawyer fee star planet orbit moon goal match score team verb noun"


def write_index(folder: Path) -> str:
    """An index with a background of the system dynamax; returns its folder."""
    rng = np.random.default_rng(5)
    words = [*TOPICS, *" ".join(TOPICS.values()).split(), *OTHERS.split()]
    write_vectors(folder / "vectors.txt", {word: rng.standard_normal(64) for word in dict.fromkeys(words)})
    questions = [" ".join(rng.choice(OTHERS.split(), size, replace=False)) for size in [3] * 15 + [4] * 15]
    with DocumentIndex.open(folder / "index", load_encoder(str(folder / "vectors.txt"))) as index:
        index.sync(DOCUMENTS)
        background = index.pipeline("dynamax").with_background(questions).current_background()
        assert background is not None
        store_background(index.corpus, "dynamax", background)
    return str(folder / "index")
