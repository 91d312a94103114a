"""Whether the right stretch of a long document is among ten passages, by several ways to split it.

    pip install langchain-text-splitters chonkie
    python benchmarks/right_passage.py --dataset beir/scifact --limit 100

Documents are joined ten at a time, in the order of a hash of their ids, as chapters of one book: each begins
on a page of its own, and its title is a heading. A question's relevant documents are chapters; the measures
are those of judged pages (`--set judged=pages`): recall of chapters, hit rate and MRR among ten passages. All
ways encode the same texts with the same model, by the same systems.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from surprise_rerank.candidates import Query, Ranking, Unit
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.documents import Document, Passage
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.encoders.passages import Follow, Passages
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.evidence import judged_ranking
from surprise_rerank.eval.retrieval.measures import measure_run, parse_measures
from surprise_rerank.places import Place

_MEASURES = ("R@10", "Success@10", "RR@10")
_OVERLAP = 32


@dataclass(frozen=True)
class Way:
    """How books become what is searched.

    Attributes:
        name: of the row.
        unit: what a line is.
        follow: how this project splits.
        headings: whether it is told the titles of chapters.
        splitter: of another project, which makes the chunks.
    """

    name: str
    unit: Unit = "passage"
    follow: Follow = "tokens"
    headings: bool = False
    splitter: str = ""


WAYS = (
    Way("documents, the best passage of each", "document"),
    Way("passages"),
    Way("passages by structure", follow="structure"),
    Way("passages by structure, headings encoded", follow="structure", headings=True),
    Way("chunks of LangChain's RecursiveCharacterTextSplitter", "document", splitter="langchain"),
    Way("chunks of chonkie's RecursiveChunker", "document", splitter="chonkie"),
    Way("chunks of chonkie's SentenceChunker", "document", splitter="chonkie-sentences"),
)


def books(dataset: RetrievalDataset, size: int) -> tuple[list[Document], dict[str, dict[str, int]]]:
    """The books, whose places are pages and headings of their chapters, and the judgements of pages."""
    documents = sorted(dataset.documents, key=lambda d: hashlib.sha256(d.id.encode()).digest())
    joined, page_of = [], {}
    for n, start in enumerate(range(0, len(documents), size)):
        text, places = "", []
        for page, document in enumerate(documents[start : start + size], start=1):
            text += "\n\n" if text else ""
            places.append((len(text), Place(page=page, heading=document.title.strip())))
            page_of[document.id] = f"book-{n}#{page}"
            text += document.content
        joined.append(Document(f"book-{n}", text, places=tuple(places)))
    qrels = {
        name: {page_of[chapter]: gain for chapter, gain in gains.items() if chapter in page_of}
        for name, gains in dataset.qrels.items()
    }
    return joined, qrels


def chunks(splitter: str, text: str, tokenizer: Any, tokens: int) -> Iterator[tuple[int, int]]:
    """Where the chunks of another project's splitter begin and end."""
    if splitter == "langchain":
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        recursive = RecursiveCharacterTextSplitter(
            chunk_size=tokens,
            chunk_overlap=_OVERLAP,
            length_function=lambda part: len(tokenizer.encode(part, add_special_tokens=False).ids),
        )
        start = -1
        for part in recursive.split_text(text):  # its own index takes the overlap for one of letters
            start = text.index(part, start + 1)
            yield start, start + len(part)
        return
    from chonkie import RecursiveChunker, SentenceChunker

    if splitter == "chonkie":
        parts = RecursiveChunker(tokenizer=tokenizer, chunk_size=tokens)(text)
    else:
        parts = SentenceChunker(tokenizer=tokenizer, chunk_size=tokens, chunk_overlap=_OVERLAP)(text)
    for part in parts:
        yield part.start_index, part.end_index


def prepared(way: Way, whole: list[Document], encoder: Encoder, tokenizer: Any) -> list[Document]:
    """What is given to the index: the books, or their chunks as documents `book-3@120-980`."""
    if not way.splitter:
        if way.headings:
            return whole
        return [
            replace(book, places=tuple((start, Place(page=place.page)) for start, place in book.places))
            for book in whole
        ]
    assert encoder.window is not None
    return [
        Document(f"{book.id}@{start}-{end}", book.text[start:end])
        for book in whole
        for start, end in chunks(way.splitter, book.text, tokenizer, encoder.window)
    ]


def as_passages(ranking: Ranking) -> Ranking:
    """A ranking of chunks as one of passages of their books, each a line as their retriever gives it."""
    names = [name.partition("@")[::2] for name in ranking.ids]
    stretches = [tuple(map(int, stretch.split("-"))) for _, stretch in names]
    passages = tuple(Passage(i, *stretch) for i, stretch in enumerate(stretches))
    return Ranking(tuple(name for name, _ in names), ranking.scores, passages=passages)


def measured(
    way: Way,
    system: str,
    index: DocumentIndex,
    queries: list[Query],
    by_id: Mapping[str, Document],
    dataset: RetrievalDataset,
) -> tuple[float, ...]:
    """The measures' means, letters of the ten, and milliseconds of the median question, encoded before."""
    pipeline = index.pipeline(system, unit=way.unit)
    run, seconds, letters = {}, [], []
    for query in queries:
        began = time.perf_counter()
        ranking = pipeline.answer(query, 10).shown
        seconds.append(time.perf_counter() - began)
        letters.append(sum(len(hit.text) for hit in ranking))
        lines = as_passages(ranking) if way.splitter else ranking
        run[query.id] = judged_ranking(lines, dataset.qrels[query.id], by_id, "pages")
    values, _ = measure_run(run, dataset, parse_measures(_MEASURES))
    return *values.values(), float(np.mean(letters)), 1000 * float(np.median(seconds))


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--split")
@click.option("--limit", type=click.IntRange(min=1), help="The first N questions, and a part of the corpus.")
@click.option("--joined", default=10, show_default=True, help="Documents in a book.")
@click.option("--systems", default="cosine,auto", show_default=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--precision", default="float32", show_default=True)
@report_option
def main(
    dataset: str,
    split: str | None,
    limit: int | None,
    joined: int,
    systems: str,
    model: str,
    precision: Any,
    reports: tuple[Path, ...],
) -> None:
    """Print a row for each way and system."""
    data = load_dataset(dataset, split)
    data = data if limit is None else data.limited(limit)
    encoder: Any = load_encoder(model, precision=precision)
    whole, qrels = books(data, joined)
    judged = replace(data, documents=tuple(whole), qrels=qrels, judged="pages")
    queries = encode_queries(encoder, list(data.queries.values()), list(data.queries))
    by_id = {book.id: book for book in whole}
    rows: list[tuple[Any, ...]] = []
    for key in dict.fromkeys((way.follow, way.headings, way.splitter) for way in WAYS):
        ways = [way for way in WAYS if (way.follow, way.headings, way.splitter) == key]
        documents = prepared(ways[0], whole, encoder, encoder.tokenizer)
        passages = None if ways[0].splitter else Passages(overlap=_OVERLAP, follow=ways[0].follow)
        with TemporaryDirectory() as folder:
            began = time.process_time()
            with DocumentIndex.open(folder, encoder, options=IndexOptions(passages)) as index:
                index.sync(documents, background=False)
                spent = time.process_time() - began
                points = index.storage.engine.count()
                values = {
                    (way.name, system): measured(way, system, index, queries, by_id, judged)
                    for way in ways
                    for system in systems.split(",")
                }
            # On the disk: files are longer than what is in them.
            size = sum(512 * file.stat().st_blocks for file in Path(folder).rglob("*") if file.is_file())
            per_book = (points / len(whole), size / len(whole) / 1000, spent / len(whole))
            rows += [(*names, *row, *per_book) for names, row in values.items()]
    columns = (
        *map(Column, ("way", "system", *_MEASURES)),
        Column("letters", digits=0),
        *(Column(name, digits=1) for name in ("ms/question", "passages/book", "kB/book")),
        Column("s/book", digits=2),
    )
    title = f"{data.name}: {len(whole)} books of {joined} documents, {len(queries)} questions, {encoder.name}"
    present(Report(title, (Table(data.name, title, columns, tuple(rows), keys=2),)), reports)


if __name__ == "__main__":
    main()
