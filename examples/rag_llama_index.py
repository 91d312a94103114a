"""A query engine of LlamaIndex that answers from passages of a bicycle shop's notes, cites them, and refuses.

Retrieval and re-ranking are real; the generator only quotes what it would read.

    pip install 'surprise-rerank[llama-index,offline]'
    python examples/rag_llama_index.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers.context_only import ContextOnly

from surprise_rerank import Passages, load_encoder
from surprise_rerank.connectors.llama_index import SurpriseRetriever
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.readers import open_documents

NOTES = """# Bicycles

## Brakes

Brake pads of rim brakes are due when the grooves in the rubber are gone. Disc brakes are bled once a year.

## Chain

Oil the chain every 200 km, and after every ride in the rain. A dry chain wears the sprockets.

## Tyres

Road tyres take 6 to 8 bar, mountain bike tyres 1.5 to 2.5 bar. Look at them for cuts once a month.
"""
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
        notes, place = Path(folder) / "notes", Path(folder) / "index"
        notes.mkdir()
        (notes / "bicycles.md").write_text(NOTES, "utf-8")
        options = IndexOptions(passages=Passages(tokens=40, overlap=0))  # notes are short
        with DocumentIndex.open(place, load_encoder("all-MiniLM-L6-v2"), options=options) as index:
            index.sync(open_documents(notes))
            index.by_unit("passage").measure_background("dynamax", OTHERS.split("?")[:-1])
        engine = RetrieverQueryEngine(
            SurpriseRetriever.load(index=place, system="dynamax", min_percentile=0.95, similarity_top_k=1),
            ContextOnly(llm=MockLLM()),
        )
        for question in QUESTIONS:
            response = engine.query(question)
            print(
                question,
                str(response).strip() if response.source_nodes else "The notes do not tell.",
                sep="\n",
            )
            for node in response.source_nodes:
                standing = f"better than the best of {node.score:.0%} of other questions"
                print(f"[{node.metadata['citation']}: {standing}]")


if __name__ == "__main__":
    main()
