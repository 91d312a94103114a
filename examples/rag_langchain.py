"""A chain of LangChain that answers from a bicycle shop's notes, and refuses what they do not tell.

Retrieval and re-ranking are real; the generator only quotes what it would read.

    pip install 'surprise-rerank[langchain,offline]'
    python examples/rag_langchain.py
"""

from __future__ import annotations

import tempfile

from langchain_core.documents import Document as Passage
from langchain_core.runnables import RunnableLambda

from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.langchain import SurpriseRerank, SurpriseRetriever
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


def quote(passages: list[Passage]) -> str:
    """The stub of a generator."""
    told = "better than the best of {:.0%} of other questions"
    lines = [f"{p.page_content}\n  [{p.id}: {told.format(p.metadata['percentile'])}]" for p in passages]
    return "\n  ".join(lines) or "The notes do not tell."


def main() -> None:
    """Index the notes, ask two questions, and show what the answers are made of."""
    with tempfile.TemporaryDirectory() as folder:
        with DocumentIndex.open(folder, load_encoder("all-MiniLM-L6-v2")) as index:
            index.sync(Document(name, text) for name, text in NOTES.items())
            index.measure_background("dynamax", OTHERS.split("?")[:-1])
        retriever = SurpriseRetriever.load(index=folder, system="cosine", k=5)
        reranker = SurpriseRerank.load(index=folder, system="dynamax", min_percentile=0.95, top_n=2)
        chain = RunnableLambda(lambda q: quote(reranker.compress_documents(retriever.invoke(q), q)))
        for question in QUESTIONS:
            print(question, chain.invoke(question), sep="\n  ")


if __name__ == "__main__":
    main()
