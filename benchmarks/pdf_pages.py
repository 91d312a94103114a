"""Whether the page that a hit tells is the one that its text is on, and what passages of PDFs cost.

    apt-get download bash-doc gnuplot-doc gri-pdf-doc libmpfr-doc      # have PDFs; dpkg -x unpacks one
    python benchmarks/pdf_pages.py FOLDER

The PDFs of a folder are indexed as a user does. Each question is a run of words out of a passage that is
drawn; the hit is the first passage that BM25 finds. Its first letters must be on its first page, and its last
ones on its last page: of all pages of the file, as pypdf reads it, that one must have most of their runs.
"""

from __future__ import annotations

import functools
import random
import re
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import pypdf

from surprise_rerank.candidates import Hit
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.readers import FileRules, open_documents
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.encoders.passages import Passages

_ENDS = 60  # letters of each end of a passage
_RUN = 8  # letters of a run that pages are compared by
_WORDS = 12  # of a question


def letters(text: str) -> str:
    """The letters and digits of a text, without accents and ligatures, in small ones."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", text).lower() if letter.isalnum())


def runs(text: str) -> set[str]:
    """Every run of some letters of a text."""
    return {text[i : i + _RUN] for i in range(max(len(text) - _RUN + 1, 1))}


@functools.cache
def pages(path: Path) -> list[set[str]]:
    """The runs of letters of every page of a file, as pypdf reads it."""
    return [runs(letters(page.extract_text())) for page in pypdf.PdfReader(path).pages]


def is_on(path: Path, text: str, page: int | None) -> bool:
    """Whether no other page of a file has more of the runs of these letters than this one."""
    wanted = runs(text)
    shares = [len(wanted & words) for words in pages(path)]
    return page is not None and 0 < shares[page - 1] == max(shares)


def is_right(folder: Path, hit: Hit) -> bool:
    """Whether both ends of a hit are on the pages that it tells."""
    path, place = folder / str(hit.metadata["path"]), hit.place
    if place is None:
        return False
    assert hit.passage is not None
    # The title of the file is before its text, and on no page.
    text = letters(hit.text if hit.passage.start else hit.text.removeprefix(hit.title))
    return is_on(path, text[:_ENDS], place.page) and is_on(path, text[-_ENDS:], place.last_page or place.page)


def drawn_questions(index: DocumentIndex, names: list[str], count: int, draw: random.Random) -> Iterator[str]:
    """Runs of words with letters out of passages that are drawn, each from another one."""
    stored = index.fetch(names, frozenset({"documents"}))
    assert stored.passages is not None
    words = [
        re.findall(r"[^\W\d_]{2,}", document.content[passage.start : passage.end])
        for passage, document in zip(stored.passages, stored.require_documents(), strict=True)
    ]
    for page in draw.sample([page for page in words if len(page) >= _WORDS], count):
        start = draw.randrange(len(page) - _WORDS + 1)
        yield " ".join(page[start : start + _WORDS])


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--drawn", default=100, show_default=True, help="Passages.")
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--tokens", type=int, help="Of a passage.  [default: what the model reads]")
@click.option("--seed", default=0, show_default=True)
def main(folder: Path, drawn: int, model: str, tokens: int | None, seed: int) -> None:
    """Print how many hits tell the right page, and the wrong ones."""
    options = IndexOptions(passages=Passages(tokens=tokens))
    with (
        TemporaryDirectory() as place,
        DocumentIndex.open(place, load_encoder(model), options=options) as index,
    ):
        began = time.process_time()
        index.sync(open_documents(folder, files=FileRules(include=["*.pdf"])), background=False)
        spent = time.process_time() - began
        names = list(index.ids())
        count = sum(len(pages(folder / name)) for name in names)
        print(f"{len(names)} files of {count} pages, {index.storage.engine.count()} passages, {spent:.0f} s")
        wrong, seconds = [], []
        pipeline = index.pipeline("bm25", unit="passage")
        for question in drawn_questions(index, names, drawn, random.Random(seed)):
            began = time.perf_counter()
            hit = pipeline.search(question, top_k=1)[0]
            seconds.append(time.perf_counter() - began)
            if not is_right(folder, hit):
                wrong.append(f"{hit.citation}: {hit.text[:60]!r} ... {hit.text[-60:]!r}")
    milliseconds = 1000 * float(np.median(seconds))
    print(f"the page of {drawn - len(wrong)} of {drawn} hits is right; {milliseconds:.1f} ms a question")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
