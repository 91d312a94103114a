"""A pipeline of Haystack that answers from a bicycle shop's notes, and refuses what they do not tell.

Retrieval and re-ranking are real; the generator only quotes what it would read.

    pip install 'surprise-rerank[haystack,offline]'
    HAYSTACK_TELEMETRY_ENABLED=False python examples/rag_haystack.py
"""

from __future__ import annotations

import tempfile

from haystack import Pipeline
from haystack.components.builders import PromptBuilder

from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.haystack import SurpriseRanker, SurpriseRetriever
from surprise_rerank.connectors.qdrant import DocumentIndex

NOTES = {
    "brakes": "Brake pads of rim brakes are due when the grooves in the rubber are gone.",
    "chain": "Oil the chain every 200 km, and after every ride in the rain.",
    "battery": "An e-bike battery lasts longest when it is stored half full, in a cool and dry place.",
    "tyres": "Road tyres take 6 to 8 bar, mountain bike tyres 1.5 to 2.5 bar.",
}
# Questions that have nothing to do with the notes: their best matches are what chance finds.
OTHERS = """who painted the chapel? what is the capital of Peru? how tall is a giraffe? who won the war?
how is cheese made? how do I knit a scarf? when was printing invented? which planet has most moons?
how do vaccines work? how long do eggs boil? what do pandas eat? why is the sky blue? what is a prime?
how deep is the ocean? where do penguins live? what is a verb? how do I learn Spanish? what is thunder?
who wrote the first symphony? how do I file my taxes?"""
QUESTIONS = ["How often should I oil my chain?", "Who sang the anthem at the final?"]


def main() -> None:
    """Index the notes, ask two questions, and show what the answers are made of."""
    with tempfile.TemporaryDirectory() as folder:
        with DocumentIndex.open(folder, load_encoder("all-MiniLM-L6-v2")) as index:
            index.sync(Document(name, text) for name, text in NOTES.items())
            index.measure_background("dynamax", OTHERS.split("?")[:-1])
        pipeline = Pipeline()
        pipeline.add_component("retriever", SurpriseRetriever(index=folder, system="cosine", top_k=5))
        pipeline.add_component("ranker", SurpriseRanker(index=folder, system="dynamax", min_percentile=0.95))
        pipeline.add_component("answer", PromptBuilder("{% for d in documents %}{{ d.content }}{% endfor %}"))
        pipeline.connect("retriever", "ranker")
        pipeline.connect("ranker", "answer")
        for question in QUESTIONS:
            asked = {"retriever": {"query": question}, "ranker": {"query": question}}
            result = pipeline.run(asked, include_outputs_from={"ranker"})
            print(question, result["answer"]["prompt"] or "The notes do not tell.", sep="\n  ")
            for document in result["ranker"]["documents"]:
                print(f"  [{document.id}: better than the best of {document.score:.0%} of other questions]")


if __name__ == "__main__":
    main()
