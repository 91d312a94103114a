"""A prompt for any language model from a folder of files: the best passages with citations, or a refusal.

Nothing generates here: what is printed is what a model would be given.

    pip install 'surprise-rerank[offline,files]'
    python examples/rag_passages.py
    python examples/rag_passages.py ~/manuals "how do I bleed the brakes?"
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from surprise_rerank import DocumentIndex, load_encoder, packed_context
from surprise_rerank.connectors.readers import open_documents

NOTES = {
    "bicycles.md": """# Bicycles

## Chain

Oil the chain every 200 km, and after every ride in the rain. A dry chain wears the sprockets.

## Brakes

Brake pads of rim brakes are due when the grooves in the rubber are gone. Disc brakes are bled once a year.
""",
    "batteries.txt": "An e-bike battery lasts longest when it is stored half full.\n\nKeep it dry.\n",
}
PROMPT = (
    "Answer from these sources alone, and cite them by their numbers.\n\n{sources}\n\nQuestion: {question}"
)


def prompt(folder: Path, question: str, tokens: int) -> str:
    """The question with the best passages of a folder's files, or a refusal where none fits."""
    with DocumentIndex.open(":memory:", load_encoder("all-MiniLM-L6-v2")) as index:
        index.sync(open_documents(folder))
        passages = index.pipeline(min_percentile=0.95).search(question, unit="passage", context=1)
    if not passages:
        return f"The documents do not tell: {passages.verdict.reason}."
    return PROMPT.format(sources=packed_context(passages, tokens), question=question)


def main() -> None:
    """Print the prompt of a question to a folder, or to two notes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="files to ask; two notes by default")
    parser.add_argument("question", nargs="?", default="when should I oil the chain?")
    parser.add_argument("--tokens", type=int, default=2000, help="the most that the sources may have")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for name, text in NOTES.items():
            (Path(place) / name).write_text(text, "utf-8")
        print(prompt(given.folder or Path(place), given.question, given.tokens))


if __name__ == "__main__":
    main()
